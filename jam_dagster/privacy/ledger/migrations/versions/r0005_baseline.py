"""The ledger's two journals, of events and of attempts to open private data: the baseline."""

from alembic import op

from jam_dagster.privacy.ledger.migrations import BASELINE
from jam_dagster.privacy.ledger.migrations.baseline import schema

revision = BASELINE
down_revision = None


def upgrade() -> None:
    """Make them in PostgreSQL; a new SQLite file has them from its beginning."""
    for statement in schema(op.get_bind().dialect.name):
        op.execute(statement)
