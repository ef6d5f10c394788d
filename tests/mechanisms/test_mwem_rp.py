"""MWEM + relaxed projection by hand: what it scores, pays and projects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jam_dagster.mechanisms import MechanismResult, make_mechanism
from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import ScriptedNoise, scripted_run
from tests.tiers import by_jax

pytestmark = by_jax

SMALL: dict[str, Any] = {"components": 6, "iterations": 5}


def run(
    private: EncodedTable,
    workload: Workload,
    choices: list[int],
    rho: float,
    neighbours: Neighbours | None = None,
    **settings: Any,
) -> tuple[MechanismResult, ScriptedNoise]:
    mechanism = make_mechanism("mwem_rp", rounds=len(choices), **SMALL | settings)
    return scripted_run(mechanism, private, workload, choices, rho, neighbours=neighbours)[:2]


def test_the_score_is_the_error_less_the_cells_whatever_the_noise(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    start = make_mechanism("mwem_rp", **SMALL).trainer(private.domain, None)
    mixture = ProductMixture(private.domain, private.records, start.tables())
    for rho in (0.01, 90.0):
        _, noise = run(private, workload, [0], rho)
        apart = [private.marginal(one) - mixture.marginal(one) for one in workload.cliques]
        wanted = [np.abs(one).sum() - one.size for one in apart]
        # The workload's pairs alone: no single attribute is a candidate.
        assert noise.selections[0]["scores"] == pytest.approx(wanted, abs=1e-4)


def test_half_of_a_round_selects_and_half_measures(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    result, noise = run(private, workload, [0, 1, 2], 0.9)
    assert [one["rho"] for one in noise.selections] == pytest.approx([0.15] * 3)
    assert [one["rho"] for one in noise.measurements] == pytest.approx([0.15] * 3)
    assert {one["sensitivity"] for one in noise.selections} == {2.0}
    assert [one.clique for one in result.transcript.rounds] == list(workload.cliques)
    removed = run(private, workload, [0], 0.9, neighbours=Neighbours("add_remove", 3))[1]
    assert [one["sensitivity"] for one in removed.selections] == [3.0]


@pytest.mark.slow
def test_one_row_answers_what_one_row_can() -> None:
    """A cell that holds everybody, and an attribute of 0.8: its complement has 0.2."""
    domain = Domain.from_sizes({"a": 2, "b": 2})
    settings = {"components": 1, "iterations": 300, "learning_rate": 0.05, "threshold": 0.0}
    everybody = EncodedTable(domain, (np.zeros(10, int), np.zeros(10, int)))
    made, _ = run(everybody, Workload.all_k_way(domain, 2), [0], 9e3, **settings)
    np.testing.assert_allclose(made.model.marginal(("a", "b")) / 10, [[1, 0], [0, 0]], atol=1e-3)
    most = EncodedTable(domain, (np.array([1] * 8 + [0] * 2), np.zeros(10, int)))
    made, _ = run(most, Workload.of(domain, [("a",)]), [0], 9e3, **settings)
    np.testing.assert_allclose(made.model.marginal(("a",)) / 10, [0.2, 0.8], atol=1e-3)
