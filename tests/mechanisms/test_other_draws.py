"""Mechanisms whose draws are other than a choice and a measurement a round."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.mechanisms import Transcript, refit
from jam_dagster.mechanisms.registry import GIVEN
from jam_dagster.mechanisms.replay import ReplayError
from jam_dagster.privacy import Draws, MemoryStore, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.battery.runs import Forgetful, StoppedError, Unrepeatable
from tests.mechanisms.other_draws import Linked, Sampled

DOMAIN = Domain.from_sizes({"a": 3, "b": 4, "c": 2})
WORKLOAD = Workload.all_k_way(DOMAIN, 2)
KINDS = (Linked(iterations=50), Sampled())
found_by_name = pytest.mark.usefixtures("registered")
each = pytest.mark.parametrize("mechanism", KINDS, ids=lambda one: one.name)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have both found by their names, as research has objects that it was given."""
    for one in KINDS:
        monkeypatch.setitem(GIVEN, one.name, type(one))


def table() -> EncodedTable:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 500)
    return EncodedTable(DOMAIN, (a, (a + rng.integers(0, 2, 500)) % 4, rng.integers(0, 2, 500)))


def run(mechanism: Any, store: MemoryStore, account: UnledgeredAccount, noise: Any = None) -> Any:
    draws = Draws(noise or SeededNoise(1), account, store)
    return mechanism.run(table(), None, WORKLOAD, draws)


@found_by_name
@each
def test_a_stored_transcript_gives_the_same_model(mechanism: Any, tmp_path: Path) -> None:
    made = run(mechanism, MemoryStore(), UnledgeredAccount(2.0))
    assert made.transcript.rho_spent == pytest.approx(2.0)
    made.transcript.save(tmp_path)
    again = refit(Transcript.load(tmp_path), DOMAIN, WORKLOAD)
    for clique in WORKLOAD.cliques:
        np.testing.assert_array_equal(again.marginal(clique), made.model.marginal(clique))


@found_by_name
@each
def test_a_draw_that_was_lost_is_followed(mechanism: Any) -> None:
    whole = run(mechanism, MemoryStore(), UnledgeredAccount(2.0))
    for lost in range(len(whole.transcript.calls)):
        store, account = Forgetful(lost), UnledgeredAccount(2.0)
        with pytest.raises(StoppedError):
            run(mechanism, store, account, Unrepeatable(1))
        made = run(mechanism, store, account, Unrepeatable(1))
        assert account.spent <= 2.0
        again = refit(made.transcript, DOMAIN, WORKLOAD)
        np.testing.assert_array_equal(again.marginal(("a",)), made.model.marginal(("a",)))


def test_several_choices_are_one_draw() -> None:
    made = run(Sampled(), store := MemoryStore(), account := UnledgeredAccount(2.0)).transcript
    assert [call.choices for call in made.calls] == [3, 3, 3]
    assert len((store.get(made.calls[0].step) or {})["index"]) == 3
    assert account.spent == pytest.approx(2.0)


def test_several_choices_cost_a_part_each() -> None:
    prices: list[float] = []

    class Listening(SeededNoise):
        def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
            prices.append(rho)
            return super().select(scores, rho, sensitivity, step)

    made = run(Sampled(), MemoryStore(), UnledgeredAccount(2.0), Listening(1)).transcript
    first = made.calls[0]
    assert sum(prices[:3]) == pytest.approx(first.rho)
    assert first.scale == pytest.approx((8 * prices[0]) ** 0.5)


@found_by_name
@each
@pytest.mark.parametrize("name", ["sensitivity", "rho", "choices", "subject", "cells"])
def test_what_the_mechanism_does_not_ask_for_is_found(mechanism: Any, name: str) -> None:
    made = run(mechanism, MemoryStore(), UnledgeredAccount(2.0)).transcript
    for at, call in enumerate(made.calls):
        value = getattr(call, name)
        other = "nobody" if name == "subject" else value * 2
        calls = (*made.calls[:at], replace(call, **{name: other}), *made.calls[at + 1 :])
        with pytest.raises((ReplayError, ValueError)):
            refit(replace(made, calls=calls), DOMAIN, WORKLOAD)


@found_by_name
def test_values_that_are_not_the_draws_are_found() -> None:
    made = run(Linked(), MemoryStore(), UnledgeredAccount(2.0)).transcript
    (step,) = made.values
    for values in ({}, {step: np.zeros(9)}, {**made.values, "more": np.zeros(3)}):
        with pytest.raises(ReplayError, match="values"):
            refit(replace(made, values=values), DOMAIN, WORKLOAD)
