"""Cells of a released CSV file that a spreadsheet would take for formulas.

A spreadsheet runs a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return, quoted or
not. To write such a text in another way would release a value that the domain does not have, and
whoever reads the file back would have to know; so a domain that holds one is refused instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import CategoricalAttribute
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.values import exact_number

_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")


def is_formula(cell: object) -> bool:
    """Whether a spreadsheet would take a cell for a formula: texts only, and no mere number.

    A single ``-``, which often stands for nothing known, is none either.
    """
    if not isinstance(cell, str) or not cell.startswith(_BEGINNINGS):
        return False
    return len(cell) > 1 and exact_number(cell) is None


def check_cells(domain: Domain) -> None:
    """Raise where a table over a domain would hold a formula.

    Raises
    ------
    DomainError
        It names the attribute and the value, and what to do. The domain must be no secret.
    """
    for name, cell in _cells(domain):
        if is_formula(cell):
            what = "its name" if cell is name else f"its value {cell!r}"
            raise DomainError(
                f"Attribute {name!r}: {what} would be run as a formula where the synthetic table"
                " is opened in a spreadsheet. Write it with another beginning in the domain and in"
                " the sources, such as a letter before it, or let it become the attribute's"
                " `other`. Nothing was charged."
            )


def _cells(domain: Domain) -> Iterator[tuple[str, object]]:
    for attribute in domain.attributes:
        yield attribute.name, attribute.name
        if isinstance(attribute, CategoricalAttribute):
            yield from ((attribute.name, value) for value in attribute.values)
