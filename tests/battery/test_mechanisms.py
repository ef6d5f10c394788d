"""The battery finds mechanisms by itself."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.mechanisms import MECHANISMS, make_mechanism, mechanism_class
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.codes.marginals import RecordsOnly
from tests.battery.mechanisms import QUICK_CASES, and_reversed, generic
from tests.battery.test_replay import pairs
from tests.privacy.neighbours import RELATIONS
from tests.small_runs import small
from tests.tiers import first_quick


def test_no_registered_mechanism_is_left_out() -> None:
    assert {case.make().name for case in QUICK_CASES} == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_one_without_a_case_of_its_own_is_a_small_run(name: str) -> None:
    case = generic(name)

    assert case.make().name == name
    for settings in (*case.short, *case.variants, case.steady):
        assert case.make(**settings).parameters().get("rounds", 3) <= 6


@pytest.mark.parametrize("neighbours", first_quick(RELATIONS), ids=Neighbours.describe)
def test_two_public_tables_are_of_two_populations(neighbours: Neighbours) -> None:
    """All but those of some table that is nearly its own reverse."""
    learnt = [
        PublicPrior.of(public.domain, and_reversed(public)).populations
        for _, _, public in pairs(40, 3, neighbours)
    ]
    assert learnt.count(2) >= 39


@pytest.mark.parametrize("neighbours", RELATIONS, ids=Neighbours.describe)
@pytest.mark.parametrize(
    "name", [name for name in MECHANISMS if not mechanism_class(name).reads_values]
)
def test_one_that_reads_no_value_runs_without_any(name: str, neighbours: Neighbours) -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3})
    whole = EncodedTable(domain, (np.arange(60) % 2, np.arange(60) % 3))
    models = []
    for private in (whole, RecordsOnly(domain, whole.records)):
        draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), neighbours=neighbours)
        workload = Workload.all_k_way(domain, 2)
        models.append(make_mechanism(name).run(private, whole.take([0, 1, 2]), workload, draws))
    one, other = models
    assert one.transcript.records == other.transcript.records
    np.testing.assert_array_equal(one.model.marginal(("a", "b")), other.model.marginal(("a", "b")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in MECHANISMS if mechanism_class(name).reads_values]
)
def test_a_run_asks_for_the_marginals_that_it_states(name: str) -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    whole = EncodedTable(domain, tuple(np.arange(60) % size for size in domain.shape))
    workload = Workload.of(domain, [("a",), ("b", "c")])
    mechanism = make_mechanism(name, **small(name))
    blocks = whole.marginals(mechanism.marginals(domain, workload))
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), neighbours=Neighbours("add_remove"))
    counted = CountedTable(domain, whole.records, blocks)
    mechanism.run(counted, whole.take(range(12)), workload, draws)
