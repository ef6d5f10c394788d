"""A run that is stopped at any draw goes on, or ends, and never spends what it does not have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.errors import ReleaseClosedError
from jam_dagster.mechanisms import MechanismResult, mechanism_class
from jam_dagster.privacy import (
    REPLACE_ONE,
    Draws,
    MemoryStore,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.tables import Workload
from tests.battery.mechanisms import Case, every_mechanism
from tests.battery.test_replay import DOMAIN, pairs
from tests.tiers import first_quick

RHO = 2.0


class Unrepeatable(SeededNoise):
    """Noise like the exact one: what was charged and not stored is gone."""

    repeatable = False


class StoppedError(Exception):
    """The process ends here."""


class Forgetful(MemoryStore):
    """Loses one outcome, counted from the first, as a crash between drawing and storing does."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.left = lost

    def put(self, step: str, outcome: dict) -> None:
        # A decision is stored beside the outcomes, and costs nothing.
        if "rho" in outcome:
            self.left -= 1
            if self.left == -1:
                raise StoppedError
        super().put(step, outcome)


RELATIONS = (REPLACE_ONE, Neighbours("add_remove", 2))
"""With a number of records that is public, and with one that is measured first."""

every_kind_of_records = pytest.mark.parametrize(
    "relation", first_quick(RELATIONS), ids=Neighbours.describe
)


def run(
    case: Case,
    relation: Neighbours,
    store: MemoryStore,
    account: UnledgeredAccount,
    noise: SeededNoise | None = None,
) -> MechanismResult:
    ((one, _, public),) = pairs(1, 5, relation)
    draws = Draws(noise or Unrepeatable(3), account, store, neighbours=relation)
    return case.make().run(one, public, Workload.all_k_way(DOMAIN, 2), draws)


def marginals(result: MechanismResult) -> list[np.ndarray]:
    """Return the workload's answers, or those that were measured where nothing else is answered."""
    fitted = mechanism_class(result.transcript.mechanism).samples
    cliques = Workload.all_k_way(DOMAIN, 2).cliques if fitted else result.model.cliques
    return list(result.model.marginals(cliques).values())


def steps_of(case: Case, relation: Neighbours) -> list[str]:
    whole = run(case, relation, MemoryStore(), UnledgeredAccount(RHO))
    return [call.step for call in whole.transcript.calls]


@every_kind_of_records
@every_mechanism
def test_any_draw_may_be_lost(case: Case, relation: Neighbours) -> None:
    for lost, step in enumerate(steps_of(case, relation)):
        store, account = Forgetful(lost), UnledgeredAccount(RHO)
        with pytest.raises(StoppedError):
            run(case, relation, store, account)
        result = run(case, relation, store, account)
        transcript = result.transcript
        assert account.spent <= RHO, step
        assert transcript.rho_spent == pytest.approx(account.spent), step
        assert [call.lost for call in transcript.calls].count(True) == 1, step
        # A measurement that is lost leaves its round without one, and is not made again.
        without = [one.index for one in transcript.rounds if one.measurement is None]
        assert len(without) == step.endswith("/measure"), step
        for answer in marginals(result):
            assert answer.sum() == pytest.approx(result.model.total), step
        if without:
            assert math.isnan(transcript.rounds[without[0]].l1_residual)


@every_kind_of_records
@every_mechanism
def test_noise_that_repeats_ends_as_if_it_had_not_been_stopped(
    case: Case, relation: Neighbours
) -> None:
    whole = run(case, relation, MemoryStore(), UnledgeredAccount(RHO), SeededNoise(3))
    for lost in range(len(whole.transcript.calls)):
        store, account = Forgetful(lost), UnledgeredAccount(RHO)
        with pytest.raises(StoppedError):
            run(case, relation, store, account, SeededNoise(3))
        result = run(case, relation, store, account, SeededNoise(3))
        assert result.transcript.calls == whole.transcript.calls
        for one, other in zip(marginals(result), marginals(whole), strict=True):
            np.testing.assert_array_equal(one, other)


@every_kind_of_records
@every_mechanism
def test_a_release_may_be_closed_before_any_draw(case: Case, relation: Neighbours) -> None:
    class Closing(UnledgeredAccount):
        def charge(self, step: str, rho: float) -> None:
            if step == last:
                self.close("by an operator")
            super().charge(step, rho)

    measured = False
    for last in steps_of(case, relation):
        account = Closing(RHO)
        if not measured:
            with pytest.raises(ReleaseClosedError):
                run(case, relation, MemoryStore(), account)
        else:
            result = run(case, relation, MemoryStore(), account)
            assert result.transcript.ended == "closed"
            assert result.transcript.rho_spent == pytest.approx(account.spent)
        # What a round releases is a marginal, values of another name, or records by its choice.
        releases = case.draws == ("select",) or "/select" not in last
        measured = measured or ("/" in last and releases)
