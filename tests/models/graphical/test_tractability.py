"""The filter that is kept from round to round against the definition, and against mbi."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.models.graphical import tractability
from jam_dagster.models.graphical.junction_tree import cells_of, mask_of, triangulate
from jam_dagster.models.graphical.mbi_bridge import load_mbi
from jam_dagster.models.graphical.tractability import BLOCK_BYTES, TractabilityFilter
from jam_dagster.tables import Domain, Workload
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from tests.examples import examples
from tests.tiers import by_jax

MB = 8 / 2**20


@st.composite
def domains(draw, largest=8, widest=6):
    sizes = draw(st.lists(st.integers(1, widest), min_size=1, max_size=largest))
    # One value alone cannot be impossible; the first code of each attribute is, where declared.
    free = Domain.from_sizes({f"a{i}": size for i, size in enumerate(sizes)})
    cliques = draw(st.lists(cliques_of(free), max_size=2))
    return Domain(
        free.attributes,
        impossible=tuple(
            ImpossibleCombination(clique, tuple((0,) for _ in clique))
            for clique in cliques
            if free.size(clique) > 1
        ),
    )


def cliques_of(domain, longest=3):
    names = st.sets(st.sampled_from(domain.names), min_size=1, max_size=longest)
    return names.map(domain.canonical)


def closure(domain, longest=3):
    return [c for length in range(1, longest + 1) for c in combinations(domain.names, length)]


def size_mb(domain, cliques):
    masks = [mask_of(domain.positions[name] for name in clique) for clique in cliques]
    # Of a junction tree that no memory would hold, too.
    return sum(cells_of(one, domain.shape) for one in triangulate(domain.shape, masks)) * MB


def tractable(domain, candidates, measured, limit_mb):
    """The definition: the junction tree of the model with each candidate."""
    model = [*measured, *domain.impossible_masks()]
    return [
        number
        for number, candidate in enumerate(candidates)
        if any(set(candidate) <= set(clique) for clique in model)
        or size_mb(domain, [*model, candidate]) <= limit_mb
    ]


@st.composite
def runs(draw):
    """A domain, candidates, and rounds of measured cliques with a limit each.

    Limits lie at, or a cell below, the size of some model, where an error of one cell shows.
    """
    domain = draw(domains())
    candidates = draw(st.lists(cliques_of(domain, longest=4), max_size=6)) + closure(domain)
    measured: list = []
    rounds = []
    for clique in draw(st.lists(cliques_of(domain), max_size=5)):
        rounds.append(list(measured))
        measured.append(clique)
    rounds.append(measured)
    model = list(domain.impossible_masks())
    limits = [
        size_mb(domain, [*model, *now, draw(st.sampled_from(candidates))])
        - draw(st.sampled_from([0, MB]))
        for now in rounds
    ]
    return domain, candidates, list(zip(rounds, limits, strict=True))


@pytest.mark.parametrize("loops", ["numpy", "c"])
@given(run=runs())
@examples(40)
def test_a_filter_kept_over_rounds_equals_the_definition(loops, run):
    domain, candidates, rounds = run
    kept = TractabilityFilter(domain, candidates)
    for measured, limit in rounds:
        expected = tractable(domain, candidates, measured, limit)
        with without_c() if loops == "numpy" else nullcontext():
            assert kept.fitting(measured, limit) == expected
        # The same model with other limits: sizes that were abandoned are taken up again.
        for other in (limit / 2, limit * 2):
            assert kept.fitting(measured, other) == tractable(domain, candidates, measured, other)


@given(runs(), st.randoms(use_true_random=False))
@examples(30)
def test_rounds_may_come_in_any_order(run, random):
    domain, candidates, rounds = run
    random.shuffle(rounds)
    kept = TractabilityFilter(domain, candidates)
    for measured, limit in rounds:
        expected = tractable(domain, candidates, measured, limit)
        # Some may be asked for first, in any order.
        some = random.sample(range(len(candidates)), random.randint(0, len(candidates)))
        assert kept.fitting(measured, limit, some) == sorted({*some} & {*expected})
        assert kept.fitting(measured, limit) == expected


@given(domains(largest=9, widest=7), st.data())
@examples(50)
@by_jax
def test_sizes_equal_mbi(domain, data):
    mbi = load_mbi()

    measured = data.draw(st.lists(cliques_of(domain), max_size=6))
    candidate = data.draw(cliques_of(domain))
    theirs = mbi.junction_tree.hypothetical_model_size(
        mbi.Domain(domain.names, domain.shape),
        [*measured, *domain.impossible_masks(), candidate],
    )
    kept = TractabilityFilter(domain, [candidate])
    inside = any(set(candidate) <= set(c) for c in (*measured, *domain.impossible_masks()))
    assert kept.fitting(measured, theirs) == [0]
    assert kept.fitting(measured, theirs - MB) == ([0] if inside else [])


@pytest.mark.parametrize("size", [2, 3])
def test_one_tree_is_not_triangulated(size):
    """With one value in the middle attribute it goes first, and its neighbours get an edge."""
    domain = Domain.from_sizes({"b": 1, "a": 1, "c": 1, "d": size})
    candidates = closure(domain, 2)
    kept = TractabilityFilter(domain, candidates)
    measured: list = []
    for clique in [("b", "a"), ("b", "c"), ("b", "d")]:
        for limit in range(3 * size + 3):
            expected = tractable(domain, candidates, measured, limit * MB)
            assert kept.fitting(measured, limit * MB) == expected
        measured.append(clique)


def without_c():
    return mock.patch.object(tractability, "library", return_value=None)


@pytest.mark.parametrize(("attributes", "limit"), [(80, 0.3), (80, 1.2), (200, 0.3)])
def test_loops_in_c_and_in_numpy_find_the_same_sizes(attributes, limit):
    rng = np.random.default_rng(attributes)
    sizes = rng.choice([2, 8, 40], attributes)
    domain = Domain.from_sizes({f"a{i}": int(size) for i, size in enumerate(sizes)})

    def drawn(count, *parts):
        some = ([rng.choice(part) for part in parts] for _ in range(count))
        return [domain.canonical([f"a{i}" for i in {*one}]) for one in some]

    # Hubs have more neighbours than floats can count cells of, until these are eliminated.
    few, many = np.arange(attributes - 4, attributes), np.arange(attributes)
    measured = drawn(attributes * 3 // 4, few, many)
    candidates = [*drawn(200, many, many), *drawn(200, many, many, many)]
    found = []
    for context in (nullcontext(), without_c()):
        kept = TractabilityFilter(domain, candidates)
        with context:
            fitting = [kept.fitting(measured[:now], limit) for now in (0, 30, attributes)]
        assert max(kept._graph.cost_at[0]) >= 2**53
        found.append((fitting, kept._within[kept._exact].tolist(), kept._exact.tolist()))
    assert found[0] == found[1]
    assert 0 < len(found[0][0][2]) < len(found[0][0][0])


@pytest.mark.slow
@pytest.mark.parametrize("attributes", [64, 65, 130])
def test_many_attributes(attributes):
    rng = np.random.default_rng(attributes)
    sizes = rng.integers(1, 9, attributes)
    domain = Domain.from_sizes({f"a{i}": int(size) for i, size in enumerate(sizes)})
    drawn = [rng.choice(attributes, 3, replace=False) for _ in range(75)]
    cliques = [domain.canonical([f"a{i}" for i in three]) for three in drawn]
    candidates, measured = cliques[:25], cliques[25:]
    kept = TractabilityFilter(domain, candidates)
    for now in (15, 40, 50):
        limits = [size_mb(domain, [*measured[:now], candidate]) for candidate in candidates]
        limit = float(np.median(limits))
        fitting = kept.fitting(measured[:now], limit)
        assert fitting == tractable(domain, candidates, measured[:now], limit)
        assert 0 < len(fitting) < len(candidates)


def test_more_candidates_than_advance_side_by_side(monkeypatch):
    monkeypatch.setattr("jam_dagster.models.graphical.tractability.BLOCK_BYTES", BLOCK_BYTES >> 13)
    domain = Domain.from_sizes({f"a{i}": 2 + i % 3 for i in range(7)})
    candidates = list(Workload.all_k_way(domain, 3).downward_closure())
    measured = [("a0", "a1"), ("a1", "a2"), ("a2", "a3"), ("a4", "a5")]
    kept = TractabilityFilter(domain, candidates)
    for limit in range(0, 120, 10):
        expected = tractable(domain, candidates, measured, limit * MB)
        assert kept.fitting(measured, limit * MB) == expected


def test_cells_beyond_exact_floats_fit_no_limit():
    domain = Domain.from_sizes({f"a{i}": 1000 for i in range(6)})
    candidates = [("a0", "a1"), tuple(domain.names[:5]), tuple(domain.names)]
    kept = TractabilityFilter(domain, candidates)
    assert kept.fitting([], float("inf")) == [0, 1]
    assert kept.fitting([tuple(domain.names)], float("inf")) == [0, 1, 2]


def test_no_candidates_and_no_limit():
    domain = Domain.from_sizes({"a": 2, "b": 3})
    assert TractabilityFilter(domain, []).fitting([], 1.0) == []
    assert TractabilityFilter(domain, [("a",), ("a", "b")]).fitting([("a",)], 0.0) == [0]


@pytest.fixture
def wide():
    return Domain.from_sizes({"a": 10, "b": 20, "c": 30, "d": 2})


def test_limit_counts_the_whole_junction_tree(wide):
    candidates = [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]
    # Alone, (a, b) makes a model of 200 + 30 + 2 cells, (b, c) one of 600 + 10 + 2.
    assert TractabilityFilter(wide, candidates).fitting([], 232 * MB) == [0, 1]
    assert TractabilityFilter(wide, candidates).fitting([], 612 * MB) == [0, 1, 2]
    assert TractabilityFilter(wide, candidates).fitting([], 61 * MB) == []
    # Beside (a, b), (b, c) makes 200 + 600 + 2.
    assert TractabilityFilter(wide, candidates).fitting([("a", "b")], 801 * MB) == [0, 1]
    assert TractabilityFilter(wide, candidates).fitting([("a", "b")], 802 * MB) == [0, 1, 2]


def test_what_lies_inside_a_clique_of_the_model_is_always_tractable(wide):
    candidates = [("a",), ("a", "b"), ("a", "c"), ("a", "d")]
    assert TractabilityFilter(wide, candidates).fitting([("a", "b", "c")], 0.0) == [0, 1, 2]


def test_impossible_combinations_count_toward_the_size(wide):
    fixed = ImpossibleCombination(("b", "c"), ((0,), (0,)))
    constrained = Domain(wide.attributes, impossible=(fixed,))
    # (a, d) beside the fixed zeros over (b, c): 600 + 20 cells.
    assert TractabilityFilter(constrained, [("a", "d")]).fitting([], 619 * MB) == []
    assert TractabilityFilter(constrained, [("a", "d")]).fitting([], 620 * MB) == [0]
