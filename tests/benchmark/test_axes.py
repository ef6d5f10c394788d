"""Axes hold what is shown, and names beside them cover none another."""

from __future__ import annotations

import itertools

import pytest

from jam_dagster.benchmark.axes import Axis, spread
from jam_dagster.benchmark.panels import below


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.09, 0.75, [0.1, 0.2, 0.3, 0.5, 0.7]),
        (0.35, 1.8, [0.5, 0.7, 1.0]),
        (0.5, 600, [1, 10, 100]),
        (1.01, 1.02, [1.0]),
    ],
)
def test_ticks_are_round_and_inside(low: float, high: float, ticks: list[float]) -> None:
    found = Axis("x", low, high).ticks()

    assert found is not None
    assert set(ticks) <= set(found)
    assert len(found) <= 9


def test_an_axis_has_its_ends_at_its_ends() -> None:
    axis = Axis.around("error", [0.1, 0.4])

    assert axis.low < 0.1
    assert axis.high > 0.4
    assert (axis.share(axis.low), axis.share(axis.high)) == (0, 1)
    assert axis.share(0.2) == pytest.approx(0.5)
    # One value is in the middle; a linear axis begins at 0, and has an end.
    assert Axis.around("error", [0.3]).share(0.3) == pytest.approx(0.5)
    assert Axis.around("error", [0.0], log=False).high > 0


@pytest.mark.parametrize("bound", [0.05, 0.3, 0.37, 2.0, 9.0])
def test_below_a_bound_there_is_room(bound: float) -> None:
    axis = below(Axis.around("error", [0.376, 1.7]), bound)

    assert 0.08 < axis.share(bound) < 1
    assert axis.low < 0.376 < 1.7 < axis.high


def test_names_keep_their_distance() -> None:
    found = spread([100.0, 101.0, 102.0, 10.0, 209.0, 210.0])

    ordered = sorted(found)
    assert min(b - a for a, b in itertools.pairwise(ordered)) >= 12.9
    assert found[3] == 10.0
    assert ordered[-1] <= 210
