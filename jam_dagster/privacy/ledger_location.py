"""Where a ledger lies: a path or a URL, and the backend that it means."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.ledger_backend import LedgerBackend
from jam_dagster.privacy.ledger_file import LedgerFile
from jam_dagster.privacy.ledger_server import LedgerServer

_URLS = "sqlite:////path/to/ledger.db or postgresql://user@host/database"


def backend_at(location: str | os.PathLike[str]) -> LedgerBackend:
    """Return what keeps the ledger at a path or a URL; opens and makes nothing.

    Parameters
    ----------
    location : str or path
        A path, a ``sqlite:///`` URL or a ``postgresql://`` URL.

    Raises
    ------
    SpecificationError
        If the location is neither, or names no file and no database.
    """
    text = os.fspath(location)
    if "://" not in text:
        return LedgerFile(_file_of(text))
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The location may hold a password: it is not repeated, nor is the cause kept.
        raise SpecificationError(
            f"the ledger's location is neither a path nor a URL; give a path, {_URLS}"
        ) from None
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return LedgerServer(url)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return LedgerFile(_file_of(url.database or ""))
    raise SpecificationError(
        f"the ledger is kept in SQLite or in PostgreSQL (by psycopg), got a URL of "
        f"{url.drivername!r}; give a path, {_URLS}"
    )


def _file_of(location: str) -> Path:
    if not location or location == ":memory:":
        raise SpecificationError(
            f"the ledger must be a file, got {location!r}: a budget in memory would be forgotten"
        )
    path = Path(location).expanduser().absolute()
    if path.is_dir():
        raise SpecificationError(
            f"the ledger must be a file, {path} is a folder; name a file in it"
        )
    return path
