"""Cells of a released CSV file that a spreadsheet would take for formulas.

A spreadsheet runs a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return, quoted or
not. An escaped text would be a value outside the domain, and every reader of the file would have to
undo the escape; so a domain with a formula is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import CategoricalAttribute
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.values import exact_number

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")


def is_formula(cell: object) -> bool:
    """Return whether a spreadsheet would take a cell for a formula: only texts, and no numbers.

    A single ``-``, a common mark of a missing value, is no formula either.
    """
    if not isinstance(cell, str) or not cell.startswith(_BEGINNINGS):
        return False
    return len(cell) > 1 and exact_number(cell) is None


def check_cells(domain: Domain) -> None:
    """Raise if a table over a domain could hold a formula.

    Raises
    ------
    DomainError
        The message names the attribute, the value and the remedy: the domain must not be secret.
    """
    for name, cell in _cells(domain):
        if is_formula(cell):
            what = "its name" if cell is name else f"its value {cell!r}"
            raise DomainError(
                f"Attribute {name!r}: {what} would run as a formula if the synthetic table is"
                " opened in a spreadsheet. Give it another first character in the domain and in"
                " the sources, such as a letter, or let it become the attribute's"
                " `other`. Nothing was charged."
            )


def _cells(domain: Domain) -> Iterator[tuple[str, object]]:
    for attribute in domain.attributes:
        yield attribute.name, attribute.name
        if isinstance(attribute, CategoricalAttribute):
            yield from ((attribute.name, value) for value in attribute.values)
