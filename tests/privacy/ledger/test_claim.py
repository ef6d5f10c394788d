"""One run at a time draws for a release; who dies lets go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger
from jam_dagster.privacy.ledger import postgres as ledger_server
from jam_dagster.privacy.ledger import sqlite as ledger_file

HOLD = """
import sys
from jam_dagster.privacy import Ledger, ReleaseKey
with Ledger(sys.argv[1]).claim(ReleaseKey("people", "yearly", "d1gest")):
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


def test_a_second_run_is_refused_until_the_first_has_ended(ledger, key, url):
    with ledger.claim(key):
        refused = Ledger(url).claim(key)
        with pytest.raises(BudgetError, match="another run is drawing for release 'yearly'"):
            refused.__enter__()
        with Ledger(url).claim(replace(key, partition="2026-11")):
            pass
    with Ledger(url).claim(key):
        pass


def test_a_link_to_the_ledger_leads_to_the_same_lock(tmp_path, key):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "linked.db"
    link.symlink_to(tmp_path / "ledger.db")
    with ledger.claim(key), pytest.raises(BudgetError, match="another run"):
        Ledger(link).claim(key).__enter__()


def test_an_error_of_the_run_lets_go_and_comes_through(ledger, key):
    with pytest.raises(ZeroDivisionError), ledger.claim(key):
        raise ZeroDivisionError
    with ledger.claim(key):
        pass


@pytest.mark.slow
def test_a_killed_run_lets_go(ledger, key, url, monkeypatch):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BudgetError, match="another run"), ledger.claim(key):
            pass
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    monkeypatch.setattr(ledger_server, "CLAIM_SECONDS", 5.0)
    with ledger.claim(key):
        pass
    assert ledger.verify().events == 1


def test_a_claim_of_a_ledger_that_is_not_there_says_so(tmp_path, key):
    with (
        pytest.raises(BudgetError, match="there is no ledger at"),
        Ledger(tmp_path / "ledger.db").claim(key),
    ):
        pass
