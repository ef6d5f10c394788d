"""Policies of budgets, releases that are opened again, and whom releases protect."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ACCOUNT = ("dataset", "release", "partition", "edition", "specification", "share")


def upgrade() -> None:
    """Add what a grant says of its policy, and where an event counts and whom it protects."""
    for name in ("period", "partitions", "ground", "counts_in", "opening", "protects"):
        op.add_column("events", sa.Column(name, sa.Text, nullable=False, server_default=""))
    for name, kind in (
        ("one_reservation_a_share", "reserved"),
        ("one_return_a_share", "returned"),
        ("one_closure_a_share", "closed"),
    ):
        op.drop_index(name, "events")
        condition = sa.text(f"kind = '{kind}'")
        op.create_index(
            name,
            "events",
            [*_ACCOUNT, "opening"],
            unique=True,
            sqlite_where=condition,
            postgresql_where=condition,
        )
    if op.get_bind().dialect.name == "sqlite":
        # By this, versions of the package that know of no revisions know that it is not theirs.
        op.execute("PRAGMA user_version = 2")
