"""Cells of a released CSV file that a spreadsheet would take for formulas.

A spreadsheet runs a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return, quoted or
not, and some run one that begins with the full-width form of such a sign. If a language
separates fields by semicolons, or a program by tabs, a part of a text can become a cell, without
the quotes that it begins with. A byte order mark at the start of a file is dropped. An escaped
text would be a value outside the domain, and every reader of the file would have to undo the
escape; so a domain with a formula is refused instead. A derived text that is one is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.values import is_formula

_SHOWN = 5


def check_cells(domain: Domain, *, commas: bool = False) -> None:
    """Raise if a table over a domain could hold a formula; the error names all of them.

    With `commas` the table's file has another separator; see `is_formula`.
    """
    found = [
        f"{what} {name!r}: {' and '.join(texts)}"
        for what, name, cells in _columns(domain)
        if (texts := _formulas(name, cells, commas))
    ]
    if found:
        more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        raise DomainError(
            f"Texts that would run as a formula if the synthetic table is opened in a spreadsheet:"
            f" {'; '.join(found[:_SHOWN])}{more}. Give each another first character in the domain"
            " and in the sources, such as a letter; a value may become the attribute's `other`."
            " Nothing was charged."
        )


def _formulas(name: str, cells: Sequence[object], commas: bool) -> list[str]:
    runs = partial(is_formula, commas=commas)
    values = [repr(one) for one in cells if runs(one)]
    more = [f"{len(values) - _SHOWN:,} more"] if len(values) > _SHOWN else []
    shown = [", ".join([*values[:_SHOWN], *more])] if values else []
    return [*(["its name"] if runs(name) else []), *(f"its values {one}" for one in shown)]


def _columns(domain: Domain) -> Iterator[tuple[str, str, Sequence[object]]]:
    """Yield the columns of the released tables, with all texts that their cells are made of."""
    children = domain.children
    tables = {"": domain.roots}
    if children is not None:
        tables[f" of table {children.link.table}"] = children.domain
        yield "key", children.link.column, ()
    for table, its in tables.items():
        for attribute in its.attributes:
            yield f"attribute{table}", attribute.name, (*attribute.listed, attribute.format)
        yield from ((f"derived column{table}", one.name, ()) for one in its.derived)
