"""Search for the sensitivity of a statistic over random neighbours.

A search can only show that a sensitivity is at least as large as what it found; finding exactly
the claimed value, and never more, is what the tests ask for.

A table is the array of its counts over all cells of its domain (int64, shape of the domain), for
nothing that is searched depends on the order of the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
from hypothesis import settings

from jam_dagster.mechanisms.jam_pgm import Candidate, scores
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy import REPLACE_ONE, Neighbours
from tests.examples import PER_TEST

Joint = np.ndarray
Statistic = Callable[[Joint], np.ndarray | float]

RELATIONS = (
    REPLACE_ONE,
    Neighbours("add_remove"),
    Neighbours("replace_one", 3),
    Neighbours("add_remove", 3),
)


def candidate_scores(
    current: np.ndarray, public: np.ndarray, cells: np.ndarray, sigma: float
) -> np.ndarray:
    """Return JAM-PGM's scores of marginals, and of those that public tables have.

    `public` has a row a table, NaN for a marginal that it lacks.
    """
    cliques = [(str(number),) for number in range(len(current))]
    tables = {
        str(row): {q: error for q, error in zip(cliques, errors, strict=True) if error == error}
        for row, errors in enumerate(np.atleast_2d(public).tolist())
    }
    candidates = [Candidate(clique) for clique in cliques]
    candidates += [Candidate(clique, name) for name in tables for clique in tables[name]]
    expected = MEAN_ABSOLUTE_NORMAL * sigma * np.asarray(cells)
    return scores(
        candidates,
        dict(zip(cliques, current, strict=True)),
        dict(zip(cliques, expected, strict=True)),
        tables,
    )


def person(shape: Sequence[int], rows: int, rng: np.random.Generator) -> Joint:
    """Return the records of one person, at most `rows`: often all in one cell, which is worst."""
    number = rows if rng.random() < 0.7 else int(rng.integers(1, rows + 1))
    cells = rng.integers(math.prod(shape), size=1 if rng.random() < 0.7 else number)
    counts = np.bincount(np.resize(cells, number), minlength=math.prod(shape))
    return counts.reshape(shape)


def neighbours(
    sizes: Sequence[int],
    *,
    records: int,
    pairs: int,
    rng: np.random.Generator,
    relation: Neighbours = REPLACE_ONE,
) -> Iterator[tuple[Joint, Joint]]:
    """Yield pairs of tables that differ in one person.

    Tables go from uniform to almost constant, since extremes are often reached on tables where
    all the mass sits in one cell.

    Parameters
    ----------
    sizes
        Cells of each attribute.
    records
        Records of the other people.
    pairs
        How many pairs.
    rng
        Where the randomness comes from.
    relation
        Which tables are neighbours.
    """
    cells = math.prod(sizes)
    for _ in range(pairs):
        concentration = 10.0 ** rng.uniform(-2, 1)
        others = rng.multinomial(records - 1, rng.dirichlet(np.full(cells, concentration)))
        others = others.reshape(sizes)
        table = others + person(sizes, relation.max_rows, rng)
        other = others
        if relation.relation == "replace_one":
            other = others + person(sizes, relation.max_rows, rng)
        yield (table, other) if rng.random() < 0.5 else (other, table)


def marginal(joint: Joint, attributes: Sequence[int]) -> np.ndarray:
    """Return the counts of one marginal; `attributes` are in order."""
    return joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in attributes))


def largest_change(
    draw_statistic: Callable[[np.random.Generator], Statistic],
    sizes: Sequence[int],
    *,
    records: int = 12,
    pairs: int = 2_000,
    norm: Literal["max", "l1", "l2"] = "max",
    seed: int = 0,
    relation: Neighbours = REPLACE_ONE,
) -> float:
    """Return by how much a statistic was seen to move between neighbours.

    Parameters
    ----------
    draw_statistic
        Gives the statistic for one pair of neighbours; whatever else it depends on (a model, a
        public table) is drawn here, from the generator, and is the same for both tables.
    sizes
        Sizes of the attributes of the tables to try.
    records, pairs, relation
        As for `neighbours`; `make test` tries a quarter of many pairs.
    norm
        How the change of a vector is measured; for scores, ``"max"``.
    seed
        Of the search.
    """
    rng = np.random.default_rng(seed)
    pairs = max(min(pairs, 500), pairs * min(settings.default.max_examples, PER_TEST) // PER_TEST)
    largest = 0.0
    for table, other in neighbours(sizes, records=records, pairs=pairs, rng=rng, relation=relation):
        statistic = draw_statistic(rng)
        change = np.abs(np.ravel(np.asarray(statistic(table)) - np.asarray(statistic(other))))
        found = {"max": np.max, "l1": np.sum, "l2": lambda x: np.sqrt(np.sum(x**2))}[norm](change)
        largest = max(largest, float(found))
    return largest
