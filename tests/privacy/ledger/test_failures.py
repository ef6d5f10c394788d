"""What fails under the ledger: told clearly, nothing oversold, and nothing drawn unconfirmed."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import resource
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psycopg
import pytest

from jam_dagster.errors import BudgetError, LostDrawError
from jam_dagster.privacy import Draws, Ledger, MemoryStore, ReleaseId, make_noise
from tests.full_disk import on_a_full_disk
from tests.postgres import running_server
from tests.tiers import gate

KEY = ReleaseId("people", "yearly", "x")
SHARES = {"mechanism": 0.01}


def opened(url):
    ledger = Ledger(url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    return ledger, ledger.open_release(KEY, SHARES).account("mechanism")


def answer(pipe, work, arguments):
    pipe.send(work(*arguments))


def in_a_process(work, *arguments):
    """Return what `work` returns in a process of its own.

    A new one, not a fork: other tests may have left threads behind, whose locks a fork keeps.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=answer, args=(theirs, work, arguments))
    process.start()
    assert ours.poll(60), "the process ended without an answer"
    found = ours.recv()
    process.join()
    return found


# --- SQLite


def charge_on_a_full_disk(account, room):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    for step in range(200):
        try:
            account.charge(f"step-{step}", 1e-6)
        except BudgetError as error:
            return step, str(error)
    return None


@pytest.mark.slow
def test_a_disk_that_fills_up(path):
    ledger, account = opened(path)
    # One connection stays, so that the log is kept and grows until the limit.
    with ledger._backend.reading():
        charged, shown = in_a_process(charge_on_a_full_disk, account, 100_000)
    assert "disk" in shown
    assert charged > 0
    # What was confirmed is there; the one that failed is there at most once.
    assert account.charged(f"step-{charged - 1}") is not None
    assert charged * 1e-6 <= account.spent * (1 + 1e-9) <= (charged + 1.001) * 1e-6
    ledger.verify()
    account.charge("later", 1e-6)


SPEND_ON_A_FULL_DISK = """
from pathlib import Path
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseId
ledger = Ledger(Path(disk) / "ledger.db")
ledger.grant("people", epsilon=1.0, delta=1e-9)
fill()
charged = 0
try:
    release = ledger.open_release(ReleaseId("people", "yearly", "x"), {"a": 1e-3})
    for charged in range(300):
        release.account("a").charge(f"step-{charged}", 1e-7)
except BudgetError as error:
    print(error)
print(*files())
(Path(disk) / "filler").unlink()
print(charged, ledger.balance("people").spent, ledger.verify().events)
print(*files())
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, *gate(4096, 20480, 40960), 102400])
def test_a_full_disk_is_named_and_nothing_stays_beside_the_ledger(tmp_path, room):
    said, left, after, left_after = on_a_full_disk(SPEND_ON_A_FULL_DISK, tmp_path, room=room)
    assert "disk is full" in said
    assert left.split()[0] == "ledger.db"
    # A log that holds entries stays until there is room to put them into the file.
    assert left == "ledger.db" or room > 40960
    assert left_after == "ledger.db"
    charged, spent, _ = after.split()
    assert float(spent) == pytest.approx(int(charged) * 1e-7)


MAKE_ON_A_FULL_DISK = """
from pathlib import Path
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger
fill()
ledger = Ledger(Path(disk) / "ledger.db")
try:
    ledger.grant("people", epsilon=1.0, delta=1e-9)
except BudgetError as error:
    print(error)
print(len(files()))
(Path(disk) / "filler").unlink()
print(ledger.grant("people", epsilon=1.0, delta=1e-9).spent)
print(*files())
"""


@pytest.mark.slow
@pytest.mark.parametrize("room", [163840, *gate(0, 8192, 40960)])
def test_a_ledger_that_finds_no_room_is_not_there(tmp_path, room):
    said, left, spent, after = on_a_full_disk(MAKE_ON_A_FULL_DISK, tmp_path, room=room)
    assert "disk is full" in said
    assert (left, spent, after) == ("0", "0.0", "ledger.db")


def balance_without_room(ledger, limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        ledger.balance("people")
    except BudgetError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("limit", [3, *gate(0, 20000)])
def test_a_connection_that_finds_no_room_leaves_nothing_beside_the_ledger(path, limit):
    ledger, _ = opened(path)
    shown = in_a_process(balance_without_room, ledger, limit)
    assert "disk" in shown
    assert os.listdir(path.parent) == [path.name]
    ledger.verify()


def charge_as_nobody(ledger, account):
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    shown = []
    for attempt in (lambda: account.charge("b", 1e-6), ledger.check_writable):
        try:
            attempt()
        except BudgetError as error:
            shown.append(str(error))
    return shown


@pytest.mark.slow
def test_a_file_that_may_only_be_read():
    folder = Path(tempfile.mkdtemp())
    try:
        ledger, account = opened(folder / "ledger.db")
        account.charge("a", 1e-6)
        ledger.verify()
        (folder / "ledger.db").chmod(0o444)
        folder.chmod(0o555)
        shown = in_a_process(charge_as_nobody, ledger, account)
        folder.chmod(0o755)
        assert len(shown) == 2
        assert all("permissions" in line for line in shown)
        assert account.charged("b") is None
    finally:
        shutil.rmtree(folder)


# --- PostgreSQL: a server of its own, for it is stopped


@pytest.fixture(scope="module")
def server():
    with running_server() as server:
        yield server


@pytest.mark.slow
def test_a_session_killed_while_it_commits_charges_nothing(server):
    url = server.create_database()
    ledger, account = opened(url)
    with psycopg.connect(url) as raw:
        # It runs when the transaction commits.
        raw.execute(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        raw.execute(
            "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON jam_ledger.events "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
        )
    store = MemoryStore()
    draws = Draws(make_noise("exact"), account, store)
    with pytest.raises(BudgetError, match="lost while an entry was being committed"):
        draws.select("a", lambda: np.ones(3), size=3, rho=0.001, sensitivity=4.0)
    assert store.get("a") is None
    with psycopg.connect(url) as raw:
        raw.execute("DROP TRIGGER die ON jam_ledger.events")
    assert account.charged("a") is None
    draws.select("a", lambda: np.ones(3), size=3, rho=0.001, sensitivity=4.0)
    ledger.verify()


@pytest.mark.slow
def test_a_commit_whose_answer_was_lost_counts_as_spent(server):
    """The server has committed and waits for a standby that is not there; then it is cut off."""
    url = server.create_database()
    ledger, account = opened(url)
    server.execute("ALTER SYSTEM SET synchronous_standby_names TO 'nobody'")
    server.execute("SELECT pg_reload_conf()")
    try:
        killer = threading.Thread(target=kill_who_waits, args=(server,))
        killer.start()
        store = MemoryStore()
        draws = Draws(make_noise("exact"), account, store)
        with pytest.raises(BudgetError, match="may have been recorded"):
            draws.measure("a", lambda: np.ones(3, dtype=int), size=3, rho=0.001)
        killer.join()
    finally:
        server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        server.execute("SELECT pg_reload_conf()")
    assert store.get("a") is None
    assert account.charged("a") == pytest.approx(0.001)
    with pytest.raises(LostDrawError):
        draws.measure("a", lambda: np.ones(3, dtype=int), size=3, rho=0.001)
    assert ledger.balance("people").spent == pytest.approx(0.001)
    ledger.verify()


def kill_who_waits(server):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        killed = server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        )
        if killed:
            return
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["in order", "at once"])
def test_a_server_that_stops_and_comes_back(server, how):
    ledger, account = opened(server.create_database())
    account.charge("a", 0.001)
    server.stop(how)
    try:
        for attempt in (
            lambda: account.charge("b", 0.001),
            lambda: ledger.balance("people"),
            lambda: ledger.open_release(KEY, SHARES),
            ledger.check_writable,
            lambda: ledger.exists,
        ):
            with pytest.raises(BudgetError, match=r"cannot be reached"):
                attempt()
    finally:
        server.start()
    assert account.charged("b") is None
    assert account.spent == pytest.approx(0.001)
    account.charge("b", 0.001)
    ledger.verify()


def test_a_server_that_stops_within_a_transaction(server):
    ledger, account = opened(server.create_database())

    def stop_within():
        with ledger._backend.writing() as connection:
            server.stop(signal.SIGQUIT)
            connection.exec_driver_sql("SELECT 1")

    try:
        with pytest.raises(BudgetError, match=r"cut off by its server|cannot be reached"):
            stop_within()
    finally:
        server.start()
    account.charge("a", 0.001)
    ledger.verify()
