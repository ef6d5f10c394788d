from itertools import combinations, pairwise
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError
from jam_dagster.tables import Domain, EncodedTable, marginal_blocks
from jam_dagster.tables.codes import marginals
from jam_dagster.tables.codes.marginals import MarginalCounter


def brute_force(table, clique):
    shape = [table.domain.sizes[name] for name in clique]
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, tuple(table.column(name).astype(np.intp) for name in clique), 1)
    return counts


def random_table(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes(sizes)
    return EncodedTable(domain, tuple(rng.integers(0, size, rows) for size in domain.shape))


def all_cliques(domain):
    return [
        clique for k in range(len(domain.names) + 1) for clique in combinations(domain.names, k)
    ]


@given(st.from_type(EncodedTable), st.data())
def test_marginals_are_those_of_brute_force(table, data):
    # Any of them, so that some are sums of others and some are not.
    cliques = data.draw(st.lists(st.sampled_from(all_cliques(table.domain)), unique=True))
    counted = table.marginals(cliques)
    assert list(counted) == cliques
    for clique in filter(None, cliques):
        assert counted[clique].dtype == np.int32
        assert np.array_equal(counted[clique], brute_force(table, clique))
        assert np.array_equal(table.marginal(clique), counted[clique])
    if () in cliques:
        assert counted[()].shape == ()
        assert counted[()] == table.records


@given(st.from_type(EncodedTable), st.lists(st.integers(0, 30), max_size=3))
def test_chunks_of_records_add_up(table, cuts):
    cliques = all_cliques(table.domain)
    counter = MarginalCounter(table.domain, cliques, records=table.records)
    limits = sorted({0, *(min(cut, table.records) for cut in cuts), table.records})
    for start, stop in pairwise(limits):
        counter.add([column[start:stop] for column in table.columns])
    whole = table.marginals(cliques)
    for clique, counts in counter.counts().items():
        assert np.array_equal(counts, whole[clique])


def test_chunks_wait_and_are_counted_in_blocks(monkeypatch):
    """Some are counted while others wait, in blocks of as many cells as their rows allow."""
    monkeypatch.setattr(marginals, "_LEAST_CELLS", 1)
    monkeypatch.setattr(marginals, "_ROWS_A_CELL", 4)
    monkeypatch.setattr(marginals, "_BLOCK_CELLS", 64)
    asked, counted = [], marginals.add_counts

    def add_counts(columns, shape, blocks, counts):
        asked.append((len(columns[0]), [prod(shape[axis] for axis in one) for one in blocks]))
        counted(columns, shape, blocks, counts)

    monkeypatch.setattr(marginals, "add_counts", add_counts)
    table = random_table({"a": 3, "b": 7, "c": 300, "d": 2, "e": 2}, rows=1000)
    cliques = [clique for clique in all_cliques(table.domain) if len(clique) < 3]
    counter = MarginalCounter(table.domain, cliques, records=None)
    for start in range(0, 1000, 90):
        counter.add([column[start : start + 90] for column in table.columns])
    for clique, counts in counter.counts().items():
        assert np.array_equal(counts, brute_force(table, clique) if clique else 1000)
    assert [rows for rows, _ in asked] == [540, 460]
    for rows, cells in asked:
        # Pairs with the column of 300 values are blocks by themselves; all others share few.
        assert sorted(one for one in cells if one > rows // 4) == [
            300 * size for size in (2, 2, 3, 7)
        ]
        assert len(cells) < 10


def test_counts_that_four_bytes_cannot_hold_take_eight():
    domain = Domain.from_sizes({"a": 2, "b": 2})
    codes = [np.zeros(1, dtype=np.uint8)] * 2
    for records, dtype in ((2**31 - 1, np.int32), (2**31, np.int64)):
        counter = MarginalCounter(domain, [("a", "b"), ("a",), ()], records=records)
        counter.add(codes)
        assert all(counts.dtype == dtype for counts in counter.counts().values())


def test_counts_widen_if_more_records_come_than_four_bytes_hold(monkeypatch):
    domain = Domain.from_sizes({"a": 2, "b": 2})
    counter = MarginalCounter(domain, [("a", "b"), ("a",), ()], records=None)
    monkeypatch.setattr(counter, "_seen", 2**31 - 1)
    assert {counts.dtype for counts in counter.counts().values()} == {np.dtype(np.int32)}
    counter.add([np.zeros(1, dtype=np.uint8)] * 2)
    counts = counter.counts()
    assert {one.dtype for one in counts.values()} == {np.dtype(np.int64)}
    assert (counts["a", "b"][0, 0], counts[()]) == (1, 2**31)


def test_marginals_inside_others_are_not_counted(monkeypatch):
    table = random_table({"a": 3, "b": 4, "c": 5}, rows=100)
    cliques = all_cliques(table.domain)[::-1]
    wanted = table.marginals(cliques)
    counted, add_counts = [], marginals.add_counts

    def noted(columns, shape, blocks, counts):
        counted.append(sorted(map(len, counts.values())))
        add_counts(columns, shape, blocks, counts)

    monkeypatch.setattr(marginals, "add_counts", noted)
    again = table.marginals(cliques)
    assert all(np.array_equal(again[clique], wanted[clique]) for clique in cliques)
    # A marginal of more cells than there are records is no help.
    table.take(range(30)).marginals(cliques)
    assert counted == [[60], [12, 15, 20, 60]]


@given(st.from_type(EncodedTable), st.integers(1, 60), st.randoms(use_true_random=False))
def test_blocks_hold_every_marginal_once_and_few_cells(table, cells, random):
    cliques = all_cliques(table.domain)
    random.shuffle(cliques)
    whole = table.marginals(cliques)
    blocks = list(marginal_blocks(table, iter(cliques), cells=cells))
    assert sorted(clique for block in blocks for clique in block) == sorted(cliques)
    for block in blocks:
        assert sum(counts.size for counts in block.values()) <= cells // 2 or len(block) == 1
        assert all(np.array_equal(counts, whole[clique]) for clique, counts in block.items())


def test_blocks_keep_common_prefixes_together():
    table = random_table(dict.fromkeys("abcd", 2), rows=5)
    cliques = list(combinations("abcd", 2))
    blocks = list(marginal_blocks(table, cliques[::-1], cells=24))
    assert [list(block) for block in blocks] == [cliques[:3], cliques[3:]]
    with pytest.raises(InputError, match="no attribute 'z'"):
        next(marginal_blocks(table, [("a", "z")]))


def test_an_empty_table_counts_zero():
    table = random_table({"a": 2, "b": 3}, rows=0)
    assert table.marginals([("a", "b"), ("b",), ()])["a", "b"].tolist() == [[0, 0, 0], [0, 0, 0]]


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
