"""Locations of ledgers: a path or a URL, and its backend."""

from __future__ import annotations

import os
import re
from pathlib import Path

import sqlalchemy as sa

from jam_dagster.common.variables import expanded, names_variables
from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.ledger.backend import LedgerBackend
from jam_dagster.privacy.ledger.postgres import LedgerServer
from jam_dagster.privacy.ledger.sqlite import LedgerFile

_URLS = "sqlite:////path/to/ledger.db or postgresql://user@host/database"


def backend_at(location: str | os.PathLike[str]) -> LedgerBackend:
    """Return the backend of a ledger at a path or a URL; open and create nothing.

    ``~`` and ``${VARIABLES}`` are expanded, and messages show the variables' names.
    """
    given = os.fspath(location)
    text = expanded(given, "the ledger's location")
    shown = _without_password(given) if names_variables(given) else ""
    if "://" not in text:
        return LedgerFile(_file_of(text, shown), shown)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The location may hold a password: neither it nor the cause is repeated.
        raise SpecificationError(
            f"the ledger's location is neither a path nor a URL; give a path, {_URLS}"
        ) from None
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return LedgerServer(url, shown)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return LedgerFile(_file_of(url.database or "", shown), shown)
    raise SpecificationError(
        f"the ledger is kept in SQLite or in PostgreSQL (by psycopg), got a URL of "
        f"{url.drivername!r}; give a path, {_URLS}"
    )


def _file_of(location: str, shown: str) -> Path:
    if not location or location == ":memory:":
        raise SpecificationError(
            f"the ledger must be a file, got {shown or location!r}: a budget in memory would be"
            " forgotten"
        )
    path = Path(location).expanduser().absolute()
    if path.is_dir():
        raise SpecificationError(
            f"the ledger must be a file, {shown or path} is a folder; name a file in it"
        )
    return path


def _without_password(url: str) -> str:
    """Return a URL that names variables, without any literal password in it."""
    url = re.sub(r"(://[^:/@]*):(?!\$\{\w+\}@)[^@]*@", r"\1@", url)
    return re.sub(r"([?&][^=&]*password[^=&]*=)(?!\$\{)[^&]*", r"\1***", url)
