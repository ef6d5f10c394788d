"""The ledger in PostgreSQL: its creation, connections, locks and error messages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from jam_dagster.common.variables import with_names
from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy.ledger.backend import BUSY_SECONDS, CLAIM_SECONDS, wait_for
from jam_dagster.privacy.ledger.commands import no_ledger
from jam_dagster.privacy.ledger.migrations import BASELINE, REVISION, upgrade, version_fault

SCHEMA = "jam_ledger"
"""The schema that holds the journal; a database holds one ledger."""

# Number of the advisory lock that every writer takes: "JAML".
_LOCK = 0x4A414D4C
_CONNECT_SECONDS = 10

_READ_ONLY = "cannot be written: its server is read-only; name the primary server"

_MEANINGS = {
    "55P03": f"was held by another process for more than {BUSY_SECONDS:g} seconds; try again, and "
    "let its owner find the holder in pg_locks",
    "25P03": f"waited for this process for more than {BUSY_SECONDS:g} seconds; try again",
    "25006": _READ_ONLY,
    # A standby refuses the transaction that asks to write, before any statement that would.
    "0A000": _READ_ONLY,
    "42501": "cannot be used by this role: officers decide as the role that owns the ledger, and "
    "all others need the schema and its tables",
    "53": "cannot be written, its server is short of space, memory or connections",
    "40": "could not be written during another write; try again",
    "57": "was cut off by its server; try again when it runs",
    "23": "was written at the same time by something that is not jam-dagster",
}


class LedgerServer:
    """A PostgreSQL database that holds the journal, in a schema of its own.

    Every writer takes the same advisory lock before its first read, so there is one at a time. A
    stalled writer loses its transaction after a minute. Commits are synchronous.
    Connections live as long as one transaction.

    A pickled ledger holds no password: the unpickled one finds it as libpq does, in ``PGPASSWORD``
    or the password file.

    `shown` is its name in messages, if its configured URL names environment variables.
    """

    def __init__(self, url: sa.URL, shown: str = "") -> None:
        if not url.database:
            raise SpecificationError(
                "the ledger's URL names no database; give postgresql://user@host/database"
            )
        self._url = url.set(drivername="postgresql+psycopg")
        public = {name: value for name, value in url.query.items() if "password" not in name}
        self._without_password = sa.URL.create(
            "postgresql", url.username, None, url.host, url.port, url.database, public
        ).render_as_string(hide_password=True)
        self._shown = shown
        self._secrets = [
            str(secret)
            for secret in (
                url.password,
                *(value for name, value in url.query.items() if "password" in name),
            )
            if secret
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self._without_password, "shown": self._shown}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(sa.make_url(state["url"]), state["shown"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"LedgerServer({self.location!r})"

    @property
    def location(self) -> str:
        """The URL without its password, with the names of variables instead of their values."""
        return self._shown or self._without_password

    @property
    def place(self) -> str:
        """The URL without its password, with variables expanded; see `LedgerBackend`."""
        return self._without_password

    @property
    def exists(self) -> bool:
        """Whether the database holds a ledger."""
        with self._transaction(write=False) as connection:
            return _has_journal(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection with one consistent view for all reads; see `LedgerBackend`."""
        with self._transaction(write=False) as connection:
            self._check_identity(connection)
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Yield the only connection that may write; see `LedgerBackend`."""
        with self._transaction(write=True) as connection:
            self._check_identity(connection)
            yield connection

    def check_writable(self) -> None:
        """Raise the errors of `writing` or `create`, and write nothing; see `LedgerBackend`."""
        with self._transaction(write=True) as connection:
            if _has_journal(connection):
                self._check_identity(connection)
                allowed = connection.exec_driver_sql(
                    f"SELECT has_table_privilege('{SCHEMA}.events', 'INSERT')"
                    f" AND has_table_privilege('{SCHEMA}.accesses', 'SELECT, INSERT')"
                )
            else:
                allowed = connection.exec_driver_sql(
                    "SELECT has_database_privilege(current_database(), 'CREATE')"
                )
            if not allowed.scalar():
                raise BudgetError(f"the ledger {self.location} {_MEANINGS['42501']}")

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Hold a name, by an advisory lock of a session of its own; see `LedgerBackend`."""
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
        with ExitStack() as closing:
            try:
                connection = closing.enter_context(self._engine.connect())
                session = connection.execution_options(isolation_level="AUTOCOMMIT")
                # No run on the primary waits for the locks of a standby.
                if session.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
                    raise BudgetError(f"the ledger {self.location} {_READ_ONLY}")
                # The lock of a vanished machine ends within minutes, not hours.
                session.exec_driver_sql("SET tcp_keepalives_idle TO 60")

                def take() -> bool:
                    found = session.exec_driver_sql(f"SELECT pg_try_advisory_lock({number})")
                    return bool(found.scalar())

                taken = wait_for(take, CLAIM_SECONDS)
            except sa.exc.DBAPIError as error:
                raise self._budget_error(error, committing=False) from None
            # The lock ends with its session, also if the server ended first.
            closing.callback(_end_session, connection, os.getpid())
            yield taken

    def create(self) -> None:
        """Make an empty ledger if there is none yet; see `LedgerBackend`."""
        with self._transaction(write=True) as connection:
            owner = _other_owner(connection)
            if not _has_journal(connection):
                if not owner:
                    connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                    upgrade(connection)
                    return
            elif not owner or not _is_empty(connection):
                return
            # The schema's owner could alter and remove every entry.
            raise BudgetError(
                f"the schema {SCHEMA} of {self.location} belongs to the role {owner!r} and holds "
                f"no ledger of yours: drop it, or log in as {owner!r}"
            )

    def upgrade(self) -> None:
        """Bring the schema up to date and keep the events; see `LedgerBackend`."""
        with self._transaction(write=True) as connection:
            if not _has_journal(connection):
                raise BudgetError(no_ledger(self.location))
            if BASELINE <= _revision(connection) < REVISION:
                upgrade(connection)

    @cached_property
    def _engine(self) -> sa.Engine:
        try:
            return sa.create_engine(
                self._url, poolclass=NullPool, connect_args={"connect_timeout": _CONNECT_SECONDS}
            )
        except ModuleNotFoundError:
            raise BudgetError(
                f"the ledger {self.location} is in PostgreSQL, and its driver is not installed: "
                "pip install 'jam-dagster[postgres]'"
            ) from None

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sa.Connection]:
        begin = _WRITE.format(milliseconds=int(1000 * BUSY_SECONDS)) if write else _READ
        committing = False
        try:
            with self._engine.connect() as connection:
                transaction = connection.begin()
                try:
                    connection.exec_driver_sql(begin)
                    yield connection
                except BaseException:
                    transaction.rollback()
                    raise
                committing = write
                transaction.commit()
        except sa.exc.DBAPIError as error:
            # The cause is not kept: a driver's message about a connection may hold its password.
            raise self._budget_error(error, committing=committing) from None

    def _check_identity(self, connection: sa.Connection) -> None:
        if not _has_journal(connection):
            raise BudgetError(no_ledger(self.location))
        if fault := version_fault(self.location, _revision(connection)):
            raise BudgetError(fault)

    def _budget_error(self, error: sa.exc.DBAPIError, *, committing: bool) -> BudgetError:
        """Return the database's error as one that names the ledger and the remedy."""
        state = getattr(error.orig, "sqlstate", None) or ""
        if committing and (error.connection_invalidated or not state or state.startswith("57")):
            return BudgetError(
                f"the connection to the ledger {self.location} was lost while an entry was being "
                "committed: it may have been recorded, and counts as spent if it was; nothing was "
                "drawn on it. Run again when the server can be reached"
            )
        meaning = next((text for code, text in _MEANINGS.items() if state.startswith(code)), "")
        if not meaning:
            detail = " ".join(str(error.orig).split())
            for secret in self._secrets:
                detail = detail.replace(secret, "***")
            detail = with_names(detail, self._shown)
            unreachable = not state or state.startswith(("08", "28", "3D"))
            meaning = f"cannot be reached: {detail}" if unreachable else f"failed: {detail}"
        return BudgetError(f"the ledger {self.location} {meaning}")


# SET LOCAL ends with the transaction, so nothing depends on a pool that keeps the connection. In
# READ COMMITTED every statement sees all commits before it began. So all statements after the lock
# see every entry of earlier writers.
_WRITE = f"""
SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET LOCAL search_path TO {SCHEMA}, pg_temp;
SET LOCAL synchronous_commit TO on;
SET LOCAL lock_timeout TO '{{milliseconds}}ms';
SET LOCAL idle_in_transaction_session_timeout TO '{{milliseconds}}ms';
SELECT pg_advisory_xact_lock({_LOCK});
"""
_READ = f"""
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL search_path TO {SCHEMA}, pg_temp;
"""


_OTHERS = sa.text("""
SELECT pg_get_userbyid(owner) FROM (
    SELECT nspowner AS owner FROM pg_namespace WHERE nspname = :schema
    UNION ALL
    SELECT relowner FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = :schema
) AS owners
WHERE NOT pg_has_role(owner, 'USAGE')
""")


def _end_session(connection: sa.Connection, owner: int) -> None:
    """End a session that a process began; a process that was forked since ends its copy alone."""
    if os.getpid() != owner:
        # The driver would report to the server on the socket that both processes have.
        raw: Any = connection.connection.dbapi_connection
        with open(os.devnull, "r+b") as nowhere:
            os.dup2(nowhere.fileno(), raw.fileno())
    connection.invalidate()


def _has_journal(connection: sa.Connection) -> bool:
    found = connection.exec_driver_sql(f"SELECT to_regclass('{SCHEMA}.events')")
    return found.scalar() is not None


def _is_empty(connection: sa.Connection) -> bool:
    journal = sa.table("events", sa.column("seq"), schema=SCHEMA)
    return connection.execute(sa.select(journal.c.seq).limit(1)).first() is None


def _other_owner(connection: sa.Connection) -> str:
    """Return the owner of the ledger's schema or of a table in it, if it is another role."""
    return str(connection.execute(_OTHERS, {"schema": SCHEMA}).scalar() or "")


def _revision(connection: sa.Connection) -> str:
    return str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
