"""Derived columns of a synthetic table: computed from the other cells of a row.

An expression is arithmetic (``+ - * / // %``) on numbers, texts and columns; a column whose name
is no identifier is ``col("its name")``. A text and a text are joined by ``+``. Functions:

- ``year``, ``month``, ``day``, ``hour``, ``minute`` and ``weekday`` (Monday is 0) of a date, a
  timestamp or an ISO text, in a zone that may be named: ``hour(start, "America/New_York")``
- ``text(x)``, and ``text(x, 3)`` with zeros in front up to three characters
- ``round(x, 2)``
- ``row()``, the number of the row from 1, and ``uuid()``, a random UUID, for keys

What has no value is missing: what depends on a missing cell, a division by zero, a whole number
beyond 2^53, a text longer than 1,000 characters, a text that a spreadsheet would run as a formula,
the parts of a text that is no date. A verifier evaluates the
expressions of files that nobody vouches for, so their length, depth and results are bounded.
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import Attribute, CategoricalAttribute
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.values import (
    LARGEST_INTEGER,
    Value,
    check_name,
    is_formula,
    kind_of,
    plain_value,
    text_of,
)
from jam_dagster.tables.sources.columns import each_value, missing_in

_MOST_COLUMNS = 1000
_MOST_CHARACTERS = 500
_MOST_DEPTH = 30
_MOST_WIDTH = 100
_LONGEST_TEXT = 1000
_MOST_TEXT = 2**30
# Rows that are computed at once, which bounds what lies in memory beside the table.
_ROWS = 2**16

_INTEGERS = tuple(f"{sign}Int{bits}" for bits in (64, 32, 16, 8) for sign in ("", "U"))
_FLOATS = ("float64", "float32", "Float64", "Float32")
_TEXTS = ("str", "string", "object")
_DTYPES = {
    "integer": (*_INTEGERS, *_FLOATS),
    "number": (*_FLOATS, *_INTEGERS),
    "text": _TEXTS,
    "boolean": ("boolean", "object"),
    "time": (),
    "nothing": ("object", *_INTEGERS, *_FLOATS, "str", "string", "boolean"),
}
_TIME_DTYPE = re.compile(r"datetime64\[(?:s|ms|us|ns)(?:, ([A-Za-z0-9_+/-]{1,64}))?\]", re.ASCII)
ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.(?:\d{3}|\d{6}))?)?"
    r"(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
# Each part of a date, and what pandas calls it.
PARTS = {one: one for one in ("year", "month", "day", "hour", "minute")}
PARTS["weekday"] = "day_of_week"
_FIRST, _LAST = np.datetime64("0002-01-01", "us"), np.datetime64("9998-12-31", "us")


@dataclass(frozen=True)
class DerivedColumn:
    """A column of the synthetic table that is no attribute.

    Parameters
    ----------
    name
        The column's name.
    expression
        How it is computed (see `jam_dagster.tables.domain.derived`). A number or a boolean stands
        for itself in every row; None: the column is missing in every row.
    dtype
        The column's pandas dtype, one that has missing values; None: by the expression.
    """

    name: str
    expression: Value | None
    dtype: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.expression is not None:
            plain = plain_value(self.name, self.expression)
            if isinstance(plain, int) and abs(plain) > LARGEST_INTEGER:
                raise DomainError(f"derived column {self.name!r} is an integer beyond 2^53")
            object.__setattr__(self, "expression", plain)
        if self.dtype is not None and not isinstance(self.dtype, str):
            raise DomainError(f"the dtype of derived column {self.name!r} must be a text")


@dataclass(frozen=True)
class _Column:
    name: str


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[Any, ...]


_Tree = _Column | _Call | Value | None


@dataclass(frozen=True)
class PlannedColumn:
    """A derived column ready to be computed: its name, what computes it, and its dtype."""

    name: str
    tree: Any
    dtype: str


@dataclass(frozen=True)
class _Cells:
    """Values of one kind, and where they are missing; instants are in UTC."""

    kind: str
    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]
    zone: tzinfo | None = None


@dataclass(frozen=True)
class _Rows:
    """The rows that are computed at once."""

    start: int
    count: int
    columns: Callable[[str], _Cells]
    rng: np.random.Generator


def planned(
    attributes: Sequence[Attribute], derived: Sequence[DerivedColumn]
) -> tuple[PlannedColumn, ...]:
    """Return derived columns in an order in which they can be computed, with their dtypes."""
    if len(derived) > _MOST_COLUMNS:
        raise DomainError(f"the domain has more than {_MOST_COLUMNS:,} derived columns")
    known = {one.name: one for one in attributes}
    trees: dict[str, _Tree] = {}
    for one in derived:
        if one.name in known or one.name in trees:
            raise DomainError(
                f"column {one.name!r} is derived, and an attribute or derived once more: remove one"
            )
        is_text = isinstance(one.expression, str)
        trees[one.name] = _parsed(one.name, str(one.expression)) if is_text else one.expression
    waiting = {name: _columns_of(tree) for name, tree in trees.items()}
    for name, read in waiting.items():
        for column in read - known.keys() - trees.keys():
            near = difflib.get_close_matches(column, [*known, *trees], n=1)
            hint = f"did you mean {near[0]!r}?" if near else "declare it, or correct the name"
            raise DomainError(
                f"derived column {name!r} reads {column!r}, which is neither an attribute nor"
                f" derived: {hint}"
            )
    declared = {one.name: one.dtype for one in derived}
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
            plan.append(_planned(name, trees[name], declared[name], examples))
            examples[name] = _computed(plan[-1], pd.DataFrame(index=range(1)), examples, _rng())
    return tuple(plan)


def reproduces(expression: Value, column: pd.Series[Any], table: pd.DataFrame) -> bool:
    """Return whether an expression over a table gives a column, missing cells included."""
    tree = _parsed("", expression) if isinstance(expression, str) else expression
    rows = _Rows(0, len(table), lambda name: _read(name, table[name]), _rng())
    found, wanted = _cells(tree, rows), _read(str(column.name), column)
    kinds = {"integer": "number"}
    alike = kinds.get(found.kind, found.kind) == kinds.get(wanted.kind, wanted.kind)
    same = (found.values == wanted.values) | wanted.missing if alike else np.array(False)
    return bool(same.all()) and bool((found.missing == wanted.missing).all())


def instants(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the dates, timestamps or ISO texts of a column as timestamps in their zone or UTC."""
    cells = _as_instants(_read(str(column.name), column))
    index = pd.DatetimeIndex(np.where(cells.missing, np.datetime64("NaT", "us"), cells.values))
    index = index if cells.zone is None else index.tz_localize("UTC").tz_convert(cells.zone)
    found: pd.Series[Any] = pd.Series(index, index=column.index, name=column.name)
    return found


def with_derived(
    table: pd.DataFrame,
    plan: Iterable[PlannedColumn],
    order: Sequence[str],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return a table of attributes with its derived columns, in an order of all columns."""
    columns = {str(name): table[name] for name in table.columns}
    for one in plan:
        columns[one.name] = _computed(one, table, columns, rng)
    return pd.DataFrame({name: columns[name] for name in order}, index=table.index)


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _example(attribute: Attribute) -> pd.Series[Any]:
    """Return a column of one value as an attribute decodes to."""
    dtype = dtype_of(str(attribute.dtype))
    if isinstance(attribute, CategoricalAttribute):
        if kind_of(attribute.values) == "mixed":
            return pd.Series([()])
        listed: pd.Series[Any] = pd.Series(list(attribute.values[:1]), dtype=dtype)
        return listed
    example: pd.Series[Any] = pd.Series([None if dtype == "object" else 0]).astype(dtype)
    return example


def _planned(
    name: str, tree: _Tree, dtype: str | None, examples: Mapping[str, pd.Series[Any]]
) -> PlannedColumn:
    rows = _Rows(0, 1, lambda column: _read(column, examples[column].iloc[:1]), _rng())
    cells = _cells(tree, rows)
    if dtype is None:
        if cells.kind == "nothing" and tree is not None:
            raise DomainError(f"derived column {name!r} needs a dtype: declare it")
        zone = "" if cells.zone is None else f", {cells.zone}"
        dtype = f"datetime64[us{zone}]" if cells.kind == "time" else _DTYPES[cells.kind][0]
        return PlannedColumn(name, tree, dtype)
    time = _TIME_DTYPE.fullmatch(dtype) if cells.kind in ("time", "nothing") else None
    if time and time[1]:
        _zone(time[1])
    if not time and dtype not in _DTYPES[cells.kind]:
        allowed = ", ".join(_DTYPES[cells.kind]) or "datetime64[us]"
        raise DomainError(
            f"derived column {name!r} cannot have dtype {dtype!r}: use {allowed}, or leave it out"
        )
    return PlannedColumn(name, tree, dtype)


# Reading an expression.


def _parsed(name: str, expression: str) -> _Tree:
    what = f"the expression of derived column {name!r}" if name else f"expression {expression!r}"
    if len(expression) > _MOST_CHARACTERS:
        raise DomainError(f"{what} is longer than {_MOST_CHARACTERS} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            node = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise DomainError(
            f"{what} cannot be read: write arithmetic on columns, such as hour * 100 + minute;"
            ' a column whose name is no identifier is col("its name")'
        ) from None
    return _tree(what, node, 0)


def _tree(what: str, node: ast.expr, depth: int) -> _Tree:
    if depth > _MOST_DEPTH:
        raise DomainError(f"{what} is nested deeper than {_MOST_DEPTH} levels")

    def inner(one: ast.expr) -> _Tree:
        return _tree(what, one, depth + 1)

    match node:
        case ast.Constant(value=str() | int() | float() as value):
            if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise DomainError(f"{what} has an integer beyond 2^53")
            return plain_value(what, value)
        case ast.Name(id=name):
            return _Column(name)
        case ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)]):
            return _Column(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _Call("-", (0, inner(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _Call(_OPERATORS[type(op)], (inner(left), inner(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            _, cells, constant = _FUNCTIONS[name]
            given = tuple(map(inner, arguments))
            rest = given[cells:]
            if len(given) >= cells and (not rest or (len(rest) == 1 and type(rest[0]) is constant)):
                if constant is str and rest:
                    _zone(str(rest[0]))
                if constant is int and rest and not 0 <= cast(int, rest[0]) <= _MOST_WIDTH:
                    raise DomainError(f"{what}: {name} takes a number from 0 to {_MOST_WIDTH}")
                return _Call(name, given)
            raise DomainError(f"{what} gives {name} arguments that it does not take")
    raise DomainError(
        f"{what} holds what is not allowed ({type(node).__name__}): use numbers, texts,"
        f" columns, + - * / // %, {', '.join(_FUNCTIONS)}"
    )


def _columns_of(tree: _Tree) -> set[str]:
    if isinstance(tree, _Column):
        return {tree.name}
    arguments = tree.arguments if isinstance(tree, _Call) else ()
    return {name for one in arguments for name in _columns_of(one)}


@lru_cache(maxsize=1000)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise DomainError(
            f"no time zone has the name {name[:60]!r}: write one such as America/New_York; where no"
            " zone is found, install the package tzdata"
        ) from None


# Computing.


def _computed(
    one: PlannedColumn,
    table: pd.DataFrame,
    columns: Mapping[str, pd.Series[Any]],
    rng: np.random.Generator,
) -> pd.Series[Any]:
    parts, length = [], 0
    for start in range(0, max(len(table), 1), _ROWS):
        count = min(_ROWS, len(table) - start)

        def read(name: str, rows: slice = slice(start, start + count)) -> _Cells:
            return _read(name, columns[name].iloc[rows])

        cells = _cells(one.tree, _Rows(start, count, read, rng))
        if cells.kind == "text":
            length += sum(map(len, cells.values))
            if length > _MOST_TEXT:
                raise DomainError(f"derived column {one.name!r} holds more than a billion letters")
        parts.append(_typed(one.name, cells, one.dtype))
    column: pd.Series[Any] = parts[0] if len(parts) == 1 else pd.concat(parts)
    column.index = table.index
    return column


def _cells(tree: _Tree, rows: _Rows) -> _Cells:
    if isinstance(tree, _Column):
        return rows.columns(tree.name)
    if isinstance(tree, _Call):
        if tree.function in _ARITHMETIC:
            left, right = (_cells(one, rows) for one in tree.arguments)
            return _arithmetic(tree.function, left, right)
        function, count, _ = _FUNCTIONS[tree.function]
        given = [_cells(one, rows) for one in tree.arguments[:count]]
        return function(rows, *given, *tree.arguments[count:])
    missing = np.full(rows.count, tree is None)
    if tree is None:
        return _Cells("nothing", np.zeros(rows.count), missing)
    kind = kind_of([tree])
    return _Cells(kind, np.full(rows.count, tree, object if kind == "text" else None), missing)


def _read(name: str, column: pd.Series[Any]) -> _Cells:
    """Return the cells of a column of any dtype."""
    dtype: Any = column.dtype
    missing = missing_in(column)
    if isinstance(dtype, pd.CategoricalDtype):
        found = _read(name, pd.Series(dtype.categories))
        codes = np.where(missing, 0, column.cat.codes)
        if not len(found.values):
            return _Cells("nothing", np.zeros(len(column)), missing)
        return _Cells(found.kind, found.values[codes], missing | found.missing[codes], found.zone)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return _instants(column, missing)
    if pd.api.types.is_bool_dtype(dtype):
        return _Cells("boolean", column.to_numpy(dtype=bool, na_value=False), missing)
    if pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype):
        kind = "integer" if pd.api.types.is_integer_dtype(dtype) else "number"
        return _numbers(kind, column.to_numpy(dtype=np.float64, na_value=np.nan))
    given = column.to_numpy(dtype=object)[~missing]
    types = set(map(type, given))
    if not types and not isinstance(dtype, pd.StringDtype):
        return _Cells("nothing", np.zeros(len(column)), missing)

    def are(*kinds: type) -> bool:
        return all(issubclass(one, kinds) for one in types)

    if are(str):
        return _Cells("text", np.where(missing, "", column.to_numpy(dtype=object)), missing)
    if are(bool, np.bool_):
        return _Cells("boolean", np.where(missing, False, column).astype(bool), missing)
    if are(Integral, Real, Decimal) and not any(issubclass(one, bool) for one in types):
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = [_float(value) for value in given]
        return _numbers("integer" if are(Integral) else "number", numbers)
    if are(date):
        return _instants_of_values(column, missing)
    raise DomainError(f"column {name!r} holds values that no expression can read")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _numbers(kind: str, floats: npt.NDArray[np.float64]) -> _Cells:
    missing = ~np.isfinite(floats)
    if kind == "integer":
        missing |= np.abs(floats) > LARGEST_INTEGER
    floats = np.where(missing, 0.0, floats)
    return _Cells(kind, floats.astype(np.int64) if kind == "integer" else floats, missing)


def _instants(column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> _Cells:
    zone = column.dt.tz
    raw = (column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
    if raw.dtype != "datetime64[ns]":
        missing = missing | ~((raw >= _FIRST.astype(raw.dtype)) & (raw <= _LAST.astype(raw.dtype)))
    raw = np.where(missing, np.datetime64(0, "s").astype(raw.dtype), raw)
    return _Cells("time", raw.astype("datetime64[us]"), missing, zone)


def _instants_of_values(column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> _Cells:
    never = np.datetime64("NaT", "us")
    instants = each_value(column, _instant, never, "datetime64[us]")
    missing = missing | ~((instants >= _FIRST) & (instants <= _LAST))
    return _Cells("time", np.where(missing, np.datetime64(0, "us"), instants), missing)


def _as_instants(cells: _Cells) -> _Cells:
    if cells.kind != "text":
        return cells
    texts: Any = pd.Series(cells.values, dtype=object)
    return _instants_of_values(texts, cells.missing)


def _instant(value: Any) -> np.datetime64:
    """Return a date, a timestamp or an ISO text as an instant in UTC; NaT if it is none."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value) if ISO_TIME.fullmatch(value) else None
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(value, "us")
    except (ValueError, OverflowError):
        return np.datetime64("NaT", "us")


def _arithmetic(symbol: str, left: _Cells, right: _Cells) -> _Cells:
    missing = left.missing | right.missing
    kinds = {left.kind, right.kind}
    if "nothing" in kinds:
        return _Cells("nothing", missing, np.ones_like(missing))
    if kinds == {"text"} and symbol == "+":
        return _texts(left.values + right.values, missing)
    if not kinds <= {"integer", "number"}:
        raise DomainError(
            f"an expression has {symbol} between {left.kind} and {right.kind}: it takes numbers,"
            " or + two texts; text(x) makes a text of a number"
        )
    compute = _ARITHMETIC[symbol]
    with np.errstate(all="ignore"):
        floats = compute(left.values.astype(np.float64), right.values.astype(np.float64))
        if kinds == {"integer"} and symbol != "/":
            # A result that fits is exact, whatever the others wrap around to.
            found = _numbers("integer", floats)
            values = compute(left.values, right.values)
            return _Cells("integer", values, missing | found.missing)
    found = _numbers("number", floats)
    return _Cells("number", found.values, missing | found.missing)


def _texts(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> _Cells:
    long = np.fromiter(map(len, values), dtype=np.int64, count=len(values)) > _LONGEST_TEXT
    missing = missing | long
    return _Cells("text", np.where(missing, "", values), missing)


def _text(rows: _Rows, cells: _Cells, width: int = 0) -> _Cells:
    if cells.kind == "nothing":
        return cells
    if cells.kind == "time":
        raise DomainError("text of a date is not allowed: join its year, month and day")
    column = pd.Series(cells.values)
    texts = each_value(column, lambda value: text_of(value).zfill(width), "")
    return _texts(texts, cells.missing)


def _round(rows: _Rows, cells: _Cells, digits: int = 0) -> _Cells:
    if cells.kind in ("nothing", "integer"):
        return cells
    if cells.kind != "number":
        raise DomainError("round takes a number")
    with np.errstate(all="ignore"):
        found = _numbers("number", np.round(cells.values, min(digits, 15)))
    return _Cells("number", found.values, cells.missing | found.missing)


def _part(part: str, rows: _Rows, cells: _Cells, zone: str | None = None) -> _Cells:
    if cells.kind == "nothing":
        return cells
    cells = _as_instants(cells)
    if cells.kind != "time":
        raise DomainError(f"{part} takes a date, a timestamp or a text such as 2024-01-31T12:00")
    index = pd.DatetimeIndex(cells.values)
    place = cells.zone if zone is None else _zone(zone)
    if place is not None:
        index = index.tz_localize("UTC").tz_convert(place)
    return _Cells("integer", np.asarray(getattr(index, PARTS[part]), dtype=np.int64), cells.missing)


def _row(rows: _Rows) -> _Cells:
    numbers = np.arange(rows.start + 1, rows.start + rows.count + 1, dtype=np.int64)
    return _Cells("integer", numbers, np.zeros(rows.count, dtype=bool))


def _uuid(rows: _Rows) -> _Cells:
    drawn = rows.rng.bytes(16 * rows.count)
    texts = [
        str(uuid.UUID(bytes=drawn[place : place + 16], version=4))
        for place in range(0, len(drawn), 16)
    ]
    return _Cells("text", np.array(texts, dtype=object), np.zeros(rows.count, dtype=bool))


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
# Each function, the number of its columns, and the type of the constant that may follow them.
_FUNCTIONS: dict[str, tuple[Callable[..., _Cells], int, type | None]] = {
    **{part: (partial(_part, part), 1, str) for part in PARTS},
    "text": (_text, 1, int),
    "round": (_round, 1, int),
    "row": (_row, 0, None),
    "uuid": (_uuid, 0, None),
}


def _typed(name: str, cells: _Cells, dtype: str) -> pd.Series[Any]:
    """Return cells as a column of a dtype; what it cannot hold is missing."""
    missing = cells.missing
    column: Any
    if cells.kind == "nothing":
        column = pd.Series([None] * len(missing), dtype=dtype_of(dtype))
        return cast("pd.Series[Any]", column)
    if (cells.kind == "time") != bool(_TIME_DTYPE.fullmatch(dtype)) or (
        cells.kind != "time" and dtype not in _DTYPES[cells.kind]
    ):
        raise DomainError(f"derived column {name!r} cannot be {dtype}: its values are {cells.kind}")
    if cells.kind == "time":
        return _timed(cells, dtype)
    values = cells.values
    if dtype in _INTEGERS:
        limits = np.iinfo(dtype.lower())
        # Of numbers that are no integers, an integer dtype holds the whole ones.
        missing = missing | (values != np.floor(values))
        missing |= (values < limits.min) | (values > limits.max)
        column = pd.Series(np.where(missing, 0, values).astype(np.int64), dtype=dtype_of(dtype))
    elif dtype in _FLOATS:
        with np.errstate(over="ignore"):
            floats = values.astype(dtype.lower())
        missing = missing | ~np.isfinite(floats)
        column = pd.Series(np.where(missing, 0, floats), dtype=dtype_of(dtype))
    else:
        if cells.kind == "text":
            # Joined by pieces, a text may be what no value of an attribute may be.
            missing = missing | each_value(pd.Series(values), is_formula, False, np.bool_)
        column = pd.Series(values, dtype=dtype_of(dtype))
    if missing.any():
        column[missing] = pd.NA if dtype[0].isupper() or dtype == "boolean" else np.nan
    return cast("pd.Series[Any]", column)


def _timed(cells: _Cells, dtype: str) -> pd.Series[Any]:
    unit, _, zone = dtype.removeprefix("datetime64[").removesuffix("]").partition(", ")
    missing = cells.missing
    if unit == "ns":
        missing = missing | (cells.values < np.datetime64("1678", "us"))
        missing |= cells.values >= np.datetime64("2262", "us")
    values = np.where(missing, np.datetime64("NaT", "us"), cells.values)
    column: Any = pd.Series(values.astype(f"datetime64[{unit}]"))
    column = column.dt.tz_localize("UTC").dt.tz_convert(_zone(zone)) if zone else column
    return cast("pd.Series[Any]", column)
