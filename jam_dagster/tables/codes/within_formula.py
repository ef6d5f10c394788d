"""Numbers drawn again within their bins until a formula gives a number in its own bin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.within_bins import DrawnNumbers
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.computed_cells import Cells, Rows
from jam_dagster.tables.domain.derived import formatted_cells
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.formula import Formula

_ROUNDS = 300
_ROUNDS_OF_CODES = 30

_Codes = Mapping[str, npt.NDArray[Any]]
_Rows = npt.NDArray[np.intp]


def fit_formula(
    domain: Domain, codes: _Codes, one: Formula, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the codes of an attribute that its formula can give.

    A row in which 30 draws from the bins of the other cells give no number in the bin of its own
    gets the bin of the last draw, if the bounds hold it.
    """
    drawn = {
        name: DrawnNumbers.draw(attribute, codes[name], rng)
        for name in one.attributes
        if isinstance(attribute := domain.attribute(name), BinnedAttribute)
    }
    rows, numbers = _put(domain, codes, one, drawn, rng, _ROUNDS_OF_CODES)
    edges = drawn[one.attribute].attribute.edge_array
    held = (numbers >= edges[0]) & (numbers <= edges[-1])
    if not held.any():
        return codes[one.attribute]
    fitted = codes[one.attribute].copy()
    fitted[rows[held]] = _bins(edges, numbers[held])
    return fitted


def put_by_formula(
    domain: Domain,
    codes: _Codes,
    one: Formula,
    drawn: Mapping[str, DrawnNumbers],
    rng: np.random.Generator,
) -> None:
    """Put numbers where a formula has them, and draw its other cells again until it has them there.

    The numbers are those that would be drawn of the other cells if the formula gave a number in the
    bin of its own. Bins stay as they are: a row that 300 draws do not help keeps what was drawn.
    """
    _put(domain, codes, one, drawn, rng, _ROUNDS)


def _put(
    domain: Domain,
    codes: _Codes,
    one: Formula,
    drawn: Mapping[str, DrawnNumbers],
    rng: np.random.Generator,
    rounds: int,
) -> tuple[_Rows, npt.NDArray[np.float64]]:
    """Return the rows that are not fitted, and the numbers that the formula gives there."""
    own = drawn[one.attribute]
    scale, edges = own.attribute.scale, own.attribute.edge_array
    plan, formats = one.planned(domain), domain.formats
    rows = np.flatnonzero(
        np.logical_and.reduce(
            [~np.isin(codes[name], domain.attribute(name).missing_codes) for name in one.attributes]
        )
    )
    numbers = np.empty(0)
    for attempt in range(rounds):
        if attempt:
            for name in one.sources:
                if name in drawn:
                    drawn[name].draw_again(rows, rng)

        def read(name: str, rows: _Rows = rows) -> Cells:
            return formatted_cells(name, _column(domain, codes, drawn, name, rows), formats)

        found = plan.cells(Rows(0, len(rows), read, rng))
        given = found.values.astype(np.float64)
        # The dtype may round a number into the next bin, or beyond all bins.
        with np.errstate(over="ignore"):
            numbers = own.attribute.from_grid(given if scale is None else np.rint(given * scale))
        known = ~found.missing & ((scale is None) | (numbers == given))
        inside = known & (numbers >= edges[0]) & (numbers <= edges[-1])
        fits = inside & (_bins(edges, numbers) == own.bins[rows])
        own.put(rows[fits], numbers[fits])
        rows, numbers = rows[~fits], np.where(known, numbers, np.nan)[~fits]
        if not len(rows):
            break
    return rows, numbers


def _column(
    domain: Domain, codes: _Codes, drawn: Mapping[str, DrawnNumbers], name: str, rows: _Rows
) -> pd.Series[Any]:
    null = np.zeros(len(rows), dtype=bool)
    if name in drawn:
        return drawn[name].attribute.column_of(drawn[name].points[rows], null)
    return domain.attribute(name).column_of(codes[name][rows], null)


def _bins(edges: npt.NDArray[np.float64], numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    return np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
