"""How a ledger's schema came to be, one Alembic revision after the other.

A revision never rewrites an event: what is new stays empty in what was written before, so every
seal still fits.
"""

from __future__ import annotations

import sqlalchemy as sa

REVISION = "0003"
"""The revision that this version of the package reads and writes."""


def upgrade(connection: sa.Connection, revision: str = "head") -> None:
    """Bring a ledger to a revision, in the transaction of the connection.

    An empty database becomes a ledger. A ledger that was made before there were revisions, and so
    does not say its own, is at the first.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        In a transaction that no other writer can interleave with.
    revision : str
        Which one.
    """
    # Alembic takes a while to import, and only who makes or upgrades a ledger needs it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "jam_dagster.privacy.ledger:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    tables = sa.inspect(connection).get_table_names()
    if "events" in tables and "alembic_version" not in tables:
        command.stamp(config, "0001")
    command.upgrade(config, revision)


def version_fault(location: str, revision: str) -> str:
    """Return why a ledger of some revision cannot be used by this version, or nothing."""
    if revision == REVISION:
        return ""
    versions = (
        f"the ledger {location} has version {int(revision)}, this package reads version "
        f"{int(REVISION)}"
    )
    if revision < REVISION:
        return f"{versions}; run `jam-dagster ledger upgrade --ledger {location}`"
    return f"{versions}; install the version of jam-dagster that wrote it"
