"""Attributes that are counted in bins."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, OutsideDomainError, SpecificationError
from jam_dagster.tables.domain.attributes import OUTSIDE, Attribute, CatchAll, Caught, Key, examples
from jam_dagster.tables.domain.columns import missing_in
from jam_dagster.tables.domain.entries import (
    Entries,
    entries_in,
    entries_to,
    nearest_in,
    plain_edge,
    plain_entry,
)
from jam_dagster.tables.domain.intervals import bins_in, intervals
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Mask, Numbers, Units

LARGEST_EDGE = 2**63 - 1024
"""The largest float that is an integer of 64 bits."""


BINNED_KEYS = {
    "edges": Key("**needed**, or `bounds`", "increasing numbers"),
    "bounds": Key(
        "**needed**, or `edges`", "the least and the largest number, for bins of equal width"
    ),
    "bins": Key("a bin a whole number, with `integer`", "with `bounds`: how many"),
    "outside": Key(
        "`error`",
        "`clip` moves a number beyond the bounds into the first or last bin; `error` refuses it",
    ),
    "nullable": Key("`false`", "whether values may be missing"),
    "unreadable": Key("`error`", "`missing` as above, of a cell that is no number"),
    "within": Key("", "what the numbers of a bin are like, from public data"),
}
"""The keys of a domain file that all attributes have whose cells are bins."""


@dataclass(frozen=True)
class BinnedAttribute(Attribute):
    """Numbers in bins, of any kind; `NumericAttribute` explains the parameters."""

    edges: tuple[float, ...]
    _: KW_ONLY
    clip: bool = False
    within: Entries = ()

    binned = True

    def __post_init__(self) -> None:
        super().__post_init__()
        # Adding 0.0 turns -0.0 into 0.0: equal attributes have equal digests.
        edges = tuple(plain_edge(self.name, edge) + 0.0 for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
            raise DomainError(
                f"attribute {self.name!r}: edges must be at least two numbers, increasing"
            )
        self._check_dtype()
        self._check_bins()
        within = tuple(plain_entry(self.name, "within", entry) for entry in self.within)
        object.__setattr__(self, "within", self._up_to_edges(within))
        within = self.placed
        if not within:
            return
        first, last, _ = np.array(within, dtype=np.float64).T
        low, high = self.bin_limits
        bins = self._bins_of(first)
        wrong = (first < low[bins]) | (last > high[bins]) | (first > last)
        for ends in (first, last):
            points = ends if self.scale is None else np.rint(ends * self.scale)
            wrong |= self.from_grid(points) != ends
        if wrong.any():
            entry = within[int(np.flatnonzero(wrong)[0])]
            raise DomainError(
                f"attribute {self.name!r}: the entry {list(entry)} of within must go from one value"
                " of a bin to the same or a larger one: correct it, or leave `within` out"
            )

    def _up_to_edges(self, within: Entries) -> Entries:
        """Return entries of which those that end at the edge of their bin end just below it."""
        return within

    @abstractmethod
    def _check_dtype(self) -> None:
        """Set the default dtype, or raise DomainError if the dtype cannot hold the values."""

    @property
    @abstractmethod
    def integer(self) -> bool:
        """Whether the numbers are integers. Then every bin must hold one."""

    @property
    def scale(self) -> int | None:
        """10 to the power of the decimals (1 for integers); None if any float is allowed."""
        if self.integer:
            return 1
        return None if self.decimals is None else 10**self.decimals

    @property
    def points_apart(self) -> int:
        """How many multiples of ``1 / scale`` are from one number that is drawn to the next."""
        return 1

    @abstractmethod
    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        """Return the number that an edge in a domain file stands for."""

    @abstractmethod
    def written(self, number: float) -> Any:
        """Return a number as a domain file has it."""

    @abstractmethod
    def text(self, number: float) -> str:
        """Return a value of a bin in words."""

    @property
    @abstractmethod
    def bounds_text(self) -> tuple[str, str]:
        """The least and the largest edge in words."""

    @property
    @abstractmethod
    def compared_as(self) -> tuple[str, ...]:
        """The common unit of the two attributes of an order."""

    @abstractmethod
    def read_numbers(self, column: pd.Series[Any]) -> Numbers:
        """Return the number of each cell, NaN where it is missing or has none, shape (rows,)."""

    def checked_numbers(self, column: pd.Series[Any]) -> Numbers:
        """Return the same of a table that is checked, whose cells may be anything."""
        return self.read_numbers(column)

    def numbers_in(self, column: pd.Series[Any]) -> Numbers:
        """Return the numbers of cells, NaN where they are missing; others may be errors."""
        numbers = self.read_numbers(column)
        if self.unreadable != "error":
            return numbers
        wrong = np.isnan(numbers) & ~missing_in(column)
        if wrong.any():
            raise OutsideDomainError(
                f"attribute {self.name!r} is {'of dates or times' if self.dated else 'numeric'},"
                " but the table holds other values"
                f"{examples(column, wrong)}: if it marks a missing value, add it to the"
                " source's missing-value markers, else correct the source or declare values"
            )
        return numbers

    @property
    def bins(self) -> int:
        """Number of bins, cells without a value not counted."""
        return len(self.edges) - 1

    @cached_property
    def edge_array(self) -> Numbers:
        """The edges, shape (bins + 1,)."""
        return np.asarray(self.edges, dtype=np.float64)

    @cached_property
    def bin_limits(self) -> tuple[Numbers, Numbers]:
        """Smallest and largest value that each bin can decode to, two arrays of shape (bins,)."""
        first, last = self.grid_limits
        low = self.from_grid(first)
        # A bin without a grid point has first > last, even if both round to one float32.
        return low, np.where(first > last, low - 1.0, self.from_grid(last))

    @cached_property
    def grid_limits(self) -> tuple[Units, Units]:
        """First and last multiple of ``1 / scale`` in each bin, as integers, shape (bins,)."""
        if self.scale is None:
            raise ValueError("an attribute without decimals has no grid")
        edges = self.edge_array
        first = np.ceil(edges * self.scale).astype(np.int64)
        # The product rounds: compare each edge with the float that the value will have.
        first = np.where(self.from_grid(first - 1) >= edges, first - 1, first)
        first = np.where(self.from_grid(first) < edges, first + 1, first)
        last = first[1:] - 1
        if np.abs(edges).max() > LARGEST_INTEGER:
            # These floats are integers; one between two of them rounds to neither side of both.
            last = np.minimum(last, np.nextafter(edges[1:], -np.inf).astype(np.int64))
        if self.from_grid(first[-1:])[0] == edges[-1]:
            last[-1] = first[-1]
        return first[:-1], last

    def from_grid(self, points: npt.NDArray[Any]) -> Numbers:
        """Return the values of multiples of ``1 / scale``, rounded as the dtype rounds them."""
        values = points / np.float64(self.scale or 1)
        if str(self.dtype).lower() == "float32":
            return values.astype(np.float32).astype(np.float64)
        return values

    @property
    def placed(self) -> tuple[tuple[float, float, float], ...]:
        """The entries of `within`, each in its bin."""
        return self.within

    def _bins_of(self, numbers: Numbers) -> npt.NDArray[np.intp]:
        bins = np.searchsorted(self.edge_array, numbers, side="right") - 1
        return np.clip(bins, 0, self.bins - 1)

    @cached_property
    def entries(self) -> tuple[npt.NDArray[np.intp], Numbers]:
        """The bins and the ``(first, last, weight)`` of all entries, in the order of the bins.

        A bin that `within` says nothing of has one from its smallest to its largest value.
        """
        given = np.array(self.placed, dtype=np.float64).reshape(-1, 3)
        low, high = self.bin_limits
        rest = np.setdiff1d(np.arange(self.bins), self._bins_of(given[:, 0]))
        whole = np.stack([low[rest], high[rest], np.ones(len(rest))], axis=1)
        entries = np.concatenate([given, whole])
        order = np.argsort(np.concatenate([self._bins_of(given[:, 0]), rest]), kind="stable")
        return self._bins_of(entries[order, 0]), entries[order]

    @property
    def entry_limits(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The least and the largest number of the entries of each bin, shape (bins,)."""
        indices, entries = self.entries
        starts = np.searchsorted(indices, np.arange(self.bins))
        least = np.minimum.reduceat(entries[:, 0], starts)
        return least, np.maximum.reduceat(entries[:, 1], starts)

    @property
    def drawn_limits(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The least and the largest number that each bin is decoded to, shape (bins,)."""
        return self.entry_limits

    def at_hours(self, counts: Units, hours: Numbers) -> Units:
        """Return numbers that were drawn, at other hours of their days, if these are known."""
        return counts

    def at_drawn_times(self, points: Units, rng: np.random.Generator) -> Units:
        """Return numbers that were drawn, at times of day that are drawn."""
        return points

    def nearest(self, numbers: Numbers) -> Numbers:
        """Return for numbers within the bounds the nearest ones that codes are decoded to."""
        return nearest_in(self.entries[1], numbers)

    def _check_bins(self) -> None:
        scale = self.scale
        most = LARGEST_EDGE if self.integer else LARGEST_INTEGER
        if scale is not None and max(map(abs, self.edges)) * scale > most:
            raise DomainError(
                f"attribute {self.name!r}: its bounds are too large for exact integers or decimals:"
                " use smaller units or fewer decimals"
            )
        low, high = self.bin_limits
        empty = np.flatnonzero(low > high)
        if len(empty):
            kind = (
                "an integer"
                if self.integer
                else f"a number with {self.decimals} decimals"
                if self.decimals is not None
                else f"a {self.dtype} number"
            )
            first = int(empty[0])
            raise DomainError(
                f"attribute {self.name!r}: bin {first} from {self.edges[first]!r} to"
                f" {self.edges[first + 1]!r} holds no value that is {kind}: use fewer bins or"
                " other edges"
            )
        if str(self.dtype).lower().lstrip("u").startswith("int"):
            limits = np.iinfo(str(self.dtype).lower())
            if low[0] < limits.min or high[-1] > limits.max:
                raise DomainError(
                    f"attribute {self.name!r}: its bounds do not fit dtype {self.dtype}: use a"
                    " wider one"
                )

    @property
    def size(self) -> int:
        return self.bins + self.nullable + (self.unreadable == "apart")

    def _labels(self) -> Iterator[str]:
        pairs = zip(*self.entry_limits, strict=True)
        texts = ((self.text(low), self.text(high)) for low, high in pairs)
        return (low if low == high else f"{low} to {high}" for low, high in texts)

    @property
    def catch_all_cells(self) -> list[CatchAll]:
        bounds = (0, self.bins - 1) if self.clip and self.bins > 1 else ()
        # Every value of two bins is in the first or the last one.
        caught: Caught = "bound" if self.bins > 2 else "half"
        return [*(CatchAll(caught, code) for code in bounds), *super().catch_all_cells]

    @property
    def outside_text(self) -> str:
        null = "" if self.unreadable == "error" else ", other texts to null"
        return ("moved to the bounds" if self.clip else "an error") + null

    def values_text(self, shown: int) -> str:
        return f"{' to '.join(self.bounds_text)} in {self.bins} bins"

    def _described(self) -> str:
        return f"{self.kind_text} from {self.values_text(0)}"

    @staticmethod
    def shared(what: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        outside = entry.get("outside", "error")
        if outside not in ("error", "clip"):
            raise SpecificationError(f"{what}: outside must be 'error' or 'clip', got {outside!r}")
        within = entries_in(what, entry, "within")
        return {"clip": outside == "clip", "within": within, **Attribute.shared(what, entry)}

    def to_entry(self) -> dict[str, Any]:
        entry = super().to_entry()
        return entry | ({"within": self._within_entry()} if self.within else {})

    def _within_entry(self) -> list[list[Any]]:
        return entries_to(self.within, self.written)

    def canonical_form(self) -> dict[str, Any]:
        own = {"edges": list(self.edges), "clip": self.clip, "within": list(map(list, self.within))}
        return super().canonical_form() | own

    def condition_codes(self, what: str, item: object) -> list[int]:
        if isinstance(item, Mapping):
            return bins_in(what, item, self.bin_limits, self.number)
        number = self.number(what, "each item", item)
        low, high = self.bin_limits
        match = np.flatnonzero((low == number) & (high == number))
        if not len(match):
            raise DomainError(
                f"{what} is {item!r}, which is not the only value of a bin: use from and below"
            )
        return [int(match[0])]

    def conditions(self, codes: list[int]) -> list[Any]:
        return [*intervals(codes, self.bin_limits[0], self.written)]

    def codes_in(self, column: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], Mask]:
        values = self.numbers_in(column)
        null = np.isnan(values)
        if not self.clip:
            edges = self.edge_array
            outside = (values < edges[0]) | (values > edges[-1])
            if outside.any():
                raise OutsideDomainError(
                    f"attribute {self.name!r}: the table holds a number outside the declared"
                    f" bounds {' to '.join(self.bounds_text)}{examples(column, outside)}: widen"
                    " them, declare `outside: clip`, or correct the source"
                )
            if self.integer:
                fraction = ~null & (values != np.floor(values))
                if fraction.any():
                    raise OutsideDomainError(
                        f"attribute {self.name!r} is declared integer, but the table holds a"
                        f" fraction{examples(column, fraction)}: declare `integer: false`, or"
                        " `outside: clip` to round down"
                    )
        # NaN sorts last; the caller sets its code.
        codes = self._bins_of(values)
        if self.unreadable_code is not None:
            known = missing_in(column)
            codes[null & ~known] = self.unreadable_code
            null &= known
        return codes, null

    def listed_codes(self, column: pd.Series[Any]) -> Units:
        numbers = self.checked_numbers(column)
        codes = np.searchsorted(self.edge_array, numbers, side="right").astype(np.int64) - 1
        codes[numbers == self.edges[-1]] = self.bins - 1
        codes[~(numbers >= self.edges[0]) | (numbers > self.edges[-1])] = OUTSIDE
        codes[column.isna().to_numpy()] = OUTSIDE if self.null_code is None else self.null_code
        return codes
