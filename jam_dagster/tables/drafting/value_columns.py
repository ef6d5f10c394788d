"""Columns of a public table as numbers, whatever their format, for the search of relations."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.columns import missing_in, numbers_of
from jam_dagster.tables.domain.computed_cells import Cells, Rows
from jam_dagster.tables.domain.derived import Formats, formatted_cells
from jam_dagster.tables.domain.expressions import column_text, columns_of, evaluated, parsed
from jam_dagster.tables.domain.number_format import NumberFormat

LEAST_ROWS = 50
"""In fewer rows columns agree by chance: so many would break a rule if a column were shuffled."""

MOST_DECIMALS = 6
_LOOKED_AT = 2000
_LEAST_KNOWN = 0.1
_LEAST_IN_FORMULA = 0.5
_FINE = 1e-9
_SINGLE = 4e-7

Floats = npt.NDArray[np.float64]


def looked_at(records: int) -> npt.NDArray[np.int64]:
    """Return the rows of a table that are looked at first, at most 2,000."""
    return np.unique(np.linspace(0, records - 1, _LOOKED_AT).astype(np.int64))


@dataclass(frozen=True)
class Relation:
    """A column that others give, by an expression, in all public rows in which it could be broken.

    `expression` is of the column's own cells, and `number` of the numbers that they write. A
    relation has `gaps` if the column is missing in other rows than the expression. Those that fit
    better have lower ranks. The column is the `rest` if it adds up to a constant with others.
    """

    target: str
    expression: str
    number: str
    sources: tuple[str, ...]
    rank: int
    breakable: int
    gaps: bool = False
    rest: bool = False


@dataclass(frozen=True)
class ValueColumns:
    """The numbers of some columns of a public table, in rows that are looked at first.

    Parameters
    ----------
    table
        The table, whose cells can be compared.
    names
        The columns to look at; those that hold no numbers are left out.
    formats
        How columns of texts write numbers or dates.
    """

    table: pd.DataFrame
    names: Collection[str]
    formats: Formats
    _full: dict[str, Floats] = field(default_factory=dict)
    _shuffled: dict[str, int] = field(default_factory=dict)

    @cached_property
    def rows(self) -> npt.NDArray[np.int64]:
        """The rows that are looked at first."""
        return looked_at(len(self.table))

    @cached_property
    def columns(self) -> list[str]:
        """The columns that hold more than one number, and known ones in enough rows."""
        found = []
        for name in self.names:
            column = self.table[name]
            written = self.formats.get(name)
            number = pd.api.types.is_numeric_dtype(column.dtype) and written is None
            if not (number or isinstance(written, NumberFormat)):
                continue
            known = self.full(name)[self.rows]
            known = known[np.isfinite(known)]
            if len(known) >= max(LEAST_ROWS, _LEAST_KNOWN * len(self.rows)) and np.ptp(known) > 0:
                found.append(name)
        return found

    def full(self, name: str) -> Floats:
        """Return the numbers of a column in all rows, NaN where it is missing."""
        if name not in self._full:
            column, written = self.table[name], self.formats.get(name)
            if isinstance(written, NumberFormat):
                self._full[name] = numbers_of(column, written)
            else:
                self._full[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return self._full[name]

    @cached_property
    def numbers(self) -> Floats:
        """The numbers of the rows that are looked at, shape (rows, columns)."""
        if not self.columns:
            return np.empty((len(self.rows), 0))
        return np.stack([self.full(name)[self.rows] for name in self.columns], axis=1)

    @cached_property
    def decimals(self) -> list[int | None]:
        """The most decimals that numbers of each column have; None if these are many."""
        return [decimals_of(self.full(name), MOST_DECIMALS) for name in self.columns]

    @cached_property
    def distinct(self) -> list[int]:
        """The number of different values of each column, among the rows that are looked at."""
        return [len(np.unique(one[np.isfinite(one)])) for one in self.numbers.T]

    def shuffled(self, name: str) -> int:
        """Return in how many rows of all shuffled values of a column are expected to differ."""
        if name not in self._shuffled:
            self._shuffled[name] = shuffled_rows(self.table[name])
        return self._shuffled[name]

    @cached_property
    def texts(self) -> list[str]:
        """Each column as an expression has its numbers."""
        return [self.text(name) for name in self.columns]

    def text(self, name: str) -> str:
        """Return a column as an expression has its numbers."""
        dtype: Any = self.table[name].dtype
        plain = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        return column_text(name) if plain else f"number({column_text(name)})"

    def room(self, name: str, decimals: int | None) -> Floats:
        """Return how far a number may be from each cell of a column that shows so many decimals."""
        values = np.abs(np.nan_to_num(self.full(name)))
        if decimals is not None:
            return 0.5 * 10.0**-decimals * (1 + 1e-6) + _FINE * values
        single = values.astype(np.float32) == values
        return values * (_SINGLE if single.all() else _FINE)

    def by_cost(self, names: Iterable[str]) -> list[str]:
        """Return columns by how much they cost to model, the dearest first.

        That is the one of most values: of a price, its tax and their sum, the sum. A
        logarithm has more decimals than its number.
        """
        many = MOST_DECIMALS + 1
        shown = [many if one is None else one for one in self.decimals]
        decimals = dict(zip(self.columns, shown, strict=True))
        spread = dict(zip(self.columns, np.nanstd(self.numbers, axis=0), strict=True))
        few = self.table.iloc[self.rows]
        cost = {
            name: (-few[name].nunique(), -decimals.get(name, many), -spread.get(name, np.inf))
            for name in names
        }
        return sorted(cost, key=lambda name: cost[name])

    def relation(
        self, target: str, number: str, rank: int, *, decimals: int | None, whole: bool
    ) -> Relation | None:
        """Return a relation if it holds in all rows, and chance does not explain it, else None.

        `number` is the expression of the numbers, of which the column shows so many decimals;
        with `whole` it has no more than these.
        """
        sources = tuple(sorted(columns_of(parsed("", number))))
        if min(self.shuffled(one) for one in (target, *sources)) < LEAST_ROWS:
            return None
        room = self.room(target, decimals) * (1e-3 if whole else 1.0)
        gaps = False
        for rows in (self.rows, np.arange(len(self.table))):
            fit = self._fit(target, number, sources, rows, room[rows])
            if fit is None:
                return None
            gaps = fit
        breakable = self._breakable(target, number, sources, room)
        if breakable < LEAST_ROWS:
            return None
        written = self.formats.get(target)
        shown = number
        if decimals and not whole:
            shown = number = self._rounded(target, number, decimals)
        if isinstance(written, NumberFormat):
            pattern = self._with_thousands(written, sources)
            shown = f"text({number}, {json.dumps(pattern, ensure_ascii=False)})"
        elif decimals is not None and (decimals or not whole) and not shown.startswith("round("):
            shown = f"round({number}, {decimals})" if decimals else f"round({number})"
        return Relation(target, shown, number, sources, rank, breakable, gaps)

    def _rounded(self, target: str, number: str, decimals: int) -> str:
        """Return a number rounded as more rows of a column are: a half goes to even, or up."""
        little = np.format_float_positional(10.0 ** -(decimals + 4))
        ways = (f"round({number}, {decimals})", f"round({number} + {little}, {decimals})")
        every, wanted = np.arange(len(self.table)), self.full(target)
        room = np.abs(np.nan_to_num(wanted)) * _FINE

        def apart(way: str) -> int:
            with np.errstate(invalid="ignore"):
                return int((np.abs(self._numbers_of(way, every) - wanted) > room).sum())

        return min(ways, key=apart)

    def _with_thousands(self, written: NumberFormat, sources: Sequence[str]) -> str:
        """Return a format, with the mark of thousands of a source that is written alike."""
        for name in sources:
            other = self.formats.get(name)
            if not isinstance(other, NumberFormat) or not other.groups or written.groups:
                continue
            if other.pattern.replace(f"#{other.groups}##0", "0") == written.pattern:
                return other.pattern
        return written.pattern

    def _fit(
        self,
        target: str,
        number: str,
        sources: Sequence[str],
        rows: npt.NDArray[np.int64],
        room: Floats,
    ) -> bool | None:
        """Return whether an expression is missing elsewhere than a column; None if it is wrong."""
        wanted, missing = self.full(target)[rows], missing_in(self.table[target])[rows]
        found = self._numbers_of(number, rows)
        known = np.isfinite(found) & np.isfinite(wanted)
        with np.errstate(invalid="ignore"):
            wrong = known & (np.abs(found - wanted) > room)
        if wrong.any() or known.sum() < LEAST_ROWS:
            return None
        given = np.logical_and.reduce([~missing_in(self.table[one])[rows] for one in sources])
        # A division by zero has no result, and the column shows none.
        if (given & ~np.isfinite(found) & ~missing).any():
            return None
        # A value that no expression can read is equal to nothing.
        return bool((np.isfinite(found) == missing).any() or (missing == np.isfinite(wanted)).any())

    def _numbers_of(self, number: str, rows: npt.NDArray[np.int64], shuffled: str = "") -> Floats:
        """Return what an expression gives in rows, NaN where it gives nothing."""
        try:
            found = evaluated(parsed("", number), self.cells(rows, shuffled))
        except DomainError:
            return np.full(len(rows), np.nan)
        if found.kind not in ("integer", "number"):
            return np.full(len(rows), np.nan)
        return np.where(found.missing, np.nan, found.values.astype(np.float64))

    def _breakable(self, target: str, number: str, sources: Sequence[str], room: Floats) -> int:
        """Return in how many rows a relation is broken if the cells of one column are shuffled.

        That of the column in which it is broken least. Counted in the rows that are looked at.
        """
        wanted, room = self.full(target)[self.rows], room[self.rows]
        order = np.random.default_rng(0).permutation(len(self.rows))
        found = self._numbers_of(number, self.rows)
        apart = [
            found - wanted[order],
            *(self._numbers_of(number, self.rows, one) - wanted for one in sources),
        ]
        with np.errstate(invalid="ignore"):
            least = min(int((np.abs(one) > room).sum()) for one in apart)
        return int(least * len(self.table) / len(self.rows))

    def may_be_negative(self, target: str, expression: str) -> bool:
        """Return whether a column's expression gives numbers below 0 if a source is shuffled."""
        tree, written = parsed(target, expression), self.formats.get(target)
        for source in sorted(columns_of(tree)):
            found = evaluated(tree, self.cells(self.rows, source))
            numbers = pd.Series(np.where(found.missing, np.nan, found.values))
            format_of = written if isinstance(written, NumberFormat) else None
            if (numbers_of(numbers, format_of) < 0).any():
                return True
        return False

    def cells(self, rows: npt.NDArray[np.int64], shuffled: str = "") -> Rows:
        """Return rows whose cells an expression can read, those of one column shuffled."""
        order = np.random.default_rng(0).permutation(rows)

        def read(name: str) -> Cells:
            column = self.table[name].iloc[order if name == shuffled else rows]
            return formatted_cells(name, column, self.formats)

        return Rows(0, len(rows), read, np.random.default_rng(0))

    def telling(self, count: int) -> npt.NDArray[np.int64]:
        """Return some of the rows that are looked at, in which most columns are not as often."""
        numbers = self.numbers
        rare = np.zeros(numbers.shape)
        for index, column in enumerate(numbers.T):
            _, codes, times = np.unique(column, return_inverse=True, return_counts=True)
            rare[:, index] = (times[codes] < len(column) / 2) & np.isfinite(column)
        rest = rare.copy()
        chosen: list[int] = []
        for _ in range(min(count, len(numbers))):
            # Values that few of the chosen rows have count more.
            seen = 1.0 + rare[chosen].sum(axis=0)
            score = (rest / seen).sum(axis=1)
            chosen.append(int(np.argmax(score)))
            rest[chosen[-1]] = -1.0
        return np.array(chosen, dtype=np.int64)


def may_be_in_formula(name: str, table: pd.DataFrame, formats: Formats) -> bool:
    """Return whether a column's cells are numbers, and known in most rows."""
    column = table[name]
    number = pd.api.types.is_numeric_dtype(column.dtype) and name not in formats
    number = number and not pd.api.types.is_bool_dtype(column.dtype)
    return number and bool(column.notna().mean() > _LEAST_IN_FORMULA)


def shuffled_rows(column: pd.Series[Any]) -> int:
    """Return in how many rows shuffled values of a column are expected to be other ones."""
    codes = pd.factorize(column)[0]
    return expected_to_differ(codes[codes >= 0])


def expected_to_differ(codes: npt.NDArray[Any]) -> int:
    """Return how many codes are expected to be others if they are shuffled."""
    counts = np.bincount(codes).astype(np.float64)
    return int(counts.sum() - (counts**2).sum() / max(counts.sum(), 1.0))


def decimals_of(values: Floats, most: int) -> int | None:
    """Return the number of decimals that values have; None if there are more than so many."""
    known = values[np.isfinite(values)]
    return next((one for one in range(most + 1) if (np.round(known, one) == known).all()), None)


def chosen_relations(
    found: Iterable[Relation], order: Iterable[str], taken: Collection[str] = ()
) -> list[Relation]:
    """Return one relation for a column, so that each reads columns that are not yet derived.

    Columns are derived in an order, the best relation of each. One is skipped if more columns are
    derived without it. Those that are `taken` are read by any.
    """
    ways: dict[str, list[Relation]] = {}
    for one in sorted(found, key=lambda one: (one.rank, len(one.sources), len(one.expression))):
        ways.setdefault(one.target, []).append(one)
    names = [name for name in order if name in ways and name not in taken]

    def derived(without: set[str]) -> list[Relation]:
        done: dict[str, Relation] = {}
        for name in names:
            if name in without:
                continue
            free = (one for one in ways[name] if not set(one.sources) & done.keys())
            if (way := next(free, None)) is not None:
                done[name] = way
        return list(done.values())

    without: set[str] = set()
    best = derived(without)
    for name in [one.target for one in best]:
        other = derived(without | {name})
        if len(other) > len(best):
            without.add(name)
            best = other
    return best
