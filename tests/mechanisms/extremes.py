"""The worst that noise may say: measurements as no table gives them, for any fit and any run."""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st

from jam_dagster.models.base import Model
from jam_dagster.models.graphical.model import possible_cells
from jam_dagster.tables import Clique, Domain, ImpossibleCombination

LARGEST = 9 * 10**18
"""Noise answers in whole numbers of 64 bits, which end here."""

COUNTS = st.sampled_from(
    [sign * size for size in (0, 1, 50, 10**6, 10**12, LARGEST) for sign in (1, -1)]
) | st.integers(-LARGEST, LARGEST)

SIGMAS = st.sampled_from([1e-3, 1.0, 50.0, 1e6, 1e12])

TOTALS = st.sampled_from([1, 2, 50, 10**7])

PLAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 1, "d": 2})
"""An attribute of one value lies in it, as in many a table."""

DOMAINS = (
    PLAIN,
    Domain(PLAIN.attributes, (ImpossibleCombination(("a", "b"), ((0,), (0, 2))),)),
    Domain(
        PLAIN.attributes,
        (
            ImpossibleCombination(("b",), ((1,),)),
            ImpossibleCombination(("a", "c", "d"), ((1,), (0,), (0,))),
        ),
    ),
)


def marginals(size: int) -> st.SearchStrategy[list[int]]:
    """Return what noise may say of so many cells: anything, all alike, or all alike but one."""
    return st.one_of(
        st.lists(COUNTS, min_size=size, max_size=size),
        COUNTS.map(lambda count: [count] * size),
        st.tuples(COUNTS, COUNTS, st.integers(0, size - 1)).map(
            lambda said: [said[0] if cell == said[2] else said[1] for cell in range(size)]
        ),
    )


@cache
def possible(domain: Domain, clique: Clique) -> np.ndarray:
    """Return which cells of a marginal can hold anybody."""
    return possible_cells(domain, clique)


def check_model(model: Model, domain: Domain, total: float, cliques: list[Clique]) -> None:
    """Fail unless a model's marginals are a distribution of so many records."""
    for clique in cliques:
        answer = model.marginal(clique)
        assert np.isfinite(answer).all(), clique
        assert answer.min() >= 0, clique
        np.testing.assert_allclose(answer.sum(), total, rtol=1e-6)
        assert not answer[~possible(domain, clique)].any(), clique


def check_rows(model: Model, domain: Domain, rows: int) -> None:
    """Fail unless a model samples so many rows, all of them possible."""
    table = model.sample(rows, np.random.default_rng(0))
    assert table.records == rows
    assert possible(domain, domain.names)[tuple(table.columns)].all()
