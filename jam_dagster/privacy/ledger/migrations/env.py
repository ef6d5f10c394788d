"""What Alembic runs: every revision in the transaction that the ledger's backend began."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
