"""The ledger's SQLite file: how it is made, opened, locked, and how its failures are told."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.ledger_backend import (
    BUSY_SECONDS,
    CLAIM_SECONDS,
    no_ledger,
    wait_for,
)
from jam_dagster.privacy.migrations import REVISION, upgrade, version_fault
from jam_dagster.tables.files import check_folder

APPLICATION_ID = 0x4A414D4C
"""What marks a SQLite file as a ledger: "JAML" in its header."""

_MEANINGS = {
    "SQLITE_NOTADB": "is not a ledger, nor any SQLite file",
    "SQLITE_CORRUPT": "is damaged; restore it from a backup and run `jam-dagster ledger verify`",
    "SQLITE_BUSY": f"was held by another process for more than {BUSY_SECONDS:g} seconds; try again",
    "SQLITE_READONLY": "cannot be written; check the permissions of the file and its folder",
    "SQLITE_PERM": "cannot be opened; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "cannot be opened; check the permissions of the file and its folder",
    "SQLITE_FULL": "cannot be written, the disk is full; nothing was recorded",
    "SQLITE_IOERR": "could not be read or written; check the disk",
}


class LedgerFile:
    """A SQLite file that holds the journal.

    Write-ahead log, full synchronisation, one writer at a time from the first read of its
    transaction to its commit. Connections live as long as one transaction, so the object can be
    pickled and used after a fork.

    Parameters
    ----------
    path : Path
        The file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._engine: sa.Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_engine": None}

    def __repr__(self) -> str:
        return f"LedgerFile({self.location!r})"

    @property
    def location(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection whose reads all see the same state; never makes a file.

        Raises
        ------
        BudgetError
            If the file is missing, is no ledger, or cannot be read.
        """
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a connection that alone may write; commits durably at the end, or not at all.

        Raises
        ------
        BudgetError
            If the file is missing, is no ledger, or cannot be written.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def check_writable(self) -> None:
        """Raise as `writing` or `create` would, and write nothing.

        Raises
        ------
        BudgetError
            If the file cannot be written, or cannot be made where it is not there.
        """
        if self.exists:
            with self.writing():
                return
        try:
            check_folder(self.path.parent)
        except OSError as error:
            raise BudgetError(
                f"the ledger {self.path} cannot be made: {error.strerror} ({error.filename}); "
                "name another file"
            ) from error

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Hold a name, by a lock on a file beside the ledger; see `LedgerBackend`."""
        # Beside the file itself: whoever comes by a link must meet the same lock.
        path = self.path.resolve()
        folder = path.with_name(f"{path.name}-claims")
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Never removed: whoever opened it before would lock a file that is not there.
            held = os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BudgetError(
                f"the ledger {self.path} cannot be locked: {error.strerror} ({error.filename}); "
                "check the permissions of its folder"
            ) from error

        def take() -> bool:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        try:
            yield wait_for(take, CLAIM_SECONDS)
        finally:
            os.close(held)

    def create(self) -> None:
        """Make an empty ledger, readable by its owner alone, if there is no file yet.

        The file appears under its name complete, or not at all: two processes that create it at
        once end up with the same ledger.

        Raises
        ------
        BudgetError
            If the file cannot be made.
        """
        if self.exists:
            return
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                self._fill(draft)
                # Another process may have been faster; its ledger is as good.
                with suppress(FileExistsError):
                    os.link(draft, self.path)
                _sync_folder(self.path.parent)
            finally:
                draft.unlink()
        except OSError as error:
            raise BudgetError(
                f"the ledger {self.path} cannot be made: {error.strerror} ({error.filename})"
            ) from error

    def upgrade(self) -> None:
        """Bring the schema up to date and keep the events; see `LedgerBackend`."""
        with self._transaction("BEGIN IMMEDIATE", any_version=True) as connection:
            if _revision(connection) < REVISION:
                upgrade(connection)

    def _fill(self, draft: Path) -> None:
        with self._told(), closing(_connect(draft)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        with self._told(), _engine(draft).begin() as connection:
            upgrade(connection)

    @contextmanager
    def _transaction(self, begin: str, *, any_version: bool = False) -> Iterator[sa.Connection]:
        if not self.exists:
            raise BudgetError(no_ledger(self.location))
        if self._engine is None:
            self._engine = _engine(self.path)
        with (
            self._told(),
            self._engine.connect().execution_options(ledger_begin=begin) as connection,
            connection.begin(),
        ):
            self._check_identity(connection, any_version)
            yield connection

    def _check_identity(self, connection: sa.Connection, any_version: bool) -> None:
        if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION_ID:
            raise BudgetError(f"{self.path} is not a ledger; name another file")
        fault = version_fault(self.location, _revision(connection))
        if fault and not any_version:
            raise BudgetError(fault)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn the database's errors into ones that name the file and what to do."""
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
            name = getattr(original, "sqlite_errorname", "")
            meaning = next(
                (text for code, text in _MEANINGS.items() if name.startswith(code)),
                f"failed: {original}",
            )
            raise BudgetError(f"the ledger {self.path} {meaning}") from error


def _connect(path: Path) -> sqlite3.Connection:
    # mode=rw never creates; isolation_level=None leaves BEGIN to us.
    raw = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )
    raw.execute("PRAGMA synchronous = FULL")
    return raw


def _engine(path: Path) -> sa.Engine:
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path), poolclass=NullPool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        connection.exec_driver_sql(options.get("ledger_begin", "BEGIN IMMEDIATE"))

    return engine


def _revision(connection: sa.Connection) -> str:
    return f"{connection.exec_driver_sql('PRAGMA user_version').scalar():04}"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
