"""The baseline of the ledger's schema, as SQL: the journals of events and of attempts.

Alembic runs it in PostgreSQL. A new SQLite file has it without Alembic, which is slow to import.
"""

from __future__ import annotations

from jam_dagster.privacy.ledger.migrations import BASELINE

_ACCOUNT = "dataset, release, partition, edition, specification, share"

_TABLES = """\
CREATE TABLE events (
    seq {key} NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    dataset TEXT NOT NULL,
    release TEXT NOT NULL,
    partition TEXT NOT NULL,
    edition TEXT NOT NULL,
    specification TEXT NOT NULL,
    share TEXT NOT NULL,
    step TEXT NOT NULL,
    units {whole} NOT NULL,
    epsilon {real},
    delta {real},
    run_id TEXT NOT NULL,
    "by" TEXT NOT NULL,
    reason TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    period TEXT DEFAULT '' NOT NULL,
    partitions TEXT DEFAULT '' NOT NULL,
    ground TEXT DEFAULT '' NOT NULL,
    counts_in TEXT DEFAULT '' NOT NULL,
    opening TEXT DEFAULT '' NOT NULL,
    protects TEXT DEFAULT '' NOT NULL,
    source TEXT DEFAULT '' NOT NULL,
    digest TEXT DEFAULT '' NOT NULL,
    sources TEXT DEFAULT '' NOT NULL,
    approval TEXT DEFAULT '' NOT NULL,
    records TEXT DEFAULT '' NOT NULL,
    attempts {whole},
    selections {whole},
    PRIMARY KEY (seq),
    CONSTRAINT units_not_negative CHECK (units >= 0),
    UNIQUE (previous),
    UNIQUE (hash)
){strict};
CREATE TABLE accesses (
    seq {key} NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    dataset TEXT NOT NULL,
    release TEXT NOT NULL,
    partition TEXT NOT NULL,
    edition TEXT NOT NULL,
    attempt TEXT NOT NULL,
    run_id TEXT NOT NULL,
    "by" TEXT NOT NULL,
    reason TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (seq),
    UNIQUE (previous),
    UNIQUE (hash)
){strict}"""

_TYPES = {
    "sqlite": {"key": "INTEGER", "whole": "INTEGER", "real": "REAL", "strict": " STRICT"},
    "postgresql": {"key": "BIGSERIAL", "whole": "BIGINT", "real": "DOUBLE PRECISION", "strict": ""},
}

# The code checks these rules before it writes; the indices hold even if it did not.
_ONCE = {
    "one_charge_a_step": ("charged", ", step"),
    "one_reservation_a_share": ("reserved", ", opening"),
    "one_return_a_share": ("returned", ", opening"),
    "one_closure_a_share": ("closed", ", opening"),
    "one_outcome_a_step": ("stored", ", step"),
    "one_derivation_a_step": ("derived", ", opening, step"),
    "one_count_a_release": ("counted", ""),
}

_INDICES = (
    f"CREATE INDEX events_by_account ON events ({_ACCOUNT})",
    *(
        f"CREATE UNIQUE INDEX {name} ON events ({_ACCOUNT}{column}) WHERE kind = '{kind}'"
        for name, (kind, column) in _ONCE.items()
    ),
    "CREATE INDEX accesses_by_dataset ON accesses (dataset)",
)

_APPEND_ONLY = {
    "sqlite": tuple(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
        for table in ("events", "accesses")
        for verb in ("UPDATE", "DELETE")
    ),
    "postgresql": (
        "CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$",
        *(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION forbid_change()"
            for table in ("events", "accesses")
        ),
    ),
}

# The revision of a file, as this package reads it and as Alembic does.
_REVISION = (
    f"PRAGMA user_version = {int(BASELINE)}",
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    "INSERT INTO alembic_version SELECT printf('%04d', user_version) FROM pragma_user_version",
)


def schema(dialect: str) -> tuple[str, ...]:
    """Return the statements that make the append-only tables with their indices."""
    tables = _TABLES.format(**_TYPES[dialect]).split(";\n")
    return (*tables, *_INDICES, *_APPEND_ONLY[dialect])


def new_file() -> tuple[str, ...]:
    """Return the statements that make a new SQLite file a ledger of the baseline."""
    return (*schema("sqlite"), *_REVISION)
