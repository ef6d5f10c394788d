"""The files of two stores are what they were, and what is made again has the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from jam_dagster.release import EvaluationSpec, MechanismSpec, WorkloadSpec
from jam_dagster.tables import PreviousRelease, source_from_config
from tests.frozen_files import contents, frozen, listing
from tests.pipeline.conftest import AS_DAGSTER_WARNS, Bench, failure
from tests.pipeline.test_children import given, write_two
from tests.pipeline.test_partitions import FEBRUARY, JANUARY, Months

pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.slow]

# Each of its rounds measures, whatever noise says.
SMALL: dict[str, Any] = {
    "mechanism": MechanismSpec("mst", iterations=20),
    "workload": WorkloadSpec(degree=2),
}


def compare(bench: Bench, case: str) -> None:
    """Compare both stores with what is frozen of them."""
    for store in (bench.releases, bench.closed):
        found = listing(store)
        assert found == frozen(f"{case}: {store.name}", found)


def test_a_store_of_partitions_that_follow_each_other(bench: Bench) -> None:
    months = Months(bench)
    first = source_from_config(str(bench.public))
    asked = {**SMALL, "public": PreviousRelease(first), "evaluation": EvaluationSpec(mode="exact")}
    asked["mechanism"] = MechanismSpec("tilt", iterations=20)
    for month in (JANUARY, FEBRUARY):
        result = months.run(month, **asked)
        assert result.success, failure(result)
    compare(bench, "partitions")
    before = contents(bench.releases)
    again = months.run(JANUARY, **asked)
    assert again.success, failure(again)
    after = contents(bench.releases)
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == set()


def test_a_store_of_two_tables(bench: Bench) -> None:
    write_two(bench.home)
    asked = {**given(bench), **SMALL, "evaluation": EvaluationSpec(mode="private", share=0.2)}
    result = bench.run(**asked)
    assert result.success, failure(result)
    compare(bench, "two tables in Dagster")
    before = contents(bench.releases)
    again = bench.run(**asked)
    assert again.success, failure(again)
    after = contents(bench.releases)
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == set()
