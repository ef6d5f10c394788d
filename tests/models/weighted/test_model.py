"""Weighted records: their marginals, samples and files, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.mechanisms import load_model
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import RecordCells, Support, public_records
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, PublicTables, Workload
from jam_dagster.tables.codes import counting
from tests.mechanisms.conftest import table

ROWS = [(1, 2, 0), (0, 0, 0), (0, 1, 1), (0, 0, 0), (1, 2, 0), (0, 0, 0)]


@pytest.fixture
def weighted(domain):
    support, counts = Support.of_records(table(domain, ROWS))
    return WeightedTable(support, 12.0, np.log(counts), (("a", "b"),))


def test_distinct_records_come_in_order_with_their_counts(domain):
    support, counts = Support.of_records(table(domain, ROWS))
    assert np.stack(support.table.columns, 1).tolist() == [[0, 0, 0], [0, 1, 1], [1, 2, 0]]
    assert counts.tolist() == [3, 1, 2]
    assert not support.whole


def test_the_whole_domain_is_every_possible_record(domain):
    assert Support.of_domain(domain).size == 12
    holes = Domain(
        domain.attributes,
        (
            ImpossibleCombination(("a", "c"), ((0,), (1,))),
            ImpossibleCombination(("b",), ((1,),)),
        ),
    )
    support = Support.of_domain(holes)
    rows = set(map(tuple, np.stack(support.table.columns, 1).tolist()))
    assert rows == {(a, b, c) for a in (0, 1) for b in (0, 2) for c in (0, 1) if (a, c) != (0, 1)}


def test_impossible_public_records_are_left_out(domain):
    holes = Domain(domain.attributes, (ImpossibleCombination(("b",), ((0,),)),))
    _, counts = Support.of_records(EncodedTable(holes, table(domain, ROWS).columns))
    assert counts.tolist() == [1, 2]
    with pytest.raises(DomainError, match="declares impossible"):
        Support.of_records(EncodedTable(holes, table(domain, ROWS[1:2]).columns))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_marginals_are_those_of_the_records_as_often_as_they_weigh(domain, weighted, degree):
    twice = table(domain, ROWS * 2)
    cliques = Workload.all_k_way(domain, degree).cliques
    for clique, answer in weighted.marginals(cliques).items():
        np.testing.assert_allclose(answer, twice.marginal(clique), rtol=1e-14)
    np.testing.assert_array_equal(weighted.marginal(("b", "a")), weighted.marginal(("a", "b")).T)
    assert weighted.marginal(()) == pytest.approx(12.0)
    assert weighted.records == 12


def test_without_a_cache_marginals_are_the_same(weighted, monkeypatch):
    monkeypatch.setattr("jam_dagster.models.weighted.support._HELD_BYTES", 0)
    again = WeightedTable(Support(weighted.support.table), 12.0, weighted.log_weights)
    for _ in range(2):
        np.testing.assert_array_equal(again.marginal(("a", "c")), weighted.marginal(("a", "c")))
    assert not again.support._codes


@pytest.mark.parametrize("compiled", [True, False])
def test_cells_of_records_follow_one_another(weighted, compiled, monkeypatch):
    """Records are (0, 0, 0), (0, 1, 1) and (1, 2, 0); b has 3 values."""
    if not compiled:
        monkeypatch.setattr(counting, "library", lambda: None)
    cells = RecordCells(weighted.support, [("b", "a"), ("c",)])
    assert cells.added(np.array([1.0, 2.0, 4.0])).tolist() == [1, 0, 2, 0, 0, 4, 5, 2]
    assert cells.looked_up(np.arange(8.0) ** 2).tolist() == [0 + 36, 4 + 49, 25 + 36]


@pytest.mark.parametrize("names", [("a", "a"), ("nobody",)])
def test_marginals_of_unknown_or_repeated_attributes_are_refused(weighted, names):
    with pytest.raises(InputError):
        weighted.marginal(names)


def test_a_marginal_that_is_too_large_is_refused_before_it_is_made():
    wide = Domain.from_sizes(dict.fromkeys("abcd", 200))
    support, _ = Support.of_records(EncodedTable(wide, tuple(np.array([0]) for _ in "abcd")))
    with pytest.raises(InputError, match="ask for fewer attributes"):
        support.marginal(tuple("abcd"), np.ones(1))


def test_counts_of_samples_are_within_two_of_their_expectation(domain):
    rng = np.random.default_rng(0)
    support = Support.of_domain(domain)
    model = WeightedTable(support, 1.0, np.log(rng.dirichlet(np.full(12, 0.3))))
    for rows in (1, 7, 1000):
        sampled = model.sample(rows, rng)
        assert sampled.records == rows
        counts = sampled.marginal(domain.names).ravel()
        assert np.abs(counts - model.probabilities * rows).max() < 2
        assert np.abs(sampled.marginal(("a",)) - model.marginal(("a",)) * rows).max() < 2


def test_records_without_weight_are_never_sampled(domain):
    support = Support.of_domain(domain)
    logs = np.full(12, -np.inf)
    logs[[3, 7]] = [-800.0, -801.0]
    model = WeightedTable(support, 5.0, logs)
    assert model.probabilities[3] == pytest.approx(1 / (1 + np.exp(-1)))
    counts = model.sample(5_000, np.random.default_rng(0)).marginal(domain.names).ravel()
    assert np.flatnonzero(counts).tolist() == [3, 7]


@pytest.mark.parametrize("rows", [0, -1, 2.5])
def test_no_rows_are_refused(weighted, rows):
    with pytest.raises(InputError, match="at least 1"):
        weighted.sample(rows, np.random.default_rng(0))


@pytest.mark.parametrize("whole", [False, True])
def test_a_stored_model_is_the_same_bit_for_bit(domain, weighted, whole, tmp_path):
    if whole:
        logs = np.random.default_rng(0).normal(0, 300, 12)
        logs[4] = -np.inf
        weighted = WeightedTable(Support.of_domain(domain), 7.5, logs, (("a",), ("b", "c")))
    weighted.save(tmp_path)
    read = load_model(tmp_path)
    assert isinstance(read, WeightedTable)
    assert (read.total, read.cliques) == (weighted.total, weighted.cliques)
    assert read.domain.digest == domain.digest
    assert read.support.whole == whole
    for degree in (1, 2, 3):
        for clique in Workload.all_k_way(domain, degree).cliques:
            assert read.marginal(clique).tobytes() == weighted.marginal(clique).tobytes()
    one, other = (model.sample(50, np.random.default_rng(1)) for model in (read, weighted))
    assert [c.tolist() for c in one.columns] == [c.tolist() for c in other.columns]


def test_a_domain_that_is_too_large_is_refused_with_the_remedy():
    wide = Domain.from_sizes(dict.fromkeys("abcde", 30))
    with pytest.raises(SpecificationError, match=r"2\.43e\+07 cells, more than .* such as tilt"):
        Support.of_domain(wide)


def test_what_has_no_records_in_memory_cannot_be_weighed(domain, public):
    assert public_records(domain, public) is public
    part = EncodedTable(domain.project(("a", "b")), public.columns[:2])
    for tables in ({"part": part}, {"one": public, "two": public}):
        with pytest.raises(DomainError, match="one public table, with all attributes"):
            public_records(domain, PublicTables(domain, tables))
    support, counts = Support.of_records(public)
    with pytest.raises(DomainError, match="in memory"):
        public_records(domain, WeightedTable(support, 4.0, np.log(counts)))
