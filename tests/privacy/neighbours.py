"""Search for the sensitivity of a statistic over random replace-one neighbours.

A search can only show that a sensitivity is at least as large as what it found; finding exactly
the claimed value, and never more, is what the tests ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np

Rows = np.ndarray  # int64, shape (records, attributes): codes
Statistic = Callable[[Rows], np.ndarray | float]


def neighbours(
    sizes: Sequence[int], *, records: int, pairs: int, rng: np.random.Generator
) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs of coded tables that differ in one row.

    Tables go from uniform to almost constant, since extremes are often reached on tables where
    all the mass sits in one cell.
    """
    for _ in range(pairs):
        concentration = 10.0 ** rng.uniform(-2, 1)
        columns = [
            rng.choice(size, records, p=rng.dirichlet(np.full(size, concentration)))
            for size in sizes
        ]
        table = np.stack(columns, axis=1)
        other = table.copy()
        other[rng.integers(records)] = [rng.integers(size) for size in sizes]
        yield table, other


def marginal(rows: Rows, sizes: Sequence[int], attributes: Sequence[int]) -> np.ndarray:
    """Count one marginal directly, cell by cell."""
    counts = np.zeros([sizes[i] for i in attributes], dtype=np.int64)
    np.add.at(counts, tuple(rows[:, i] for i in attributes), 1)
    return counts


def largest_change(
    draw_statistic: Callable[[np.random.Generator], Statistic],
    sizes: Sequence[int],
    *,
    records: int = 12,
    pairs: int = 2_000,
    norm: Literal["max", "l1", "l2"] = "max",
    seed: int = 0,
) -> float:
    """Return by how much a statistic was seen to move between neighbours.

    Parameters
    ----------
    draw_statistic
        Gives the statistic for one pair of neighbours; whatever else it depends on (a model, a
        public table) is drawn here, from the generator, and is the same for both tables.
    sizes
        Sizes of the attributes of the tables to try.
    records, pairs
        Rows of a table, and how many pairs to try.
    norm
        How the change of a vector is measured; for scores, ``"max"``.
    seed
        Of the search.
    """
    rng = np.random.default_rng(seed)
    largest = 0.0
    for table, other in neighbours(sizes, records=records, pairs=pairs, rng=rng):
        statistic = draw_statistic(rng)
        change = np.abs(np.ravel(np.asarray(statistic(table)) - np.asarray(statistic(other))))
        found = {"max": np.max, "l1": np.sum, "l2": lambda x: np.sqrt(np.sum(x**2))}[norm](change)
        largest = max(largest, float(found))
    return largest
