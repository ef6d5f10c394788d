"""Missing cells of synthetic records, put in the rows where a column may be missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.missing_where import MissingWhere

_Codes = dict[str, npt.NDArray[np.intp]]

_MOST_ALIKE = 3
_SAMPLE = 5000
_LARGEST_TABLE = 2**20
_FRACTION = 2**20


def place_missing(
    domain: Domain, codes: _Codes, one: MissingWhere, rng: np.random.Generator
) -> None:
    """Make an attribute missing where a constraint has it, and nowhere else.

    If rows may be missing and need not be, as many become so as were missing elsewhere. A row
    that is no longer missing gets the value of a row that is like it.
    """
    name, column = one.attribute, codes[one.attribute]
    null = domain.attribute(name).null_code
    assert null is not None  # noqa: S101  # the domain has checked it
    missing, there = column == null, one.rows(codes[one.where])
    wanted = there.copy()
    if not one.exactly:
        free = np.flatnonzero(there & ~missing)
        number = min(int((missing & ~there).sum()), len(free))
        wanted &= missing
        wanted[rng.permutation(free)[:number]] = True
    if np.array_equal(missing, wanted):
        return
    filled = np.flatnonzero(missing & ~wanted)
    if len(filled) and not missing.all():
        column = column.copy()
        column[filled] = _values_alike(domain, codes, name, filled, ~missing, rng)
    else:
        wanted |= missing
    codes[name] = np.where(wanted, null, column)


def _values_alike(
    domain: Domain,
    codes: _Codes,
    name: str,
    rows: npt.NDArray[np.intp],
    known: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> npt.NDArray[np.intp]:
    """Return values for rows, each that of a random row with the same other codes.

    The codes are those of the three attributes on which the value depends most; of fewer, where
    no row has all of them.
    """
    donors = np.flatnonzero(known)
    own = codes[name][donors]
    alike = _most_dependent(domain, codes, name, donors)
    found = np.full(len(rows), -1, dtype=np.intp)
    for number in range(len(alike), -1, -1):
        waiting = np.flatnonzero(found < 0)
        if not len(waiting):
            break
        shape = tuple(domain.sizes[other] for other in alike[:number])
        # A record is named by the numbers of its codes, which may have more cells than an integer.
        given, wanted = np.zeros(len(donors), np.intp), np.zeros(len(waiting), np.intp)
        for other, size in zip(alike[:number], shape, strict=True):
            both = np.concatenate([given, wanted]) * size
            both += np.concatenate([codes[other][donors], codes[other][rows[waiting]]])
            both = np.unique(both, return_inverse=True)[1]
            given, wanted = both[: len(donors)], both[len(donors) :]
        order = np.argsort(given, kind="stable")
        first = np.searchsorted(given[order], wanted, side="left")
        last = np.searchsorted(given[order], wanted, side="right")
        chosen = first + np.floor(rng.random(len(waiting)) * (last - first)).astype(np.intp)
        some = last > first
        found[waiting[some]] = own[order[chosen[some]]]
    return found


def _most_dependent(
    domain: Domain, codes: _Codes, name: str, rows: npt.NDArray[np.intp]
) -> list[str]:
    """Return the attributes by which another row predicts the value of an attribute best.

    The score, as in Goodman and Kruskal's tau, is how often it has the same value if it agrees on
    the other attribute, in a sample of some rows. The sums are of integers, the same on every
    machine.
    """
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, _SAMPLE).astype(np.intp))]
    own, size = codes[name][rows], domain.sizes[name]
    scores = []
    for place, other in enumerate(domain.names):
        cells = domain.sizes[other] * size
        if other == name or cells > _LARGEST_TABLE:
            continue
        table = np.bincount(codes[other][rows] * size + own, minlength=cells).reshape(-1, size)
        total = table.sum(axis=1)
        again = total > 1
        pairs = (table[again] ** 2).sum(axis=1) - total[again]
        scores.append((-int((pairs * _FRACTION // (total[again] - 1)).sum()), place))
    return [domain.names[place] for _, place in sorted(scores)[:_MOST_ALIKE]]
