"""Rows of a synthetic table that are like others, whose values these may take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.domain.domain import Domain

_LARGEST_TABLE = 2**20
_FRACTION = 2**20
_SAMPLE = 5000


def alike_rows(
    columns: Sequence[npt.NDArray[Any]],
    donors: npt.NDArray[np.intp],
    rows: npt.NDArray[np.intp],
    rng: np.random.Generator,
    *,
    least: int = 1,
) -> npt.NDArray[np.intp]:
    """Return for each row a random one of the donors, at least one, that has the same codes.

    `columns` are codes of all rows, the most important column first. If a row has fewer than
    `least` donors that agree in all, the last columns are left out.
    """
    # Records with equal codes in the first columns have equal numbers.
    given, wanted = [np.zeros(len(donors), np.intp)], [np.zeros(len(rows), np.intp)]
    for column in columns:
        both = np.concatenate([given[-1], wanted[-1]]) * (int(column.max(initial=0)) + 1)
        both += np.concatenate([column[donors], column[rows]])
        both = np.unique(both, return_inverse=True)[1]
        given.append(both[: len(donors)])
        wanted.append(both[len(donors) :])
    found = np.full(len(rows), -1, dtype=np.intp)
    for numbers, sought in zip(given[::-1], wanted[::-1], strict=True):
        waiting = np.flatnonzero(found < 0)
        if not len(waiting):
            break
        order = np.argsort(numbers, kind="stable")
        first = np.searchsorted(numbers[order], sought[waiting], side="left")
        last = np.searchsorted(numbers[order], sought[waiting], side="right")
        chosen = first + np.floor(rng.random(len(waiting)) * (last - first)).astype(np.intp)
        enough = last - first >= (least if numbers is not given[0] else 1)
        found[waiting[enough]] = donors[order[chosen[enough]]]
    return found


def most_dependent(
    domain: Domain,
    codes: Mapping[str, npt.NDArray[np.intp]],
    names: Collection[str],
    others: Collection[str],
    rows: npt.NDArray[np.intp],
) -> list[str]:
    """Return which of `others` predict `names` in some rows, the best first.

    As in Goodman and Kruskal's tau, the score is how often another row that agrees on the attribute
    has the same value. It is that of a sample of 5,000 rows: wide tables have many pairs of
    attributes. The sums are of integers, the same on every machine.
    """
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
    scores = []
    for index, other in enumerate(domain.names):
        if other not in others:
            continue
        score, counted = 0, 0
        for name in names:
            cells = domain.sizes[other] * domain.sizes[name]
            if cells > _LARGEST_TABLE:
                continue
            counted += 1
            paired = codes[other][rows] * domain.sizes[name] + codes[name][rows]
            table = np.bincount(paired, minlength=cells).reshape(-1, domain.sizes[name])
            total = table.sum(axis=1)
            again = total > 1
            pairs = (table[again] ** 2).sum(axis=1) - total[again]
            score += int((pairs * _FRACTION // (total[again] - 1)).sum())
        if counted:
            scores.append((-score, index))
    return [domain.names[index] for _, index in sorted(scores)]
