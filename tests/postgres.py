"""A PostgreSQL server for tests: started from the machine's own packages, gone at the end."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

_HOW = "install it (Debian: apt-get install postgresql) to run the tests of the ledger's server"


class PostgresServer:
    """A server that listens on a Unix socket alone, in a folder of its own.

    Parameters
    ----------
    programs
        The folder of initdb and postgres.
    folder
        Where its data and its socket lie.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        # It refuses to run as root.
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            user = _unprivileged()
            os.chown(folder, user.pw_uid, user.pw_gid)
            self._as_user = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self._process: subprocess.Popen[bytes] | None = None
        self._names = (f"ledger_{number}" for number in itertools.count())
        data = ["-D", str(folder / "data")]
        # A new machine may not have the locale that its environment names.
        encoding = ["-E", "UTF8", "--no-locale"]
        self._run("initdb", *data, "-U", "tester", "--auth=trust", "--no-sync", *encoding)
        self.start()

    def _command(self, program: str, *arguments: str) -> list[str]:
        # The server goes when its parent dies, however that dies.
        return [
            "setpriv",
            *self._as_user,
            "--pdeathsig=INT",
            str(self._programs / program),
            *arguments,
        ]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(program, *arguments), capture_output=True, text=True, cwd=self.folder
        )
        if done.returncode:
            pytest.skip(f"{program} failed: {done.stderr.strip()[-500:]}")

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command(
                    *("postgres", "-D", str(self.folder / "data"), "-k", str(self.folder)),
                    # The machine does not lose its power during a test.
                    *("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=40"),
                ),
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    text = (self.folder / "log").read_text()[-500:]
                    pytest.skip(f"postgres did not start: {text}")
                time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: by SIGINT in order, by SIGQUIT at once."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def url(self, database: str, *, user: str = "tester") -> str:
        """Return the URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def create_database(self) -> str:
        """Make an empty database and return its URL."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the administrator."""
        with psycopg.connect(
            host=str(self.folder), user="tester", dbname=database, autocommit=True
        ) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _programs() -> Path:
    places = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    found = str(places[-1]) if places else shutil.which("initdb")
    if found is None:
        pytest.skip(f"there is no PostgreSQL server here; {_HOW}")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv (util-linux) to start PostgreSQL with")
    return Path(found).resolve().parent


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Run a server; the test is skipped where that cannot be."""
    programs = _programs()
    # A socket's path may have a hundred characters, fewer than pytest's folders.
    folder = Path(tempfile.mkdtemp(prefix="jam-pg-"))
    server = None
    try:
        server = PostgresServer(programs, folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
