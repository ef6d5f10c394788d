"""Bins that are bought: edges at quantiles of noisy counts, for a domain that nobody knows.

A domain file asks with ``edges: paid``. The rest of the attribute's entry is public, and so is the
tree of bins that is counted: signed powers of ten and round numbers, or units of the calendar. A
level of the tree counts all bins of an attribute with noise, and each bin that surely holds many
records is split at round numbers for the next level. All edges follow from released counts, and so
anybody computes them again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

from jam_dagster.common.validation import as_integer, as_list, as_number, as_text
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import LARGEST_EDGE, BinnedAttribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.units import Unit
from jam_dagster.tables.domain.values import LARGEST_INTEGER, spelled

PAID = "paid"
"""A domain file has it in place of edges."""

SHARE = 0.2
"""The part of a release's rho that buys bins, if the domain file names none."""

DELTA_SHARE = 0.5
"""The part of a release's delta that selects values, if the domain file names none."""

OTHER = "other"
"""The value that stands for all that was not selected."""

LEVELS = 4
"""How often the bins of an attribute are counted."""

_DELTA_UNITS = 10**18
_AT_MOST = 100
_MOST_VALUES = 10_000
_BINS = 24
_MOST_BINS = 256
_MOST_FLOAT = 1e300
_NAMED = 10

_SURE = 4.0
"""Standard deviations of noise from which on a bin is split: of 500 counts of noise, one in 60."""

BOUND_RISK = 1e-4
"""The probability, at most, that a bound of a column is that of a bin without any record."""

_FIRST_PARTS, _PARTS = 64, 32
"""The most equal parts of the range, and of a bin that is split."""


@dataclass(frozen=True)
class Asked:
    """The attributes of a domain file whose edges or values are to be bought.

    Attributes
    ----------
    bins
        The most bins of each attribute whose edges are bought, by name.
    values
        For each attribute whose values are bought, by name, the most that are selected, and those
        that are public and kept as well.
    share
        The part of the release's rho that pays for all of them, in (0, 1).
    delta_share
        The part of the release's delta that selections of values have together, in (0, 1).
    """

    bins: Mapping[str, int]
    values: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    share: float = SHARE
    delta_share: float = DELTA_SHARE

    def __post_init__(self) -> None:
        for key in ("share", "delta_share"):
            share = as_number("the domain", key, getattr(self, key))
            if not 0.0 < share < 1.0:
                raise SpecificationError(
                    f"the domain's {key} must be above 0 and below 1, such as 0.1 for a tenth, got"
                    f" {share!r}"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that ask."""
        return (*self.bins, *self.values)

    @property
    def draws(self) -> int:
        """How many prices of a level are paid: an attribute's values cost as much as its bins."""
        return LEVELS * len(self.names)

    def selections(self, delta: float) -> float:
        """Return the delta that all selections of a release have together, given the whole.

        A grant with this share of its delta for selections pays for any number of them.
        """
        return self._delta_units(delta) / _DELTA_UNITS if self.values else 0.0

    def delta_of(self, delta: float) -> float:
        """Return the delta of one selection, rounded down: all are within `selections`."""
        each = self._delta_units(delta) // max(1, len(self.values))
        return math.nextafter(each / _DELTA_UNITS, 0.0)

    def _delta_units(self, delta: float) -> int:
        whole = Fraction(repr(float(delta))) * Fraction(repr(float(self.delta_share)))
        return math.floor(whole * _DELTA_UNITS)

    def to_dict(self) -> dict[str, Any]:
        """Return what a domain file has of it apart from the attributes."""
        return {"share": self.share} | ({"delta_share": self.delta_share} if self.values else {})


@dataclass(frozen=True)
class PaidCounts:
    """The outcome of one draw: the noisy counts of an attribute's bins, null last; None if lost.

    A selection has those of the published `names`, each of at least the `threshold`.
    """

    step: str
    attribute: str
    cells: int
    rho: float
    sensitivity: float
    sigma: float | None
    values: tuple[int, ...] | None
    names: tuple[str, ...] | None = None
    delta: float = 0.0
    threshold: int | None = None

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PaidCounts:
        """Return the outcome that a domain file has."""
        values, names = content["values"], content.get("names")
        listed: dict[str, Any] = {"values": None if values is None else tuple(map(int, values))}
        listed |= {"names": None if names is None else tuple(map(str, names))}
        return cls(**{**content, **listed})

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as a domain file has it."""
        content = asdict(self) | {"values": None if self.values is None else list(self.values)}
        if self.threshold is None:
            for key in ("names", "delta", "threshold"):
                del content[key]
        elif self.names is not None:
            content["names"] = list(self.names)
        return content


class Draw(NamedTuple):
    """A draw that is to be made: of the bins of one attribute at a level, or of its values."""

    step: str
    attribute: Attribute


_CALENDAR: tuple[tuple[Unit, int], ...] = (
    *(("minute", several) for several in (1, 5, 15, 30)),
    *(("hour", several) for several in (1, 3, 6, 12)),
    *(("day", several) for several in (1, 2, 5, 10)),
    *(("month", several) for several in (1, 3, 6)),
    *(("year", several) for several in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)
"""The units of the calendar, or how many of them, that bins of dates begin with."""

Measure = Callable[[Sequence[Draw]], Sequence[PaidCounts]]
"""Returns the outcomes of the draws of one level, in their order."""


def bought_attributes(
    attributes: Sequence[Attribute], asked: Asked, measure: Measure
) -> tuple[tuple[Attribute, ...], tuple[PaidCounts, ...]]:
    """Return the attributes, with edges that follow from paid counts, and the counts."""
    selected, trees, counts = _measured(attributes, asked, measure)
    made: dict[str, Attribute] = {
        one.name: _selected(one, *asked.values[one.name], found) for one, found in selected
    }
    made |= {name: tree.bought for name, tree in trees.items()}
    return tuple(made.get(one.name, one) for one in attributes), tuple(counts)


def bought_singles(
    attributes: Sequence[Attribute], asked: Asked, counts: Sequence[PaidCounts], records: int
) -> dict[str, list[float]]:
    """Return what was counted of each bought attribute: the weight of each cell, by name.

    An attribute of which nothing is known beyond the noise is not there.

    Parameters
    ----------
    attributes, asked
        What was asked for.
    counts
        What was released.
    records
        The number of records, those without a selected value among them.
    """
    selected, trees, _ = _measured(attributes, asked, Recorded(counts))
    singles = {name: tree.weights for name, tree in trees.items()}
    for one, found in selected:
        made = _selected(one, *asked.values[one.name], found)
        times = dict(zip(found.names or (), found.values or (), strict=True))
        known = [float(times.get(str(value), 0)) for value in made.values if value != OTHER]
        rest = max(0.0, records - math.fsum(known))
        singles[one.name] = [*known, rest, *[0.0] * len(made.missing_codes)] if times else []
    return {name: weights for name, weights in singles.items() if any(weights)}


def _measured(
    attributes: Sequence[Attribute], asked: Asked, measure: Measure
) -> tuple[list[tuple[CategoricalAttribute, PaidCounts]], dict[str, _Tree], list[PaidCounts]]:
    """Return the selections, the trees and all counts, in the order of the draws."""
    trees = {
        one.name: _Tree(one, asked.bins[one.name])
        for one in attributes
        if one.name in asked.bins and isinstance(one, BinnedAttribute)
    }
    listed = [
        one
        for one in attributes
        if one.name in asked.values and isinstance(one, CategoricalAttribute)
    ]
    draws = [Draw(f"domain/{number}", one) for number, one in enumerate(listed, start=1)]
    selected = list(zip(listed, measure(draws) if draws else (), strict=True))
    counts = [found for _, found in selected]
    for level in range(1, LEVELS + 1) if trees else ():
        if level > 1:
            for tree in trees.values():
                tree.split()
        draws = [
            Draw(f"domain-{level}/{number}", tree.level)
            for number, tree in enumerate(trees.values(), start=1)
        ]
        for tree, found in zip(trees.values(), measure(draws), strict=True):
            tree.add(found)
            counts.append(found)
    return selected, trees, counts


def _selected(
    attribute: CategoricalAttribute, most: int, public: Sequence[str], found: PaidCounts
) -> CategoricalAttribute:
    """Return an attribute with its public values and the most frequent other published ones."""
    pairs = zip(found.names or (), found.values or (), strict=True)
    others = [pair for pair in pairs if pair[0] not in (*public, OTHER)]
    frequent = sorted(others, key=lambda pair: (-pair[1], pair[0]))[:most]
    return replace(attribute, values=(*public, *sorted(name for name, _ in frequent), OTHER))


def nothing(draws: Sequence[Draw]) -> list[PaidCounts]:
    """Return draws that are lost, which leave a domain its public values."""
    return [PaidCounts(one.step, one.attribute.name, 0, 0.0, 0.0, None, None) for one in draws]


class Recorded:
    """Counts that were released, in place of draws.

    Raises
    ------
    DomainError
        When it is called, or ends, if they are not the draws that are asked for.
    """

    def __init__(self, counts: Sequence[PaidCounts]) -> None:
        self._left = list(counts)

    def __call__(self, draws: Sequence[Draw]) -> list[PaidCounts]:
        """Return the outcomes of a level."""
        found, self._left = self._left[: len(draws)], self._left[len(draws) :]
        drawn = [(one.step, one.attribute) for one in found]
        if drawn != [(one.step, one.attribute.name) for one in draws]:
            raise _other_draws()
        for one, draw in zip(found, draws, strict=True):
            binned = draw.attribute.binned
            sized = one.values is None or len(one.values) == one.cells
            listed = one.values is None or len(one.names or ()) == one.cells
            if binned != (one.threshold is None) or not sized:
                raise _other_draws()
            if (one.cells != draw.attribute.size) if binned else not listed:
                raise _other_draws()
        return found

    def end(self) -> None:
        """Raise if there are more."""
        if self._left:
            raise _other_draws()


def _other_draws() -> DomainError:
    return DomainError("the domain was bought by other draws than it asks for: restore its file")


class _Tree:
    """The bins of an attribute as they are known so far: each with the counts of its levels."""

    def __init__(self, attribute: BinnedAttribute, bins: int) -> None:
        self.attribute, self.bins = attribute, bins
        edges = (attribute.edges[0], attribute.edges[-1])
        self.edges = [edges[0], *_round_parts(attribute, *edges, first=True), edges[-1]]
        # The sum of the counts of each bin, and how many there are.
        self._sums = [0.0] * (len(self.edges) - 1)
        self._times = [0] * (len(self.edges) - 1)
        # How many bins were made with each: what noise alone may do is divided among them.
        self._made = [len(self._sums)] * len(self._sums)
        # The edges of each bin that was split, which no noise is: it is eight deviations of it.
        self._parents: list[tuple[float, float]] = []
        self._missing = [0.0] * (attribute.size - attribute.bins)
        self._levels = 0
        self._sigma = 0.0

    @property
    def level(self) -> BinnedAttribute:
        """The attribute with these bins."""
        return _with_edges(self.attribute, self.edges)

    def add(self, found: PaidCounts) -> None:
        """Add the counts of a level; a lost one says nothing."""
        if found.values is None or found.sigma is None:
            return
        self._sigma = found.sigma
        for index in range(len(self._sums)):
            self._sums[index] += found.values[index]
            self._times[index] += 1
        self._levels += 1
        for index, count in enumerate(found.values[len(self._sums) :]):
            self._missing[index] += count

    @property
    def _means(self) -> list[float]:
        pairs = zip(self._sums, self._times, strict=True)
        return [total / times if times else 0.0 for total, times in pairs]

    def _is_sure(self, index: int) -> bool:
        """Whether a bin holds records beyond the noise."""
        times = self._times[index]
        # Squares: no root that rounds otherwise elsewhere decides.
        mean = self._means[index]
        return times > 0 and mean > 0.0 and mean * mean * times >= (_SURE * self._sigma) ** 2

    def _may_bound(self, index: int) -> bool:
        """Whether a bin holds records so surely that it may be the first or the last one.

        Discrete Gaussian noise is less likely to reach a count than a normal number is to reach the
        count before, and so for sums. A bin's limit is known before the first of its counts.
        """
        mean, times = self._means[index] - 1.0, self._times[index]
        limit = _bound_limit(self._made[index]) * self._sigma
        return times > 0 and mean > 0.0 and mean * mean * times >= limit * limit

    def split(self) -> None:
        """Split the bins that hold many records, each so that parts may be surer than noise."""
        means = self._means
        total = max(1.0, math.fsum(means))
        edges, sums, times, made = [self.edges[0]], [], [], []
        for index, (low, high) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
            inner: list[float] = []
            if self._is_sure(index):
                wanted = math.ceil(4.0 * self.bins * means[index] / total)
                most = min(_PARTS, int(means[index] / (_SURE * max(self._sigma, 1e-9))), wanted)
                inner = _round_parts(self.attribute, low, high, most) if most > 1 else []
            if inner:
                self._parents.append((low, high))
                edges += inner
                sums += [0.0] * (len(inner) + 1)
                times += [0] * (len(inner) + 1)
                made += [0] * (len(inner) + 1)
            else:
                sums.append(self._sums[index])
                times.append(self._times[index])
                made.append(self._made[index])
            edges.append(high)
        self.edges, self._sums, self._times = edges, sums, times
        self._made = [one or made.count(0) for one in made]

    @property
    def bought(self) -> BinnedAttribute:
        """The attribute with edges at quantiles; as it was asked for if no bin is sure."""
        sure = {index for index in range(len(self._sums)) if self._may_bound(index)}
        for low, high in reversed(self._parents):
            parts = {index for index, one in enumerate(self.edges[:-1]) if low <= one < high}
            # If no part says where its records are, they are within all.
            sure |= set() if sure & parts else parts
        if not sure:
            return self.attribute
        first, last = min(sure), max(sure)
        weights = [max(0.0, one) for one in self._means[first : last + 1]]
        edges, held = [self.edges[first]], 0.0
        left, bins = math.fsum(weights), self.bins
        for place, weight in enumerate(weights):
            low = self.edges[first + place]
            target = left / bins
            if held > 0.0 and weight >= target and bins > 1:
                # A value that many share has a bin of its own.
                edges.append(low)
                left, bins, held = left - held, bins - 1, 0.0
                target = left / bins
            held += weight
            if held >= target and bins > 1 and place + 1 < len(weights):
                edges.append(self.edges[first + place + 1])
                left, bins, held = left - held, bins - 1, 0.0
        end = self._end(last, edges[-1])
        made = _with_edges(self.attribute, [*edges, end])
        return replace(made, within=self._within(made, first, weights))

    @property
    def weights(self) -> list[float]:
        """The weight of each cell of the bought attribute; none if no bin is sure."""
        made = self.bought
        if made is self.attribute:
            return []
        counts, low = [0.0] * made.bins, self.level.bin_limits[0]
        for place, mean in enumerate(self._means):
            if made.edges[0] <= low[place] <= made.edges[-1]:
                counts[int(made._bins_of(low[place : place + 1])[0])] += mean
        missing = (one / max(1, self._levels) for one in self._missing)
        return [max(0.0, one) for one in (*counts, *missing)]

    def _within(
        self, made: BinnedAttribute, first: int, weights: Sequence[float]
    ) -> tuple[tuple[float, float, float], ...]:
        """Return what the numbers of bins are like, by the counts of the parts of each.

        A bin that spans powers of ten would be decoded to numbers that hardly anybody has.
        """
        low, high = self.level.bin_limits
        entries: dict[int, list[tuple[float, float, float]]] = {}
        for place, weight in enumerate(weights, start=first):
            least, most = float(low[place]), min(float(high[place]), made.edges[-1])
            if round(weight) > 0:
                entry = least, most, float(round(weight))
                entries.setdefault(int(made._bins_of(low[place : place + 1])[0]), []).append(entry)
        several = (one for one in entries.values() if len(one) > 1)
        return tuple(entry for one in several for entry in one)

    def _end(self, last: int, before: float) -> float:
        """Return the closed end of the last bin: the last value below the open one."""
        end, attribute = self.edges[last + 1], self.attribute
        if last + 2 == len(self.edges) or attribute.scale is None:
            return end
        closed = round(end * attribute.scale - 1.0) / attribute.scale
        return closed if closed > before else end - 0.5 / attribute.scale


def _bound_limit(made: int) -> float:
    """Return the standard deviations beyond which a bin may bound a column.

    Noise of any of so many bins, made for one level, is beyond it with `BOUND_RISK / LEVELS` at
    most. It is rounded up, so that it is the same wherever it is computed.
    """
    return math.ceil(-100.0 * NormalDist().inv_cdf(BOUND_RISK / LEVELS / made)) / 100.0


def _with_edges(attribute: BinnedAttribute, edges: Sequence[float]) -> BinnedAttribute:
    return replace(attribute, edges=tuple(edges))


def _round_parts(
    attribute: BinnedAttribute,
    low: float,
    high: float,
    most: int = _FIRST_PARTS,
    *,
    first: bool = False,
) -> list[float]:
    """Return round numbers between two edges, which make at most so many parts of them.

    The first level has the signed powers of ten, too: a range says nothing of the scale.
    """
    if isinstance(attribute, TimeAttribute):
        found = _calendar_parts(attribute, low, high, most)
    else:
        least = Fraction(1, attribute.scale or 10**12)
        found = _multiples(low, high, most, least)
        if first:
            found = sorted({*found, *_powers(low, high, len(str(attribute.scale or 10**9)) - 1)})
    # Each part must hold a value.
    kept: list[float] = []
    for edge in found:
        try:
            _with_edges(attribute, (kept[-1] if kept else low, edge, high))
        except DomainError:
            continue
        kept.append(edge)
    return kept


def _multiples(low: float, high: float, most: int, least: Fraction) -> list[float]:
    """Return the multiples of 1, 2 or 5 times a power of ten between two numbers.

    The numbers are exact, so that another processor finds the same ones.
    """
    first, last = Fraction(low), Fraction(high)
    width = max((last - first) / most, Fraction(least))
    exponent = math.floor(math.log10(max(float(width), 1e-300))) - 1
    while True:
        for digit in (1, 2, 5):
            step = digit * Fraction(10) ** exponent
            if step >= width:
                numbers = range(math.floor(first / step) + 1, math.ceil(last / step))
                if len(numbers) < most:
                    found = (_product(number * digit, exponent) for number in numbers)
                    return [one for one in found if low < one < high]
        exponent += 1


def _powers(low: float, high: float, decimals: int) -> Iterator[float]:
    """Yield zero and the signed powers of ten between two numbers, of so many decimals."""
    top = max(abs(low), abs(high))
    exponent = -decimals
    found = [0.0]
    while exponent <= 300 and (power := _product(1, exponent)) < top:
        found += [power, -power]
        # Beyond what people count, fewer say as much.
        exponent += 1 if exponent < 15 else 30
    yield from (one for one in found if low < one < high)


def _product(number: int, exponent: int) -> float:
    """Return a number times a power of ten, rounded once."""
    return float(number * 10**exponent) if exponent >= 0 else number / 10**-exponent


def _calendar_parts(attribute: TimeAttribute, low: float, high: float, most: int) -> list[float]:
    """Return the beginnings of units of the calendar between two counts of a unit.

    They are of the shortest units, or so many of them, that make at most so many parts.
    """
    clock = attribute.clock
    for unit, several in _CALENDAR if clock.kind == "instant" else ():
        if not clock.nests_in(unit):
            continue
        start, stop = (clock.count_of_longer(unit, one) for one in (low, high))
        # Two parts more than asked for are better than one that begins anywhere.
        if stop - start > (most + 2) * several:
            continue
        # Units are counted since 1970.
        origin = 1970 if unit == "year" else 0
        rounds = (one for one in range(start + 1, stop + 1) if (origin + one) % several == 0)
        found = dict.fromkeys(float(clock.first_of(unit, one)) for one in rounds)
        inside = [one for one in found if low < one < high]
        if inside and len(inside) <= most + 1:
            return inside
    return _multiples(low, high, most, Fraction(1))


def bought_text(
    asked: Asked,
    counts: Sequence[PaidCounts],
    attributes: Sequence[Attribute],
    other: Mapping[str, float],
) -> str:
    """Return what was bought, in a sentence: all of it is released.

    `other` is the share of records that have no selected value, by attribute. Values that were
    selected next to public ones are named, up to ten.
    """
    names = dict.fromkeys(one.attribute for one in counts)
    parts = []
    for attribute in (one for one in attributes if one.name in names):
        if isinstance(attribute, BinnedAttribute):
            low, high = attribute.bounds_text
            parts.append(f"{attribute.name}: {attribute.bins} bins, {low} to {high}")
        else:
            share = f" ({other[attribute.name]:.0%})"
            said = f"{attribute.name}: {len(attribute.listed) - 1} values and {OTHER}{share}"
            if public := asked.values[attribute.name][1]:
                new = [str(one) for one in attribute.listed if one not in (*public, OTHER)]
                more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
                said += f", new: {', '.join(new[:_NAMED]) or 'none'}{more}"
            parts.append(said)
    return f"The budget bought the domain. {'; '.join(parts)}."


def template_entry(name: str, entry: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return the most bins that an entry asks for, and the entry of what it is without a count.

    Raises
    ------
    SpecificationError
        If the entry is not one that asks, or lacks a range.
    """
    what = f"attribute {name!r}"
    rest = {key: value for key, value in entry.items() if key not in ("edges", "range", "bins")}
    for key in ("within", "every", "of_day", "hour_from", "bounds"):
        if key in rest:
            raise SpecificationError(f"{what} has `edges: paid` and {key!r}: remove one of the two")
    if rest.get("outside", "clip") != "clip":
        raise SpecificationError(
            f"{what} has `edges: paid`, so no value is outside of it: remove 'outside'"
        )
    bins = as_integer(what, "bins", entry.get("bins", _BINS))
    if not 2 <= bins <= _MOST_BINS:
        raise SpecificationError(f"{what}: bins must be from 2 to {_MOST_BINS}, got {bins}")
    given = entry.get("range")
    if given is None:
        given = _whole_range(what, rest)
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise SpecificationError(f"{what}: range must be two values, got {given!r}")
    if rest.get("integer") is True:
        low, high = (float(as_number(what, "each of the range", one)) for one in given)
        if math.isfinite(low) and math.isfinite(high):
            bins = max(1, min(bins, math.floor(high) - math.ceil(low) + 1))
    rest = {"nullable": True, "outside": "clip", **rest}
    if rest["nullable"]:
        # A column that cannot be read as its type is known from a missing one.
        rest.setdefault("unreadable", "apart")
    return bins, {**rest, "bounds": list(given), "bins": bins}


def listed_entry(name: str, entry: Mapping[str, Any]) -> tuple[int, list[str], dict[str, Any]]:
    """Return the most values that an entry asks for, the public ones, and an entry without them.

    Until they are bought, it has as many others as there may be.

    Raises
    ------
    SpecificationError
        If the entry is not one that asks.
    """
    what = f"attribute {name!r}"
    rest = {
        key: value for key, value in entry.items() if key not in ("values", "at_most", "public")
    }
    if "other" in rest or rest.get("dtype") not in (None, "str", "string", "category"):
        raise SpecificationError(
            f"{what} has `values: paid`, whose values are texts with {OTHER!r} for all others:"
            " remove 'other' and 'dtype'"
        )
    most = as_integer(what, "at_most", entry.get("at_most", _AT_MOST))
    if not 1 <= most <= _MOST_VALUES:
        raise SpecificationError(f"{what}: at_most must be from 1 to {_MOST_VALUES}, got {most}")
    public = [
        spelled(as_text(what, "each of 'public'", one))
        for one in as_list(what, "public", entry.get("public") or [])
    ]
    if len(set(public)) < len(public) or OTHER in public:
        raise SpecificationError(f"{what}: public lists a value twice, or {OTHER!r}: remove it")
    rest = {"nullable": True, **rest}
    values = unselected(most, public)
    return most, public, {**rest, "values": values, "other": OTHER, "alike": True}


def unselected(most: int, public: Sequence[str]) -> list[str]:
    """Return the values of an attribute until its own are bought."""
    return [*public, *(f"value {number} of {most}" for number in range(1, most + 1)), OTHER]


def _whole_range(what: str, entry: Mapping[str, Any]) -> list[Any]:
    """Return the range of what a type can hold, the same for each table."""
    if "unit" in entry:
        if entry.get("dtype") == "timedelta64[us]" or "h:mm" in str(entry.get("format", "")):
            raise SpecificationError(f"{what}: durations with `edges: paid` need a range")
        if str(entry.get("dtype", "")).startswith("time64"):
            return ["00:00", "23:59:59"]
        return ["0001-01-01", "9999-12-31"]
    if entry.get("integer") is True:
        return [-float(LARGEST_EDGE), float(LARGEST_EDGE)]
    if (decimals := entry.get("decimals")) is not None:
        most = float(LARGEST_INTEGER // 10 ** as_integer(what, "decimals", decimals))
        return [-most, most]
    return [-_MOST_FLOAT, _MOST_FLOAT]


def asking_entry(attribute: Attribute, asked: Asked) -> dict[str, Any]:
    """Return the entry that `template_entry`, or `listed_entry`, reads."""
    entry = attribute.to_entry()
    if attribute.name in asked.values:
        most, public = asked.values[attribute.name]
        for key in ("values", "other", "nullable", "alike"):
            entry.pop(key, None)
        listed: dict[str, Any] = {"values": PAID, "at_most": most}
        listed |= {"public": list(public)} if public else {}
        return listed | entry | ({} if attribute.nullable else {"nullable": False})
    if attribute.name not in asked.bins or not isinstance(attribute, BinnedAttribute):
        return entry
    for key in ("edges", "bounds", "bins", "outside", "nullable", "unreadable"):
        entry.pop(key, None)
    low, high = attribute.edges[0], attribute.edges[-1]
    own: dict[str, Any] = {"edges": PAID, "bins": asked.bins[attribute.name]}
    own["range"] = [*map(attribute.written, (low, high))]
    if not attribute.nullable:
        entry["nullable"] = False
    elif attribute.unreadable != "apart":
        entry["unreadable"] = attribute.unreadable
    return own | entry
