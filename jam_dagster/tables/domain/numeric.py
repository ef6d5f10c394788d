"""Attributes of numbers, counted in bins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_boolean, as_integer, as_list, as_number
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Key
from jam_dagster.tables.domain.binned import BINNED_KEYS, BinnedAttribute
from jam_dagster.tables.domain.column_notes import LOOKED_AT, period_notes, rewritten
from jam_dagster.tables.domain.columns import numbers_of
from jam_dagster.tables.domain.entries import Entries, entries_to
from jam_dagster.tables.domain.intervals import checked_bins
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.values import (
    DECIMAL_DTYPE,
    DTYPES_OF_ANY,
    DTYPES_OF_KIND,
    LARGEST_INTEGER,
    Mask,
    Numbers,
    check_dtype,
    inferred_dtype,
    short_number,
)

# In seconds since 1970.
_LARGEST_SINGLE = float(np.finfo(np.float32).max)
_LITTLE = 1e-6
_IN_2000, _IN_2040 = 946_684_800, 2_208_988_800


@dataclass(frozen=True)
class NumericAttribute(BinnedAttribute):
    """An attribute of numbers, counted in bins.

    Parameters
    ----------
    name, nullable, unreadable
        As in `Attribute`.
    edges
        k + 1 increasing numbers for k bins ``[e0, e1), [e1, e2), ..., [e_{k-1}, e_k]``: only the
        last is closed.
    integer
        Whether the values are integers. Then every bin must hold one.
    decimals
        Number of decimals of the decoded values, and every bin must hold a value with so many;
        None: as many as a float has.
    dtype
        The pandas dtype to decode to; None: "int64" or "float64", or "Int64" for integers with
        nulls; texts where there is a format.
    clip
        Whether a value outside the bounds is encoded in the first or the last bin (infinity
        too), and a fraction of an `integer` attribute in the bin it falls in. Otherwise both are
        errors.
    within
        What the numbers of a bin are like, from public data: entries ``(first, last, weight)``.
        A number is drawn uniformly from `first` to `last` of an entry of its bin, which is chosen
        by weight; in a bin without an entry, from the whole bin.
    format
        How texts write the numbers (see `NumberFormat`), such as "$#,##0.00" or "0%"; None: as
        Python does. Without `integer` and `decimals` the numbers have its decimals.
    step
        How far apart the numbers are that are drawn from the first to the last one of an entry, or
        from a whole bin; None: by the last decimal.

    Raises
    ------
    DomainError
        Edges that do not increase or are not finite, a bin without an allowed value, a dtype
        that cannot hold the values, an entry of `within` that is not in one bin, a step that is
        not a multiple of the last decimal, or
        `unreadable` is not "error" and the attribute is not nullable.
    """

    integer: bool = False
    decimals: int | None = None
    format: str | None = None
    step: float | None = None

    keys: ClassVar[Mapping[str, Key]] = BINNED_KEYS | {
        "integer": Key("`false`", "whether the numbers are whole"),
        "decimals": Key("as many as there are", "how many decimals synthetic numbers have"),
        "step": Key(
            "one of the last decimal",
            "how far apart synthetic numbers are, counted from the first one of an "
            "entry of `within`, or of a bin",
        ),
        "format": Key(
            "plain",
            "how texts write the numbers, such as `$#,##0.00`, `#.##0,00 EUR` or `0.#%`",
        ),
        "dtype": Key("by the rest", "the pandas type of the synthetic column"),
    }
    compared_as = ("number",)

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
        if self.integer and self.decimals not in (None, 0):
            raise DomainError(
                f"attribute {self.name!r} is integer and has decimals: remove one of the two"
            )
        if self.decimals is not None and not 0 <= self.decimals <= 15:
            raise DomainError(f"attribute {self.name!r}: decimals must be in 0 to 15")
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

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        number = as_number(what, key, written)
        return float(_single(number)) if self._is_single else number

    def written(self, number: float) -> Any:
        # The shortest decimals of which the dtype makes the same number.
        single = self._is_single and float(np.float32(number)) == number
        return short_number(float(str(np.float32(number))) if single else number)

    @property
    def _is_single(self) -> bool:
        return str(self.dtype).lower() == "float32"

    def __post_init__(self) -> None:
        if self._is_single:
            edges = tuple(map(_single, self.edges))
            # Edges that are one number of the dtype are refused as they are.
            if len(set(edges)) == len(edges):
                object.__setattr__(self, "edges", edges)
            entries = (tuple(map(_single, one[:2])) + tuple(one[2:]) for one in self.within)
            object.__setattr__(self, "within", tuple(entries))
        super().__post_init__()
        if self.step is not None:
            points = 0.0 if self.scale is None else self.step * self.scale
            if not 1 <= round(points) <= LARGEST_INTEGER or abs(points - round(points)) > _LITTLE:
                raise DomainError(
                    f"attribute {self.name!r}: step must be a multiple of the last decimal of an"
                    " attribute with `integer` or `decimals`"
                )

    @property
    def points_apart(self) -> int:
        return round((self.step or 0.0) * (self.scale or 1)) or 1

    def _up_to_edges(self, within: Entries) -> Entries:
        if self.scale is not None or not within:
            return within
        below = dict(zip(self.edges[1:-1], self.bin_limits[1][:-1].tolist(), strict=True))
        return tuple(
            (first, below[last] if first < last and last in below else last, weight)
            for first, last, weight in within
        )

    def _within_entry(self) -> list[list[Any]]:
        if self.scale is not None:
            return super()._within_entry()
        # Up to an edge, and not up to the last float below it.
        edges = dict(zip(self.bin_limits[1][:-1].tolist(), self.edges[1:-1], strict=True))
        entries = tuple(
            (first, edges.get(last, last) if first < last else last, weight)
            for first, last, weight in self.within
        )
        return entries_to(entries, self.written)

    def text(self, number: float) -> str:
        if self.number_format is not None:
            return self.number_format.write(number)
        if self.scale is None:
            return f"{number:.10g}"
        return f"{number:.{0 if self.integer else int(self.decimals or 0)}f}"

    @property
    def kind_text(self) -> str:
        return "integer" if self.integer else "number"

    @property
    def bounds_text(self) -> tuple[str, str]:
        if self.number_format is not None:
            return self.text(self.edges[0]), self.text(self.edges[-1])
        return f"{self.edges[0]:.10g}", f"{self.edges[-1]:.10g}"

    @cached_property
    def bin_limits(self) -> tuple[Numbers, Numbers]:
        return super().bin_limits if self.scale is not None else self._float_limits()

    def _float_limits(self) -> tuple[Numbers, Numbers]:
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

    def _labels(self) -> Iterator[str]:
        if self.scale is not None:
            return super()._labels()
        texts = _distinct_texts(self.edges)
        closing = [")"] * (self.bins - 1) + ["]"]
        bins = zip(texts, texts[1:], closing, strict=False)
        return (f"[{low}, {high}{close}" for low, high, close in bins)

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> NumericAttribute:
        what = f"attribute {name!r}"
        shared = cls.shared(what, entry)
        decimals = entry.get("decimals")
        if decimals is not None:
            as_integer(what, "decimals", decimals)
        integer = as_boolean(what, "integer", entry.get("integer", False))
        edges = _edges_in(what, entry)
        step = None if "step" not in entry else float(as_number(what, "step", entry["step"]))
        return cls(name, edges, integer, decimals, entry.get("format"), step, **shared)

    def _own_entry(self) -> dict[str, Any]:
        low, high = map(self.written, (self.edges[0], self.edges[-1]))
        equal = equal_width_edges(self.edges[0], self.edges[-1], self.bins)
        if self.bins > 2 and self.edges == equal:
            entry: dict[str, Any] = {"bounds": [low, high], "bins": self.bins}
        else:
            entry = {"edges": [*map(self.written, self.edges)]}
        declared = {
            "integer": self.integer or None,
            "decimals": self.decimals,
            "step": None if self.step is None else short_number(self.step),
            "outside": "clip" if self.clip else None,
            "format": self.format,
        }
        return entry | {key: value for key, value in declared.items() if value is not None}

    @property
    def _default_dtype(self) -> str:
        kind = "integer" if self.integer else "number"
        return "str" if self.format else inferred_dtype(kind, self.nullable)

    def canonical_form(self) -> dict[str, Any]:
        own: dict[str, Any] = {"integer": self.integer, "decimals": self.decimals}
        own |= {"format": self.format} | ({} if self.step is None else {"step": self.step})
        return super().canonical_form() | own

    def check_column(self, column: pd.Series[Any]) -> None:
        dtype = column.dtype
        number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        if not (_is_text(column) or (number and not pd.api.types.is_complex_dtype(dtype))):
            raise DomainError(
                f"attribute {self.name!r} is numeric, but the table's column has dtype {dtype}:"
                " declare a `unit` if it holds dates, turn it into a number in the source, or"
                " declare values"
            )

    def read_numbers(self, column: pd.Series[Any]) -> Numbers:
        return numbers_of(column, self.number_format)

    def checked_numbers(self, column: pd.Series[Any]) -> Numbers:
        # pandas makes no numbers of decimals among which some are missing.
        if self.format or isinstance(column.dtype, pd.ArrowDtype):
            return self.read_numbers(column)
        numbers = pd.to_numeric(column, errors="coerce")
        return numbers.to_numpy(dtype=np.float64, na_value=np.nan)

    def numbers_in(self, column: pd.Series[Any]) -> Numbers:
        if _is_text(column):
            return super().numbers_in(column)
        return column.to_numpy(dtype=np.float64, na_value=np.nan)

    def column_of(self, points: npt.NDArray[Any], null: Mask) -> pd.Series[Any]:
        dtype: Any = dtype_of(str(self.dtype))
        if self.number_format is not None:
            distinct, indices = np.unique(points, return_inverse=True)
            numbers = self.from_grid(distinct).tolist()
            texts = pd.array([*map(self.number_format.write, numbers), None], dtype=dtype)
            return pd.Series(texts.take(np.where(null, len(distinct), indices)))
        if isinstance(dtype, pd.ArrowDtype):
            # Not by floats, whose digits Arrow would refuse.
            exponent = -(self.decimals or 0)
            cells: Any = np.array(
                [Decimal(one).scaleb(exponent) for one in points.tolist()], object
            )
            cells[null] = None
            return pd.Series(pd.array(cells, dtype=dtype))
        whole = self.integer or self.scale is None
        column: pd.Series[Any] = pd.Series(points if whole else self.from_grid(points))
        column = column.astype(dtype)
        if null.any():
            column[null] = pd.NA if dtype[0].isupper() else np.nan
        return column

    def notes(self, column: pd.Series[Any], codes: npt.NDArray[Any]) -> Iterator[str]:
        if form := self.number_format:
            yield from rewritten(
                (one, form.write(number))
                for one in column.dropna().unique()[:LOOKED_AT]
                if isinstance(one, str) and (number := form.read(one)) is not None
            )
        if self.scale is None and any(isinstance(one, Decimal) for one in column.dropna().head(1)):
            yield "numbers of so many digits come out as floats, rounded"
        for unit, factor in (("seconds", 1), ("milliseconds", 1000)):
            if self.edges[0] >= _IN_2000 * factor and self.edges[-1] <= _IN_2040 * factor:
                yield (
                    f"looks like {unit} since 1970: later ones than the public table's are clipped;"
                    " timestamps in the source would be counted in days or weeks"
                )
        yield from period_notes(column, "are clipped")


def _single(number: Any) -> Any:
    """Return a number as a float of single precision is, and anything else as it is."""
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    if not plain or not abs(number) <= _LARGEST_SINGLE:
        return number
    return float(np.float32(number))


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


def _edges_in(what: str, entry: Mapping[str, Any]) -> tuple[float, ...]:
    if "edges" in entry:
        if "bins" in entry:
            raise SpecificationError(f"{what} has 'edges' and 'bins': bins belong to 'bounds'")
        return tuple(as_list(what, "edges", entry["edges"]))
    bounds = as_list(what, "bounds", entry["bounds"])
    if len(bounds) != 2:
        raise SpecificationError(f"{what}: bounds must be two numbers, got {bounds!r}")
    low, high = (float(as_number(what, "each of the bounds", one)) for one in bounds)
    bins = entry.get("bins")
    if bins is None and entry.get("integer") is True and np.isfinite([low, high]).all():
        bins = int(np.floor(high) - np.ceil(low)) + 1
    return equal_width_edges(low, high, checked_bins(what, bins))


def _is_text(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    return (
        isinstance(dtype, pd.CategoricalDtype)
        or pd.api.types.is_object_dtype(dtype)
        or pd.api.types.is_string_dtype(dtype)
    )
