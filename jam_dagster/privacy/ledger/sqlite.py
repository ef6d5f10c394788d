"""The ledger's SQLite file: its creation, connections, locks and error messages."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from jam_dagster.common.files import check_folder
from jam_dagster.common.operating_system import check_locks, lock_whole, sync_folder
from jam_dagster.common.variables import with_names
from jam_dagster.errors import BudgetError
from jam_dagster.privacy.ledger.backend import BUSY_SECONDS, CLAIM_SECONDS, wait_for
from jam_dagster.privacy.ledger.commands import no_ledger
from jam_dagster.privacy.ledger.file_locks import FileId, file_id, in_use, lockable
from jam_dagster.privacy.ledger.migrations import BASELINE, REVISION, upgrade, version_fault
from jam_dagster.privacy.ledger.migrations.baseline import new_file

APPLICATION_ID = 0x4A414D4C
"""The mark of a ledger in the header of a SQLite file: "JAML"."""

_MOUNTS = Path("/proc/self/mountinfo")
_WRITING = "writing"

_MEANINGS = {
    "SQLITE_NOTADB": "is not a ledger, and not a SQLite file",
    "SQLITE_CORRUPT": "is damaged; restore it from a backup and run `jam-dagster ledger verify`",
    "SQLITE_BUSY": f"was held by another process for more than {BUSY_SECONDS:g} seconds; try again",
    "SQLITE_READONLY": "cannot be written; check the permissions of the file and its folder",
    "SQLITE_PERM": "cannot be opened; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "cannot be opened; check the permissions of the file and its folder",
    "SQLITE_FULL": "has recorded nothing, its disk is full: free some space and run again",
    "SQLITE_IOERR": "could not be read or written; check the disk",
}
_FULL = "cannot be used, its disk is full: free some space and run again"
# SQLite's errors when there is no room for its log or for the shared memory of its connections.
_WITHOUT_ROOM = ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CANTOPEN")
_ROOM_BYTES = 1 << 17


class LedgerFile:
    """A SQLite file that holds the journal.

    Write-ahead log, full synchronisation, one writer at a time from the first read of its
    transaction to its commit. Connections live as long as one transaction, so the object can be
    pickled and used after a fork.

    SQLite names its log, and the shared memory by which writers exclude each other, after the
    file. So every transaction refuses a file with two names, and writers and claims also lock the
    file itself.

    `shown` is its name in messages, if its configured path names environment variables.
    """

    def __init__(self, path: Path, shown: str = "") -> None:
        self.path = path
        self._shown = shown
        self._claimed: list[FileId] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_shown": self._shown, "_claimed": []}

    def __repr__(self) -> str:
        return f"LedgerFile({self.location!r})"

    @property
    def location(self) -> str:
        """The path, with the names of variables instead of their values."""
        return self._shown or str(self.path)

    def _refused(self, error: OSError) -> str:
        """Return the system's message about a file or folder."""
        return with_names(f"{error.strerror} ({error.filename})", self._shown)

    def _cause(self, error: OSError) -> OSError | None:
        """Return the error as a cause, or None if it would show the values of variables."""
        return None if self._shown else error

    @property
    def place(self) -> str:
        """The path, with variables expanded; see `LedgerBackend`."""
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection with one consistent view for all reads; never create a file."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield the only connection that may write; commit durably at the end, or not at all.

        If another file replaced it meanwhile, that one holds no entry of this transaction, and this
        raises.
        """
        with self._alone(), self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def check_writable(self) -> None:
        """Raise the errors of `writing` or `create`, and write nothing."""
        if self.exists:
            with self.writing():
                return
        try:
            check_folder(self.path.parent)
        except OSError as error:
            raise BudgetError(
                f"the ledger {self.location} cannot be made: {self._refused(error)}; "
                "name another file"
            ) from self._cause(error)

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Hold a name, by a lock on the file itself; see `LedgerBackend`.

        Until the end of the block, this object refuses any file but the locked one.
        """
        with self._lockable() as (file, lock):
            taken = wait_for(lambda: lock(f"claim {name}"), CLAIM_SECONDS)
            self._check_still(file)
            self._claimed.append(file)
            try:
                yield taken
            finally:
                self._claimed.remove(file)

    def create(self) -> None:
        """Make an empty ledger of the baseline, its owner's alone, if there is no file yet.

        The file appears under its name complete, or not at all: two processes that create it at
        once end up with the same ledger.
        """
        if self.exists:
            return
        check_locks()
        # A dangling link stays a link.
        path = self.path.resolve()
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            try:
                self._fill(draft)
                # A hard link would not replace what another process made meanwhile, but would
                # give the file two names for a moment, and for good if this process died in it.
                with _locked_folder(path.parent):
                    if not path.exists():
                        draft.rename(path)
                sync_folder(path.parent)
            finally:
                for made in path.parent.glob(f"{draft.name}*"):
                    made.unlink()
        except OSError as error:
            raise BudgetError(
                f"the ledger {self.location} cannot be made: {self._refused(error)}"
            ) from self._cause(error)

    def upgrade(self) -> None:
        """Bring the schema up to date and keep the events; see `LedgerBackend`."""
        with self._alone(), self._transaction("BEGIN IMMEDIATE", any_version=True) as connection:
            if BASELINE <= _revision(connection) < REVISION:
                upgrade(connection)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude all other writers, by whichever name they have the file."""
        with self._lockable() as (file, lock):
            if not wait_for(lambda: lock(_WRITING), BUSY_SECONDS, pause=0.005):
                raise BudgetError(f"the ledger {self.location} {_MEANINGS['SQLITE_BUSY']}")
            yield
            self._check_still(file)

    @contextmanager
    def _lockable(self) -> Iterator[tuple[FileId, Callable[[str], bool]]]:
        with ExitStack() as closing_again:
            try:
                opened = closing_again.enter_context(lockable(self._own_file()))
            except OSError as error:
                raise BudgetError(
                    f"the ledger {self.location} cannot be locked: {self._refused(error)}; check "
                    "the permissions of the file and its folder"
                ) from self._cause(error)
            yield opened

    def _own_file(self) -> Path:
        """Return the path of the file, links followed; raise if the file has other names."""
        try:
            path = self.path.resolve()
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise BudgetError(no_ledger(self.location)) from None
        except (OSError, RuntimeError):
            # A link that leads to itself is a RuntimeError.
            raise BudgetError(
                f"the ledger {self.location} {_MEANINGS['SQLITE_CANTOPEN']}"
            ) from None
        if found.st_nlink > 1:
            raise BudgetError(
                f"the ledger {self.location} has {found.st_nlink} names (hard links), and spending "
                "by one is not seen by another. Find them with `find FOLDER -xdev -samefile "
                f"{self.location}`, in its folder or nearby ones, and remove the others. To "
                "make a copy, use `cp` without -l, or sqlite3's `.backup`"
            )
        if _is_mounted(path):
            raise BudgetError(
                f"the ledger {self.location} is mounted by itself, and spending here is not seen "
                "at its origin: mount its folder"
            )
        if any(claimed != (found.st_dev, found.st_ino) for claimed in self._claimed):
            raise BudgetError(
                f"the ledger {self.location} was replaced by another file while a run was drawing; "
                "nothing was written to that file. Restore the original ledger, or run again"
            )
        return path

    def _check_still(self, file: FileId) -> None:
        """Raise unless the ledger's name leads to the file that was opened."""
        try:
            same = file_id(self.path) == file
        except OSError:
            same = False
        if not same:
            raise BudgetError(
                f"the ledger {self.location} was replaced by another file, or removed, while it "
                "was used: the last entry is missing here, and nothing was drawn on it. Restore "
                "the original ledger"
            )

    def _fill(self, draft: Path) -> None:
        with self._clear_errors(), closing(_connect(draft)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in ("BEGIN", *new_file(), "COMMIT"):
                raw.execute(statement)
            # The log has the draft's name: what closing leaves in it, on a full disk, is lost.
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def _transaction(self, begin: str, *, any_version: bool = False) -> Iterator[sa.Connection]:
        path = self._own_file()
        with (
            in_use(file_id(path)),
            self._clear_errors(),
            _connected(self.path).execution_options(ledger_begin=begin) as connection,
            connection.begin(),
        ):
            self._check_identity(connection, any_version)
            yield connection

    def _check_identity(self, connection: sa.Connection, any_version: bool) -> None:
        if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION_ID:
            raise BudgetError(f"{self.location} is not a ledger; name another file")
        fault = version_fault(self.location, _revision(connection))
        if fault and not any_version:
            raise BudgetError(fault)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """Turn the database's errors into ones that name the file and the remedy."""
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.Error) as error:
            original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
            name = getattr(original, "sqlite_errorname", "")
            meaning = next(
                (text for code, text in _MEANINGS.items() if name.startswith(code)),
                f"failed: {original}",
            )
            if name.startswith(_WITHOUT_ROOM) and _is_full(self.path.parent):
                meaning = _FULL
            if name.startswith((*_WITHOUT_ROOM, "SQLITE_FULL")):
                _tidy(self.path.resolve())
            raise BudgetError(f"the ledger {self.location} {meaning}") from error


def _opened(path: Path, wait: float) -> sqlite3.Connection:
    # mode=rw never creates a file; isolation_level=None leaves BEGIN to this module.
    uri = f"file:{quote(str(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=wait, isolation_level=None)


def _connect(path: Path) -> sqlite3.Connection:
    raw = _opened(path, BUSY_SECONDS)
    try:
        raw.execute("PRAGMA synchronous = FULL")
        # SQLite does by it what `sync_file` does on macOS, and nothing elsewhere.
        raw.execute("PRAGMA fullfsync = ON")
    except sqlite3.Error:
        raw.close()
        raise
    return raw


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _ROOM_BYTES
    except OSError:
        return False


def _tidy(path: Path) -> None:
    """Remove the log and the shared memory of a connection that failed.

    SQLite removes them when the last connection closes, unless that connection failed. Only SQLite
    itself removes the log, once its content is in the file.
    """
    with suppress(sqlite3.Error, OSError), closing(_opened(path, 0.0)) as raw:
        # Set before the first access: no shared memory is used, and no other connection can exist.
        raw.execute("PRAGMA locking_mode = EXCLUSIVE")
        raw.execute("BEGIN IMMEDIATE")
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        raw.execute("ROLLBACK")


# The file of the next connection.
_CONNECTING: ContextVar[Path] = ContextVar("_CONNECTING")


@cache
def _engine() -> sa.Engine:
    """Return the engine of all files: it keeps the SQL of the statements that it has compiled."""
    engine = sa.create_engine(
        "sqlite://", creator=lambda: _connect(_CONNECTING.get()), poolclass=NullPool
    )

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        options = connection.get_execution_options()
        connection.exec_driver_sql(options.get("ledger_begin", "BEGIN IMMEDIATE"))

    return engine


def _connected(path: Path) -> sa.Connection:
    """Return a connection to a file."""
    before = _CONNECTING.set(path)
    try:
        return _engine().connect()
    finally:
        _CONNECTING.reset(before)


def _revision(connection: sa.Connection) -> str:
    return f"{connection.exec_driver_sql('PRAGMA user_version').scalar():04}"


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, so that one process at a time creates a ledger in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        lock_whole(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


def _is_mounted(path: Path) -> bool:
    """Return whether the file is a mount point itself, as in a container that is given one file."""
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return False
    # The fifth field is the mount point; blanks and the like are octal escapes.
    places = (line.split(" ", 5)[4] for line in mounts.splitlines())
    return any(_unescaped(place) == str(path) for place in places)


def _unescaped(place: str) -> str:
    if "\\" not in place:
        return place
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), place)
