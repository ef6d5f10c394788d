"""The table kernels, in C and in NumPy, against einsum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.models.graphical import kernels
from jam_dagster.models.graphical.kernels import (
    MOST,
    Mode,
    Operand,
    Operation,
    Program,
    contract,
    distance,
)
from tests.examples import examples

WAYS = [
    pytest.param(False, id="numpy"),
    pytest.param(
        True,
        id="compiled",
        marks=pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled"),
    ),
]


def operand(rng, axes, sizes):
    return Operand(np.array(rng.random([sizes[a] for a in axes]) + 0.5), tuple(axes))


@st.composite
def passes(draw):
    """Sizes of a table's axes, and subsets of them for its sources and targets."""
    sizes = draw(st.lists(st.integers(1, 5), max_size=5))
    subset = st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)).map(
        lambda chosen: [axis for axis, here in enumerate(chosen) if here]
    )
    return sizes, draw(st.lists(subset, max_size=4)), draw(st.lists(subset, max_size=4))


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("mode", [Mode.READ, Mode.SCALE, Mode.ASSIGN])
@given(case=passes(), seed=st.integers(0, 2**32 - 1), factor=st.sampled_from([1.0, 0.25]))
@examples(40)
def test_one_pass_multiplies_and_sums(compiled, mode, case, seed, factor):
    sizes, sources, targets = case
    rng = np.random.default_rng(seed)
    axes = list(range(len(sizes)))
    table = operand(rng, axes, sizes)
    before = table.table.copy()
    sources = [operand(rng, axes, sizes) for axes in sources]
    targets = [operand(rng, axes, sizes) for axes in targets]

    product = np.full(sizes, factor) if mode is Mode.ASSIGN else before * factor
    for source in sources:
        product = np.einsum(product, axes, source.table, list(source.axes), axes)
    program = Program([Operation(mode, table, tuple(sources), tuple(targets))], compiled)
    program.run({0: factor})

    np.testing.assert_allclose(table.table, before if mode is Mode.READ else product, rtol=1e-12)
    for target in targets:
        summed = np.einsum(product, axes, list(target.axes))
        np.testing.assert_allclose(target.table, summed, rtol=1e-12)


@pytest.mark.parametrize("compiled", WAYS)
def test_a_ratio_of_nothing_to_nothing_is_nothing(compiled):
    of, above, below = (
        Operand(np.array(cells), (0,)) for cells in ([9.0, 9.0, 9.0], [1.0, 0.0, 0.0], [4, 0.0, 2])
    )
    Program([Operation(Mode.RATIO, of, (above, below))], compiled).run()
    np.testing.assert_array_equal(of.table, [0.25, 0, 0])


@pytest.mark.parametrize("compiled", WAYS)
def test_operations_run_in_their_order_and_again(compiled):
    a, b = Operand(np.array([1.0, 2.0]), (0,)), Operand(np.array([3.0, 5.0]), (0,))
    total = Operand(np.zeros(()), ())
    program = Program(
        [Operation(Mode.SCALE, a, (b,)), Operation(Mode.SCALE, b, (a,), (total,))], compiled
    )
    program.run()
    np.testing.assert_array_equal(b.table, [9, 50])
    assert total.table == 59
    program.run()
    np.testing.assert_array_equal(a.table, [27, 500])


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("mode", [Mode.SCALE, Mode.ASSIGN])
def test_more_operands_than_an_operation_takes_are_split(compiled, mode):
    sources = tuple(Operand(np.array([1.1, 0.9]), (0,)) for _ in range(2 * MOST + 3))
    targets = tuple(Operand(np.zeros(()), ()) for _ in range(2 * MOST + 3))
    table = Operand(np.ones(2), (0,))
    Program([Operation(mode, table, sources, targets)], compiled).run()
    expected = np.array([1.1, 0.9]) ** (2 * MOST + 3)
    np.testing.assert_allclose(table.table, expected)
    np.testing.assert_allclose([target.table for target in targets], expected.sum())


@pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled")
def test_results_are_the_same_on_any_number_of_rows_and_remainders():
    """Vectors of any width add in one order: the sums in C equal themselves on every machine."""
    rng = np.random.default_rng(0)
    for n in (1, 7, 8, 9, 63, 64, 65):
        table, total = Operand(rng.random((3, n)), (0, 1)), Operand(np.zeros(3), (0,))
        Program([Operation(Mode.READ, table, (), (total,))], True).run()
        parts = [table.table[:, k::8][:, : -(-n // 8)].copy() for k in range(8)]
        sums = [np.add.accumulate(p, axis=1)[:, -1] if p.shape[1] else np.zeros(3) for p in parts]
        left = (sums[0] + sums[4]) + (sums[2] + sums[6])
        right = (sums[1] + sums[5]) + (sums[3] + sums[7])
        np.testing.assert_array_equal(total.table, left + right)


@pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled")
def test_numbers_too_small_for_full_precision_become_zero():
    table = Operand(np.array([1e-300, 1.0]), (0,))
    Program([Operation(Mode.SCALE, table, (Operand(np.array([1e-10, 1.0]), (0,)),))], True).run()
    np.testing.assert_array_equal(table.table, [0, 1])
    # The processor's mode is as it was for everyone else.
    assert np.float64(1e-300) * np.float64(1e-10) > 0


@st.composite
def products(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    axes = list(range(len(sizes)))
    role = draw(st.lists(st.sampled_from("tobkr"), min_size=len(sizes), max_size=len(sizes)))
    fresh = [a for a in axes if role[a] == "t"]
    old = [a for a in axes if role[a] != "t"]
    shared = [a for a in old if role[a] in "ob"]
    keep = [a for a in old if role[a] in "bk"]
    return sizes, old, draw(st.permutations(shared)), keep, fresh


@pytest.mark.parametrize("compiled", WAYS)
@given(case=products(), seed=st.integers(0, 2**32 - 1))
@examples(60)
def test_contraction_equals_einsum(compiled, case, seed):
    sizes, old, shared, keep, fresh = case
    rng = np.random.default_rng(seed)
    table, other = operand(rng, old, sizes), operand(rng, [*shared, *fresh], sizes)
    product = contract(table, other, tuple(keep), tuple(fresh), compiled=compiled)
    assert product.axes == (*keep, *fresh)
    expected = np.einsum(table.table, old, other.table, list(other.axes), [*keep, *fresh])
    np.testing.assert_allclose(product.table, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "found", ["nothing", "no library", "another version"], ids=lambda found: found.replace(" ", "-")
)
def test_without_a_library_that_fits_numpy_takes_over(found, tmp_path, monkeypatch):
    path = tmp_path / "kernels.so"
    if found == "no library":
        path.write_text("not a library")
    if found == "another version":
        monkeypatch.setattr(kernels, "VERSION", kernels.VERSION + 1)
        path = kernels.LIBRARY
    monkeypatch.setattr(kernels, "LIBRARY", path)
    kernels.library.cache_clear()
    try:
        assert kernels.library() is None
        a = Operand(np.array([1.0, 2.0]), (0,))
        Program([Operation(Mode.SCALE, a, (a,))]).run()
        np.testing.assert_array_equal(a.table, [1, 4])
    finally:
        kernels.library.cache_clear()


@pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled")
def test_axes_of_one_value_do_not_count_toward_the_most():
    shape = [1] * 20 + [2, 3] + [1] * 20 + [2]
    axes = tuple(range(len(shape)))
    rng = np.random.default_rng(0)
    table, source = (Operand(rng.random(shape), axes) for _ in range(2))
    target = Operand(np.zeros([shape[a] for a in axes[5:21]]), axes[5:21])
    expected = table.table * source.table
    Program([Operation(Mode.SCALE, table, (source,), (target,))], True).run()
    np.testing.assert_allclose(table.table, expected)
    np.testing.assert_allclose(target.table.ravel(), expected.reshape(2, 6).sum(axis=1))
    product = contract(table, source, axes[:21], ())
    np.testing.assert_allclose(
        product.table.ravel(), (expected * source.table).reshape(2, 6).sum(axis=1)
    )


@pytest.mark.parametrize("compiled", WAYS)
def test_factors_find_their_operation_where_others_were_split(compiled):
    many = tuple(Operand(np.array([1.0, 1.0]), (0,)) for _ in range(MOST + 5))
    a, b = Operand(np.ones(2), (0,)), Operand(np.ones(2), (0,))
    program = Program([Operation(Mode.SCALE, a, many), Operation(Mode.SCALE, b, (), ())], compiled)
    program.run({1: 3.0})
    np.testing.assert_array_equal(a.table, 1)
    np.testing.assert_array_equal(b.table, 3)


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (19,), (3, 40), (5, 1, 17, 2)])
def test_the_distance_of_a_marginal_from_its_counts(shape, dtype, compiled):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 1000, shape).astype(dtype)
    # Answers are views: parts of larger tables, with their axes in any order.
    for model in (rng.random(shape), rng.random((*reversed(shape), 3))[..., 1].T):
        expected = np.abs(counts - 7.5 * model).sum()
        found = distance(counts, model, 7.5, compiled=compiled)
        assert found == pytest.approx(expected, rel=1e-14)
