"""Every noise call is paid for: together they are the ledger's debit, and fit the budget.

A measurement's price is recomputed from the noise that came out, ``Delta^2 / (2 sigma^2)``; how
far scores and counts move is searched for in `test_replay`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import BudgetExceededError, JamError
from jam_dagster.privacy import (
    REPLACE_ONE,
    Budget,
    Draws,
    Kind,
    Ledger,
    Neighbours,
    ReleaseId,
    SeededNoise,
    rho_within,
)
from jam_dagster.privacy.accounting import equal_part, units_down, units_up
from jam_dagster.tables import EncodedTable, Workload
from tests.battery.listening import Call, Listening
from tests.battery.mechanisms import (
    CASES,
    FITTED_BY_MBI,
    Case,
    every_mechanism,
    every_relation,
    marked,
    of_each_kind,
)
from tests.battery.test_replay import DOMAIN, table
from tests.budgets import PUBLIC_N
from tests.tiers import first_quick

SOME_ROWS = np.array([[[3, 1], [0, 2]], [[4, 0], [1, 1]], [[0, 0], [2, 5]]])
ALL_ALIKE = np.eye(12, dtype=int)[0].reshape(3, 2, 2) * 12
ONE_ROW = np.eye(12, dtype=int)[7].reshape(3, 2, 2)
TABLES = (ONE_ROW, ALL_ALIKE, SOME_ROWS)
PUBLIC = np.arange(12).reshape(3, 2, 2)


@cache
def granted(epsilon: float) -> bytes:
    """Return the file of a ledger that grants so much: a copy takes less time than a grant."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.sqlite"
        Ledger(path).grant("people", epsilon=epsilon, delta=1e-9, policy=PUBLIC_N)
        return path.read_bytes()


def reconciled(
    case: Case,
    settings: Mapping[str, Any],
    private: EncodedTable,
    epsilon: float,
    path: Path,
    *,
    all_public: bool = False,
    relation: Neighbours = REPLACE_ONE,
) -> list[Call]:
    """Run a mechanism on a ledger and check every sum; return its noise calls."""
    noise = Listening(SeededNoise(5), choose=case.public if all_public else None)
    path.write_bytes(granted(epsilon))
    ledger = Ledger(path)
    budget = Budget(epsilon, 1e-9)
    release = ledger.open_release(ReleaseId("people", "battery", "digest"), budget.shares(0.1))
    account = release.account("mechanism")
    draws = Draws(noise, account, neighbours=relation)
    result = case.make(**settings).run(private, table(PUBLIC), Workload.all_k_way(DOMAIN, 2), draws)

    costs = costs_of(noise.calls, {call.step: call.rho for call in result.transcript.calls})
    drawn = [units_up(cost) for cost in costs.values()]
    charged = [event for event in ledger.events() if event.kind == Kind.CHARGED]
    assert [(event.step, event.units) for event in charged] == list(zip(costs, drawn, strict=True))
    assert ledger.balance("people").spent_units == sum(drawn)
    assert sum(drawn) <= units_down(account.reserved) < units_down(budget.rho)
    assert result.transcript.rho_spent == pytest.approx(rho_within(sum(drawn)), rel=1e-12)
    # What the evaluation may spend is not touched, and the rest comes back.
    account.close("ended")
    evaluation = release.account("evaluation")
    assert evaluation.remaining == evaluation.reserved
    held = {e.share: e.units for e in ledger.events() if e.kind == Kind.RESERVED}
    assert ledger.balance("people").reserved_units == held["evaluation"]
    for call in noise.calls:
        assert_cost(call, relation, case.measured)
    ledger.verify()
    return noise.calls


def costs_of(calls: list[Call], prices: Mapping[str, float]) -> dict[str, float]:
    """Return the price of each draw by its step; several choices from the same scores are one.

    Each of those has the largest part of the price that all of them can have.
    """
    parts: dict[str, list[float]] = {}
    for call in calls:
        step = re.sub(r"(/select(-\d+)?)/\d+$", r"\1", call.step)
        parts.setdefault(step, []).append(call.rho)
    for step, costs in parts.items():
        if len(costs) > 1:
            assert set(costs) == {equal_part(prices[step], len(costs))}
    return {step: prices[step] if len(costs) > 1 else costs[0] for step, costs in parts.items()}


def assert_cost(call: Call, relation: Neighbours, measured: str) -> None:
    """Check that the noise of a marginal, or of the number of records, is what its price says.

    What other integers move by depends on the workload; see the replay on neighbours.
    """
    assert call.rho > 0
    name = call.step.split("/")[-1].split("-")[0]
    if call.kind == "counts" and name in ("measure", "records"):
        _, sigma = call.answer
        sensitivity = getattr(relation, measured) if name == "measure" else relation.records
        assert sensitivity**2 / (2 * sigma**2) == pytest.approx(call.rho, rel=1e-9)


@every_relation
@of_each_kind
def test_every_relation(case: Case, relation: Neighbours, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    calls = reconciled(case, {}, table(SOME_ROWS), 1.0, path, relation=relation)
    assert any(call.step.startswith("records") for call in calls) == (not relation.records_public)


@pytest.mark.slow
def test_another_fit_spends_as_much(tmp_path: Path) -> None:
    relation = Neighbours("add_remove")
    reconciled(
        FITTED_BY_MBI, {}, table(SOME_ROWS), 1.0, tmp_path / "ledger.sqlite", relation=relation
    )


@pytest.mark.slow
@every_mechanism
def test_every_variant(case: Case, tmp_path: Path) -> None:
    for number, settings in enumerate(case.variants):
        # Each on another table, beginning with the barest.
        private = TABLES[number % len(TABLES)]
        calls = reconciled(case, settings, table(private), 1.0, tmp_path / f"{number}.sqlite")
        assert calls or case.draws == ()


@pytest.mark.slow
@every_mechanism
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1000.0])
def test_tiny_and_huge_budgets(case: Case, epsilon: float, tmp_path: Path) -> None:
    """A budget is spent or refused; a sliver of it is never overdrawn."""
    calls = reconciled(case, {}, table(SOME_ROWS), epsilon, tmp_path / "ledger.sqlite")
    asked = sum(Fraction(call.rho) for call in calls)
    assert float(asked) <= Budget(epsilon, 1e-9).rho


@pytest.mark.parametrize("variants", first_quick([slice(1), slice(1, None)]), ids=str)
@pytest.mark.parametrize("case", marked(case for case in CASES if case.public))
def test_public_choices_pay_for_their_selection_only(
    case: Case, variants: slice, tmp_path: Path
) -> None:
    for number, settings in enumerate(case.variants[variants]):
        calls = reconciled(
            case,
            settings,
            table(SOME_ROWS),
            1.0,
            tmp_path / f"{number}.sqlite",
            all_public=True,
        )
        assert {call.kind for call in calls} == {"select"}


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-12])
def test_no_budget_at_all_is_not_granted(epsilon: float) -> None:
    with pytest.raises(JamError):
        granted(epsilon)


@pytest.mark.parametrize("spender", ["mechanism", "evaluation"])
def test_no_share_can_spend_the_others(spender: str, tmp_path: Path) -> None:
    """Not even where the other has room for it."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.grant("people", epsilon=5.0, delta=1e-9, policy=PUBLIC_N)
    shares = Budget(1.0, 1e-9).shares(0.5)
    release = ledger.open_release(ReleaseId("people", "battery", "digest"), shares)
    account = release.account(spender)
    with pytest.raises(BudgetExceededError):
        account.charge("all of it and more", account.reserved * 1.001)
    account.charge("all of it", account.reserved)
    with pytest.raises(BudgetExceededError):
        account.charge("once more", account.reserved * 0.5)
    assert ledger.balance("people").spent_units == units_down(shares[spender])
