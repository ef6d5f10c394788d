"""The ledger's two journals, of events and of attempts to open private data: the baseline."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = None

_ACCOUNT = ("dataset", "release", "partition", "edition", "specification", "share")
_OPTIONAL = (
    *("period", "partitions", "ground", "counts_in", "opening", "protects"),
    *("source", "digest", "sources", "approval", "records"),
)

_WHOLE: sa.types.TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    """Make the tables, their indices, and the triggers that keep them append-only."""
    op.create_table(
        "events",
        sa.Column("seq", _WHOLE, primary_key=True),
        *_texts("at", "kind", *_ACCOUNT, "step"),
        sa.Column("units", _WHOLE, nullable=False),
        sa.Column("epsilon", _REAL),
        sa.Column("delta", _REAL),
        *_texts("run_id", "by", "reason"),
        *_chain(),
        sa.CheckConstraint("units >= 0", name="units_not_negative"),
        *(sa.Column(name, sa.Text, nullable=False, server_default="") for name in _OPTIONAL),
        sa.Column("attempts", _WHOLE),
        sqlite_strict=True,
    )
    op.create_index("events_by_account", "events", list(_ACCOUNT))
    # The code checks these rules before it writes; the indices hold even if it did not.
    for name, kind, *columns in (
        ("one_charge_a_step", "charged", "step"),
        ("one_reservation_a_share", "reserved", "opening"),
        ("one_return_a_share", "returned", "opening"),
        ("one_closure_a_share", "closed", "opening"),
        ("one_outcome_a_step", "stored", "step"),
        ("one_count_a_release", "counted"),
    ):
        condition = sa.text(f"kind = '{kind}'")
        op.create_index(
            name,
            "events",
            [*_ACCOUNT, *columns],
            unique=True,
            sqlite_where=condition,
            postgresql_where=condition,
        )
    op.create_table(
        "accesses",
        sa.Column("seq", _WHOLE, primary_key=True),
        *_texts("at", "kind", "dataset", "release", "partition", "edition", "attempt"),
        *_texts("run_id", "by", "reason"),
        *_chain(),
        sqlite_strict=True,
    )
    op.create_index("accesses_by_dataset", "accesses", ["dataset"])
    if op.get_bind().dialect.name == "sqlite":
        for table in ("events", "accesses"):
            for verb in ("UPDATE", "DELETE"):
                op.execute(
                    f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
                    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
                )
        op.execute(f"PRAGMA user_version = {int(revision)}")
        return
    op.execute(
        "CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$"
    )
    for table in ("events", "accesses"):
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION forbid_change()"
        )


def _texts(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _chain() -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False, unique=True) for name in ("previous", "hash")]
