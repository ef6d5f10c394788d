"""Columns of a public table that others determine in every row, though by no formula."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.computed_cells import may_be_text
from jam_dagster.tables.domain.lookups import Key, Lookup
from jam_dagster.tables.domain.values import Value, kind_of, plain_value, text_of
from jam_dagster.tables.drafting.quantile_bins import KEPT_VALUES

_LEAST_ROWS = 1000
_ROWS_OF_A_KEY = 5
_LEAST_CONFIRMED = 50
"""Least number of rows that confirm an entry by a value other than the most frequent one."""

_MOST_KEYS = 10_000
_MOST_OTHER = 0.2
_SAMPLE = 4000
_MOST_SOURCES = 60
_MOST_RESULTS = 100

_Codes = npt.NDArray[np.int64]


def found_lookups(
    table: pd.DataFrame, encoded: EncodedTable, taken: Collection[str]
) -> dict[str, Lookup]:
    """Return tables by which one or two attributes give other columns, by name, in every row.

    Columns that are `taken` are derived already. No column of a lookup is looked up itself. Rows in
    which a source is in the category of unlisted values confirm nothing, and have several results.
    """
    rows = encoded.records
    if rows < _LEAST_ROWS:
        return {}
    sources = _sources(table, encoded)
    targets = {
        name: _numbered(table[name])
        for name in map(str, table.columns)
        if name not in taken and _is_plain(table[name])
    }
    targets = {name: one for name, one in targets.items() if 1 < one.max() + 1 < rows}
    possible: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for names, target in _candidates(sources, targets):
        # One source is better than two, and few keys are better than many.
        best = possible.setdefault(target, [])
        if len(names) == 1 or not any(len(one) == 1 for _, one in best):
            keys, known = _keys(sources, names)
            if _confirmed(keys, known, targets[target]):
                best.append((len(np.unique(keys)), names))
    found: dict[str, Lookup] = {}
    needed: set[str] = set()
    # A column of many values costs most to model.
    for name in sorted(possible, key=lambda one: -int(targets[one].max())):
        ways = sorted(possible[name], key=lambda one: (len(one[1]), one[0]))
        usable = [names for _, names in ways if not set(names) & found.keys()]
        if name not in needed and usable:
            made = _lookup(table[name], sources, usable[0])
            if made is not None:
                found[name] = made
                needed |= set(usable[0])
    return found


class _Source(NamedTuple):
    """A column by whose values others may be looked up."""

    codes: _Codes
    """A number for the value of each row."""

    labels: list[str | None]
    """The text of each value as it is decoded, None for a missing one."""

    known: npt.NDArray[np.bool_]
    """Whether a row has a listed value."""


def _sources(table: pd.DataFrame, encoded: EncodedTable) -> dict[str, _Source]:
    """Return the attributes that decode to few values."""
    found: dict[str, _Source] = {}
    for one, column in zip(encoded.domain.attributes, encoded.columns, strict=True):
        if isinstance(one, BinnedAttribute):
            if not _has_few_values(one):
                continue
            numbers, codes = np.unique(one.numbers_in(table[one.name]), return_inverse=True)
            labels = [None if np.isnan(number) else text_of(number) for number in numbers.tolist()]
            known = np.ones(len(codes), dtype=bool)
        elif one.drawn:
            # Rows decode to listed texts alone; the others confirm nothing.
            texts = table[one.name].astype(object)
            listed = texts.isna() | texts.isin(one.listed)
            rest = "" if one.other_code is None else one.listed[-1]
            codes, values = pd.factorize(texts.where(listed, rest), use_na_sentinel=False)
            labels = [None if pd.isna(text) else text for text in values.tolist()]
            known = (listed & (texts != rest)).to_numpy()
        else:
            if kind_of(one.listed) == "mixed":
                continue  # No expression reads numbers among texts.
            codes = column.astype(np.int64)
            labels = [*map(text_of, one.listed), *[None] * len(one.missing_codes)]
            known = codes != (-1 if one.other_code is None else one.other_code)
        if known.mean() >= 1 - _MOST_OTHER and len(np.unique(codes)) > 1:
            found[one.name] = _Source(codes, labels, known)
    return dict(list(found.items())[:_MOST_SOURCES])


def _has_few_values(attribute: BinnedAttribute) -> bool:
    """Return whether an attribute decodes to single numbers, and to no other ones."""
    entries = attribute.entries[1]
    few = len(entries) <= KEPT_VALUES and bool((entries[:, 0] == entries[:, 1]).all())
    return few and not attribute.dated and not attribute.format


def _is_plain(column: pd.Series[Any]) -> bool:
    """Return whether a lookup can have the values of a column."""
    dtype: Any = column.dtype
    if pd.api.types.is_numeric_dtype(dtype):
        return True
    if isinstance(dtype, pd.CategoricalDtype):
        return _is_plain(pd.Series(dtype.categories))
    if not (pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype)):
        return False
    known = column.dropna()
    # Lists, which have no distinct values, are of another type.
    return {*map(type, known)} <= {str, bool} and all(
        isinstance(one, bool) or may_be_text(one) for one in known.unique()
    )


def _numbered(column: pd.Series[Any]) -> _Codes:
    return pd.factorize(column, use_na_sentinel=False)[0].astype(np.int64)


def _candidates(
    sources: Mapping[str, _Source], targets: dict[str, _Codes]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield one or two sources that determine a target in a sample."""
    if not targets:
        return
    names = list(targets)
    rows = len(targets[names[0]])
    sample = np.unique(np.linspace(0, rows - 1, _SAMPLE).astype(np.intp))
    values = np.stack([targets[name][sample] for name in names], axis=1)
    for number in (1, 2):
        for some in combinations(sources, number):
            keys, known = _keys(sources, some, sample)
            order = np.argsort(keys, kind="stable")
            same = (keys[order][1:] == keys[order][:-1]) & known[order][1:] & known[order][:-1]
            if 3 * same.sum() < len(sample):
                continue
            sorted_values = values[order]
            breaks = (sorted_values[1:] != sorted_values[:-1])[same].any(axis=0)
            for name, broken in zip(names, breaks, strict=True):
                if not broken and name not in some:
                    yield some, name


def _keys(
    sources: Mapping[str, _Source],
    names: Sequence[str],
    rows: Any = slice(None),
) -> tuple[_Codes, npt.NDArray[np.bool_]]:
    """Return a number for the combination of some sources in each row, and which are listed."""
    first, known = sources[names[0]].codes[rows], sources[names[0]].known[rows]
    for name in names[1:]:
        one = sources[name]
        first, known = first * len(one.labels) + one.codes[rows], known & one.known[rows]
    return first, known


def _confirmed(keys: _Codes, known: npt.NDArray[np.bool_], target: _Codes) -> bool:
    """Return whether all rows of a key have one value, in so many rows that it is no chance."""
    keys, values = keys[known], target[known]
    distinct, first, indices = np.unique(keys, return_index=True, return_inverse=True)
    if (
        not len(distinct)
        or len(distinct) > _MOST_KEYS
        or len(distinct) * _ROWS_OF_A_KEY > len(keys)
    ):
        return False
    if (values[first][indices] != values).any():
        return False
    again = np.ones(len(values), dtype=bool)
    again[first] = False
    often = np.bincount(values).argmax()
    return bool((again & (values != often)).sum() >= _LEAST_CONFIRMED)


def _lookup(
    column: pd.Series[Any],
    sources: Mapping[str, _Source],
    names: tuple[str, ...],
) -> Lookup | None:
    """Return the table of a column, the source with the most values of it first."""

    def told(name: str) -> int:
        both = pd.DataFrame({"key": sources[name].codes, "value": target}).drop_duplicates()
        return len(both) - both["key"].nunique()

    target, distinct = pd.factorize(column, use_na_sentinel=False)
    # An unlisted combination is looked up by the first column alone, so it leaves the fewest
    # values.
    names = tuple(sorted(names, key=told))
    labels = [sources[name].labels for name in names]
    codes = {name: sources[name].codes for name in names}
    rows = pd.DataFrame(codes | {"": target}).value_counts(sort=False).reset_index()
    rows = rows.sort_values([*names, "count", ""], ascending=[True] * len(names) + [False, True])
    results: dict[Key, list[Value | None]] = {}
    try:
        values: list[Value | None] = [
            None if pd.isna(one) else plain_value("", one) for one in distinct.tolist()
        ]
        for *key, index, _ in rows.itertuples(index=False, name=None):
            texts = tuple(one[code] for one, code in zip(labels, key, strict=True))
            here = results.setdefault(texts, [])
            if len(here) < _MOST_RESULTS:
                here.append(values[index])
        return Lookup(names, tuple((key, tuple(here)) for key, here in results.items()))
    except DomainError:
        return None
