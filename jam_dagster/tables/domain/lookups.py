"""Columns that others determine by a table: a distance by its route, a state by its city.

::

    derived:
      distance:
        lookup: [origin, dest]
        values:
          - [JFK, LAX, 2475]
          - [JFK, other, [187, 1089]]    # one of these
          - [null, LAX, null]            # missing

A row whose combination is not listed gets the value of an entry that agrees with it in all but the
last column, in all but the last two, and so on: of several one by chance, the same in all rows of
that combination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_list, as_text
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.computed_cells import Cells, Rows, cells_of, read_cells, typed
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Value, kind_of, plain_value, text_of

# With so many values of each, the number of a combination is still an integer.
MOST_COLUMNS = 3
_MOST_VALUES = 1_000_000

Key = tuple[str | None, ...]


@dataclass(frozen=True)
class Lookup:
    """A table by which one to three columns, which may be derived, determine another one.

    Each entry has texts of their values, None for a missing one, and one or more values that the
    combination may have, None for a missing one. No combination is there twice.
    """

    columns: tuple[str, ...]
    entries: tuple[tuple[Key, tuple[Value | None, ...]], ...]

    def __post_init__(self) -> None:
        what = f"the lookup by {', '.join(map(str, self.columns))}"
        if not 1 <= len(self.columns) <= MOST_COLUMNS:
            raise DomainError(f"{what} needs from 1 to {MOST_COLUMNS} columns")
        if len(set(self.columns)) < len(self.columns):
            raise DomainError(f"{what} names a column twice: remove one")
        if sum(len(values) for _, values in self.entries) > _MOST_VALUES:
            raise DomainError(f"{what} has more than {_MOST_VALUES:,} values")
        entries = tuple(
            (
                tuple(None if one is None else text_of(plain_value(what, one)) for one in key),
                tuple(None if one is None else plain_value(what, one) for one in values),
            )
            for key, values in self.entries
        )
        if any(len(key) != len(self.columns) or not values for key, values in entries):
            raise DomainError(f"each entry of {what} needs a value of each column, and a result")
        if len({key for key, _ in entries}) < len(entries):
            raise DomainError(f"{what} has a combination twice: remove one")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "entries", entries)
        known = [one for one in self.results if one is not None]
        if not known:
            raise DomainError(f"{what} has no value: list some, or remove it")
        if kind_of(known) == "mixed" or any(
            isinstance(one, int) and abs(one) > LARGEST_INTEGER for one in known
        ):
            raise DomainError(
                f"the values of {what} must be all texts, all booleans, or all numbers up to 2^53"
            )

    def __str__(self) -> str:
        """Return what it is in words."""
        names = ", ".join(self.columns)
        return f"looked up by {names} in a table of {len(self.entries):,} entries"

    @cached_property
    def results(self) -> tuple[Value | None, ...]:
        """The values of all entries, one after the other."""
        return tuple(one for _, values in self.entries for one in values)

    @cached_property
    def _codes(self) -> tuple[list[dict[str | None, int]], npt.NDArray[np.int64]]:
        """The number of each text of a column, and these of each value, shape (values, columns)."""
        numbers: list[dict[str | None, int]] = []
        codes = np.empty((len(self.results), len(self.columns)), np.int64)
        times = [len(values) for _, values in self.entries]
        for index in range(len(self.columns)):
            found = numbers_of_texts = dict[str | None, int]()
            own = [found.setdefault(key[index], len(found)) for key, _ in self.entries]
            codes[:, index] = np.repeat(np.array(own, np.int64), times)
            numbers.append(numbers_of_texts)
        return numbers, codes

    def cells(self, rows: Rows) -> Cells:
        """Return the cells that are looked up in rows."""
        numbers, listed = self._codes
        share, asked = rows.rng.random(rows.count), self._asked(rows)
        chosen = np.full(rows.count, -1, np.int64)
        for number in range(len(self.columns), -1, -1):
            some = np.flatnonzero(chosen < 0)
            given = _combined(listed, numbers, number)
            order = np.argsort(given, kind="stable")
            wanted = _combined(asked[some], numbers, number)
            first = np.searchsorted(given[order], wanted, side="left")
            last = np.searchsorted(given[order], wanted, side="right")
            here = first + np.floor(share[some] * (last - first)).astype(np.int64)
            found = last > first
            chosen[some[found]] = order[here[found]]
            share = _shares(asked)
        return self._cells_at(chosen)

    def broken(self, rows: Rows, found: Cells, dtype: str) -> npt.NDArray[np.bool_]:
        """Return which rows have a listed combination, and not its value as a dtype holds it."""
        numbers, listed = self._codes
        held = read_cells("", typed("", self._cells_at(np.arange(len(listed))), dtype))
        results: dict[str | None, int] = {}
        own = [
            results.setdefault(None if missing else text_of(one), len(results))
            for one, missing in zip(held.values.tolist(), held.missing.tolist(), strict=True)
        ]
        texts = each_value(pd.Series(found.values), partial(_number_of, results), -1, np.int64)
        texts = np.where(found.missing, results.get(None, -1), texts)
        keys, wanted = (
            _combined(one, numbers, len(self.columns)) for one in (listed, self._asked(rows))
        )
        # The number of a combination may be too large for a product.
        _, places = np.unique(np.concatenate([keys, wanted]), return_inverse=True)
        pairs = places * len(results) + np.concatenate([np.array(own), texts])
        kept = np.isin(pairs[len(keys) :], pairs[: len(keys)])
        return np.isin(wanted, keys) & ((texts < 0) | ~kept)

    def _cells_at(self, places: npt.NDArray[np.int64]) -> Cells:
        """Return the results at places, a missing one at -1."""
        results = np.array([*self.results, None], dtype=object)
        return cells_of(results[places], kind_of([one for one in self.results if one is not None]))

    def _asked(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the numbers of the values of columns, -1 for an unlisted one."""
        numbers, _ = self._codes
        asked = np.empty((rows.count, len(self.columns)), np.int64)
        for index, name in enumerate(self.columns):
            cells, known = rows.columns(name), numbers[index]
            texts = each_value(pd.Series(cells.values), partial(_number_of, known), -1, np.int64)
            asked[:, index] = np.where(cells.missing, known.get(None, -1), texts)
        return asked

    def to_entry(self) -> dict[str, Any]:
        """Return what a domain file has of it."""
        values = [
            [*key, results[0] if len(results) == 1 else list(results)]
            for key, results in self.entries
        ]
        return {"lookup": list(self.columns), "values": values}

    @classmethod
    def from_entry(cls, what: str, entry: Mapping[str, Any]) -> Self:
        """Build it from an entry of a domain file, whose keys were checked."""
        names = as_list(what, "lookup", entry["lookup"])
        columns = tuple(as_text(what, "each of 'lookup'", one) for one in names)
        listed: Sequence[Any] = as_list(what, "values", entry.get("values") or [])
        entries = []
        for one in listed:
            if not isinstance(one, list | tuple) or len(one) != len(columns) + 1:
                raise SpecificationError(
                    f"{what}: each of 'values' must list the values of {', '.join(columns)}, and"
                    f" the result, got {one!r}"
                )
            *key, result = one
            entries.append((tuple(key), tuple(result) if isinstance(result, list) else (result,)))
        return cls(columns, tuple(entries))


def _shares(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return a number from 0 to 1 for each row that follows from its codes, and looks random."""
    mixed = np.zeros(len(codes), np.uint64)
    for index in range(codes.shape[1]):
        # Wraps around: the steps of SplitMix64.
        mixed += codes[:, index].astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    shares: npt.NDArray[np.float64] = (mixed >> np.uint64(11)) / 2.0**53
    return shares


def _number_of(numbers: Mapping[str | None, int], value: object) -> int:
    return numbers.get(text_of(value), -1)


def _combined(
    codes: npt.NDArray[np.int64], numbers: Sequence[Mapping[str | None, int]], columns: int
) -> npt.NDArray[np.int64]:
    """Return a number for the first codes of each row, -1 where one of them is unknown."""
    combined = np.zeros(len(codes), np.int64)
    for index in range(columns):
        combined = combined * len(numbers[index]) + codes[:, index]
    combined[(codes[:, :columns] < 0).any(axis=1)] = -1
    return combined
