"""Several processes at one ledger: nothing is overdrawn, nothing is paid twice."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jam_dagster.errors import BudgetError, BudgetExceededError, LedgerIntegrityError
from jam_dagster.privacy import Budget, Kind, Ledger, ReleaseId
from jam_dagster.privacy.accounting import units_down
from tests.budgets import PUBLIC_N
from tests.privacy.conftest import slice_of
from tests.tiers import slow

PROCESSES = 2
BUDGET = Budget(1.0, 1e-9)
# Seven releases fit, and some of an eighth.
SHARES = {"mechanism": BUDGET.rho / 7.5}


@pytest.fixture(scope="module", params=["sqlite", *slow("postgresql")])
def url(request, tmp_path_factory) -> str:
    if request.param == "sqlite":
        return str(tmp_path_factory.mktemp("concurrency") / "ledger.db")
    return request.getfixturevalue("postgres").create_database()


_START: Barrier


@pytest.fixture(scope="module")
def together(url):
    """Run `work(url, number)` in processes that start together; return what they return."""
    # Both are forked from one process, which has imported this module.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    pool = context.Pool(PROCESSES, _begin, [context.Barrier(PROCESSES)])

    def run(work: Callable[[str, int], Any]) -> list[Any]:
        tasks = [(work, url, number) for number in range(PROCESSES)]
        return pool.starmap(_at_once, tasks, chunksize=1)

    yield run
    # Not terminated, as leaving a context of its own would: where the terminal's signals are
    # ignored, as in what a script starts in the background, that waits for ever.
    pool.close()
    pool.join()


def _begin(start):
    global _START
    _START = start


def _at_once(work, url, number):
    _START.wait(60)
    return work(url, number)


def create(url, number):
    Ledger(url).grant(f"dataset-{number}", epsilon=1.0, delta=1e-9)


def reserve_until_refused(url, number):
    """Open releases of one's own until the budget is used up; return how many were granted."""
    ledger, opened = Ledger(url), 0
    for i in range(20):
        try:
            ledger.open_release(ReleaseId("people", f"release-{number}-{i}", "x"), SHARES)
        except BudgetExceededError:
            break
        opened += 1
    return opened


def charge_the_same_release(url, number):
    """Two runs of the same release: each charges every step; return which it got."""
    account = (
        Ledger(url)
        .open_release(ReleaseId("steps", "release", "x"), SHARES, run_id=f"run-{number}")
        .account("mechanism")
    )
    paid = []
    for step in range(15):
        try:
            account.charge(f"round-{step}", account.reserved / 10)
        except BudgetExceededError:
            break
        except BudgetError:
            continue
        paid.append(step)
    return paid


def test_a_ledger_is_made_once(url, together):
    # Tests of another order may have granted others before.
    before = {*Ledger(url).datasets()}
    together(create)
    made = {*Ledger(url).datasets()} - before
    assert made == {f"dataset-{number}" for number in range(PROCESSES)}
    if "://" not in url:
        path = Path(url)
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_two_runs_of_a_release_pay_each_step_once(url, together):
    ledger = Ledger(url)
    ledger.grant("steps", epsilon=BUDGET.epsilon, delta=BUDGET.delta)
    steps = Counter(step for paid in together(charge_the_same_release) for step in paid)
    assert set(steps.values()) == {1}
    assert len(steps) in (9, 10)  # ten tenths, each rounded up by less than a unit
    account = ledger.reservations("steps")[0].account("mechanism")
    assert account.spent <= account.reserved
    ledger.verify()


def test_releases_that_race_never_overdraw(url, together):
    ledger = Ledger(url)
    ledger.grant("people", epsilon=BUDGET.epsilon, delta=BUDGET.delta)
    assert sum(together(reserve_until_refused)) == 7
    balance = ledger.balance("people")
    assert balance.granted_units == units_down(BUDGET.rho)
    assert 0 <= balance.remaining_units < units_down(SHARES["mechanism"])
    reserved = [event for event in ledger.events("people") if event.kind == Kind.RESERVED]
    assert len(reserved) == 7
    ledger.verify()


SOURCES = tuple(slice_of(name, "") for name in ("people", "firms"))


def do_anything(url, number):
    """Do what runs and officers do, in any order; return what was charged for each step."""
    ledger, rng, paid = Ledger(url), Random(number), Counter()
    for _ in range(25):
        release_id = ReleaseId(
            "any", f"release-{rng.randrange(2)}", "x", edition=f"{rng.randrange(3)}"
        )
        source, step = rng.choice(SOURCES), f"round-{rng.randrange(6)}"

        def charge(release_id=release_id, source=source, step=step):
            account = ledger.open_release(release_id, SHARES, source=source).account("mechanism")
            with ledger.attempt(release_id, source=source):
                account.charge(step, account.reserved / 4)
                paid[release_id, step] += 1
                account.confirm(step, "ab" * 32)
                account.publish_records(500)

        def close(release_id=release_id):
            released = ledger.reservation(release_id)
            if released is not None:
                released.close("a race")

        def grant():
            epsilon = rng.choice([0.5, 1.0, 1.5])
            ledger.grant("any", epsilon=epsilon, delta=1e-9, policy=PUBLIC_N, reason="a race")

        # Mostly what a run does.
        for work in rng.sample(
            [
                *[charge] * 5,
                close,
                grant,
                lambda release_id=release_id: ledger.withdraw(
                    release_id, "cd" * 32, reason="a race"
                ),
                lambda release_id=release_id: ledger.certify(release_id, "cd" * 32, run_id="run"),
                lambda release_id=release_id: ledger.ran(release_id, "ef" * 32),
                lambda: ledger.rebind("any", reason="a race"),
                lambda: ledger.acknowledge("any", reason="a race"),
            ],
            2,
        ):
            try:
                work()
            except LedgerIntegrityError:
                raise
            except BudgetError:
                continue
    return dict(paid)


@pytest.mark.slow
def test_whatever_officers_and_runs_do_at_once_the_journal_adds_up(url, together):
    """The last part of a grant, a withdrawal, a rebinding or a smaller grant amid draws."""
    ledger = Ledger(url)
    ledger.grant("any", epsilon=BUDGET.epsilon, delta=BUDGET.delta, policy=PUBLIC_N)
    steps = sum((Counter(paid) for paid in together(do_anything)), Counter())
    assert set(steps.values()) == {1}
    kinds = {event.kind for event in ledger.events("any")}
    assert {Kind.CHARGED, Kind.CLOSED, Kind.WITHDRAWN, Kind.BOUND, Kind.COUNTED} <= kinds
    ledger.verify()
    assert ledger.balance("any").remaining_units >= 0
