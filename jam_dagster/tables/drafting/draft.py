"""Drafting a domain from data: from a public table, or the papers' way from both."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.columns import (
    each_value,
    exact_column,
    exact_columns,
    without_category,
)
from jam_dagster.tables.domain.constraints import NotNull, Repair
from jam_dagster.tables.domain.derived import DerivedColumn, formats_of
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.expressions import column_text, columns_of, parsed
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.moment_texts import is_day_first, other_order
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.units import DATE, LONGER_THAN_DAYS
from jam_dagster.tables.domain.values import (
    exact_number,
    kind_of,
    truth_of,
)
from jam_dagster.tables.drafting.column_draft import draft_attribute
from jam_dagster.tables.drafting.determined import Entry, determined_with_rows, part_of
from jam_dagster.tables.drafting.draft_notes import notes_of, separator_of
from jam_dagster.tables.drafting.drafted_domain import DraftedDomain, LeftOut
from jam_dagster.tables.drafting.found_constraints import found_constraints
from jam_dagster.tables.drafting.found_lookups import found_lookups
from jam_dagster.tables.drafting.time_draft import draft_time
from jam_dagster.tables.drafting.value_columns import ValueColumns, shuffled_rows

# Larger numbers of categories get a remark.
_MANY_VALUES = 100
_BINS = 32
_DAYS = ("day", *LONGER_THAN_DAYS)


def draft_table(
    public: pd.DataFrame,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    bins: int | None = None,
    other: str | None = "other",
    infer: bool = True,
) -> DraftedDomain:
    """Draft a domain for a person to review, and say which columns it leaves out, and why.

    Text becomes a categorical attribute of the observed values, or the 60 most frequent ones, plus
    `other` if fewer than five rows have one of them; if not, an unobserved value is encoded as a
    missing one, as it is in addition to two texts of booleans, such as yes and no. Texts of which
    nearly all write numbers, dates or durations in one format become these, and have that format
    again when they are decoded; `notes` says how many public cells do not read. Up to 1,000 levels
    that a categorical dtype declares stay, in their order, unless all of them occur and write such
    a format. Dates and times are counted in the longest unit that all of them are whole ones of, in
    bins of days, weeks or longer. Up to 32 different numbers get a bin each; more get bins of about
    equally many rows with round edges, and a value that many rows share, such as no capital gain or
    40 hours a week, has a bin of its own. Decoded numbers are spread `within` a bin as the public
    ones are, and a column of up to a hundred different numbers gets no other. Values outside the
    bounds are clipped. Floats that are all integers are read as integers (pandas reads integers
    with gaps as floats).

    An attribute takes any cell of another table, unless `other` is None: a number or date that
    cannot be read has a cell of its own and is released as missing, and what is not listed is
    encoded as a missing value. Constants, free text and nested values are left out: in
    the synthetic table, which has all drafted columns in the public one's order, they are missing.
    Keys, and columns that others determine in every row, are derived: by a formula, or by a table
    of the public values if there are 1,000 rows, five for each entry, and 50 that confirm an entry
    by a value other than the most frequent one. No measurement is paid for them, and nothing checks
    whether they hold in another table. Constants are proposed alone, for they may be the one thing
    in which the tables differ. Orders between columns, combinations of two, and where columns are
    missing are what synthetic rows are repaired to keep; no record of another table is held to
    them.

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
        name; None: none is added, and an unobserved value is an error.
    infer
        Whether keys and determined columns are derived; if not, they are proposed.

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
    chosen = exact_columns(
        public[chosen_columns(public.columns, columns, exclude)].copy(deep=False)
    )
    attributes, left_out = draft_attributes(chosen, bins=bins, other=other)
    return drafted(attributes, left_out, chosen, infer=infer)


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
            attributes.append(draft_attribute(name, both, _BINS if bins is None else bins, other))
    return Domain(tuple(attributes), identified_from="private")


def draft_attributes(
    public: pd.DataFrame, *, bins: int | None, other: str | None = "other"
) -> tuple[list[Attribute], list[LeftOut]]:
    """Return what `draft_table` makes of the columns of a table, which may be nothing."""
    attributes: list[Attribute] = []
    left_out: list[LeftOut] = []
    for index, name in enumerate(public.columns):
        try:
            attributes.append(draft_attribute(name, [public[name]], bins, other))
        except DomainError as error:
            left_out.append(LeftOut(name, index, str(error)))
    return _in_one_order(attributes, public, bins), left_out


def _in_one_order(
    attributes: list[Attribute], public: pd.DataFrame, bins: int | None
) -> list[Attribute]:
    """Return attributes with days and months in the order of those columns that show it."""
    orders = set()
    unclear = []
    for index, one in enumerate(attributes):
        day_first = is_day_first(one.format)
        if one.dated and day_first is not None:
            if other_order(one.format or "", public[one.name]):
                unclear.append(index)
            else:
                orders.add(day_first)
    if len(orders) == 1:
        (day_first,) = orders
        for index in unclear:
            name, nullable = attributes[index].name, attributes[index].nullable
            column = public[name].dropna()
            again = draft_time(name, column, bins, nullable, day_first=day_first)
            attributes[index] = again or attributes[index]
    return attributes


def drafted(
    attributes: Sequence[Attribute],
    left_out: Sequence[LeftOut],
    table: pd.DataFrame | None = None,
    *,
    infer: bool = True,
) -> DraftedDomain:
    """Return a domain of attributes, and of all columns of a table, or raise DomainError."""
    if not attributes:
        reasons = "; ".join(map(str, left_out))
        raise DomainError(
            f"no column of the public table can be drafted ({reasons}): declare the domain, or"
            f" change the table{separator_of([] if table is None else list(table.columns))}"
        )
    if table is None:
        return DraftedDomain(Domain(tuple(attributes), (), "public"), tuple(left_out))
    listed = {one.name for one in attributes if not one.binned}
    held = {
        str(name): without_category(column)
        for name, column in table.items()
        if isinstance(column.dtype, pd.CategoricalDtype) and name not in listed
    }
    table = table.assign(**held)
    # No expression reads numbers among texts.
    read = [one.name for one in attributes if kind_of(one.listed) != "mixed"]
    found, breakable = determined_with_rows(table, read, formats_of(attributes))
    attributes = [_in_its_zone(one, table, attributes, found) for one in attributes]
    found = {name: _listed(one, name, attributes) for name, one in found.items()}
    found = {name: one for name, one in found.items() if not isinstance(one, dict) or one["values"]}
    # A constant may be the one thing that differs between the tables.
    set_now: dict[str, Entry | Lookup] = {}
    if infer:
        set_now |= {name: one for name, one in found.items() if not _is_constant(one)}
    kept = tuple(one for one in attributes if one.name not in set_now)
    encoded = encode(table, Domain(kept), private=False)
    # A date may be in another period than the public ones, and its hour is one of its parts.
    times = [one for one in kept if one.dated]
    modelled = {name for one in times for name in (one.name, one.hour_from) if name is not None}
    lookups = found_lookups(table, encoded, found.keys() | modelled)
    if infer:
        set_now |= lookups
    else:
        found |= {name: one.to_entry() for name, one in lookups.items()}
    kept = tuple(one for one in kept if one.name not in set_now)
    missing = tuple(one for one in left_out if one.name not in set_now)
    names = [name for name in table.columns if name in {*set_now, *(one.name for one in missing)}]
    derived = tuple(_derived(name, set_now.get(name)) for name in names)
    domain = Domain(kept, (), "public", derived, tuple(table.columns) if derived else ())
    if derived:
        # The public table's dtypes, where they are not those that follow.
        formats = {**formats_of(attributes), **domain.formats}
        values = ValueColumns(table, list(table.columns), formats)
        typed = (
            dataclasses.replace(
                one,
                dtype=_derived_dtype(table[one.name], domain.columns[one.name]),
                at_least=_least(one, values),
            )
            for one in derived
        )
        domain = dataclasses.replace(domain, derived=tuple(typed))
    encoded = EncodedTable(domain, tuple(map(encoded.column, domain.names)))
    repairs = found_constraints(table, encoded)
    domain = dataclasses.replace(domain, repairs=tuple(repairs))
    gone = [index for index, name in enumerate(table.columns) if name in set_now]
    missing = tuple(
        dataclasses.replace(one, index=one.index - sum(index < one.index for index in gone))
        for one in missing
    )
    notes = notes_of(table, encoded)
    counts: dict[str | Repair, int] = {}
    counts.update(breakable)
    counts.update({name: shuffled_rows(table[name]) for name in lookups})
    counts.update({one: rows for one, rows in repairs.items() if not isinstance(one, NotNull)})
    proposed = {name: one for name, one in found.items() if name not in set_now}
    return DraftedDomain(domain, missing, proposed, notes, counts)


def with_placeholders(
    draft: DraftedDomain, table: pd.DataFrame, names: Collection[str]
) -> DraftedDomain:
    """Return a draft with further columns of its table that are computed later."""
    derived = tuple(
        DerivedColumn(name, None, _derived_dtype(table[name], "object"))
        for name in table.columns
        if name in names
    )
    every = (*draft.domain.columns, *names)
    order = tuple(name for name in table.columns if name in every)
    domain = dataclasses.replace(
        draft.domain, derived=(*draft.domain.derived, *derived), order=order
    )
    return dataclasses.replace(draft, domain=domain)


def _least(one: DerivedColumn, values: ValueColumns) -> float | None:
    """Return 0 if a column is never below in public rows, and shuffled cells would make it so."""
    numeric = pd.api.types.is_numeric_dtype(values.table[one.name].dtype)
    numeric = numeric or isinstance(values.formats.get(one.name), NumberFormat)
    if not isinstance(one.expression, str) or one.values or not numeric:
        return None
    if (values.full(one.name) < 0).any():
        return None
    return 0.0 if values.may_be_negative(one.name, one.expression) else None


def _is_constant(entry: Entry) -> bool:
    """Return whether an entry is one value in every row, and no number of the row."""
    if not isinstance(entry, str):
        return not isinstance(entry, dict)
    return not (columns_of(parsed("", entry)) or "row()" in entry or entry == "uuid()")


def _derived(name: str, entry: Entry | Lookup | None) -> DerivedColumn:
    if not isinstance(entry, dict):
        return DerivedColumn(name, entry)
    return DerivedColumn(name, entry["expression"], None, tuple(entry["values"].items()))


def _listed(entry: Entry, name: str, attributes: Sequence[Attribute]) -> Entry:
    """Return an entry with values for those that its source is decoded to, if these are few."""
    if not isinstance(entry, dict) or "(" in entry["expression"].removeprefix("col("):
        return entry
    by_text = {column_text(one.name): one for one in attributes}
    own = {one.name: one for one in attributes}[name]
    source, values = by_text[entry["expression"]], entry["values"]
    if not isinstance(source, BinnedAttribute):
        values = {key: one for key, one in values.items() if key in source.labels}
        texts = all(isinstance(one, str) for one in values.values())
        if source.other_code is not None and not own.binned and texts:
            other = source.labels[source.other_code]
            same = other if own.other_code is None else own.listed[own.other_code]
            values.setdefault(other, same)
    elif source.format or any(first != last for first, last, _ in source.entries[1].tolist()):
        values = {}
    return entry | {"values": values}


def _in_its_zone(
    attribute: Attribute,
    table: pd.DataFrame,
    attributes: Sequence[Attribute],
    found: dict[str, Entry],
) -> Attribute:
    """Return an attribute of timestamps with the zone of its parts, and its hour from the column.

    That column is kept: the hour depends on others, and a bin of a day does not.
    """
    if not (isinstance(attribute, TimeAttribute) and attribute.every in _DAYS):
        return attribute
    parts = {name: part_of(one, attribute.name) for name, one in found.items()}
    zone = next((part[1] for part in parts.values() if part and part[1]), None)
    if zone is not None:
        with suppress(DomainError):  # A format without an offset has no zone.
            column = table[attribute.name].dropna()
            day_first = is_day_first(attribute.format)
            again = draft_time(attribute.name, column, None, attribute.nullable, zone, day_first)
            attribute = attribute if again is None or again.every not in _DAYS else again
    if not attribute.clock.counts_in_utc or attribute.zone != (zone or attribute.zone):
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
    elif not (pd.api.types.is_float_dtype(column.dtype) or name.startswith(("datetime64", DATE))):
        return None
    return None if name == default or ("[py" in name and name != DATE) else name


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
        if not one.binned and one.size > _MANY_VALUES
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
