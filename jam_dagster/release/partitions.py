"""The partitions of a release: one snapshot after another, each with a price of its own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from itertools import takewhile
from typing import Literal, cast, get_args

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy import Budget, epsilon_from_rho
from jam_dagster.tables.sources.partition_template import check_partition

Cadence = Literal["daily", "weekly", "monthly"]

_A_YEAR = {"daily": 365, "weekly": 52, "monthly": 12}


@dataclass(frozen=True)
class PartitionsSpec:
    """The partitions of a release: each reads a snapshot of its own and pays a price of its own.

    Parameters
    ----------
    every
        A partition for each day, for each week from Monday, or for each calendar month, in UTC. A
        partition exists once its time is over. None: the partitions are `static`.
    start
        The day on or after which the first partition begins. With `every` only.
    static
        The names of partitions that do not follow from time.

    Raises
    ------
    SpecificationError
        If there are neither or both, the start is missing or not a date, or a name is invalid.
    """

    every: Cadence | None = None
    start: str | None = None
    static: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every is not None:
            if self.every not in get_args(Cadence):
                raise SpecificationError(
                    f"partitions must be {', '.join(get_args(Cadence))} or {{static: [names]}},"
                    f" got {self.every!r}."
                )
            _ = self.begin
        elif self.start is not None:
            raise SpecificationError(
                f"start is for partitions that are {', '.join(get_args(Cadence))}."
            )
        elif not self.static or len({*map(check_partition, self.static)}) < len(self.static):
            raise SpecificationError(
                f"partitions.static must name at least one partition, and each once, got"
                f" {list(self.static)!r}."
            )

    @classmethod
    def of(cls, partitions: object, start: object = None) -> PartitionsSpec | None:
        """Return the partitions by ``partitions`` and ``start`` of a release, None for none."""
        if partitions is None:
            if start is not None:
                raise SpecificationError(
                    "start is for a release that has partitions: set partitions, or drop start."
                )
            return None
        if isinstance(partitions, cls):
            return partitions
        begin = None if start is None else str(start)
        if isinstance(partitions, Mapping):
            names = partitions.get("static")
            if set(partitions) != {"static"} or not isinstance(names, list | tuple):
                raise SpecificationError(
                    f"partitions must be {', '.join(get_args(Cadence))} or {{static: [names]}},"
                    f" got {dict(partitions)!r}."
                )
            return cls(start=begin, static=tuple(names))
        return cls(every=cast(Cadence, partitions), start=begin)

    @property
    def begin(self) -> datetime:
        """The start as a moment in UTC."""
        text = self.start or ""
        if self.every == "monthly" and re.fullmatch(r"\d{4}-\d{2}", text):
            text += "-01"
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise SpecificationError(
                f"partitions that are {self.every} need a start, a day such as 2026-01-01; got"
                f" {self.start!r}."
            ) from None
        return datetime(day.year, day.month, day.day, tzinfo=UTC)

    def holds(self, name: str) -> bool:
        """Whether there is such a partition, or will be."""
        if self.every is None:
            return name in self.static
        try:
            begin = self._moment(name)
        except ValueError:
            return False
        # A date has other spellings, and each would be a partition of its own to the ledger.
        spelled = self._name(begin) == name
        weekly = self.every == "weekly"
        return spelled and begin >= self._first and not (weekly and begin.weekday() != 0)

    def nearest(self, name: str) -> list[str]:
        """Return the partitions that a misspelled name may mean, the nearest first.

        Partitions of time that are not over are left out.
        """
        names = self.static
        if self.every is not None:
            now = datetime.now(UTC)
            over = takewhile(lambda due: due[1] is not None and due[1] <= now, self.following(()))
            names = tuple(partition for partition, _ in over)
        return get_close_matches(name, names)

    def is_over(self, name: str) -> bool:
        """Whether the time of a partition is over, in UTC; always of static ones."""
        return self.every is None or self._next(self._moment(name)) <= datetime.now(UTC)

    def before(self, partition: str) -> str | None:
        """Return the partition before another one, None for the first."""
        if self.every is None:
            index = self.static.index(partition)
            return self.static[index - 1] if index else None
        begin = self._previous(self._moment(partition))
        return self._name(begin) if begin >= self._first else None

    def following(self, done: Collection[str]) -> Iterator[tuple[str, datetime | None]]:
        """Yield the coming partitions and when each is over; those of time have no end.

        Parameters
        ----------
        done
            The released partitions. Partitions of time come after the last of them; static ones are
            all others.
        """
        if self.every is None:
            yield from ((name, None) for name in self.static if name not in done)
            return
        # The names sort in the order of time.
        begin = self._moment(max(done)) if done else self._first
        if done:
            begin = self._next(begin)
        while True:
            end = self._next(begin)
            yield self._name(begin), end
            begin = end

    @property
    def _first(self) -> datetime:
        begin = self.begin
        if self.every == "monthly" and begin.day > 1:
            return self._next(begin.replace(day=1))
        return begin + timedelta(days=-begin.weekday() % 7) if self.every == "weekly" else begin

    def _next(self, begin: datetime) -> datetime:
        if self.every == "monthly":
            return datetime(begin.year + begin.month // 12, begin.month % 12 + 1, 1, tzinfo=UTC)
        return begin + timedelta(days=7 if self.every == "weekly" else 1)

    def _previous(self, begin: datetime) -> datetime:
        if self.every == "monthly":
            return (begin - timedelta(days=1)).replace(day=1)
        return begin - timedelta(days=7 if self.every == "weekly" else 1)

    def _name(self, begin: datetime) -> str:
        return begin.strftime("%Y-%m" if self.every == "monthly" else "%Y-%m-%d")

    def _moment(self, name: str) -> datetime:
        day = date.fromisoformat(f"{name}-01" if self.every == "monthly" else name)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)

    @property
    def in_a_year(self) -> int:
        """How many partitions a year has; static ones, all."""
        return len(self.static) if self.every is None else _A_YEAR[self.every]

    def cost(self, budget: Budget) -> str:
        """Return the cost of a backfill in words, for people to read before they launch it."""
        count = self.in_a_year
        which = (
            f"All {count} partitions together cost"
            if self.every is None
            else f"A year of {self.every} partitions ({count}) costs"
        )
        together = epsilon_from_rho(count * budget.rho, budget.delta)
        return (
            f"Each partition reserves rho {budget.rho:.6g} (epsilon {budget.epsilon:g} at delta"
            f" {budget.delta:g}), a backfill as much for each of its partitions that was not"
            f" released before. {which} up to rho {count * budget.rho:.6g}, which is epsilon"
            f" {together:.4g}, unless the dataset's budget says that partitions"
            f" are disjoint. The metadata of privacy_budget show how many still fit."
        )
