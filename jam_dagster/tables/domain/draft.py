"""Drafting a domain from data: from a public table, or the papers' way from both."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.common.redaction import private_values
from jam_dagster.common.yaml_text import write_yaml
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.domain.attributes import (
    LARGEST_EDGE,
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    Unreadable,
    equal_width_edges,
)
from jam_dagster.tables.domain.derived import DerivedColumn
from jam_dagster.tables.domain.determined import determined, part_of
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.domain_file import save_domain
from jam_dagster.tables.domain.quantile_bins import with_quantile_bins
from jam_dagster.tables.domain.time_draft import draft_time
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import (
    DECIMAL_DTYPE,
    LARGEST_INTEGER,
    Value,
    exact_number,
    kind_of,
    text_of,
    truth_of,
    truths_of,
)
from jam_dagster.tables.sources.columns import each_value, exact_column

_MAX_CATEGORIES = 1000
# Beyond this many different values, a column that hardly repeats any counts as names or keys.
_MAX_DISTINCT_TEXTS = 100
_SHOWN_CHARACTERS = 60
# Of more different texts so many are kept, each of which several rows have.
_KEPT_TEXTS = 60
_KEPT_ROWS = 5
# Larger numbers of categories get a remark.
_MANY_VALUES = 100
_MAX_DECIMALS = 6
_BINS = 32
_OWN_BIN_SHARE = 0.1
_OWN_BIN_ROWS = 20


@dataclass(frozen=True)
class LeftOut:
    """A column of the public table that a drafted domain leaves out.

    Parameters
    ----------
    name
        The column's name.
    place
        Its place among the table's columns, from 0.
    reason
        What it holds, such as "is 2013 in every row".
    """

    name: str
    place: int
    reason: str

    def __str__(self) -> str:
        """Return name and reason in one line that a terminal or a comment can hold."""
        text = f"{self.name}: {self.reason}"
        return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


@dataclass(frozen=True)
class DraftedDomain:
    """A domain that was drafted from a public table, and what it leaves out of it.

    Parameters
    ----------
    domain
        The attributes that could be drafted, and every other column as a derived one.
    left_out
        The columns that are missing in every synthetic row, in the table's order.
    proposed
        Expressions that hold in every row of the public table, by column, which the domain does
        not have.
    """

    domain: Domain
    left_out: tuple[LeftOut, ...]
    proposed: Mapping[str, Value] = field(default_factory=dict)

    @property
    def remark(self) -> str:
        """A line for each column that is left out or derived, below lines that say so, or ""."""
        found = {one.name: one.expression for one in self.domain.derived}
        derived = {name: one for name, one in found.items() if one is not None}
        parts = {
            "Columns that are left out:": [*map(str, self.left_out)],
            "Columns that are derived:": _lines(derived),
        }
        return "\n".join("\n  ".join([head, *rows]) for head, rows in parts.items() if rows)

    @property
    def hint(self) -> str:
        """What could be derived, as for `remark`."""
        if not self.proposed:
            return ""
        head = "Columns that could be derived (--infer derives them):"
        return "\n  ".join([head, *_lines(self.proposed)])

    def save(self, path: str | Path) -> None:
        """Write a domain file; in YAML, comments say what is left out, why, and what is derived."""
        comments = [(one.place, f"left out: {one}") for one in self.left_out]
        end = ["What holds in every row of the public table, to be written below `derived`:"]
        save_domain(
            self.domain, path, comments, [*end, *_lines(self.proposed)] if self.proposed else ()
        )


def _lines(expressions: Mapping[str, Value | None]) -> list[str]:
    """Return an entry of a domain file for each expression, in one line."""
    lines = []
    for name, one in expressions.items():
        entry = write_yaml({name: one}).strip()
        if not entry.startswith("{") or "\n" in entry:
            # An entry that YAML breaks is short enough in JSON.
            entry = f"{{{json.dumps(name)}: {json.dumps(one)}}}"
        lines.append(entry[1:-1])
    return lines


def draft_table(
    public: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bins: int | None = None,
    other: str | None = "other",
    infer: bool = False,
) -> DraftedDomain:
    """Draft a domain for a person to review, and say which columns it leaves out, and why.

    Text becomes a categorical attribute of the observed values, or the 60 most frequent ones, plus
    `other`; two texts of booleans, such as yes and no, need none. Dates and times are counted in
    the longest unit that all of them are whole ones of, in bins of days, weeks or longer. Up to 32
    different numbers get a bin each; more get bins of about equally many rows with round edges, and
    a value that many rows share, such as no capital gain or 40 hours a week, has a bin of its own.
    Decoded numbers are spread `within` a bin as the public ones are, and a column of up to a
    hundred different numbers gets no other. Values outside the bounds are clipped. Floats that are
    all integers are read as integers (pandas reads integers with gaps as floats).

    An attribute takes any cell of another table, unless `other` is None: what cannot be read as
    its kind is encoded as a missing value. Constants, keys, free text and nested values are left
    out: in the synthetic table, which has all drafted columns in the public one's order,
    they are missing. Columns that others determine in every row, constants and keys are proposed
    as derived columns.

    Parameters
    ----------
    public
        The public table. Its columns, their order and their dtypes become the domain's.
    columns
        The columns to draft, in any order; None: all.
    exclude
        Columns not to draft.
    bins
        Number of bins of equal width of a numeric attribute, within which decoded numbers are
        uniform; None: bins by the public table, as above.
    other
        Name of the category for unobserved values, in the case of an existing category of that
        name; None: an unobserved value is an error.
    infer
        Whether what is proposed becomes part of the domain.

    Returns
    -------
    DraftedDomain
        Its domain's ``identified_from`` is "public".

    Raises
    ------
    SpecificationError
        `bins` is not a positive integer.
    InputError
        The public table is empty, or a column of `columns` or `exclude` is not in it.
    DomainError
        Two columns have the same name, a name is no text, or no column can be drafted.
    """
    _check_bins(bins)
    _check_columns(public, None)
    chosen = chosen_columns(public.columns, columns, exclude)
    attributes, left_out = draft_attributes(public[chosen], bins=bins, other=other)
    return drafted(attributes, left_out, public[chosen], infer=infer)


def draft_domain(
    public: pd.DataFrame,
    *,
    private: pd.DataFrame | None = None,
    columns: Sequence[str] | None = None,
    bins: int | None = None,
    other: str | None = "other",
) -> Domain:
    """Draft a domain from a public table (see `draft_table`), or the papers' way from both.

    Parameters
    ----------
    public
        As for `draft_table`.
    private
        The private table, to draft from both tables as the papers do: the observed categories
        without `other`, and bins of equal width, 32 unless `bins` says otherwise. For research:
        the domain holds private values, is marked ``identified_from="private"``, and no result of
        it may be released.
    columns, bins, other
        As for `draft_table`.

    Returns
    -------
    Domain
        ``identified_from`` "public" or "private".

    Raises
    ------
    SpecificationError, InputError, DomainError
        As for `draft_table`. An empty private table is accepted: that may be private itself.
    PrivateValuesError
        A column cannot be drafted from both tables.
    """
    if private is None:
        return draft_table(public, columns=columns, bins=bins, other=other).domain
    _check_bins(bins)
    chosen = chosen_columns(public.columns, columns)
    _check_columns(public[chosen], private)
    attributes = []
    with private_values():
        for name in chosen:
            both = [public[name], _read_like(public[name], private[name])]
            attributes.append(_draft(name, both, _BINS if bins is None else bins, other))
    return Domain(tuple(attributes), identified_from="private")


def draft_attributes(
    public: pd.DataFrame, *, bins: int | None, other: str | None = "other"
) -> tuple[list[Attribute], list[LeftOut]]:
    """Return what `draft_table` makes of the columns of a table, which may be nothing."""
    attributes: list[Attribute] = []
    left_out: list[LeftOut] = []
    for place, name in enumerate(public.columns):
        try:
            column = public[name]
            if pd.api.types.is_object_dtype(column.dtype):
                with suppress(UnicodeError):  # Of a text that cannot be stored.
                    column = exact_column(column)
            attributes.append(_draft(name, [column], bins, other))
        except DomainError as error:
            left_out.append(LeftOut(name, place, str(error)))
    return attributes, left_out


def drafted(
    attributes: Sequence[Attribute],
    left_out: Sequence[LeftOut],
    table: pd.DataFrame | None = None,
    *,
    infer: bool = False,
) -> DraftedDomain:
    """Return a domain of drafted attributes, or raise DomainError where there are none.

    It has all columns of a table, where there is one.
    """
    if not attributes:
        reasons = "; ".join(map(str, left_out))
        raise DomainError(
            f"no column of the public table can be drafted ({reasons}): declare the domain, or"
            " change the table"
        )
    if table is None:
        return DraftedDomain(Domain(tuple(attributes), (), "public"), tuple(left_out))
    found = determined(table, [one.name for one in attributes])
    attributes = [_in_its_zone(one, table, attributes, found) for one in attributes]
    set_now: Mapping[str, Value] = found if infer else {}
    kept = tuple(one for one in attributes if one.name not in set_now)
    missing = tuple(one for one in left_out if one.name not in set_now)
    names = [name for name in table.columns if name in {*set_now, *(one.name for one in missing)}]
    derived = tuple(DerivedColumn(name, set_now.get(name)) for name in names)
    domain = Domain(kept, (), "public", derived, tuple(table.columns) if derived else ())
    if derived:
        # The public table's dtypes, where they are not those that follow.
        typed = (
            dataclasses.replace(
                one, dtype=_derived_dtype(table[one.name], domain.columns[one.name])
            )
            for one in derived
        )
        domain = dataclasses.replace(domain, derived=tuple(typed))
    gone = [place for place, name in enumerate(table.columns) if name in set_now]
    missing = tuple(
        dataclasses.replace(one, place=one.place - sum(place < one.place for place in gone))
        for one in missing
    )
    return DraftedDomain(domain, missing, {} if infer else found)


def _in_its_zone(
    attribute: Attribute,
    table: pd.DataFrame,
    attributes: Sequence[Attribute],
    found: dict[str, Value],
) -> Attribute:
    """Return an attribute of timestamps with the zone of its parts, and its hour from the column.

    That column is kept: the hour hangs together with others, and a bin of a day does not.
    """
    if not (isinstance(attribute, TimeAttribute) and attribute.every == "day"):
        return attribute
    parts = {name: part_of(one, attribute.name) for name, one in found.items()}
    zone = next((part[1] for part in parts.values() if part and part[1]), None)
    if zone is not None:
        with suppress(DomainError):  # A format without an offset has no zone.
            column = table[attribute.name].dropna()
            again = draft_time(attribute.name, column, None, attribute.nullable, zone)
            attribute = attribute if again is None or again.every != "day" else again
    if attribute.unit != "hour" or attribute.zone != (zone or attribute.zone):
        return attribute
    names = {one.name for one in attributes}
    for name, part in parts.items():
        if part is not None and part[0] == "hour" and name in names:
            del found[name]
            return dataclasses.replace(attribute, hour_from=name)
    return attribute


def _derived_dtype(column: pd.Series[Any], default: str) -> str | None:
    """Return a column's dtype as a derived one has it, None for the default or one like it."""
    name = str(column.dtype)
    if pd.api.types.is_bool_dtype(column.dtype):
        name = "boolean"
    elif pd.api.types.is_integer_dtype(column.dtype):
        name = name.replace("uint", "UInt").replace("int", "Int")
    elif pd.api.types.is_string_dtype(column.dtype):
        name = "string" if name.startswith("string") else "str"
    elif not (pd.api.types.is_float_dtype(column.dtype) or name.startswith("datetime64")):
        return None
    return None if name == default or "[py" in name else name


def chosen_columns(
    names: Iterable[str], columns: Sequence[str] | None, exclude: Sequence[str] = ()
) -> list[str]:
    """Return the names of a table's columns that are to be drafted, in their order."""
    names = list(names)
    for name in (*(columns or ()), *exclude):
        if name not in names:
            near = difflib.get_close_matches(name, names, n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(names)}"
            raise InputError(f"the public table has no column {name!r}: {hint}")
    wanted = set(names if columns is None else columns) - set(exclude)
    if not wanted:
        raise InputError("no column is left to draft: name more, or exclude fewer")
    return [name for name in names if name in wanted]


def names_in(text: str | None) -> list[str] | None:
    """Return the names in a text such as ``"age, sex"``; None for no text."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _check_bins(bins: object) -> None:
    if bins is not None and (isinstance(bins, bool) or not isinstance(bins, int) or bins < 1):
        raise SpecificationError(f"bins must be a positive integer, got {bins!r}")


def wide_attributes(domain: Domain) -> str:
    """Return a remark on attributes with too many categories to be counted well, or "".

    A domain from private data gets no remark: its number of values is a fact about that data.
    """
    if domain.restricted:
        return ""
    wide = [
        f"{one.name} ({one.size} values)"
        for one in domain.attributes
        if isinstance(one, CategoricalAttribute) and one.size > _MANY_VALUES
    ]
    if not wide:
        return ""
    return (
        f"{', '.join(wide)}: every value gets noise of its own. Group them in the source (a code by"
        " its first digits), or leave the column out."
    )


def _check_columns(public: pd.DataFrame, private: pd.DataFrame | None) -> None:
    if not len(public):
        raise InputError("a domain cannot be drafted from a table without rows: check the source")
    if not len(public.columns):
        raise InputError("the public table has no columns: check the source")
    for name in public.columns:
        if not isinstance(name, str) or not name:
            raise DomainError(f"the name of the public table's column {name!r} must be a text")
        if list(public.columns).count(name) > 1:
            raise DomainError(f"the public table has column {name!r} twice: rename or remove one")
        if private is not None and list(private.columns).count(name) != 1:
            raise DomainError(
                f"the private table must have column {name!r} of the public table, once: rename,"
                " add or remove it"
            )


def _read_like(public: pd.Series[Any], private: pd.Series[Any]) -> pd.Series[Any]:
    """Convert private texts to the kind of the public column, where that is possible."""
    # Texts are objects in a table that another program read with pandas 2.
    if not (
        isinstance(private.dtype, pd.StringDtype) or pd.api.types.is_object_dtype(private.dtype)
    ):
        return private
    if pd.api.types.is_bool_dtype(public.dtype):
        read: Callable[[object], object] = truth_of
    elif pd.api.types.is_numeric_dtype(public.dtype):
        read = exact_number
    else:
        return private

    def value_of(text: object) -> object:
        value = read(text) if isinstance(text, str) else None
        return text if value is None else value

    return exact_column(pd.Series(each_value(private, value_of, None)))


def _draft(
    name: str, columns: list[pd.Series[Any]], bins: int | None, other: str | None
) -> Attribute:
    """Draft an attribute from a public column, or the papers' way from a public and a private one.

    A `DomainError` says what the column holds; its name stands before that.
    """
    gaps = any(bool(column.isna().any()) for column in columns)
    observed = [column.dropna() for column in columns]
    if len(columns) == 1 and len(observed[0]):
        time = draft_time(name, observed[0], bins, gaps or other is not None)
        if time is not None:
            if not gaps and len(observed[0].unique()) == 1:
                raise _constant(text_of(observed[0].iloc[0]))
            return time
    kinds = {_kind(column) for column in observed if len(column)}
    if not kinds:
        raise DomainError("is missing in every row")
    if kinds == {"number"}:
        return _draft_numeric(name, columns[0].dtype, observed, bins, gaps)
    if "number" in kinds and len(kinds) > 1:
        raise DomainError("holds numbers in only one table")
    return _draft_categorical(name, columns[0].dtype, observed, other, gaps)


def _kind(column: pd.Series[Any]) -> str:
    """Return "number", "boolean", "text" or "mixed" for a column without missing values."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "text"
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return "number"
    is_object = pd.api.types.is_object_dtype(dtype)
    if not is_object and pd.api.types.is_string_dtype(dtype):
        return "text"
    if not is_object or any(isinstance(value, date | timedelta) for value in column):
        raise DomainError(f"holds dates of several kinds or another type ({dtype}) without bins")
    if any(isinstance(value, list | tuple | dict | set | np.ndarray) for value in column):
        raise DomainError("holds nested values")
    if all(isinstance(value, bool | np.bool_) for value in column):
        return "boolean"
    if any(isinstance(value, bool | np.bool_ | str) for value in column):
        return "text" if all(isinstance(value, str) for value in column) else "mixed"
    if pd.to_numeric(column, errors="coerce").notna().all():
        return "number"
    raise DomainError("holds objects that are neither texts nor numbers")


def _draft_categorical(
    name: str, dtype: Any, observed: list[pd.Series[Any]], other: str | None, gaps: bool
) -> CategoricalAttribute:
    by_text: dict[str, Value] = {}
    for column in observed:
        for value in column if pd.api.types.is_object_dtype(column.dtype) else column.unique():
            by_text.setdefault(text_of(value), value)
    rows, private = sum(map(len, observed)), len(observed) > 1
    if not private and len(by_text) == 1 and not gaps:
        raise _constant(next(iter(by_text)))
    if len(by_text) > _MAX_DISTINCT_TEXTS and 2 * len(by_text) > rows:
        raise DomainError(
            f"holds {len(by_text):,} different texts in {rows:,} rows, such as names, keys or"
            " remarks, which identify persons"
        )
    if len(by_text) > _MAX_CATEGORIES and (private or other is None):
        raise DomainError(
            f"holds {len(by_text):,} different values in {rows:,} rows: group them in the source"
        )
    nullable = gaps or not private
    unreadable: Unreadable = "error" if private or other is None else "missing"
    values = [by_text[text] for text in sorted(by_text)]
    if all(isinstance(value, bool | np.bool_) for value in values):
        # Both values are listed whatever the table shows.
        return CategoricalAttribute(name, (False, True), nullable, unreadable=unreadable)
    if not private and kind_of(values) == "text" and truths_of(values):
        return CategoricalAttribute(name, tuple(values), nullable, unreadable=unreadable)
    if not private and other is not None and len(by_text) > _KEPT_TEXTS:
        times = observed[0].astype(object).map(text_of).value_counts()
        often = times[times >= _KEPT_ROWS] if times.iloc[0] >= _KEPT_ROWS else times
        by_text = {text: by_text[text] for text in often.index[:_KEPT_TEXTS]}
        values = [by_text[text] for text in sorted(by_text)]
    if private:
        other = None
    if other is not None:
        like = [text for text in sorted(by_text) if text.lower() == other.lower()]
        other = other if other in like else (like or [other])[0]
        if not like:
            values.append(other)
    attribute = CategoricalAttribute(name, tuple(values), nullable, other)
    if isinstance(dtype, pd.CategoricalDtype):
        return CategoricalAttribute(name, attribute.values, nullable, other, "category")
    if kind_of(attribute.values) == "text" and str(dtype) == "string":
        return CategoricalAttribute(name, attribute.values, nullable, other, "string")
    return attribute


def _constant(text: str) -> DomainError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return DomainError(f"is {shown} in every row")


def _draft_numeric(
    name: str, dtype: Any, observed: list[pd.Series[Any]], bins: int | None, gaps: bool
) -> NumericAttribute:
    arrays = [_finite(column) for column in observed]
    values = np.concatenate([array.astype(np.float64) for array in arrays])
    private = len(observed) > 1
    if not len(values):
        raise DomainError("holds no finite number")
    low, high = float(values.min()), float(values.max())
    if not private and low == high and not gaps and len(values) == len(observed[0]):
        raise _constant(text_of(low))
    exact = max(abs(low), abs(high)) <= LARGEST_INTEGER
    integer = exact and bool((values == np.floor(values)).all())
    if pd.api.types.is_integer_dtype(dtype) and not integer:
        if private or max(abs(low), abs(high)) > LARGEST_EDGE:
            raise DomainError("holds integers too large to be counted in bins, such as keys")
        integer = True
    if integer and not private and _are_keys(values):
        raise DomainError(
            f"holds another integer in each of {len(values):,} rows, such as keys or row numbers"
        )
    decimals = None if integer else _decimals(arrays)
    kept = _numeric_dtype(dtype, integer, gaps, gaps or not private)
    if DECIMAL_DTYPE.fullmatch(str(dtype)) and (integer or decimals):
        kept = str(dtype)
    draft = NumericAttribute(
        name,
        (low, high) if low < high else equal_width_edges(low, high, 1),
        integer=integer,
        nullable=gaps or not private,
        clip=True,
        decimals=decimals,
        dtype=kept,
        unreadable="error" if private else "missing",
    )
    if bins is None:
        return with_quantile_bins(draft, values)
    count = float("inf")
    if draft.scale is not None:
        count = round((high - low) * draft.scale) + 1
    width = min(bins, count) if high > low else 1
    draft = dataclasses.replace(draft, edges=equal_width_edges(low, high, int(width)))
    # A private table gives only bounds, as in the papers.
    return draft if private else _with_own_bins(draft, values)


def _are_keys(values: npt.NDArray[np.float64]) -> bool:
    """Return whether integers number the rows: no two alike, and dense or in increasing order."""
    if len(values) <= _MAX_DISTINCT_TEXTS or len(np.unique(values)) < len(values):
        return False
    dense = values.max() - values.min() < 2 * len(values)
    return dense or bool((np.diff(values) > 0).all())


def _with_own_bins(draft: NumericAttribute, values: npt.NDArray[np.float64]) -> NumericAttribute:
    """Give values that many rows share a bin of their own."""
    distinct, counts = np.unique(values, return_counts=True)
    often = distinct[counts >= max(_OWN_BIN_SHARE * len(values), _OWN_BIN_ROWS)]
    low, high = draft.bin_limits
    often = np.setdiff1d(often, low[low == high])
    if not len(often):
        return draft
    # The same bins with edges that are values: 3125 for 3124.96875 if the numbers are integers.
    edges = {*low.tolist(), draft.edges[-1]}
    for value in often.tolist():
        if draft.scale is None:
            above = float(np.nextafter(np.asarray(value, dtype=str(draft.dtype).lower()), np.inf))
        else:
            above = float((round(value * draft.scale) + 1) / draft.scale)
        edges |= {value, above}
        if value == draft.edges[-1]:
            # The last bin is closed: it ends halfway to the next value, so it holds only this one.
            edges = edges - {above} | {(value + above) / 2 if draft.scale else above}
    return dataclasses.replace(draft, edges=tuple(sorted(edges)))


def _finite(column: pd.Series[Any]) -> npt.NDArray[Any]:
    if column.dtype == object:
        column = pd.to_numeric(column)
    kind = np.float32 if str(column.dtype).lower() == "float32" else np.float64
    values: npt.NDArray[Any] = column.to_numpy(dtype=kind)
    finite: npt.NDArray[Any] = values[np.isfinite(values)]
    return finite


def _decimals(arrays: list[npt.NDArray[Any]]) -> int | None:
    """Return the number of decimals that suffices for all values; None if it is large."""
    largest = max(float(np.abs(array).max()) for array in arrays if len(array))
    for decimals in range(1, _MAX_DECIMALS + 1):
        if largest * 10**decimals > LARGEST_INTEGER:
            return None
        if all((np.round(array, decimals) == array).all() for array in arrays):
            return decimals
    return None


def _numeric_dtype(dtype: Any, integer: bool, gaps: bool, nullable: bool) -> str | None:
    """Return the table's dtype if it can hold the decoded values, else None."""
    name = str(dtype)
    if not integer:
        return name if name in ("float32", "Float32", "Float64") else None
    if pd.api.types.is_integer_dtype(dtype) and name.lower().lstrip("u").startswith("int"):
        if nullable and name.islower() and "[" not in name:
            return name.replace("uint", "UInt").replace("int", "Int")
        return None if "[" in name else name
    # A float column with gaps is how pandas reads integers with gaps.
    return None if gaps or name not in ("float32", "float64", "Float64") else name
