"""Missing cells of synthetic records, put in the rows where a column may be missing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.codes.alike import alike_rows, most_dependent
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.missing_where import MissingWhere

_Codes = dict[str, npt.NDArray[np.intp]]

_MOST_ALIKE = 3


def place_missing(
    domain: Domain, codes: _Codes, one: MissingWhere, rng: np.random.Generator
) -> None:
    """Make an attribute missing where a constraint has it, and nowhere else.

    If rows may be missing and need not be, as many become so as were missing elsewhere. A row
    that is no longer missing gets the value of a row with the same codes of the three attributes on
    which the value depends most; of fewer, if no row has all of them.
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
        known = np.flatnonzero(~missing)
        others = [other for other in domain.names if other != name]
        alike = most_dependent(domain, codes, [name], others, known)[:_MOST_ALIKE]
        donors = alike_rows([codes[other] for other in alike], known, filled, rng)
        column[filled] = codes[name][donors]
    else:
        wanted |= missing
    codes[name] = np.where(wanted, null, column)
