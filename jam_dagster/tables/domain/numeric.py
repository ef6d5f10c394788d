"""Attributes of numbers, counted in bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.validation import as_number
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.values import (
    DECIMAL_DTYPE,
    DTYPES_OF_ANY,
    DTYPES_OF_KIND,
    LARGEST_INTEGER,
    NULL_LABEL,
    Unreadable,
    check_dtype,
    check_name,
    check_unreadable,
    inferred_dtype,
    short_number,
)

LARGEST_EDGE = 2**63 - 1024
"""The largest float that is an integer of 64 bits."""


@dataclass(frozen=True)
class NumericAttribute:
    """An attribute of numbers, counted in bins.

    Parameters
    ----------
    name
        The column's name.
    edges
        k + 1 increasing numbers for k bins ``[e0, e1), [e1, e2), ..., [e_{k-1}, e_k]``: only the
        last is closed.
    integer
        Whether the values are integers. Then every bin must hold one.
    nullable
        Whether a missing value is allowed; it has a cell of its own, the last.
    clip
        Whether a value outside the bounds is encoded in the first or the last bin (infinity
        too), and a fraction of an `integer` attribute in the bin it falls in. Otherwise both are
        errors.
    decimals
        Number of decimals of the decoded values, and every bin must hold a value with so many;
        None: as many as a float has.
    dtype
        The pandas dtype to decode to; None: "int64" or "float64", or "Int64" for integers with
        nulls; texts where there is a format.
    unreadable
        "missing": a value that is not a number is encoded as a missing one. "error": it is an
        error.
    within
        What the numbers of a bin are like, from public data: entries ``(first, last, weight)``.
        A number is drawn uniformly from `first` to `last` of an entry of its bin, which is chosen
        by weight; in a bin without an entry, from the whole bin.
    format
        How texts write the numbers (see `NumberFormat`), such as "$#,##0.00" or "0%"; None: as
        Python does. Without `integer` and `decimals` the numbers have its decimals.

    Raises
    ------
    DomainError
        Edges that do not increase or are not finite, a bin without an allowed value, a dtype
        that cannot hold the values, an entry of `within` that does not lie in one bin, or
        `unreadable` is "missing" and the attribute is not nullable.
    """

    name: str
    edges: tuple[float, ...]
    integer: bool = False
    nullable: bool = False
    clip: bool = False
    decimals: int | None = None
    dtype: str | None = None
    unreadable: Unreadable = "error"
    within: tuple[tuple[float, float, float], ...] = ()
    format: str | None = None

    def __post_init__(self) -> None:
        check_name(self.name)
        check_unreadable(self.name, self.unreadable, self.nullable)
        # Adding 0.0 turns -0.0 into 0.0: equal attributes have equal digests.
        edges = tuple(_plain_edge(self.name, edge) + 0.0 for edge in self.edges)
        object.__setattr__(self, "edges", edges)
        if len(edges) < 2 or any(low >= high for low, high in pairwise(edges)):
            raise DomainError(
                f"attribute {self.name!r}: edges must be at least two numbers, increasing"
            )
        if self.integer and self.decimals not in (None, 0):
            raise DomainError(
                f"attribute {self.name!r} is integer and has decimals: remove one of the two"
            )
        if self.decimals is not None and not 0 <= self.decimals <= 15:
            raise DomainError(f"attribute {self.name!r}: decimals must lie in 0 to 15")
        self._check_dtype()
        self._check_bins()
        within = tuple(plain_entry(self.name, "within", entry) for entry in self.within)
        object.__setattr__(self, "within", within)
        within = self.placed
        if not within:
            return
        first, last, _ = np.array(within, dtype=np.float64).T
        low, high = self.bin_limits
        bins = self._bins_of(first)
        wrong = (first < low[bins]) | (last > high[bins]) | (first > last)
        for ends in (first, last):
            if self.scale is not None:
                wrong |= self.from_grid(np.rint(ends * self.scale)) != ends
            elif str(self.dtype).lower() == "float32":
                wrong |= ends.astype(np.float32) != ends
        if wrong.any():
            entry = within[int(np.flatnonzero(wrong)[0])]
            raise DomainError(
                f"attribute {self.name!r}: the entry {list(entry)} of within must go from one value"
                " of a bin to the same or a larger one: correct it, or leave `within` out"
            )

    @cached_property
    def number_format(self) -> NumberFormat | None:
        """How texts write the numbers, if they have a format."""
        return None if self.format is None else NumberFormat(self.format)

    def _check_format(self, written: NumberFormat) -> None:
        object.__setattr__(self, "dtype", self.dtype or "str")
        if self.scale is None:
            places = {"decimals": written.decimals} if written.decimals else {"integer": True}
            for key, value in places.items():
                object.__setattr__(self, key, value)
        if self.dtype not in ("str", "string") or (self.scale or 1) > 10**written.decimals:
            raise DomainError(
                f"attribute {self.name!r} cannot be written as {self.format!r}: use dtype str, and"
                " at most as many decimals as the format has"
            )

    def _check_dtype(self) -> None:
        if self.number_format is not None:
            self._check_format(self.number_format)
            return
        kind = "integer" if self.integer else "number"
        object.__setattr__(self, "dtype", self.dtype or inferred_dtype(kind, self.nullable))
        if (decimal := DECIMAL_DTYPE.fullmatch(str(self.dtype))) is None:
            allowed = DTYPES_OF_KIND[kind] - DTYPES_OF_ANY
            check_dtype(self.name, str(self.dtype), allowed, self.nullable)
        else:
            digits, decimals = map(int, decimal.groups())
            most = max(map(abs, self.edges))
            fits = decimals < digits <= 38 and most < 10 ** (digits - decimals)
            if not fits or self.scale is None or self.scale > 10**decimals:
                raise DomainError(
                    f"attribute {self.name!r}: dtype {self.dtype} cannot hold its values: use up to"
                    " 38 digits, and as many decimals as `decimals`"
                )

    @property
    def placed(self) -> tuple[tuple[float, float, float], ...]:
        """The entries of `within`, each in its bin."""
        return self.within

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        """Return the number that an edge in a domain file stands for."""
        return as_number(what, key, written)

    def written(self, number: float) -> Any:
        """Return a number as a domain file has it."""
        return short_number(number)

    def text(self, number: float) -> str:
        """Return a value of a bin in words."""
        if self.number_format is not None:
            return self.number_format.write(number)
        if self.scale is None:
            return f"{number:.10g}"
        return f"{number:.{0 if self.integer else int(self.decimals or 0)}f}"

    def _bins_of(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        bins = np.searchsorted(self.edge_array, numbers, side="right") - 1
        return np.clip(bins, 0, self.bins - 1)

    @cached_property
    def entries(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
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
        places, entries = self.entries
        starts = np.searchsorted(places, np.arange(self.bins))
        least = np.minimum.reduceat(entries[:, 0], starts)
        return least, np.maximum.reduceat(entries[:, 1], starts)

    def nearest(self, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for numbers within the bounds the nearest ones that codes are decoded to."""
        _, entries = self.entries
        # Those of a bin may stand in any order, and one within another.
        entries = entries[np.argsort(entries[:, 0], kind="stable")]
        first, last = entries[:, 0], np.maximum.accumulate(entries[:, 1])
        after = np.searchsorted(first, numbers, side="right")
        ends = last[np.maximum(after - 1, 0)]
        begins = first[np.minimum(after, len(first) - 1)]
        lower = np.where(after > 0, np.minimum(numbers, ends), first[0])
        higher = np.where(numbers <= lower, lower, begins)
        closer: npt.NDArray[np.float64] = np.where(
            np.abs(higher - numbers) < np.abs(lower - numbers), higher, lower
        )
        return closer

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
    def bins(self) -> int:
        """Number of bins, the null cell not counted."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of cells, the null cell included."""
        return self.bins + self.nullable

    @property
    def null_code(self) -> int | None:
        """Code of the null cell, the last; None where the attribute is not nullable."""
        return self.bins if self.nullable else None

    @property
    def scale(self) -> int | None:
        """10 to the power of the decimals (1 for integers); None if any float is allowed."""
        if self.integer:
            return 1
        return None if self.decimals is None else 10**self.decimals

    @cached_property
    def edge_array(self) -> npt.NDArray[np.float64]:
        """The edges, shape (bins + 1,)."""
        return np.asarray(self.edges, dtype=np.float64)

    @property
    def kind_text(self) -> str:
        """What the numbers are, in a word."""
        return "integer" if self.integer else "number"

    @property
    def bounds_text(self) -> tuple[str, str]:
        """The least and the largest edge in words."""
        if self.number_format is not None:
            return self.text(self.edges[0]), self.text(self.edges[-1])
        return f"{self.edges[0]:.10g}", f"{self.edges[-1]:.10g}"

    @cached_property
    def bin_limits(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Smallest and largest value that each bin can decode to, two arrays of shape (bins,)."""
        if self.scale is None:
            low, high = self._float_limits()
        else:
            first, last = self.grid_limits
            low, high = self.from_grid(first), self.from_grid(last)
            # A bin without a grid point has first > last, even if both round to one float32.
            high = np.where(first > last, low - 1.0, high)
        return low, high

    def _float_limits(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        edges = self.edge_array
        if str(self.dtype).lower() == "float64":
            high = np.nextafter(edges[1:], -np.inf)
            high[-1] = edges[-1]
            return edges[:-1].copy(), high
        down, up = np.float32(-np.inf), np.float32(np.inf)
        single = edges.astype(np.float32)
        low = np.where(single[:-1] < edges[:-1], np.nextafter(single[:-1], up), single[:-1])
        high32 = np.where(single[1:] >= edges[1:], np.nextafter(single[1:], down), single[1:])
        if single[-1] <= edges[-1]:
            high32[-1] = single[-1]
        return low.astype(np.float64), high32.astype(np.float64)

    @cached_property
    def grid_limits(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
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

    def from_grid(self, points: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the values of multiples of ``1 / scale``, rounded as the dtype rounds them."""
        values = points / np.float64(self.scale or 1)
        if str(self.dtype).lower() == "float32":
            return values.astype(np.float32).astype(np.float64)
        return values

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label of each cell: "17", "18 to 24" for countable values, "[0, 2.5)"."""
        null = (NULL_LABEL,) if self.nullable else ()
        if self.scale is not None:
            limits = zip(*self.entry_limits, strict=True)
            pairs = [(self.text(low), self.text(high)) for low, high in limits]
            return (*(a if a == b else f"{a} to {b}" for a, b in pairs), *null)
        texts = _distinct_texts(self.edges)
        closing = [")"] * (self.bins - 1) + ["]"]
        bins = zip(texts, texts[1:], closing, strict=False)
        return (*(f"[{low}, {high}{close}" for low, high, close in bins), *null)


def equal_width_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """Return the ``bins + 1`` edges of equal width from `low` to `high`, which may be alike."""
    if low == high and bins == 1:
        return (low + 0.0, float(np.nextafter(low, np.inf)))
    exact = [float(edge) for edge in np.linspace(low, high, bins + 1)]
    # Fifteen digits turn 0.1 + 0.1 + 0.1 into 0.3, the number in the table.
    edges = [low, *(float(f"{edge:.15g}") for edge in exact[1:-1]), high]
    if any(first >= second for first, second in pairwise(edges)):
        edges = exact
    return tuple(edge + 0.0 for edge in edges)


def _distinct_texts(edges: Sequence[float]) -> list[str]:
    for digits in (6, 9, 12):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(edge) for edge in edges]


def plain_entry(name: str, key: str, entry: object) -> tuple[float, float, float]:
    """Return an entry of what numbers are like, or raise DomainError."""
    numbers = tuple(entry) if isinstance(entry, list | tuple) else ()
    if len(numbers) != 3:
        raise DomainError(
            f"attribute {name!r}: an entry of {key} must be a first number, a last one and a"
            f" weight, got {entry!r}"
        )
    first, last, weight = (_plain_edge(name, number) + 0.0 for number in numbers)
    if weight <= 0:
        raise DomainError(f"attribute {name!r}: a weight of {key} must be above 0, got {weight}")
    return first, last, weight


def _plain_edge(name: str, edge: object) -> float:
    if not isinstance(edge, bool) and isinstance(edge, Real):
        # An integer may be larger than any float.
        with suppress(OverflowError):
            number = float(edge)
            if math.isfinite(number):
                return number
    raise DomainError(f"attribute {name!r}: an edge must be a finite number, got {edge!r}")
