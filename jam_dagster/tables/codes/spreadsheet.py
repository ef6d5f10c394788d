"""Cells of a released CSV file that a spreadsheet would take for formulas.

A spreadsheet runs a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return, quoted or
not, and some run one that begins with the full-width form of such a sign. Where a language
separates fields by semicolons, or a program by tabs, a part of a text can become a cell, without
the quotes that it begins with. A byte order mark at the start of a file is dropped. An escaped
text would be a value outside the domain, and every reader of the file would have to undo the
escape; so a domain with a formula is refused instead. A derived text that is one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.values import is_formula


def check_cells(domain: Domain) -> None:
    """Raise if a table over a domain could hold a formula."""
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
    yield from ((one.name, one.name) for one in domain.derived)
