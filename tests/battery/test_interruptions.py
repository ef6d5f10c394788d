"""A run that is stopped at any draw goes on, or ends, and never spends what it does not have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.privacy import (
    REPLACE_ONE,
    MemoryStore,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from tests.battery.mechanisms import Case, of_each_kind
from tests.battery.runs import (
    Forgetful,
    StoppedError,
    closed,
    marginals,
    run,
    some_or_every_draw,
    without_one,
)
from tests.tiers import first_quick

RELATIONS = (REPLACE_ONE, Neighbours("add_remove", 2))
"""With a number of records that is public, and with one that is measured first."""

every_kind_of_records = pytest.mark.parametrize(
    "relation", first_quick(RELATIONS), ids=Neighbours.describe
)


@every_kind_of_records
@of_each_kind
def test_any_draw_may_be_lost(case: Case, relation: Neighbours) -> None:
    for step, made in without_one(case, relation).items():
        transcript, account = made.result.transcript, made.account
        assert account.spent <= case.rho, step
        assert transcript.rho_spent == pytest.approx(account.spent), step
        assert [call.lost for call in transcript.calls].count(True) == 1, step
        # A measurement that is lost leaves its round without one, and is not made again.
        without = [one.index for one in transcript.rounds if one.measurement is None]
        assert len(without) == step.endswith("/measure"), step
        for answer in marginals(made.result):
            assert answer.sum() == pytest.approx(made.result.model.total), step
        if without:
            assert math.isnan(transcript.rounds[without[0]].l1_residual)


@some_or_every_draw
@every_kind_of_records
@of_each_kind
def test_noise_that_repeats_ends_as_if_it_had_not_been_stopped(
    case: Case, relation: Neighbours, every: bool
) -> None:
    whole = run(case, relation, MemoryStore(), UnledgeredAccount(case.rho), SeededNoise(3))
    draws = range(len(whole.transcript.calls))
    for lost in draws if every else draws[len(draws) // 2 :][:1]:
        store, account = Forgetful(lost), UnledgeredAccount(case.rho)
        with pytest.raises(StoppedError):
            run(case, relation, store, account, SeededNoise(3))
        result = run(case, relation, store, account, SeededNoise(3))
        assert result.transcript.calls == whole.transcript.calls
        for one, other in zip(marginals(result), marginals(whole), strict=True):
            np.testing.assert_array_equal(one, other)


@every_kind_of_records
@of_each_kind
def test_a_release_may_be_closed_before_any_draw(case: Case, relation: Neighbours) -> None:
    measured = False
    for last, made in closed(case, relation).items():
        assert (made is not None) == measured, last
        if made is not None:
            assert made.result.transcript.ended == "closed"
            assert made.result.transcript.rho_spent == pytest.approx(made.account.spent)
        # What a round releases is a marginal, values of another name, or records by its choice.
        releases = case.draws == ("select",) or "/select" not in last
        measured = measured or ("/" in last and releases)
