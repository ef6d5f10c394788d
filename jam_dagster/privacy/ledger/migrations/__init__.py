"""The migrations of a ledger's schema, one Alembic revision after the other.

A revision never rewrites an event: new columns stay empty in earlier events, so every seal still
fits.
"""

from __future__ import annotations

import sqlalchemy as sa

from jam_dagster.privacy.ledger.commands import ledger_command

BASELINE = "0005"
"""The revision of version 0.2.0; what came before was never published."""

REVISION = BASELINE
"""The revision that this version of the package reads and writes."""


def upgrade(connection: sa.Connection) -> None:
    """Bring a ledger to `REVISION`, in the transaction of the connection.

    An empty database of PostgreSQL becomes a ledger.
    """
    # Alembic is slow to import, and most ledgers are of this revision.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "jam_dagster.privacy.ledger:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def version_fault(location: str, revision: str) -> str:
    """Return why this version cannot use a ledger of some revision; empty if it can."""
    if revision == REVISION:
        return ""
    versions = (
        f"the ledger {location} has version {int(revision)}, this package reads version "
        f"{int(REVISION)}"
    )
    if revision < BASELINE:
        return f"{versions}; only the unpublished jam-dagster that made it, before 0.2.0, reads it"
    if revision < REVISION:
        return f"{versions}; run `{ledger_command('upgrade', location)}`"
    return f"{versions}; install the version of jam-dagster that wrote it"
