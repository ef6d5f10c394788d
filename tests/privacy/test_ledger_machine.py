"""Any sequence of ledger operations keeps its invariants, beside a model of plain numbers."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jam_dagster.errors import BudgetError, BudgetExceededError, ReleaseClosedError
from jam_dagster.privacy import (
    Budget,
    Ledger,
    ReleaseKey,
    units_down,
    units_up,
)

DATASETS = ("people", "firms")
KEYS = [ReleaseKey(dataset, release, "x") for dataset in DATASETS for release in ("a", "b", "c")]
EPSILONS = st.floats(0.2, 2.0)


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


class LedgerMachine(RuleBasedStateMachine):
    """The ledger against a model in memory; several `Ledger` objects write to one file."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.granted: dict[str, int] = {}
        self.releases: dict[ReleaseKey, dict[str, Share]] = {}

    def teardown(self):
        shutil.rmtree(self.folder)

    @property
    def ledger(self) -> Ledger:
        """A new object each time: nothing may depend on what an earlier one remembers."""
        return Ledger(self.folder / "ledger.db")

    def used(self, dataset: str) -> int:
        return sum(
            share.spent + share.held
            for key, shares in self.releases.items()
            if key.dataset == dataset
            for share in shares.values()
        )

    @initialize(epsilon=EPSILONS)
    def begin(self, epsilon):
        self.ledger.grant("people", epsilon=epsilon, delta=1e-9)
        self.granted["people"] = units_down(Budget(epsilon, 1e-9).rho)

    @rule(dataset=st.sampled_from(DATASETS), epsilon=EPSILONS)
    def grant(self, dataset, epsilon):
        units = units_down(Budget(epsilon, 1e-9).rho)
        if units < self.used(dataset):
            with pytest.raises(BudgetError, match="cannot be lowered"):
                self.ledger.grant(dataset, epsilon=epsilon, delta=1e-9)
        else:
            self.ledger.grant(dataset, epsilon=epsilon, delta=1e-9)
            self.granted[dataset] = units

    @rule(
        key=st.sampled_from(KEYS),
        mechanism=st.floats(1e-15, 0.02),
        evaluation=st.none() | st.floats(1e-15, 0.01),
    )
    def open_release(self, key, mechanism, evaluation):
        if key in self.releases:
            # The same release again asks for what it asked for before.
            before = self.ledger.events(key.dataset)
            release = self.ledger.release(key)
            self.ledger.open_release(key, release.shares)
            assert self.ledger.events(key.dataset) == before
            return
        shares = {"mechanism": mechanism}
        if evaluation is not None:
            shares["evaluation"] = evaluation
        units = {share: units_down(rho) for share, rho in shares.items()}
        left = self.granted.get(key.dataset, 0) - self.used(key.dataset)
        if key.dataset not in self.granted or sum(units.values()) > left:
            error = BudgetExceededError if key.dataset in self.granted else BudgetError
            for attempt in (self.ledger.check, self.ledger.open_release):
                with pytest.raises(error):
                    attempt(key, shares)
        else:
            self.ledger.check(key, shares)
            self.ledger.open_release(key, shares)
            self.releases[key] = {share: Share(amount) for share, amount in units.items()}

    @rule(
        key=st.sampled_from(KEYS),
        share=st.sampled_from(["mechanism", "evaluation"]),
        step=st.sampled_from(["s1", "s2", "s3", "s4"]),
        part=st.floats(1e-6, 1.2),
        all_of_it=st.booleans(),
    )
    def charge(self, key, share, step, part, all_of_it):
        model = self.releases.get(key, {}).get(share)
        if model is None:
            return
        account = self.ledger.release(key).account(share)
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

    @rule(key=st.sampled_from(KEYS), share=st.sampled_from(["mechanism", "evaluation", "both"]))
    def close(self, key, share):
        shares = self.releases.get(key, {})
        release = self.ledger.release(key)
        if share == "both" and release is not None:
            returned = release.close("operator")
            closing = list(shares.values())
        elif share in shares:
            returned = release.account(share).close("done")
            closing = [shares[share]]
        else:
            return
        assert returned == pytest.approx(sum(s.held for s in closing) / 1e15, abs=1e-17)
        for model in closing:
            model.closed = True

    @invariant()
    def balances_are_those_of_the_model(self):
        if not self.granted:
            return
        ledger = self.ledger
        assert set(ledger.datasets()) == set(self.granted)
        for dataset, granted in self.granted.items():
            balance = ledger.balance(dataset)
            shares = [
                share
                for key, parts in self.releases.items()
                if key.dataset == dataset
                for share in parts.values()
            ]
            assert balance.granted_units == granted
            assert balance.spent_units == sum(share.spent for share in shares)
            assert balance.reserved_units == sum(share.held for share in shares)
            assert balance.remaining_units >= 0
            assert all(share.spent <= share.reserved for share in shares)

    @invariant()
    def the_journal_is_whole(self):
        if self.granted:
            self.ledger.verify()


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=10,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
