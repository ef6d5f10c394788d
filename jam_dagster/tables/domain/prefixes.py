"""Attributes of codes by their first characters: postal codes, diagnoses, industries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import Key
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.values import Value, plain_value, text_of

_MOST_CODES = 100_000
_LONGEST = 1_000
_LARGEST_WEIGHT = 2**53


@dataclass(frozen=True)
class PrefixAttribute(CategoricalAttribute):
    """An attribute of texts, with a cell for those that begin alike.

    A cell decodes to one of its codes, drawn by their weights. A code that has no weight counts by
    its first characters, and is never decoded to.

    Parameters
    ----------
    name, nullable, dtype, unreadable
        As in `CategoricalAttribute`.
    prefix
        How many characters codes have in common that share a cell.
    weights
        Each code that a synthetic row can have, and its weight, such as its number of public rows.
    other
        The text that encodes every code of another beginning. None: such a code is an error, or
        missing.

    Raises
    ------
    DomainError
        If `prefix` or a weight is not positive, or too large, a code is not a text, or there are
        none or more than 100,000.
    """

    values: tuple[Value, ...] = field(init=False)
    _: KW_ONLY
    prefix: int
    weights: tuple[tuple[str, int], ...]

    keys: ClassVar[Mapping[str, Key]] = {
        "prefix": Key("**needed**", "how many characters codes of one cell have in common"),
        "weights": Key(
            "**needed**",
            "each code of synthetic rows, and its weight: how many public rows have it",
        ),
    } | {
        name: CategoricalAttribute.keys[name]
        for name in ("other", "nullable", "unreadable", "dtype")
    }
    drawn = True

    def __post_init__(self) -> None:
        what = f"attribute {self.name!r}"
        number = isinstance(self.prefix, int) and not isinstance(self.prefix, bool)
        if not number or not 1 <= self.prefix <= _LONGEST:
            raise DomainError(
                f"{what}: prefix is the number of characters that are modelled, 1 to {_LONGEST:,},"
                f" got {self.prefix!r}"
            )
        if not 1 <= len(self.weights) <= _MOST_CODES:
            raise DomainError(f"{what} must have weights of 1 to {_MOST_CODES:,} codes")
        for code, weight in self.weights:
            if not isinstance(plain_value(self.name, code), str) or not code:
                raise DomainError(f"{what}: the code {code!r} is not a text: write it in quotes")
            whole = isinstance(weight, int) and not isinstance(weight, bool)
            if not whole or not 1 <= weight <= _LARGEST_WEIGHT:
                raise DomainError(
                    f"{what}: the weight of {code!r} must be a whole number above 0, at most 2**53,"
                    f" got {weight!r}"
                )
        starts = sorted({code[: self.prefix] for code, _ in self.weights})
        if self.other is not None:
            if not isinstance(self.other, str) or self.other[: self.prefix] in starts:
                raise DomainError(f"{what}: other must be a text that begins like no code")
            starts.append(self.other)
        object.__setattr__(self, "values", tuple(starts))
        super().__post_init__()

    @property
    def listed(self) -> tuple[Value, ...]:
        """The codes and `other`, in the order of their cells."""
        return (*self._weight_of, *(() if self.other is None else (self.other,)))

    @cached_property
    def _weight_of(self) -> dict[str, int]:
        """The weight of each code, in the order of their cells."""
        return dict(sorted(self.weights))

    def code_of(self, value: object) -> int | None:
        """Return the code of a text by its first characters, else the code of `other`, or None."""
        return self._codes.get(text_of(value)[: self.prefix], self.other_code)

    @property
    def kind_text(self) -> str:
        """The kind of the values, in a word or two."""
        return f"code (first {self.prefix})"

    def _described(self) -> str:
        return f"a code that begins like {super()._described()}"

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> Self:
        """Return the attribute that an entry of a domain file declares by `keys`."""
        what = f"attribute {name!r}"
        weights = entry.get("weights")
        if not isinstance(weights, Mapping):
            raise DomainError(f"{what}: weights must map each code to its weight")
        return cls(
            name,
            other=entry.get("other"),
            prefix=entry["prefix"],
            weights=tuple(weights.items()),
            **cls.shared(what, entry),
        )

    def _own_entry(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {"prefix": self.prefix, "weights": dict(self.weights), **other}

    def canonical_form(self) -> dict[str, Any]:
        """Return what identifies the attribute in the domain's digest."""
        weights = [list(one) for one in sorted(self.weights)]
        return super().canonical_form() | {"prefix": self.prefix, "weights": weights}

    def listed_codes(self, column: pd.Series[Any]) -> npt.NDArray[np.int64]:
        """Return the code of each cell of a checked table; a code without a weight is outside."""
        starts = {text: text[: self.prefix] for text in self._weight_of}
        if self.other is not None:
            starts[str(self.other)] = str(self.other)
        # A text of no code is in no cell.
        return super().listed_codes(column.astype(object).map(lambda one: starts.get(one, one)))

    def points_of(self, codes: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
        """Return an index of `listed` for each code, drawn by the weights."""
        codes = codes.astype(np.intp)
        ends = np.cumsum([0, *self._weight_of.values()], dtype=np.float64)
        cells = [self._codes[code[: self.prefix]] for code in self._weight_of]
        of_a_code = codes <= cells[-1]
        first, last = (
            np.searchsorted(cells, np.where(of_a_code, codes, 0), side=side)
            for side in ("left", "right")
        )
        weight = ends[first] + rng.random(len(codes)) * (ends[last] - ends[first])
        points = np.clip(np.searchsorted(ends, weight, side="right") - 1, first, last - 1)
        # After the codes come `other` and null, as in the cells.
        return np.where(of_a_code, points, codes - cells[-1] - 1 + len(cells))
