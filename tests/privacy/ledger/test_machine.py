"""Any sequence of ledger operations, of several writers, beside a model of plain numbers."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from jam_dagster.errors import BudgetError, BudgetExceededError, ReleaseClosedError
from jam_dagster.privacy import Budget, Ledger, Neighbours, Policy, ReleaseId
from jam_dagster.privacy.accounting import units_down, units_up
from jam_dagster.privacy.ledger.policy import GROUNDS
from tests.examples import examples
from tests.privacy.conftest import slice_of

DATASETS = ("people", "firms")
RELEASE_IDS = [
    ReleaseId(dataset, release, specification, partition)
    for dataset, release, specification, partition in product(
        DATASETS, "ab", "xy", ("", "east", "west")
    )
]
POLICIES = [Policy()] * 2 + [
    Policy(period, partitions, GROUNDS[1] if partitions == "disjoint" else "")
    for period, partitions in product(("lifetime", "year", "quarter", "month"), ("add", "disjoint"))
]
DATASET = st.sampled_from(DATASETS)
# Few, so that sequences come back to them.
RELEASE_ID = st.sampled_from(RELEASE_IDS[:7]) | st.sampled_from(RELEASE_IDS)
EPSILONS = st.floats(0.2, 2.0)
SHARE = st.sampled_from(["mechanism", "evaluation"])
STEP = st.sampled_from(["s1", "s2", "s3", "s4"])


def reads(release_id: ReleaseId) -> dict[str, Any]:
    """The source of a release: all partitions are of one table."""
    source = slice_of("people", release_id.partition) if release_id.partition else None
    return {"source": source, "neighbours": Neighbours("add_remove")}


@dataclass
class Share:
    reserved: int
    steps: dict[str, int] = field(default_factory=dict)
    closed: bool = False

    @property
    def spent(self) -> int:
        return sum(self.steps.values())

    @property
    def held(self) -> int:
        return 0 if self.closed else self.reserved - self.spent


@dataclass
class Opened:
    """A release as it was last opened."""

    when: datetime
    shares: dict[str, Share]

    @property
    def unspent(self) -> bool:
        return not any(share.spent for share in self.shares.values())

    @property
    def ended(self) -> bool:
        return all(share.closed for share in self.shares.values())


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against a model in memory; `Ledger` objects come and go."""

    def __init__(self, url: str):
        super().__init__()
        self.url = url
        self.now = datetime(2026, 11, 1, tzinfo=UTC)
        self.granted: dict[str, tuple[int, Policy]] = {}
        self.releases: dict[ReleaseId, Opened] = {}

    @property
    def ledger(self) -> Ledger:
        """A new object each time: nothing may depend on what an earlier one remembers."""
        return Ledger(self.url, clock=lambda: self.now)

    def counts(self, when: datetime, policy: Policy) -> bool:
        def period(of: datetime) -> tuple[int, ...]:
            return {
                "lifetime": (),
                "year": (of.year,),
                "quarter": (of.year, (of.month - 1) // 3),
                "month": (of.year, of.month),
            }[policy.period]

        return period(when) == period(self.now)

    def composed(self, dataset: str, policy: Policy, releases: dict[ReleaseId, Opened]) -> int:
        sums: dict[str, int] = {"": 0}
        for release_id, opened in releases.items():
            if release_id.dataset == dataset and self.counts(opened.when, policy):
                used = sum(share.spent + share.held for share in opened.shares.values())
                sums[release_id.partition] = sums.get(release_id.partition, 0) + used
        if policy.partitions == "add":
            return sum(sums.values())
        whole = sums.pop("")
        return whole + max(sums.values(), default=0)

    def fits(self, dataset: str, releases: dict[ReleaseId, Opened]) -> bool:
        """Whether releases fit into the budget of a dataset."""
        granted, policy = self.granted[dataset]
        return self.composed(dataset, policy, releases) <= granted

    def superseded(self, release_id: ReleaseId) -> list[ReleaseId]:
        return [
            other
            for other, opened in self.releases.items()
            if other != release_id
            and (other.dataset, other.release, other.partition)
            == (release_id.dataset, release_id.release, release_id.partition)
            and opened.unspent
        ]

    def after_opening(
        self, release_id: ReleaseId, units: dict[str, int]
    ) -> dict[ReleaseId, Opened]:
        """The releases as they would be."""
        left = {one: self.releases[one] for one in self.releases}
        for other in self.superseded(release_id):
            ended = {
                name: Share(share.reserved, closed=True)
                for name, share in left[other].shares.items()
            }
            left[other] = Opened(left[other].when, ended)
        left[release_id] = Opened(
            self.now, {share: Share(amount) for share, amount in units.items()}
        )
        return left

    @initialize(epsilon=EPSILONS, policy=st.sampled_from(POLICIES))
    def begin(self, epsilon, policy):
        self.grant("people", epsilon, policy)

    @rule(dataset=DATASET, epsilon=EPSILONS, policy=st.sampled_from(POLICIES))
    def grant(self, dataset, epsilon, policy):
        units = units_down(Budget(epsilon, 1e-9).rho)
        given = {"epsilon": epsilon, "delta": 1e-9, "policy": policy}
        if units < self.composed(dataset, policy, self.releases):
            with pytest.raises(BudgetError, match="cannot be lowered"):
                self.ledger.grant(dataset, **given)
        else:
            self.ledger.grant(dataset, **given)
            self.granted[dataset] = (units, policy)

    @rule(days=st.sampled_from([1, 30, 95, 370]))
    def time_passes(self, days):
        self.now += timedelta(days=days)

    @rule(
        release_id=RELEASE_ID,
        mechanism=st.floats(1e-15, 0.02),
        evaluation=st.none() | st.floats(1e-15, 0.01),
    )
    def open_release(self, release_id, mechanism, evaluation):
        there = self.releases.get(release_id)
        if there is not None and not (there.unspent and there.ended):
            # The same release again asks for what it asked for before.
            before = self.ledger.events(release_id.dataset)
            self.ledger.open_release(
                release_id, self.ledger.reservation(release_id).shares, **reads(release_id)
            )
            assert self.ledger.events(release_id.dataset) == before
            return
        shares = {"mechanism": mechanism}
        if evaluation is not None:
            shares["evaluation"] = evaluation
        units = {share: units_down(rho) for share, rho in shares.items()}
        if release_id.dataset not in self.granted:
            with pytest.raises(BudgetError):
                self.ledger.open_release(release_id, shares, **reads(release_id))
            return
        after = self.after_opening(release_id, units)
        if not self.fits(release_id.dataset, after):
            for attempt in (self.ledger.check, self.ledger.open_release):
                with pytest.raises(BudgetExceededError):
                    attempt(release_id, shares, **reads(release_id))
        else:
            self.ledger.check(release_id, shares, **reads(release_id))
            self.ledger.open_release(release_id, shares, **reads(release_id))
            self.releases = after

    @rule(
        release_id=RELEASE_ID,
        share=SHARE,
        step=STEP,
        part=st.floats(1e-6, 1.2),
        all_of_it=st.booleans(),
    )
    def charge(self, release_id, share, step, part, all_of_it):
        there = self.releases.get(release_id)
        if there is None or share not in there.shares:
            return
        model = there.shares[share]
        account = self.ledger.reservation(release_id).account(share)
        rho = account.remaining if all_of_it else max(part * account.reserved, 1e-15)
        if rho == 0.0:
            return
        units = units_up(rho)
        if model.closed:
            expected = ReleaseClosedError
        elif step in model.steps:
            expected = BudgetError
        elif units > model.reserved - model.spent:
            expected = BudgetExceededError
            assert not all_of_it  # what remains always fits
        else:
            account.charge(step, rho)
            model.steps[step] = units
            return
        with pytest.raises(expected):
            account.charge(step, rho)

    @rule(release_id=RELEASE_ID, step=STEP)
    def two_charge_the_same_step(self, release_id, step):
        there = self.releases.get(release_id)
        if there is None or there.shares["mechanism"].held < 4:
            return
        model = there.shares["mechanism"]
        accounts = [self.ledger.reservation(release_id).account("mechanism") for _ in range(2)]
        rho = model.held / 4e15
        paid = at_once(lambda number: accounts[number].charge(step, rho), 2)
        if step not in model.steps:
            assert paid.count(None) == 1
            model.steps[step] = units_up(rho)
        assert sum(isinstance(error, BudgetError) for error in paid) == 2 - paid.count(None)

    @rule(first=RELEASE_ID, second=RELEASE_ID, part=st.floats(0.3, 1.0))
    def two_open_at_once(self, first, second, part):
        """Whatever the order, what both got is never more than there was."""
        keys = [first, second]
        if (
            first.dataset != second.dataset
            or first.dataset not in self.granted
            or any(release_id in self.releases for release_id in keys)
            or first == second
        ):
            return
        granted, policy = self.granted[first.dataset]
        left = granted - self.composed(first.dataset, policy, self.releases)
        if left < 10:
            return
        shares = {"mechanism": part * left / 1e15}
        units = {"mechanism": units_down(shares["mechanism"])}
        outcomes = at_once(lambda n: self.ledger.open_release(keys[n], shares, **reads(keys[n])), 2)
        assert all(one is None or isinstance(one, BudgetExceededError) for one in outcomes)
        assert None in outcomes
        # Which came first shows in the journal; the model follows it.
        done = [release_id for release_id, one in zip(keys, outcomes, strict=True) if one is None]
        order = [event.release_id for event in self.ledger.events(first.dataset)]
        for release_id in sorted(done, key=order.index):
            after = self.after_opening(release_id, units)
            assert self.fits(release_id.dataset, after)
            self.releases = after

    @rule(release_id=RELEASE_ID, share=st.sampled_from(["mechanism", "evaluation", "both"]))
    def close(self, release_id, share):
        there = self.releases.get(release_id)
        if there is None or (share != "both" and share not in there.shares):
            return
        release = self.ledger.reservation(release_id)
        closing = list(there.shares.values()) if share == "both" else [there.shares[share]]
        target = release if share == "both" else release.account(share)
        held = sum(model.held for model in closing)
        assert target.close("operator") == pytest.approx(held / 1e15, abs=1e-17)
        for model in closing:
            model.closed = True

    @invariant()
    def balances_are_those_of_the_model(self):
        ledger = self.ledger
        assert set(ledger.datasets()) == set(self.granted)
        for dataset, (granted, policy) in self.granted.items():
            balance = ledger.balance(dataset)
            assert (balance.granted_units, balance.policy) == (granted, policy)
            used = balance.spent_units + balance.reserved_units
            assert used == self.composed(dataset, policy, self.releases) <= granted
            mine = [
                one for release_id, one in self.releases.items() if release_id.dataset == dataset
            ]
            spent = sum(share.spent for one in mine for share in one.shares.values())
            assert balance.spent_units <= balance.lifetime_spent_units <= spent
            if policy == Policy():
                assert balance.spent_units == balance.lifetime_spent_units == spent
            assert all(s.spent <= s.reserved for one in mine for s in one.shares.values())

    @invariant()
    def every_share_is_that_of_the_model(self):
        opened = (
            {release.release_id: release for release in self.ledger.reservations()}
            if self.granted
            else {}
        )
        assert opened.keys() == self.releases.keys()
        for release_id, there in self.releases.items():
            assert opened[release_id].shares.keys() == there.shares.keys()
            assert opened[release_id].closed is there.ended

    @invariant()
    def the_journal_is_whole(self):
        if self.granted:
            self.ledger.verify()


def at_once(work: Callable[[int], Any], number: int) -> list[BaseException | None]:
    """Run `work(0)`, `work(1)` ... in threads that start together; return what each raised."""
    start = threading.Barrier(number)
    raised: list[BaseException | None] = [None] * number

    def run(index: int) -> None:
        start.wait(30)
        try:
            work(index)
        except Exception as error:
            raised[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


def run_machine(request: pytest.FixtureRequest, backend: str, sequences: int, steps: int) -> None:
    folders: list[Path] = []

    def url() -> str:
        if backend == "postgresql":
            return str(request.getfixturevalue("postgres").create_database())
        folders.append(Path(tempfile.mkdtemp()))
        return str(folders[-1] / "ledger.db")

    try:
        run_state_machine_as_test(
            lambda: LedgerMachine(url()),
            settings=settings(
                examples(sequences),
                stateful_step_count=steps,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        for folder in folders:
            shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "sequences"), [("sqlite", 8), ("postgresql", 2)])
def test_some_sequences(request, backend, sequences):
    run_machine(request, backend, sequences, 20)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("backend", "sequences"), [("sqlite", 40), ("postgresql", 8)])
def test_many_sequences(request, backend, sequences):
    run_machine(request, backend, sequences, 40)
