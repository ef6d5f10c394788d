"""Columns of a public root table that its children give: totals, numbers, first and last days."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.children import SLOTS, Link
from jam_dagster.tables.domain.columns import missing_in
from jam_dagster.tables.domain.derived import Formats
from jam_dagster.tables.domain.expressions import column_text
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.totals import Total
from jam_dagster.tables.drafting.determined_times import is_time, seconds_of
from jam_dagster.tables.drafting.value_columns import LEAST_ROWS, Floats, ValueColumns

_MOST_COLUMNS = 60
_MOST_TIMES = 20


def found_totals(
    flat: pd.DataFrame,
    link: Link,
    roots: pd.DataFrame,
    formats: Formats,
    child_formats: Formats,
    taken: Sequence[str],
) -> dict[Total, int]:
    """Return the columns of the root table, but those `taken`, that children give in every row.

    Each has the number of rows that would break it if shuffled. Rows count whose children a flat
    table has, which are two at most; fifty of them have two, for of one a sum says nothing.
    """
    number = flat[link.table].to_numpy(dtype=np.int64)
    whole = np.flatnonzero((number <= len(SLOTS)) & (number < max(link.maximum, len(SLOTS) + 1)))
    if (number[whole] == len(SLOTS)).sum() < LEAST_ROWS:
        return {}
    children, owners = _children(flat.iloc[whole], number[whole], link)
    own = ValueColumns(children, [*map(str, children)], child_formats)
    mine = roots.iloc[whole].reset_index(drop=True)
    values = ValueColumns(mine, [name for name in map(str, mine) if name not in taken], formats)
    ways = list(_ways(own, owners, len(whole)))
    found: dict[str, tuple[str, int]] = {}
    for place, name in enumerate(values.columns):
        if pd.api.types.is_bool_dtype(mine[name].dtype):
            continue
        room = values.room(name, values.decimals[place])
        missing = missing_in(mine[name])
        for text, numbers in ways:
            rows = _breakable(values.full(name), numbers, room, missing)
            if rows >= LEAST_ROWS:
                found[name] = (_shown(text, values, place), rows)
                break
    times = [
        name
        for name in map(str, children)
        if isinstance(child_formats.get(name), str) or is_time(children[name])
    ]
    ends: list[tuple[str, Floats]] = []
    for name in times[:_MOST_TIMES]:
        seconds = seconds_of(children[name], child_formats)
        for function in ("min", "max"):
            text = f"{function}({_time(name, child_formats)})"
            ends.append((text, _aggregated(function, seconds, owners, len(whole))))
    for name in map(str, mine) if ends else ():
        written = formats.get(name)
        if name in taken or not (isinstance(written, str) or is_time(mine[name])):
            continue
        wanted, room = seconds_of(mine[name], formats), np.zeros(len(whole))
        for text, numbers in ends:
            rows = _breakable(wanted, numbers, room, missing_in(mine[name]))
            if rows >= LEAST_ROWS:
                pattern = json.dumps(written, ensure_ascii=False)
                shown = f"text({text}, {pattern})" if isinstance(written, str) else text
                found[name] = (shown, rows)
                break
    return {Total(name, text): rows for name, (text, rows) in found.items()}


def _shown(text: str, values: ValueColumns, place: int) -> str:
    """Return an aggregate as a column shows its numbers."""
    written, decimals = values.formats.get(values.columns[place]), values.decimals[place]
    if isinstance(written, NumberFormat):
        return f"text({text}, {json.dumps(written.pattern, ensure_ascii=False)})"
    whole = text == "count()" or decimals is None
    return text if whole else f"round({text}, {decimals})"


def _time(name: str, formats: Formats) -> str:
    text = column_text(name)
    return f"timestamp({text})" if isinstance(formats.get(name), str) else text


def _children(
    flat: pd.DataFrame, number: npt.NDArray[np.int64], link: Link
) -> tuple[pd.DataFrame, npt.NDArray[np.intp]]:
    """Return the children of roots, a row each, and the place of each one's root."""
    parts, owners = [], []
    for slot in SLOTS:
        own = link.name(slot, "")
        columns = {name: name.removeprefix(own) for name in flat.columns if name.startswith(own)}
        there = np.flatnonzero(number >= slot)
        parts.append(flat[list(columns)].iloc[there].rename(columns=columns))
        owners.append(there)
    return pd.concat(parts, ignore_index=True), np.concatenate(owners)


def _ways(
    values: ValueColumns, owners: npt.NDArray[np.intp], roots: int
) -> Iterator[tuple[str, Floats]]:
    """Yield what children may give: their number, then sums, ends and means of columns."""
    yield "count()", np.bincount(owners, minlength=roots).astype(np.float64)
    names = values.columns[:_MOST_COLUMNS]
    for function in ("sum", "max", "min", "mean"):
        for name in names:
            numbers = _aggregated(function, values.full(name), owners, roots)
            yield f"{function}({values.text(name)})", numbers
    for left, right in combinations(names, 2):
        product = values.full(left) * values.full(right)
        yield (
            f"sum({values.text(left)} * {values.text(right)})",
            _aggregated("sum", product, owners, roots),
        )


def _aggregated(function: str, numbers: Floats, owners: npt.NDArray[np.intp], roots: int) -> Floats:
    """Return the aggregate of the known numbers of each root, NaN where there is none of any."""
    known = np.isfinite(numbers)
    count = np.bincount(owners[known], minlength=roots)
    if function in ("sum", "mean"):
        total = np.bincount(owners[known], numbers[known], minlength=roots).astype(np.float64)
        if function == "sum":
            return total
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    ends = np.full(roots, np.inf if function == "min" else -np.inf)
    (np.minimum if function == "min" else np.maximum).at(ends, owners[known], numbers[known])
    return np.where(count > 0, ends, np.nan)


def _breakable(wanted: Floats, found: Floats, room: Floats, missing: npt.NDArray[np.bool_]) -> int:
    """Return how many rows would be others if shuffled; 0 if the children do not give a column."""
    known = np.isfinite(found) & np.isfinite(wanted)
    alike = np.isfinite(found) == ~missing
    with np.errstate(invalid="ignore"):
        if not alike.all() or (np.abs(found - wanted) > room)[known].any():
            return 0
        order = np.random.default_rng(0).permutation(len(wanted))
        return int((np.abs(found - wanted[order]) > room)[known & known[order]].sum())
