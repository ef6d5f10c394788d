import time
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError, OutsideDomainError
from jam_dagster.tables import Domain, EncodedTable, Workload, encoded


def brute_force(table, clique):
    shape = [table.domain.sizes[name] for name in clique]
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(table.column(name).astype(np.intp) for name in clique), 1)
    return counts


def random_table(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes(sizes)
    return EncodedTable(domain, tuple(rng.integers(0, size, rows) for size in domain.shape))


@given(st.from_type(EncodedTable))
def test_marginals_are_those_of_brute_force(table):
    cliques = [
        clique
        for k in range(len(table.domain.names) + 1)
        for clique in combinations(table.domain.names, k)
    ]
    counted = table.marginals(cliques[::-1])
    assert list(counted) == cliques[::-1]
    for clique in cliques[1:]:
        assert counted[clique].dtype == np.int64
        assert np.array_equal(counted[clique], brute_force(table, clique))
        assert np.array_equal(table.marginal(clique), counted[clique])
    assert counted[()].shape == ()
    assert counted[()] == table.records


def test_blocks_of_rows_and_large_marginals_add_up(monkeypatch):
    monkeypatch.setattr(encoded, "_BLOCK_ROWS", 64)
    monkeypatch.setattr(encoded, "_BLOCK_CELLS", 40)
    table = random_table({"a": 3, "b": 7, "c": 300, "d": 2}, rows=1000)
    for clique, counts in table.marginals([("a", "b", "c"), ("a", "b"), ("a", "d"), ()]).items():
        assert np.array_equal(counts, brute_force(table, clique) if clique else 1000)


def test_columns_take_the_smallest_type_and_are_read_only():
    table = random_table({"a": 2, "b": 256, "c": 257, "d": 70_000}, rows=10)
    assert [str(column.dtype) for column in table.columns] == ["uint8", "uint8", "uint16", "uint32"]
    with pytest.raises(ValueError, match="read-only"):
        table.columns[0][0] = 1


def test_the_caller_keeps_an_array_to_write_to():
    codes = np.zeros(3, dtype=np.uint8)
    EncodedTable(Domain.from_sizes({"a": 2}), (codes,))
    codes[0] = 1


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (([0, 1],), InputError, "as many columns"),
        (([0, 1], [0]), InputError, "equally long"),
        (([0, 1], [0.0, 1.0]), InputError, "'b' must be a one-dimensional integer"),
        (([0, 1], [[0], [1]]), InputError, "'b' must be a one-dimensional integer"),
        (([0, 2], [0, 1]), OutsideDomainError, "'a' must lie in 0 to 1"),
        (([0, -1], [0, 1]), OutsideDomainError, "'a' must lie in 0 to 1"),
    ],
)
def test_columns_that_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        EncodedTable(Domain.from_sizes({"a": 2, "b": 3}), tuple(map(np.array, columns)))


def test_frames_go_there_and_back():
    table = random_table({"b": 3, "a": 300}, rows=20)
    frame = table.to_frame()
    assert list(frame.columns) == ["b", "a"]
    shuffled = frame[["a", "b"]].assign(extra="x", b=frame["b"].astype("Int64"))
    again = EncodedTable.from_frame(table.domain, shuffled)
    assert all(map(np.array_equal, table.columns, again.columns))


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({"a": [0]}), InputError, "no column 'b'"),
        (pd.DataFrame([[0, 0, 1]], columns=["a", "b", "b"]), InputError, "'b' twice"),
        (pd.DataFrame({"a": [0], "b": [0.0]}), InputError, "'b' .* integers"),
        (pd.DataFrame({"a": [0], "b": [True]}), InputError, "'b' .* integers"),
        (
            pd.DataFrame({"a": [0], "b": pd.array([None], dtype="Int64")}),
            InputError,
            "'b' .* integers",
        ),
        (pd.DataFrame({"a": [0], "b": [7]}), OutsideDomainError, "'b' must lie in 0 to 2"),
    ],
)
def test_frames_that_are_refused(frame, error, message):
    with pytest.raises(error, match=message):
        EncodedTable.from_frame(Domain.from_sizes({"a": 2, "b": 3}), frame)


def test_take_by_indices_and_by_mask():
    table = random_table({"a": 5}, rows=6)
    assert table.take([5, 0]).columns[0].tolist() == table.columns[0][[5, 0]].tolist()
    mask = np.arange(6) % 2 == 0
    assert table.take(mask).records == 3
    assert table.take([]).records == 0


def test_an_empty_table_counts_zero():
    table = random_table({"a": 2, "b": 3}, rows=0)
    assert table.records == 0
    assert table.marginal(("a", "b")).tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    ("clique", "message"),
    [
        (("b", "a"), "not in the order of the domain"),
        (("a", "a"), "not in the order of the domain"),
        (("a", "z"), "no attribute 'z'"),
        (("a", "b", "c"), "8,000,000,000 cells"),
    ],
)
def test_marginals_that_are_refused(clique, message):
    table = random_table({"a": 2000, "b": 2000, "c": 2000}, rows=5)
    with pytest.raises(InputError, match=message):
        table.marginal(clique)


@pytest.mark.parametrize("split", ["adult_pub025_01", "titanic", "salary"])
def test_the_papers_splits_count_right(jam_data, split):
    folder = jam_data / "paper" / split
    domain = Domain.load(folder / "domain.json")
    public = EncodedTable.from_frame(domain, pd.read_csv(folder / "pub.csv"))
    cliques = Workload.all_k_way(domain, 3).downward_closure()
    counted = public.marginals(cliques)
    for clique in cliques[::37]:
        assert np.array_equal(counted[clique], brute_force(public, clique))


def test_counting_adults_575_marginals_is_quick(jam_data):
    folder = jam_data / "paper" / "adult_pub025_01"
    domain = Domain.load(folder / "domain.json")
    private = EncodedTable.from_frame(domain, pd.read_csv(folder / "priv.csv"))
    cliques = Workload.all_k_way(domain, 3).downward_closure()
    start = time.process_time()
    counted = private.marginals(cliques)
    seconds = time.process_time() - start
    assert len(counted) == 575
    # About 0.05 s; one np.add.at a marginal takes several.
    assert seconds < 1.0
