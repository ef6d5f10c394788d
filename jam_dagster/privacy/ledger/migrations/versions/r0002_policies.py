"""Policies of budgets, reopened releases, and the neighbours that releases protect."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ACCOUNT = ("dataset", "release", "partition", "edition", "specification", "share")


def upgrade() -> None:
    """Add columns for a grant's policy, the period of an event, and the protected neighbours."""
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
        # Versions of the package that are older than revisions refuse this number.
        op.execute("PRAGMA user_version = 2")
