"""What of the last release, and of the first public table, a partition is drawn on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.tables import Domain, EncodedTable, PreviousRelease, source_from_config
from jam_dagster.tables.sources.base import absolute_paths
from jam_dagster.tables.sources.previous_release import public_from_config

DOMAIN = Domain.from_dict({"attributes": {"which": {"values": [f"v{n}" for n in range(20)]}}})
FIRST = source_from_config("survey.csv")


def table(codes: np.ndarray) -> EncodedTable:
    return EncodedTable(DOMAIN, (codes.astype(np.uint8),))


def test_the_share_of_the_first_table_is_spread_evenly_over_its_rows() -> None:
    previous, first = table(np.zeros(1000)), table(np.arange(1, 20))
    made = PreviousRelease(FIRST, 0.2).table(previous, first)
    counts = made.marginal(("which",))
    assert made.records == 1000
    assert counts[0] == 800
    assert set(counts[1:].tolist()) == {10, 11}
    again = PreviousRelease(FIRST, 0.2).table(previous, first)
    assert again.column("which").tolist() == made.column("which").tolist()


def test_without_a_share_it_is_the_last_release() -> None:
    previous = table(np.arange(10))
    assert PreviousRelease(FIRST).table(previous, table(np.arange(3))) is previous


def test_rows_of_the_last_release_are_left_at_random() -> None:
    previous = table(np.repeat([1, 2], 500))
    counts = PreviousRelease(FIRST, 0.5).table(previous, table(np.zeros(7))).marginal(("which",))
    # 500 of 1,000 without replacement: further from 250 than 80 once in 10^23.
    assert abs(int(counts[1]) - 250) < 80


@pytest.mark.parametrize("config", [{"first": "survey.csv"}, {"first": {"csv": "survey.csv"}}])
def test_from_a_configuration_and_back(config: dict[str, Any]) -> None:
    made = public_from_config({"previous_release": {**config, "first_share": 0.1}})
    assert made == PreviousRelease(FIRST, 0.1)
    assert public_from_config(made.to_dict()) == made
    assert public_from_config("survey.csv") == FIRST


def test_the_first_table_is_looked_for_beside_the_file(tmp_path: Any) -> None:
    made = public_from_config(
        absolute_paths({"previous_release": {"first": "survey.csv"}}, tmp_path)
    )
    assert made == PreviousRelease(source_from_config(str(tmp_path / "survey.csv")))


def test_the_first_partition_may_have_no_table() -> None:
    made = public_from_config({"previous_release": {}})
    assert made == PreviousRelease()
    assert made.to_dict() == {"previous_release": {}}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"previous_release": {"first_share": 0.5}}, "first_share is a share of the table first"),
        ({"previous_release": "survey.csv"}, "is a mapping"),
        ({"previous_release": {"first": "a.csv", "mix": 1}}, "unknown key 'mix'"),
        ({"previous_release": {"first": "a.csv"}, "csv": "b.csv"}, "unknown key 'csv'"),
        ({"previous_release": {"first": "a.csv", "first_share": 1}}, "less than 1"),
        ({"previous_release": {"first": "a.csv", "first_share": -0.1}}, "at least 0"),
        ({"previous_release": {"first": "a.csv", "first_share": "some"}}, "must be a number"),
    ],
)
def test_a_mistake_is_named(config: Any, named: str) -> None:
    with pytest.raises(SpecificationError) as caught:
        public_from_config(config)
    assert named in str(caught.value)
