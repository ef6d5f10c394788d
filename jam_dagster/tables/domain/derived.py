"""Derived columns of a synthetic table: computed from the other cells of a row.

An expression is arithmetic (``+ - * / // %``) on numbers, texts and columns; a column whose name
is no identifier is ``col("its name")``. A text and a text are joined by ``+``. Functions:

- ``year``, ``quarter``, ``month``, ``week`` (ISO's), ``day``, ``hour``, ``minute`` and ``weekday``
  (Monday is 0) of a date, a timestamp, or a text in its attribute's format or ISO's, in a zone that
  may be named: ``hour(start, "America/New_York")``
- ``date`` and ``timestamp`` of the same: the day, and the time that clocks of the zone show
- ``text(x)``, and ``text(x, 3)`` with zeros in front up to three characters
- ``text(start, "%Y-%m")`` of a date, and ``%q`` for the quarter
- ``text(x, "#,##0.00")`` of a number (see `NumberFormat`), and ``number(x)`` of a text: the number
  that it writes, in its attribute's format if there is one; of a boolean 1 or 0
- ``round(x, 2)``, ``log(x)``, ``log10(x)``, ``exp(x)``, ``sqrt(x)``
- ``after(x, n)``: n days after a date or timestamp, and ``after(x, n, "hour")``;
  ``between(x, y, "day")``: the whole days between two; the units are from second to week
- ``compared(x, y)``: ``<``, ``=`` or ``>``, or ``null`` where one is missing, for ``values``
- ``clock_minutes(x)`` of a time written as 1730: minutes past midnight; ``clock_time(x)``: the
  time so many minutes past midnight, past any number of days; ``clock_time(x, 2400)`` writes
  midnight as 2400
- ``row()``, the number of the row from 1, and ``uuid()``, a random UUID, for keys

A cell without a value is missing: one that depends on a missing cell, a division by zero, a whole
number beyond 2^53, a text longer than 1,000 characters, a text that a spreadsheet would run as a
formula, the parts of a text that is no date. A verifier evaluates the
expressions of files that nobody vouches for, so their length, depth and results are bounded.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.cell_functions import is_number_format
from jam_dagster.tables.domain.columns import missing_in, numbers_of
from jam_dagster.tables.domain.computed_cells import (
    DTYPES,
    TIME_DTYPE,
    Cells,
    Rows,
    as_instants,
    looked_up,
    read_cells,
    typed,
    zone_of,
)
from jam_dagster.tables.domain.expressions import (
    Tree,
    columns_of,
    evaluated,
    is_random,
    parsed,
    written_format,
)
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.values import (
    LARGEST_INTEGER,
    Value,
    check_name,
    kind_of,
    plain_value,
    short_number,
    text_of,
)

_MOST_COLUMNS = 1000
_MOST_TEXT = 2**30
Formats = Mapping[str, str | NumberFormat]
"""How columns write dates or numbers as texts, by name."""
_NONE: Formats = {}
# Rows that are computed at once, which bounds the memory needed in addition to the table.
_ROWS = 2**16


@dataclass(frozen=True)
class DerivedColumn:
    """A column of the synthetic table that is no attribute.

    Parameters
    ----------
    name
        The column's name.
    expression
        How it is computed (see `jam_dagster.tables.domain.derived`), or the table in which it is
        looked up. A number or a boolean is its value in every row; None: the column is missing in
        every row.
    dtype
        The column's pandas dtype, one that has missing values; None: by the expression.
    values
        What stands for each value of the expression, such as labels for codes: pairs of its text
        and a value, all texts, numbers or booleans. One that is not listed is missing. Nothing: the
        expression's own values.
    at_least
        What its numbers are not below in public rows. It changes no row: a row below it breaks a
        rule. None: anything.
    """

    name: str
    expression: Value | Lookup | None
    dtype: str | None = None
    values: tuple[tuple[str, Value], ...] = ()
    at_least: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.expression is not None and not isinstance(self.expression, Lookup):
            plain = plain_value(self.name, self.expression)
            if isinstance(plain, int) and abs(plain) > LARGEST_INTEGER:
                raise DomainError(f"derived column {self.name!r} is an integer beyond 2^53")
            object.__setattr__(self, "expression", plain)
        if self.dtype is not None and not isinstance(self.dtype, str):
            raise DomainError(f"the dtype of derived column {self.name!r} must be a text")
        listed = tuple((text_of(key), plain_value(self.name, one)) for key, one in self.values)
        object.__setattr__(self, "values", listed)
        found = [one for _, one in listed]
        if kind_of(found) == "mixed" or any(
            isinstance(one, int) and abs(one) > LARGEST_INTEGER for one in found
        ):
            raise DomainError(
                f"the values of derived column {self.name!r} must be all texts, all booleans, or"
                " all numbers up to 2^53"
            )
        if len({key for key, _ in listed}) < len(listed):
            raise DomainError(f"derived column {self.name!r} lists a value twice: remove one")
        if self.at_least is not None:
            numbers = isinstance(self.expression, str) and not listed
            if not numbers or not math.isfinite(self.at_least):
                raise DomainError(
                    f"at_least of derived column {self.name!r} must be a number, of an expression"
                    " without values: correct or remove it"
                )

    def canonical_form(self) -> list[Any]:
        """Return what identifies the column in the domain's digest."""
        how = self.expression.to_entry() if isinstance(self.expression, Lookup) else self.expression
        least = [] if self.at_least is None else [self.at_least]
        return [self.name, how, self.dtype, list(map(list, self.values)), *least]

    @property
    def described(self) -> str:
        """How it is computed, in words."""
        if self.expression is None:
            return "missing"
        least = "" if self.at_least is None else f", at least {short_number(self.at_least)}"
        return f"{self.expression}{' by its values' if self.values else ''}{least}"

    def to_entry(self) -> Any:
        """Return the column as a domain file has it."""
        rest: dict[str, Any] = {"dtype": self.dtype} if self.dtype else {}
        if isinstance(self.expression, Lookup):
            return self.expression.to_entry() | rest
        rest |= {"values": dict(self.values)} if self.values else {}
        rest |= {} if self.at_least is None else {"at_least": short_number(self.at_least)}
        return {"expression": self.expression} | rest if rest else self.expression


@dataclass(frozen=True)
class PlannedColumn:
    """A derived column ready to be computed: its name, what computes it, and its dtype.

    With `if_known` it is an attribute, which follows from the other cells only if all are known.
    """

    name: str
    tree: Any
    dtype: str
    values: Mapping[str, Value]
    described: str
    if_known: bool = False
    at_least: float | None = None

    @property
    def sources(self) -> set[str]:
        """The columns from which it follows; none if it is a constant or a key."""
        return columns_of(self.tree)

    @property
    def is_determined(self) -> bool:
        """Whether it follows from other columns alone: no constant, no key and nothing random."""
        return bool(self.sources) and not is_random(self.tree)

    def cells(self, rows: Rows) -> Cells:
        """Return the cells in rows."""
        found = evaluated(self.tree, rows)
        return looked_up(found, self.values) if self.values else found

    def where_known(self, dtype: str) -> PlannedColumn:
        """Return it as what an attribute of numbers is, in its dtype, if all cells are known."""
        if self.dtype not in (DTYPES["integer"][0], DTYPES["number"][0]):
            raise DomainError(f"the formula of {self.name!r} gives no number: correct it")
        dtype = dtype if dtype in DTYPES["number"] else self.dtype
        return replace(self, dtype=dtype, if_known=True)


def planned(
    attributes: Sequence[Attribute], derived: Sequence[DerivedColumn]
) -> tuple[PlannedColumn, ...]:
    """Return derived columns in an order in which they can be computed, with their dtypes."""
    if len(derived) > _MOST_COLUMNS:
        raise DomainError(f"the domain has more than {_MOST_COLUMNS:,} derived columns")
    known = {one.name: one for one in attributes}
    trees: dict[str, Tree] = {}
    for one in derived:
        if one.name in known or one.name in trees:
            raise DomainError(
                f"column {one.name!r} is derived, and an attribute or derived once more: remove one"
            )
        is_text = isinstance(one.expression, str)
        trees[one.name] = parsed(one.name, str(one.expression)) if is_text else one.expression
    waiting = {name: columns_of(tree) for name, tree in trees.items()}
    for name, read in waiting.items():
        for column in read - known.keys() - trees.keys():
            near = difflib.get_close_matches(column, [*known, *trees], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "declare it, or correct the name"
            raise DomainError(
                f"derived column {name!r} reads {column!r}, which is neither an attribute nor"
                f" derived: {hint}"
            )
    declared = {one.name: one for one in derived}
    formats = formats_of(attributes, derived)
    read_by_any = set().union(*waiting.values()) & known.keys()
    examples = {name: _example(known[name]) for name in read_by_any}
    plan: list[PlannedColumn] = []
    while waiting:
        ready = [name for name, read in waiting.items() if not read & waiting.keys()]
        if not ready:
            raise DomainError(
                f"derived columns depend on one another in a circle: {', '.join(waiting)}"
            )
        for name in ready:
            del waiting[name]
            plan.append(_planned(declared[name], trees[name], examples, formats))
            one_row = pd.DataFrame(index=range(1))
            examples[name], _ = _computed(plan[-1], one_row, examples, _rng(), 0, formats)
    return tuple(plan)


def reproduces(
    expression: Value, column: pd.Series[Any], table: pd.DataFrame, *, gaps: bool = False
) -> bool:
    """Return whether an expression over a table gives a column, missing cells included.

    With `gaps` one may be missing where the other is not.
    """
    tree: Tree = parsed("", expression) if isinstance(expression, str) else expression
    rows = Rows(0, len(table), lambda name: read_cells(name, table[name]), _rng())
    found, wanted = evaluated(tree, rows), read_cells(str(column.name), column)
    kinds = {"integer": "number"}
    alike = kinds.get(found.kind, found.kind) == kinds.get(wanted.kind, wanted.kind)
    either = found.missing | wanted.missing if gaps else wanted.missing
    same = (found.values == wanted.values) | either if alike else np.array(False)
    if gaps:
        return bool(same.all())
    # A value that no expression can read, such as an integer beyond 2^53, is equal to nothing.
    known = wanted.missing == missing_in(column)
    return bool(same.all()) and bool((known & (found.missing == wanted.missing)).all())


def recomputed(
    expression: str, column: pd.Series[Any], table: pd.DataFrame, formats: Formats = _NONE
) -> pd.Series[Any]:
    """Return a column as an expression over a table gives it, in the column's dtype."""

    def read(name: str) -> Cells:
        return formatted_cells(name, table[name], formats)

    name = str(column.name)
    cells = evaluated(parsed(name, expression), Rows(0, len(table), read, _rng()))
    dtype: Any = column.dtype
    found = typed(name, cells, DTYPES[cells.kind][0]).astype(dtype)
    return pd.Series(found.array, index=column.index, name=name)


def holds(expression: Value, name: str, sample: pd.DataFrame, table: pd.DataFrame) -> bool:
    """Return whether an expression gives a column in a sample and in the whole table."""
    try:
        return all(reproduces(expression, rows[name], rows) for rows in (sample, table))
    except DomainError:
        return False


def broken_rows(
    one: PlannedColumn, table: pd.DataFrame, formats: Formats = _NONE, before: int = 0
) -> npt.NDArray[np.bool_]:
    """Return the rows in which a derived column is not what the other cells make of it.

    Nor may its number be below the least one. The rows come after `before` others.
    """

    def read(name: str) -> Cells:
        return formatted_cells(name, table[name], formats)

    rows = Rows(before, len(table), read, _rng())
    if isinstance(one.tree, Lookup):
        return one.tree.broken(rows, read_cells(one.name, table[one.name]), one.dtype)
    # Given its dtype first, which may round it.
    wanted = read_cells(one.name, typed(one.name, one.cells(rows), one.dtype))
    found = read_cells(one.name, table[one.name])
    known: npt.NDArray[np.bool_] = ~wanted.missing & ~found.missing
    differs: npt.NDArray[np.bool_] = known & (wanted.values != found.values)
    if not one.if_known:
        differs |= wanted.missing != found.missing
    if one.at_least is not None:
        written = formats.get(one.name)
        numbers = numbers_of(
            table[one.name], written if isinstance(written, NumberFormat) else None
        )
        differs |= numbers < one.at_least
    return differs


def formats_of(
    attributes: Iterable[Attribute], derived: Iterable[DerivedColumn] = ()
) -> dict[str, str | NumberFormat]:
    """Return the formats in which attributes and derived columns write dates or numbers."""
    # The dates alone: others are of durations.
    formats: dict[str, str | NumberFormat] = {
        one.name: one.format if one.dated else NumberFormat(one.format)
        for one in attributes
        if one.format and (not one.dated or "%" in one.format)
    }
    for one in derived:
        if isinstance(one.expression, str) and not one.values:
            written = written_format(parsed(one.name, one.expression))
            if written is not None:
                number = is_number_format(written)
                formats[one.name] = NumberFormat(written) if number else written
    return formats


def formatted_cells(name: str, column: pd.Series[Any], formats: Formats) -> Cells:
    """Return the cells of a column, whose texts are dates if it has a format."""
    cells = read_cells(name, column)
    return replace(cells, format=formats[name]) if name in formats else cells


def instants(column: pd.Series[Any], formats: Formats = _NONE) -> pd.Series[Any]:
    """Return the dates, timestamps or texts of a column as timestamps in their zone or UTC."""
    cells = as_instants(formatted_cells(str(column.name), column, formats))
    index = pd.DatetimeIndex(np.where(cells.missing, np.datetime64("NaT", "us"), cells.values))
    index = index if cells.zone is None else index.tz_localize("UTC").tz_convert(cells.zone)
    found: pd.Series[Any] = pd.Series(index, index=column.index, name=column.name)
    return found


def with_derived(
    table: pd.DataFrame,
    plan: Iterable[PlannedColumn],
    order: Sequence[str],
    rng: np.random.Generator,
    before: int = 0,
    formats: Formats = _NONE,
) -> pd.DataFrame:
    """Return rows, which come after `before` others, with their derived columns, in an order."""
    columns = {str(name): table[name] for name in table.columns}
    length = 0
    for one in plan:
        columns[one.name], letters = _computed(one, table, columns, rng, before, formats)
        length += letters
        if length > _MOST_TEXT:
            raise DomainError("derived columns hold more than a billion letters together")
    return pd.DataFrame({name: columns[name] for name in order}, index=table.index)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _example(attribute: Attribute) -> pd.Series[Any]:
    """Return a column of one value as an attribute decodes to."""
    if kind_of(attribute.listed) == "mixed":
        return pd.Series([()])
    dtype = dtype_of(str(attribute.dtype))
    zero = Decimal(0) if isinstance(dtype, pd.ArrowDtype) else 0
    value = attribute.listed[0] if attribute.listed else None if dtype == "object" else zero
    example: pd.Series[Any] = pd.Series([value]).astype(dtype)
    return example


def _planned(
    declared: DerivedColumn,
    tree: Tree,
    examples: Mapping[str, pd.Series[Any]],
    formats: Formats,
) -> PlannedColumn:
    name, dtype = declared.name, declared.dtype

    def read(column: str) -> Cells:
        return formatted_cells(column, examples[column].iloc[:1], formats)

    rows = Rows(0, 1, read, _rng())
    plan = PlannedColumn(
        *(name, tree, dtype or "", dict(declared.values), declared.described),
        at_least=declared.at_least,
    )
    cells = plan.cells(rows)
    if dtype is None:
        if cells.kind == "nothing" and tree is not None:
            raise DomainError(f"derived column {name!r} needs a dtype: declare it")
        zone = "" if cells.zone is None else f", {cells.zone}"
        dtype = f"datetime64[us{zone}]" if cells.kind == "time" else DTYPES[cells.kind][0]
        return replace(plan, dtype=dtype)
    time = TIME_DTYPE.fullmatch(dtype) if cells.kind in ("time", "nothing") else None
    if time and time[1]:
        zone_of(time[1])
    if not time and dtype not in DTYPES[cells.kind]:
        allowed = ", ".join(DTYPES[cells.kind]) or "datetime64[us]"
        raise DomainError(
            f"derived column {name!r} cannot have dtype {dtype!r}: use {allowed}, or leave it out"
        )
    return plan


def _computed(
    one: PlannedColumn,
    table: pd.DataFrame,
    columns: Mapping[str, pd.Series[Any]],
    rng: np.random.Generator,
    before: int = 0,
    formats: Formats = _NONE,
) -> tuple[pd.Series[Any], int]:
    """Return a column, and the number of letters of its texts."""
    parts, length = [], 0
    for start in range(0, max(len(table), 1), _ROWS):
        count = min(_ROWS, len(table) - start)

        def read(name: str, rows: slice = slice(start, start + count)) -> Cells:
            return formatted_cells(name, columns[name].iloc[rows], formats)

        cells = one.cells(Rows(before + start, count, read, rng))
        if cells.kind == "text":
            length += sum(map(len, cells.values))
            if length > _MOST_TEXT:
                raise DomainError(f"derived column {one.name!r} holds more than a billion letters")
        parts.append(typed(one.name, cells, one.dtype))
    column: pd.Series[Any] = parts[0] if len(parts) == 1 else pd.concat(parts)
    column.index = table.index
    return column, length
