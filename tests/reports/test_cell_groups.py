"""Groups of cells keep the order of the domain."""

from __future__ import annotations

import re

import numpy as np

from jam_dagster.reports.comparisons import cell_groups
from jam_dagster.reports.plot_style import svg
from jam_dagster.reports.plots import one_way_comparison
from jam_dagster.tables import CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.attributes import Attribute

LEVELS = ("never", "rarely", "sometimes", "often", "always")
GRADES = tuple("QWERTYUIOPASDFGHJKLZ")


def labels(attribute: Attribute, weights: list[float], limit: int = 8) -> list[str]:
    return [one.label for one in cell_groups(attribute, np.array(weights), limit)]


def test_categories_come_in_the_order_of_the_domain_not_of_their_frequency() -> None:
    often = CategoricalAttribute("often", LEVELS, dtype="ordered category")
    weights = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert labels(often, weights) == list(LEVELS)
    chart = one_way_comparison(
        often, synthetic=np.array(weights), public=None, records=15, legend=False
    )
    drawn = re.findall(r">(\w+)</text>", svg(chart))
    assert [one for one in drawn if one in LEVELS] == list(LEVELS)


def test_many_ordered_categories_are_grouped_with_their_neighbours() -> None:
    grade = CategoricalAttribute("grade", GRADES, nullable=True, dtype="ordered category")
    groups = cell_groups(grade, np.arange(21.0), 5)
    assert [one.label for one in groups] == [
        *("Q to R", "T to I", "O to S", "D to H", "J to Z"),
        grade.labels[-1],
    ]
    assert [code for one in groups for code in one.codes] == list(range(21))


def test_values_that_cannot_be_read_are_a_group_of_their_own() -> None:
    bins = NumericAttribute("kg", (0, 1, 2, 3), nullable=True, unreadable="apart")
    groups = cell_groups(bins, np.ones(5), 8)
    assert [one.label for one in groups][-2:] == ["(unreadable)", "(null)"]
    assert [code for one in groups for code in one.codes] == list(range(5))


def test_ranges_are_as_wide_as_each_other() -> None:
    grade = CategoricalAttribute("grade", GRADES, dtype="ordered category")
    groups = cell_groups(grade, np.ones(20), 14)
    assert [len(one.codes) for one in groups] == [2] * 10


def test_other_is_in_no_range_of_an_order() -> None:
    values = ("other", *GRADES)
    grade = CategoricalAttribute("grade", values, other="other", dtype="ordered category")
    groups = cell_groups(grade, np.ones(21), 6)
    assert [one.label for one in groups][-2:] == ["J to Z", "other"]
    assert groups[-1].codes == (0,)
    assert sorted(code for one in groups for code in one.codes) == list(range(21))
