"""The journal: one append-only table of events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ACCOUNT = ("dataset", "release", "partition", "edition", "specification", "share")


def upgrade() -> None:
    """Make the table, its indices, and the triggers that keep it append-only."""
    whole: sa.types.TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    real: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
    op.create_table(
        "events",
        sa.Column("seq", whole, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("at", "kind", *_ACCOUNT, "step")),
        sa.Column("units", whole, nullable=False),
        sa.Column("epsilon", real),
        sa.Column("delta", real),
        *(sa.Column(name, sa.Text, nullable=False) for name in ("run_id", "by", "reason")),
        sa.Column("previous", sa.Text, nullable=False, unique=True),
        sa.Column("hash", sa.Text, nullable=False, unique=True),
        sa.CheckConstraint("units >= 0", name="units_not_negative"),
        sa.CheckConstraint(
            "kind IN ('granted', 'reserved', 'charged', 'returned', 'closed')", name="known_kind"
        ),
        sqlite_strict=True,
    )
    op.create_index("events_by_account", "events", list(_ACCOUNT))
    for name, kind, columns in (
        ("one_charge_a_step", "charged", (*_ACCOUNT, "step")),
        ("one_reservation_a_share", "reserved", _ACCOUNT),
        ("one_return_a_share", "returned", _ACCOUNT),
        ("one_closure_a_share", "closed", _ACCOUNT),
    ):
        condition = sa.text(f"kind = '{kind}'")
        op.create_index(
            name,
            "events",
            list(columns),
            unique=True,
            sqlite_where=condition,
            postgresql_where=condition,
        )
    if op.get_bind().dialect.name == "sqlite":
        op.execute("PRAGMA user_version = 1")
        for verb in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER events_no_{verb.lower()} BEFORE {verb} ON events "
                "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END"
            )
    else:
        op.execute(
            "CREATE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$"
        )
        op.execute(
            "CREATE TRIGGER events_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON events "
            "FOR EACH STATEMENT EXECUTE FUNCTION forbid_change()"
        )
