"""A synthetic table, and the released facts that its expectations compare it with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.evaluation.domain_fit import ColumnFit, column_fits
from jam_dagster.evaluation.expectations.keys_seen import KeysSeen
from jam_dagster.evaluation.released_marginals import (
    Agreement,
    one_way_agreement,
    released_marginal,
)
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.constraints import Constraint, Order
from jam_dagster.tables.domain.derived import PlannedColumn, broken_rows
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.numbering import Numbering
from jam_dagster.tables.domain.totals import Total
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.within_roots import RootRule
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.children import Link
    from jam_dagster.tables.domain.domain import Domain

FALSE_ALARM_LEVEL = 0.001
"""The false-alarm level of all one-way marginals together."""

_Telling: TypeAlias = "tuple[pd.DataFrame, pd.DataFrame]"

SHOWN_ROWS = 20
"""The rows at fault that Great Expectations shows of an expectation."""


@dataclass
class Counted:
    """The counts of a table in chunks: its rows, and each attribute's cells and missing values.

    `keys` has those of the rows so far for each rule `unique`. `faults` counts the rows that break
    each rule, by the rule's place, and by a column's name those with a value that is not listed.
    `broken` says which of the relevant rows break each rule: other rows decide it, too.
    """

    rows: int = 0
    cells: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)
    nulls: Counter[str] = field(default_factory=Counter)
    faults: Counter[int | str] = field(default_factory=Counter)
    keys: defaultdict[Unique, KeysSeen] = field(default_factory=lambda: defaultdict(KeysSeen))
    broken: pd.DataFrame = field(default_factory=lambda: pd.DataFrame())


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A synthetic table, and the released facts that it is compared with.

    For a table that comes in chunks, `synthetic` has the relevant rows: the first at fault in each
    way, and one of each cell of each attribute. `counted` has what the whole table counts. A chunk
    comes after `before` other rows.
    """

    synthetic: pd.DataFrame
    domain: Domain
    records: int
    transcript: Transcript
    model: MarginalSource
    public: MarginalSource | None = None
    counted: Counted | None = None
    children: pd.DataFrame | None = None
    fitted: Mapping[str, ColumnFit] | None = None
    before: int = 0

    @classmethod
    def of(
        cls,
        table: pd.DataFrame | TableFile,
        domain: Domain,
        records: int,
        transcript: Transcript,
        model: MarginalSource,
        public: MarginalSource | None,
    ) -> CheckedTable:
        """Return a table with all its rows, or with the relevant ones of its chunks."""
        facts = (domain, records, transcript, model, public)
        if not isinstance(table, TableFile):
            return cls(table, *facts)
        counted = Counted()
        each = (cls(one, *facts, before=counted.rows)._telling(counted) for one in table.chunks())
        telling, counted.broken = reduce(_together, each)
        return cls(telling, *facts, counted)

    def _telling(self, counted: Counted) -> _Telling:
        """Return the relevant rows of a chunk, and which rules they break, and count it."""
        counted.rows += len(self.synthetic)
        telling = np.zeros(len(self.synthetic), dtype=bool)
        broken = {}
        for place, rule in enumerate(self.rules):
            if isinstance(rule, Unique) and set(rule.attributes) <= self.once:
                found = counted.keys[rule].repeated(self.synthetic[list(rule.attributes)])
            else:
                found = self.broken(rule)
            if found is not None:
                telling[_shown(counted.faults, place, found)] = True
                broken[place] = found
        for attribute in self.domain.attributes:
            name = attribute.name
            if name not in self.once:
                continue
            codes = attribute.listed_codes(self.synthetic[name])
            counts = np.bincount(codes + 1, minlength=attribute.size + 1)[1:]
            before = counted.cells.setdefault(name, np.zeros(attribute.size, dtype=np.int64))
            if (counts[before == 0] > 0).any():
                found, first = np.unique(codes, return_index=True)
                telling[first[(found >= 0) & (before[found] == 0)]] = True
            before += counts
            null = self.synthetic[name].isna().to_numpy()
            nulls = _shown(counted.nulls, name, null)
            telling[nulls[codes[nulls] < 0]] = True
            telling[_shown(counted.faults, name, (codes < 0) & ~null)] = True
        rows = np.flatnonzero(telling) + self.before
        faults = {place: found[telling] for place, found in broken.items()}
        return self.synthetic[telling].set_axis(rows), pd.DataFrame(faults, index=rows)

    @cached_property
    def rules(self) -> tuple[ImpossibleCombination | Constraint | Unique | PlannedColumn, ...]:
        """The rules of the domain: those that forbid rows, and those that decoded rows keep."""
        return (*self.domain.forbidden, *self.domain.rules)

    @property
    def keys(self) -> tuple[Link, pd.Series[Any], pd.Series[Any]]:
        """The link of two tables, the keys of roots, and of each child that of its root."""
        assert self.domain.children is not None  # noqa: S101  # of two tables alone
        assert self.children is not None  # noqa: S101
        link = self.domain.children.link
        return link, self.synthetic[link.column], self.children[link.column]

    @property
    def rows(self) -> int:
        """The number of rows of the whole table."""
        return len(self.synthetic) if self.counted is None else self.counted.rows

    @cached_property
    def once(self) -> set[str]:
        """The columns whose name no other column has."""
        return set(self.synthetic.columns[~self.synthetic.columns.duplicated(keep=False)])

    @cached_property
    def agreements(self) -> dict[str, Agreement]:
        """Every measured one-way marginal compared; they share the false-alarm level."""
        agreements = {}
        for attribute in self.domain.attributes:
            released = released_marginal(self.transcript, (attribute.name,))
            if released is None:
                continue
            counts = np.zeros(attribute.size)
            if self.counted is not None:
                counts = self.counted.cells.get(attribute.name, counts).astype(np.float64)
            elif attribute.name in self.once:
                codes = attribute.listed_codes(self.synthetic[attribute.name])
                counts = np.bincount(codes[codes >= 0], minlength=attribute.size).astype(np.float64)
            # No row has an unreadable value, and more are missing for it.
            agreements[attribute.name] = one_way_agreement(
                released.as_released(attribute),
                model=attribute.as_released(self.model.marginal((attribute.name,))),
                synthetic=counts,
                summed=max(1, len(attribute.missing_codes)),
                records=self.records,
                level=FALSE_ALARM_LEVEL / len(self.domain.attributes),
            )
        return agreements

    @cached_property
    def fits(self) -> dict[str, ColumnFit]:
        """How the domain fits each column that has catch-all cells."""
        if self.fitted is not None:
            return dict(self.fitted)
        fits = column_fits(self.transcript, self.domain, self.public)
        return {one.attribute.name: one for one in fits}

    def with_numbers(self) -> pd.DataFrame:
        """Return the table with dates, decimals and formats as the numbers that are counted."""
        numbers = {}
        for one in self.domain.binned:
            written = one.dated or one.format or str(one.dtype).startswith("decimal")
            if one.name in self.once and written:
                column = self.synthetic[one.name]
                counted = one.checked_numbers(column)
                # A value that is no date is outside every bound; only a missing value is null.
                counted[np.isnan(counted) & column.notna().to_numpy()] = np.inf
                numbers[one.name] = counted
        return self.synthetic.assign(**numbers) if numbers else self.synthetic

    def _broken_total(self, total: Total) -> Any:
        if self.children is None or self.domain.children is None or total.name not in self.once:
            return None
        _, keys, owners = self.keys
        places = pd.Index(keys).get_indexer(owners)
        with suppress(DomainError, ValueError):
            rows = self.children[places >= 0]
            wanted = self.domain.children.cells_of(total, rows, places[places >= 0], len(keys))
            found, made = self.synthetic[total.name], wanted.set_axis(self.synthetic.index)
            same = (found == made).fillna(False).to_numpy(dtype=bool)
            return ~(same | (found.isna() & made.isna()).to_numpy())
        return None

    def broken_by_children(self, rule: RootRule | Numbering) -> Any:
        """Return which children break what holds within a root, None if it cannot be checked."""
        two, children = self.domain.children, self.children
        if two is None or children is None:
            return None
        every = set(children.columns[~children.columns.duplicated(keep=False)])
        if isinstance(rule, Unique):
            return rule.repeated(children) if set(rule.attributes) <= every else None
        _, keys, owners = self.keys
        places = pd.Index(keys).get_indexer(owners)
        if isinstance(rule, Numbering):
            return self._misnumbered(rule, places) if set(rule.attributes) <= every else None
        numbers = []
        for name in rule.attributes:
            attribute, own = two.both.attribute(name), two.both.child(name)
            if (name if own is None else own) not in (self.once if own is None else every):
                return None
            assert isinstance(attribute, BinnedAttribute)  # noqa: S101  # as orders are checked
            if own is not None:
                numbers.append(attribute.checked_numbers(children[own]))
            else:
                given = attribute.checked_numbers(self.synthetic[name])
                numbers.append(np.where(places < 0, np.nan, given[places]))
        low, high = numbers
        return ~np.isnan(low) & ~np.isnan(high) & ~rule.holds(low, high)

    def _misnumbered(self, rule: Numbering, places: Any) -> Any:
        """Return which children have another number, by the place of each one's root."""
        two, children = self.domain.children, self.children
        if two is None or children is None:
            return None
        wrong = np.zeros(len(children), dtype=bool)
        with suppress(DomainError, ValueError):
            rows = children[places >= 0]
            made = two.numbered(rule, rows, places[places >= 0])
            same = (rows[rule.name] == made).fillna(False).to_numpy(dtype=bool)
            wrong[places >= 0] = ~same
            return wrong
        return None

    def broken(
        self, rule: ImpossibleCombination | Constraint | Unique | PlannedColumn | Total
    ) -> Any:
        """Return which rows break a rule of the domain, None if it cannot be checked.

        The table may lack a column of it, or have one of another type.
        """
        if isinstance(rule, Total):
            return self._broken_total(rule)
        if self.counted is not None:
            return self.counted.broken.get(self.rules.index(rule))
        if isinstance(rule, PlannedColumn):
            if {rule.name, *rule.sources} <= self.once:
                with suppress(DomainError):
                    return broken_rows(rule, self.synthetic, self.domain.formats, self.before)
            return None
        if not set(rule.attributes) <= self.once:
            return None
        if isinstance(rule, Unique):
            return rule.repeated(self.synthetic)
        if isinstance(rule, Order):
            binned = {one.name: one for one in self.domain.binned}
            low, high = (
                binned[name].checked_numbers(self.synthetic[name]) for name in rule.attributes
            )
            return ~np.isnan(low) & ~np.isnan(high) & ~rule.holds(low, high)
        found = [
            self.domain.attribute(name).listed_codes(self.synthetic[name])
            for name in rule.attributes
        ]
        if isinstance(rule, ImpossibleCombination):
            pairs = zip(found, rule.codes, strict=True)
            return np.logical_and.reduce([np.isin(one, codes) for one, codes in pairs])
        inside = np.logical_and.reduce([one >= 0 for one in found])
        cells = tuple(np.where(inside, one, 0) for one in found)
        return inside & rule.broken(self.domain)[cells]


def _together(chunks: _Telling, chunk: _Telling) -> _Telling:
    """Return the relevant rows of chunks and of the next one, and which rules they break."""
    (rows, broken), (more, faults) = chunks, chunk
    # A rule that cannot be checked in some chunk cannot be checked.
    return pd.concat([rows, more]), pd.concat([broken, faults], join="inner")


def _shown(
    counts: Counter[Any], key: int | str, found: npt.NDArray[np.bool_]
) -> npt.NDArray[np.intp]:
    """Count the rows found in the next chunk, and return those among the first that are shown."""
    rows = np.flatnonzero(found)
    shown = rows[: max(0, SHOWN_ROWS - counts[key])]
    counts[key] += len(rows)
    return shown
