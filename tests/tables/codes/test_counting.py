"""Counts in C, in one thread or two, and in NumPy are those of the definition."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.tables.codes import counting
from jam_dagster.tables.codes.counting import JoinedColumns, add_counts

WAYS = ["one thread", "two threads", "numpy"]


@pytest.fixture(autouse=True, scope="module")
def compiled_again():
    yield
    counting.library.cache_clear()


def use(monkeypatch, way):
    """Count in some way; the library was compiled where a compiler is."""
    if way == "numpy":
        monkeypatch.setattr(counting, "library", lambda: None)
    elif counting.library() is None:
        pytest.skip("the loops are not compiled")
    monkeypatch.setattr(counting, "_LARGE", 0 if way == "two threads" else 2**60)
    monkeypatch.setattr(counting, "_BLOCK_ROWS", 100)


def counted(columns, shape, axes):
    cells = np.zeros([shape[axis] for axis in axes], np.int64)
    np.add.at(cells, tuple(columns[axis].astype(np.intp) for axis in axes), 1)
    return cells.ravel()


@pytest.mark.parametrize("way", WAYS)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1), wide=st.booleans())
def test_counts_are_those_of_the_definition(way, data, seed, wide):
    rng = np.random.default_rng(seed)
    # Codes of one, two and four bytes.
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 300]), min_size=1, max_size=5))
    block = tuple(range(len(shape)))
    within = data.draw(
        st.lists(
            st.lists(st.sampled_from(block), min_size=1, unique=True).map(sorted).map(tuple),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    if prod(shape) > 300_000:
        return
    rows = data.draw(st.sampled_from([0, 1, 2047, 2048, 2049, 5000]))
    types = data.draw(
        st.tuples(
            *(st.sampled_from([np.uint8, np.uint16, np.uint32][size > 255 :]) for size in shape)
        )
    )
    columns = {
        axis: rng.integers(0, size, rows).astype(of)
        for axis, (size, of) in enumerate(zip(shape, types, strict=True))
    }
    before = {
        axes: rng.integers(0, 9, prod(shape[axis] for axis in axes), np.int64 if wide else np.int32)
        for axes in within
    }
    counts = {axes: cells.copy() for axes, cells in before.items()}
    with pytest.MonkeyPatch.context() as monkeypatch:
        use(monkeypatch, way)
        add_counts(columns, shape, {block: within}, counts)
    for axes, cells in counts.items():
        assert np.array_equal(cells, before[axes] + counted(columns, shape, axes))


@pytest.mark.parametrize("way", WAYS)
def test_every_block_is_counted_once(way, monkeypatch):
    # Columns of a table by rows are not contiguous.
    use(monkeypatch, way)
    rng = np.random.default_rng(0)
    shape = (2, 3, 4, 5)
    columns = {
        axis: rng.integers(0, size, 3000).astype(np.uint8) for axis, size in enumerate(shape)
    }
    blocks = {
        (0, 1, 2): [(0, 1), (1, 2), (0, 2)],
        (3,): [(3,)],
        (1, 2, 3): [(2, 3), (1, 2, 3)],
    }
    counts = {
        axes: np.zeros(prod(shape[axis] for axis in axes), np.int32)
        for within in blocks.values()
        for axes in within
    }
    for _ in range(2):
        add_counts(columns, shape, blocks, counts)
    for axes, cells in counts.items():
        assert np.array_equal(cells, 2 * counted(columns, shape, axes))


def test_nothing_is_counted_without_blocks():
    add_counts({}, (2,), {}, {})


def joined(rows):
    """Return columns of two marginals, as the loops have them, and the cells of each record."""
    rng = np.random.default_rng(rows)
    sizes = [(3, 300, 7), (5,)]
    columns = [
        [rng.integers(0, size, rows).astype(np.min_scalar_type(size)) for size in one]
        for one in sizes
    ]
    codes = np.zeros((2, rows), np.intp)
    for code, of, lengths in zip(codes, columns, sizes, strict=True):
        for column, size in zip(of, lengths, strict=True):
            code *= size
            code += column
    codes[1] += 6300
    return JoinedColumns(columns, sizes, rows), codes


@pytest.mark.skipif(counting.library() is None, reason="the loops are not compiled")
@pytest.mark.parametrize("rows", [0, 1, 2048, 5001])
def test_weights_are_added_as_numpy_adds_them(rows):
    """To the last bit: they are added in the order of the records."""
    columns, codes = joined(rows)
    weights = np.random.default_rng(0).random(rows)
    expected = np.bincount(codes.ravel(), weights=np.tile(weights, 2), minlength=6305)
    assert np.array_equal(columns.added(weights), expected)


@pytest.mark.skipif(counting.library() is None, reason="the loops are not compiled")
@pytest.mark.parametrize("rows", [0, 1, 2048, 5001])
def test_cells_are_looked_up_as_numpy_looks_them_up(rows):
    """To the last bit: they are added in the order of the marginals."""
    columns, codes = joined(rows)
    cells = np.random.default_rng(0).random(6305)
    assert np.array_equal(columns.looked_up(cells), cells[codes[0]] + cells[codes[1]])


def test_without_the_library_nothing_is_added(monkeypatch):
    monkeypatch.setattr(counting, "library", lambda: None)
    columns, _ = joined(3)
    assert columns.added(np.ones(3)) is None
    assert columns.looked_up(np.ones(6305)) is None


def test_each_record_needs_codes_and_a_weight_and_each_cell_a_number():
    with pytest.raises(ValueError, match="a code of each attribute"):
        JoinedColumns([[np.zeros(3, np.uint8), np.zeros(2, np.uint8)]], [(2, 2)], 3)
    columns, _ = joined(3)
    with pytest.raises(ValueError, match="3 numbers"):
        columns.added(np.ones(2))
    with pytest.raises(ValueError, match="6305 numbers"):
        columns.looked_up(np.ones(6304))
