"""The score of TILT: N of every margin, and the gain of a measurement, by hand."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from jam_dagster.mechanisms.loops.expected_gain import (
    AT_A_TIME,
    ONE_WAY,
    STRENGTHS,
    Margins,
    expected_gain,
    margins_by_bits,
    strengths_of,
)
from jam_dagster.models.graphical.kernels import library
from jam_dagster.tables import Domain, Workload

compiled = pytest.mark.parametrize(
    "compiled",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(library() is None, reason="needs a compiler")),
    ],
)

# Several blocks, of which the last one is shorter, and a slice that is more than a block.
BLOCKS = ((5000, 3), (3, 5000), (2 * AT_A_TIME + 1,), (3, AT_A_TIME + 1), (70, 13, 17))


def margins_of(workload: Workload) -> dict[tuple[str, ...], dict[tuple[str, ...], float]]:
    closure = workload.downward_closure()
    margins = Margins(workload, closure)
    return {
        clique: {
            margin: float(weight)
            for margin, weight in zip(margins_by_bits(clique), weights, strict=True)
            if margin
        }
        for clique, weights in zip(margins.candidates, margins.weights, strict=True)
    }


def test_margins_of_all_three_way_marginals() -> None:
    """Of seven attributes: 1, d - 3 = 4 and C(d - 3, 2) = 6 marginals meet a triple exactly."""
    domain = Domain.from_sizes(dict.fromkeys("abcdefg", 2))
    found = margins_of(Workload.all_k_way(domain, 3))

    triple, pair, single = found["a", "b", "c"], found["a", "b"], found["a",]
    assert triple["a", "b", "c"] == 1
    assert {triple[one] for one in combinations("abc", 2)} == {4}
    assert {triple[one,] for one in "abc"} == {ONE_WAY * 6}
    assert pair == {("a",): ONE_WAY * 10, ("b",): ONE_WAY * 10, ("a", "b"): 5}
    # C(d - 1, 2) = 15, more than 1 + 3 * 4 + 3 * 6 / 20 = 13.9, which a triple sums to.
    assert single == {("a",): pytest.approx(13.9)}


def test_margins_follow_the_weights_of_the_workload() -> None:
    domain = Domain.from_sizes(dict.fromkeys("abc", 2))
    found = margins_of(Workload.of(domain, [("a", "b"), ("b", "c"), ("c",)], [4.0, 1.0, 2.0]))

    assert found["a", "b"] == {("a",): 0, ("b",): ONE_WAY * 0.25, ("a", "b"): 1}
    assert found["b", "c"] == {("b",): ONE_WAY * 1, ("c",): ONE_WAY * 0.5, ("b", "c"): 0.25}
    most = 1 + ONE_WAY * 0.25
    assert [found[one,][one,] for one in "abc"] == [1, pytest.approx(min(1.25, most)), 0.75]


def test_single_attributes_alone_count_in_full() -> None:
    domain = Domain.from_sizes(dict.fromkeys("ab", 2))

    assert margins_of(Workload.all_k_way(domain, 1)) == {("a",): {("a",): 1}, ("b",): {("b",): 1}}


def test_settled_margins_count_for_nothing() -> None:
    domain = Domain.from_sizes(dict.fromkeys("abcd", 2))
    workload = Workload.all_k_way(domain, 2)
    margins = Margins(workload, workload.downward_closure())

    left = dict(
        zip(margins.candidates, margins.unsettled(frozenset({("a",), ("a", "b")})), strict=True)
    )
    assert left["a",].tolist() == [0, 0]
    assert left["a", "b"].tolist() == [0, 0, ONE_WAY * 2, 0]
    assert left["c", "d"].tolist() == [0, ONE_WAY * 2, ONE_WAY * 2, 1]


@compiled
def test_the_gain_of_a_single_attribute(compiled: bool) -> None:
    model, counts, sigma, records = np.array([60.0, 40.0]), np.array([80, 20]), 2.0, 100.0
    expected = 0.0
    for strength in STRENGTHS:
        gain = 0.0
        for m, d in zip(model, counts - model, strict=True):
            f = m / (m + strength * sigma**2 / records)
            gain += abs(d) - math.sqrt(((1 - f) * d) ** 2 + 2 / math.pi * (f * sigma) ** 2)
        expected = max(expected, 3 * gain)
    found = expected_gain(
        model / records, counts, np.array([0.0, 3.0]), sigma, records, compiled=compiled
    )
    assert found == pytest.approx(expected, rel=1e-12)
    assert found > 100


@compiled
def test_many_records_let_a_marginal_of_many_cells_gain(compiled: bool) -> None:
    """The model is off by what a sample of it would be, in cells that noise is as large as."""
    assert strengths_of(30_000) is STRENGTHS
    assert list(strengths_of(200_000)) == [*STRENGTHS, 100_000]
    rng = np.random.default_rng(0)
    model = 200_000 * rng.dirichlet(np.full(8_000, 0.3))
    counts = rng.poisson(model)
    asked = (model / 200_000, counts, np.array([0.0, 1.0]), 8.0, 200_000.0)
    few, many = (
        expected_gain(*asked, strengths=given, compiled=compiled)
        for given in (STRENGTHS, strengths_of(200_000))
    )
    assert few < 0 < many


@compiled
def test_what_noise_hides_gains_nothing(compiled: bool) -> None:
    model = np.array([[30.0, 20.0], [10.0, 40.0]])
    weights = np.array([0.0, 1.0, 1.0, 1.0])

    for sigma, counts in ((1e3, model[::-1]), (1.0, model)):
        assert expected_gain(model / 100, counts, weights, sigma, 100.0, compiled=compiled) <= 0


@pytest.mark.skipif(library() is None, reason="needs a compiler")
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize(
    "shape", [(1,), (5,), (4, 9), (3, 1, 7), (16, 9, 11), (2, 3, 2, 5), *BLOCKS]
)
def test_c_and_numpy_agree(shape: tuple[int, ...], dtype: type[np.signedinteger]) -> None:
    rng = np.random.default_rng(0)
    cells = math.prod(shape)
    for number in range(6):
        model = 1000 * rng.dirichlet(np.full(cells, 0.3)).reshape(shape)
        model[model < 1e-3] = 0.0
        counts = rng.multinomial(1000, rng.dirichlet(np.full(cells, 0.3))).reshape(shape)
        counts = counts.astype(dtype)
        weights = rng.integers(0, 3, 2 ** len(shape)).astype(float)
        weights[0] = 0.0
        if number:
            weights[-1] = 1.0
        sigma = 10.0 ** rng.uniform(-2, 2)
        one, other = (
            expected_gain(model / 1000, counts, weights, sigma, 1000.0, compiled=way)
            for way in (True, False)
        )
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
