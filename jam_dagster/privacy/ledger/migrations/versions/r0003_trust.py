"""Outcomes, sources, certificates and keys in the journal, and the journal of attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ACCOUNT = ("dataset", "release", "partition", "edition", "specification", "share")
_TEXTS_OF_0002 = ("period", "partitions", "ground", "counts_in", "opening", "protects")
_TEXTS = ("source", "digest", "sources", "approval")

_WHOLE: sa.types.TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")


def upgrade() -> None:
    """Let the journal hold new kinds of events, and make the journal of attempts."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    if sqlite:
        _rebuild()
    else:
        # The code checks the kinds: it refuses to read an unknown one.
        op.drop_constraint("known_kind", "events")
        for name in _TEXTS:
            op.add_column("events", sa.Column(name, sa.Text, nullable=False, server_default=""))
        op.add_column("events", sa.Column("attempts", _WHOLE))
    _once("one_outcome_a_step", "stored", (*_ACCOUNT, "step"))
    op.create_table(
        "accesses",
        sa.Column("seq", _WHOLE, primary_key=True),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("at", "kind", "dataset", "release", "partition", "edition", "attempt")
        ),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("run_id", "by", "reason")),
        sa.Column("previous", sa.Text, nullable=False, unique=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sqlite_strict=True,
    )
    op.create_index("accesses_by_dataset", "accesses", ["dataset"])
    if sqlite:
        _forbid_changes("accesses")
        op.execute("PRAGMA user_version = 3")
    else:
        op.execute(
            "CREATE TRIGGER accesses_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON accesses "
            "FOR EACH STATEMENT EXECUTE FUNCTION forbid_change()"
        )


def _rebuild() -> None:
    """Rebuild the table of events without its list of kinds, which SQLite cannot drop."""
    op.create_table(
        "events_of_0003",
        sa.Column("seq", _WHOLE, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "kind", *_ACCOUNT, "step")),
        sa.Column("units", _WHOLE, nullable=False),
        sa.Column("epsilon", _REAL),
        sa.Column("delta", _REAL),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("run_id", "by", "reason")),
        sa.Column("previous", sa.Text, nullable=False, unique=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.CheckConstraint("units >= 0", name="units_not_negative"),
        *(
            sa.Column(name, sa.Text, nullable=False, server_default="")
            for name in (*_TEXTS_OF_0002, *_TEXTS)
        ),
        sa.Column("attempts", _WHOLE),
        sqlite_strict=True,
    )
    names = ["seq", "at", "kind", *_ACCOUNT, "step", "units", "epsilon", "delta"]
    names += ["run_id", "by", "reason", "previous", "hash", *_TEXTS_OF_0002]
    before, after = (
        sa.table(table, *(sa.column(name) for name in names))
        for table in ("events", "events_of_0003")
    )
    op.execute(after.insert().from_select(names, sa.select(before)))
    op.drop_table("events")
    op.rename_table("events_of_0003", "events")
    op.create_index("events_by_account", "events", list(_ACCOUNT))
    _once("one_charge_a_step", "charged", (*_ACCOUNT, "step"))
    for name, kind in (
        ("one_reservation_a_share", "reserved"),
        ("one_return_a_share", "returned"),
        ("one_closure_a_share", "closed"),
    ):
        _once(name, kind, (*_ACCOUNT, "opening"))
    _forbid_changes("events")


def _once(name: str, kind: str, columns: tuple[str, ...]) -> None:
    condition = sa.text(f"kind = '{kind}'")
    op.create_index(
        name,
        "events",
        list(columns),
        unique=True,
        sqlite_where=condition,
        postgresql_where=condition,
    )


def _forbid_changes(table: str) -> None:
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
            "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
        )
