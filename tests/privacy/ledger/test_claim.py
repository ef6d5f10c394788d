"""One run at a time draws for a release; who dies lets go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger
from jam_dagster.privacy.ledger import postgres as ledger_server
from jam_dagster.privacy.ledger import sqlite as ledger_file

HOLD = """
import sys
from jam_dagster.privacy import Ledger, ReleaseId
with Ledger(sys.argv[1]).claim(ReleaseId("people", "yearly", "d1gest")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    for backend in (ledger_file, ledger_server):
        monkeypatch.setattr(backend, "CLAIM_SECONDS", 0.2)


def test_a_second_run_is_refused_until_the_first_has_ended(ledger, release_id, url):
    with ledger.claim(release_id):
        refused = Ledger(url).claim(release_id)
        with pytest.raises(BudgetError, match="another run is drawing for release 'yearly'"):
            refused.__enter__()
        with Ledger(url).claim(replace(release_id, partition="2026-11")):
            pass
    with Ledger(url).claim(release_id):
        pass


def test_a_link_to_the_ledger_leads_to_the_same_lock(tmp_path, release_id):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "linked.db"
    link.symlink_to(tmp_path / "ledger.db")
    with ledger.claim(release_id), pytest.raises(BudgetError, match="another run"):
        Ledger(link).claim(release_id).__enter__()


def test_an_error_of_the_run_lets_go_and_comes_through(ledger, release_id):
    with pytest.raises(ZeroDivisionError), ledger.claim(release_id):
        raise ZeroDivisionError
    with ledger.claim(release_id):
        pass


@pytest.mark.slow
def test_a_killed_run_lets_go(ledger, release_id, url, monkeypatch):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BudgetError, match="another run"), ledger.claim(release_id):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    monkeypatch.setattr(ledger_server, "CLAIM_SECONDS", 5.0)
    with ledger.claim(release_id):
        pass
    assert ledger.verify().events == 1


def test_a_claim_of_a_ledger_that_is_not_there_says_so(tmp_path, release_id):
    with (
        pytest.raises(BudgetError, match="there is no ledger at"),
        Ledger(tmp_path / "ledger.db").claim(release_id),
    ):
        pass


def forked(work: Callable[[], object]) -> int:
    """Do some work in a forked process, and return its number."""
    child = os.fork()
    if child:
        return child
    ended = 1
    try:
        work()
        ended = 0
    finally:
        os._exit(ended)


def ended_well(child: int) -> bool:
    return os.waitpid(child, 0)[1] == 0


def test_a_forked_process_that_leaves_the_block_releases_nothing(ledger, release_id, url):
    held = ledger.claim(release_id)
    held.__enter__()
    # As an exception does on its way out.
    assert ended_well(forked(lambda: held.__exit__(None, None, None)))
    with pytest.raises(BudgetError, match="another run"):
        Ledger(url).claim(release_id).__enter__()
    held.__exit__(None, None, None)
    with Ledger(url).claim(release_id):
        pass


def test_a_forked_process_does_not_share_a_lock_that_its_parent_takes_later(
    ledger, release_id, url
):
    other = replace(release_id, partition="2026-11")
    taken, take = os.pipe()

    def work():
        os.read(taken, 1)
        with pytest.raises(BudgetError, match="another run"):
            Ledger(url).claim(other).__enter__()

    with ledger.claim(release_id):
        # What it was locked by is kept while the first claim lasts, and is used again.
        with ledger.claim(other):
            pass
        child = forked(work)
        with ledger.claim(other):
            os.write(take, b"x")
            assert ended_well(child)
    for end in (taken, take):
        os.close(end)


def test_a_run_of_many_draws_opens_no_more_files(tmp_path, release_id):
    """A process may have 1024 files open, unless its limit was raised."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    opened = []
    with ledger.claim(release_id):
        for number in range(9):
            account.charge(f"{number}", 1e-6)
            opened.append(len(os.listdir("/dev/fd")))
    assert opened[-1] == opened[0]
