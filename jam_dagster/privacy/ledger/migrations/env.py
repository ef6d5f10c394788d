"""Alembic's environment: it runs every revision in the transaction of the ledger's backend."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
