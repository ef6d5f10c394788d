"""Columns of a public table that others determine in every row, as expressions for them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import available_timezones

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.cell_functions import PARTS, date_text, numbers_in
from jam_dagster.tables.domain.computed_cells import may_be_text
from jam_dagster.tables.domain.derived import Formats, holds, instants
from jam_dagster.tables.domain.expressions import column_text, columns_of, parsed
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Value, kind_of, plain_value, text_of
from jam_dagster.tables.drafting.determined_products import products
from jam_dagster.tables.drafting.determined_sums import sums
from jam_dagster.tables.drafting.determined_times import (
    clock_sums,
    comparisons,
    is_time,
    later_times,
)
from jam_dagster.tables.drafting.quantile_bins import KEPT_VALUES
from jam_dagster.tables.drafting.value_columns import (
    LEAST_ROWS,
    Relation,
    ValueColumns,
    chosen_relations,
    may_be_in_formula,
)

_SAMPLE = 2000
_FIRST = 50
_LONGEST_CONSTANT = 400
_MOST_LABELS = 1000
_KINDS: dict[type, int] = {bool: 0, str: 1}
_ROWS_OF_A_LABEL = 5
# One of each rule of clocks that many people live by, the most common first: where several agree
# with the public rows, the first is proposed.
ZONES = (
    *("America/New_York", "Europe/Berlin", "Europe/London", "America/Los_Angeles"),
    *("America/Chicago", "America/Denver", "America/Phoenix", "America/Anchorage"),
    *("Pacific/Honolulu", "America/Halifax", "America/Sao_Paulo", "America/Mexico_City"),
    *("America/Bogota", "Europe/Athens", "Europe/Moscow", "Europe/Istanbul", "Africa/Lagos"),
    *("Africa/Cairo", "Africa/Johannesburg", "Asia/Jerusalem", "Asia/Dubai", "Asia/Karachi"),
    *("Asia/Kolkata", "Asia/Dhaka", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo"),
    *("Australia/Perth", "Australia/Sydney", "Pacific/Auckland"),
)
# Parts of dates in texts that are no dates themselves.
_TEXTS = (
    *(
        "%B",
        "%b",
        "%A",
        "%a",
        "Q%q",
        "%Y-%m",
        "%Y/%m",
        "%m/%Y",
        "%m.%Y",
        "%Y-Q%q",
        "%YQ%q",
        "%G-W%V",
    ),
    *("%b %Y", "%b, %Y", "%b-%Y", "%b-%y", "%B %Y", "%B, %Y", "Q%q %Y", "Q%q-%Y", "%GW%V"),
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"),
)
_NONE: Formats = {}
Entry = Value | dict[str, Any]
"""The entry of a domain file about a derived column."""

_PLAIN = (str, int, float, date, Decimal, np.generic, type(None))
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_NUMBERED = re.compile(r"([A-Za-z_.:/ #-]*)(\d{1,15})", re.ASCII)


def determined(
    table: pd.DataFrame, modelled: Sequence[str], formats: Formats = _NONE
) -> dict[str, Entry]:
    """Return expressions that give columns of a table in every row, by the columns' names.

    An expression reads modelled columns, and at least one of these stays. `formats` are those of
    columns whose texts are dates or numbers. The entry of a column of labels has the `values` of
    codes, too.
    """
    return determined_with_rows(table, modelled, formats)[0]


def determined_with_rows(
    table: pd.DataFrame, modelled: Sequence[str], formats: Formats = _NONE
) -> tuple[dict[str, Entry], dict[str, int]]:
    """Return what `determined` does, and in how many rows shuffled cells would break it."""
    table, sample, distinct = _sampled(table)
    modelled = [name for name in modelled if name in table.columns]
    dates = {name: one for name, one in formats.items() if isinstance(one, str)}
    times = [name for name in modelled if name in dates or is_time(sample[name])]
    # In few rows columns agree by chance.
    enough = len(table) >= LEAST_ROWS
    found: dict[str, Entry] = {}
    values = ValueColumns(table, list(distinct), formats)
    if enough:
        found |= _all_parts(times, sample, table, distinct, dates)
        clocks = dict(clock_sums(sample, table, [one for one in modelled if one not in found]))
        found |= clocks
        # A sum of what a clock gives may be what gives it.
        kept = {name for name in modelled if name not in clocks}
        targets = [name for name in distinct if name not in found]
        related = relations(values, times, targets)
        readable = (
            one
            for one in related
            if not one.gaps and kept.issuperset(one.sources) and not _is_share(one, values, kept)
        )
        chosen = chosen_relations(readable, values.by_cost(targets))
        found |= {one.target: one.expression for one in chosen}
        found |= _copies(sample, table, modelled, found)
        rest = [name for name in modelled if name not in (*found, *times)]
        read = {source for one in chosen for source in one.sources}
        compared = comparisons(values, times, [name for name in rest if name not in read])
        found |= compared
        found |= _labels(table, [name for name in rest if name not in found])
    for name in distinct:
        if name not in found and name not in times:
            own = _constant(table[name])
            if own is not None and holds(own, name, sample, table):
                found[name] = own
            elif name not in modelled and (key := _key(table[name])):
                found[name] = key
    found = {name: found[name] for name in distinct if name in found}
    breakable = {}
    for name, entry in found.items():
        expression = entry["expression"] if isinstance(entry, dict) else entry
        if isinstance(expression, str) and (sources := columns_of(parsed(name, expression))):
            breakable[name] = min(values.shuffled(one) for one in (name, *sources))
    return found, breakable


def _is_share(one: Relation, values: ValueColumns, modelled: Collection[str]) -> bool:
    """Return whether a column is a rest that a formula keeps, which stays within its bounds."""
    return one.rest and all(
        name in modelled and may_be_in_formula(name, values.table, values.formats)
        for name in (one.target, *one.sources)
    )


def relations(
    values: ValueColumns, times: Sequence[str], targets: Sequence[str]
) -> Iterator[Relation]:
    """Yield all sums, products, powers, logarithms and later times among columns."""
    numbers = [name for name in targets if not pd.api.types.is_bool_dtype(values.table[name].dtype)]
    if len(values.columns) > 1:
        yield from sums(values, numbers)
        yield from products(values, numbers)
    yield from later_times(values, times)


def parts_of_dates(table: pd.DataFrame, formats: Formats = _NONE) -> dict[str, str]:
    """Return the columns of a table that are a part of one of its dates in every row, with it.

    Columns of dates are not among them. `formats` are as for `determined`.
    """
    table, sample, distinct = _sampled(table)
    if len(table) < LEAST_ROWS:
        return {}
    dates = {name: one for name, one in formats.items() if isinstance(one, str)}
    times = [name for name in distinct if name in dates or is_time(sample[name])]
    found = _all_parts(times, sample, table, distinct, dates)
    return {name: str(one) for name, one in found.items() if name not in times}


def _sampled(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, int]]:
    """Return the columns whose cells can be compared, a sample of them, and its distinct values."""
    rows = np.unique(np.linspace(0, len(table) - 1, _SAMPLE).astype(np.int64))
    table = table.reset_index(drop=True)
    table = table[[name for name in table.columns if _is_plain(table[name])]]
    sample = table.iloc[rows]
    return table, sample, {str(name): int(sample[name].nunique()) for name in table.columns}


def _all_parts(
    times: Sequence[str],
    sample: pd.DataFrame,
    table: pd.DataFrame,
    distinct: dict[str, int],
    formats: Mapping[str, str],
) -> dict[str, Value]:
    """Return the columns that are parts of dates; those with the most values come first."""
    found: dict[str, Value] = {}
    sources: list[str] = []
    for name in sorted(times, key=lambda one: -distinct[one]):
        if name not in found:
            sources.append(name)
            rest = [one for one in distinct if one not in found and one not in sources]
            found |= _parts(name, rest, sample, table, distinct, formats)
    return found


def part_of(expression: Entry, time: str) -> tuple[str, str] | None:
    """Return part and zone of an expression that is a part of a column of times, else None."""
    functions = "|".join((*PARTS, "date", "timestamp"))
    pattern = rf'({functions})\({re.escape(column_text(time))}(?:, "([^"]+)")?\)'
    read = re.fullmatch(pattern, expression) if isinstance(expression, str) else None
    return (read[1], read[2] or "") if read else None


def _is_plain(column: pd.Series[Any]) -> bool:
    """Return whether cells can be compared: objects may be anything."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return True
    return all(
        issubclass(kind, _PLAIN) or kind in (type(pd.NA), type(pd.NaT))
        for kind in set(map(type, column))
    )


def _is_integer(column: pd.Series[Any]) -> bool:
    dtype: Any = column.dtype
    if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
        return False
    values = column.dropna().to_numpy(dtype=np.float64)
    return bool(len(values)) and bool((values == np.floor(values)).all())


@cache
def _zones() -> tuple[str, ...]:
    """Return the zones to try that this machine has; it lists the files of all."""
    there = available_timezones()
    return tuple(one for one in ZONES if one in there)


def _parts(
    time: str,
    targets: list[str],
    sample: pd.DataFrame,
    table: pd.DataFrame,
    distinct: dict[str, int],
    formats: Mapping[str, str],
) -> dict[str, Value]:
    """Return the columns that are parts of a date, in the zone that gives most of them."""
    every = table.assign(**{time: instants(table[time], formats)})
    few = every.loc[sample.index]
    own: Any = few[time]
    in_utc = own.dt.tz_localize("UTC") if own.dt.tz is None else own
    numbers, days, texts = {}, {}, {}
    for name in targets:
        column = sample[name]
        if _is_integer(column):
            numbers[name] = column.to_numpy(np.float64, na_value=np.nan)
        elif name not in formats and is_time(column) and distinct[name] > 1:
            days[name] = instants(column).dt.tz_localize(None).to_numpy()
        elif isinstance(column.dtype, pd.StringDtype):
            known = np.flatnonzero(column.notna().to_numpy() & own.notna().to_numpy())[:_FIRST]
            if len(known):
                texts[name] = (known, column.iloc[known].tolist())
    best: dict[str, Value] = {}
    # A date has no zone.
    dates = own.dt.tz is None and bool((own.dropna() == own.dropna().dt.normalize()).all())
    for zone in ("", *(() if dates else _zones())):
        local = pd.DatetimeIndex(in_utc.dt.tz_convert(zone) if zone else own)
        given = f'{column_text(time)}, "{zone}"' if zone else column_text(time)
        hits: dict[str, Value] = {}
        parts = {part: numbers_in(part, local) for part in PARTS} if numbers else {}
        told = {f"{part}({given})": (found, part) for part, found in parts.items()}
        if parts:
            month = parts["year"] * 100 + parts["month"]
            year = f"year({given})"
            told |= {
                f"{year} * 100 + month({given})": (month, ""),
                f"{year} * 10000 + month({given}) * 100 + day({given})": (
                    month * 100 + parts["day"],
                    "",
                ),
            }
        for expression, (found, part) in told.items():
            for name, wanted in numbers.items():
                # A column of one value may equal a part by chance, unless it is called that.
                alike = distinct[name] > 1 or part in name.lower()
                if alike and np.array_equal(found, wanted, equal_nan=True):
                    hits.setdefault(name, expression)
        plain = local.tz_localize(None)
        shown = {"date": plain.normalize().to_numpy(), "timestamp": plain.to_numpy()}
        for name, wanted in days.items():
            copy = not zone and sample[name].dtype == sample[time].dtype
            for function, moments in shown.items():
                if not (copy and function == "timestamp") and np.array_equal(
                    moments, wanted, equal_nan=True
                ):
                    hits.setdefault(name, f"{function}({given})")
        first: dict[tuple[int, str], str] = {}
        for name, (known, cells) in texts.items():
            written = _format(known, cells, local, bool(zone), formats.get(name), first)
            if written is not None:
                # A text in UTC is that whatever the zone.
                utc = not zone or written.endswith("Z")
                source = column_text(time) if utc else f"timestamp({given})"
                if not (utc and written == formats.get(time)):  # A copy.
                    hits[name] = f"text({source}, {json.dumps(written)})"
        if len(hits) > len(best):
            held = {name: one for name, one in hits.items() if holds(one, name, few, every)}
            best = held if len(held) > len(best) else best
        if len(best) == len(numbers) + len(days) + len(texts):
            break
    return best


def _format(
    known: np.ndarray,
    cells: list[str],
    local: pd.DatetimeIndex,
    zoned: bool,
    declared: str | None,
    first: dict[tuple[int, str], str],
) -> str | None:
    """Return the format in which cells of some rows are these dates, None if there is none.

    `first` keeps the texts of single rows: that of the first one distinguishes most columns.
    """

    def texts(rows: np.ndarray) -> Iterator[str]:
        moments = local[rows]
        moments = moments.tz_localize("UTC") if moments.tz is None else moments
        shown = moments.tz_convert("UTC") if written.endswith("Z") else moments
        return (date_text(one, written) for one in shown)

    for written in _TEXTS if declared is None else (declared,):
        if zoned and written.endswith("z"):
            continue
        key = (int(known[0]), written)
        if key not in first:
            (first[key],) = texts(known[:1])
        if first[key] == cells[0] and all(map(str.__eq__, texts(known), cells)):
            return written
    return None


def _copies(
    sample: pd.DataFrame,
    table: pd.DataFrame,
    modelled: Sequence[str],
    taken: Collection[str],
) -> dict[str, Value]:
    """Return the columns that are not numbers and equal an earlier one."""
    first: dict[tuple[Any, ...], str] = {}
    copies: dict[str, Value] = {}
    for name in modelled:
        column = sample[name]
        number = pd.api.types.is_numeric_dtype(column.dtype)
        if name in taken or number or column.nunique() < 2:
            continue
        source = first.setdefault(tuple(column.astype(str)), name)
        if source != name and holds(column_text(source), name, sample, table):
            copies[name] = column_text(source)
    return copies


def _labels(table: pd.DataFrame, names: list[str]) -> dict[str, Entry]:
    """Return the columns whose values stand for those of another, one for one."""
    alike: dict[bytes, list[str]] = {}
    for name in names:
        # Numbered as they come, columns that say the same are the same.
        indices, distinct = pd.factorize(table[name])
        if 1 < len(distinct) <= _MOST_LABELS and len(distinct) * _ROWS_OF_A_LABEL <= len(indices):
            alike.setdefault(hashlib.sha256(indices.tobytes()).digest(), []).append(name)
    found: dict[str, Entry] = {}
    for group in alike.values():
        known = {name: _values_of(table[name]) for name in group}
        group = [name for name in group if known[name]]
        # A code would be counted as a number, a label as what it is, and booleans are all known.
        group.sort(key=lambda name: _KINDS.get(type(known[name][0]), 2))
        for name in group[1:]:
            keys = [text_of(one) for one in known[group[0]]]
            few = isinstance(known[group[0]][0], str) or len(keys) <= KEPT_VALUES
            if few and len(set(keys)) == len(keys):
                values = dict(zip(keys, known[name], strict=True))
                found[name] = {"expression": column_text(group[0]), "values": values}
    return found


def _values_of(column: pd.Series[Any]) -> list[Value]:
    """Return the values of a column as they come, nothing if no derived column holds them all."""
    with suppress(DomainError):
        values = [plain_value("", one) for one in pd.factorize(column)[1].tolist()]
        lost = any(
            not may_be_text(one)
            if isinstance(one, str)
            else isinstance(one, int) and abs(one) > LARGEST_INTEGER
            for one in values
        )
        return [] if lost or kind_of(values) == "mixed" else values
    return []


def _constant(column: pd.Series[Any]) -> Value | None:
    if not len(column) or column.isna().any() or len(column.unique()) > 1:
        return None
    value: Any = column.iloc[0]
    if isinstance(value, date):
        moment = instants(column.iloc[:1]).iloc[0]
        if moment is pd.NaT:
            return None
        moment = moment if moment.tzinfo is None else moment.tz_convert("UTC").tz_localize(None)
        if not isinstance(value, datetime):
            return f'date("{moment.date()}")'
        return f'timestamp("{moment.isoformat()}")'
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= _LONGEST_CONSTANT else None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | float | np.integer | np.floating):
        number = float(value)
        if abs(number) <= LARGEST_INTEGER:
            return int(number) if number.is_integer() else number
    return None


def _key(column: pd.Series[Any]) -> str | None:
    """Return what numbers the rows as keys do; None for a column that is no key."""
    if not len(column) or column.isna().any() or column.duplicated().any():
        return None
    if _is_integer(column):
        first, last = int(column.min()), int(column.max())
        if first < 0 or last > LARGEST_INTEGER:
            return "row()"
        steps = np.unique(np.diff(np.sort(column.to_numpy(dtype=np.int64)))).tolist()
        step = steps[0] if len(steps) == 1 else 1
        rows = f"row() * {step}" if step > 1 else "row()"
        before = first - step
        if not before or (step == 1 and (before < 0 or last - before >= 2 * len(column))):
            return rows
        return f"{rows} {'-' if before < 0 else '+'} {abs(before)}"
    # pandas shows no moment that its zone moves beyond the calendar.
    times = pd.api.types.is_datetime64_any_dtype(column.dtype)
    if times or not all(isinstance(one, str) for one in column):
        return None
    if column.map(lambda one: bool(_UUID.fullmatch(one))).all():
        return "uuid()"
    found = [_NUMBERED.fullmatch(one) for one in column]
    forms = {(one[1], len(one[2])) if one else None for one in found}
    form = forms.pop() if len({one and one[0] for one in forms}) == 1 else None
    if form is None:
        return None
    # Numbers of one width have zeros in front.
    width = f", {form[1]}" if not forms else ""
    number = f"text(row(){width})"
    return f"{json.dumps(form[0], ensure_ascii=False)} + {number}" if form[0] else number
