"""Attributes of a domain: the values of a column, and the cells that count them.

A kind of attributes is a class below `Attribute` in a file of its own, and an entry of `KINDS` in
`domain_file.py`. Everything else asks the attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import date
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_boolean, as_text
from jam_dagster.tables.domain.values import (
    NULL_LABEL,
    UNREADABLE_LABEL,
    Mask,
    Unreadable,
    Value,
    check_name,
    check_unreadable,
)

LISTED_VALUES = 10

OUTSIDE = -1
"""The code of a value that an attribute does not list."""

Caught = Literal["unreadable", "missing", "other", "bound", "half"]

_EXAMPLES = 5


class CatchAll(NamedTuple):
    """A cell of an attribute that also counts values which the domain does not hold."""

    caught: Caught
    code: int


class Key(NamedTuple):
    """A key of the domain file, as the reference has it: its default, and what it is."""

    default: str
    meaning: str


@dataclass(frozen=True)
class Attribute(ABC):
    """A column of a domain: the protocol of every kind.

    Parameters
    ----------
    name
        The column's name.
    nullable
        Whether a missing value is allowed; it has a cell of its own, the last.
    dtype
        The pandas dtype to decode to; None: one that follows from the values.
    unreadable
        "missing": a value that the attribute cannot hold is encoded as a missing one. "apart": it
        has a cell of its own, before that of missing values, and is released as a missing one.
        "error": it is an error.

    Raises
    ------
    DomainError
        `unreadable` is not "error" and the attribute is not nullable.
    """

    name: str
    _: KW_ONLY
    nullable: bool = False
    dtype: str | None = None
    unreadable: Unreadable = "error"

    keys: ClassVar[Mapping[str, Key]]
    """Its keys in a domain file."""

    binned: ClassVar[bool] = False
    """Whether cells are bins of numbers in an order."""

    drawn: ClassVar[bool] = False
    """Whether a cell holds several listed values, of which decoding draws one."""

    dated: ClassVar[bool] = False
    """Whether `shift` moves the values of a public table."""

    def __post_init__(self) -> None:
        check_name(self.name)
        check_unreadable(self.name, self.unreadable, self.nullable)

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of cells, those without a value included."""

    @property
    def null_code(self) -> int | None:
        """Code of the null cell, the last; None if the attribute is not nullable."""
        return self.size - 1 if self.nullable else None

    @property
    def unreadable_code(self) -> int | None:
        """Code of the cell of values that the attribute cannot hold; None if it has none."""
        return self.size - 2 if self.unreadable == "apart" else None

    @property
    def missing_codes(self) -> tuple[int, ...]:
        """Codes of the cells that are released as missing: of unreadable and of missing values."""
        both = (self.unreadable_code, self.null_code)
        return tuple(one for one in both if one is not None)

    def as_released(self, counts: npt.NDArray[Any], axis: int = 0) -> npt.NDArray[Any]:
        """Return counts in which unreadable values count as missing, as released rows have them.

        The shape stays.
        """
        if self.unreadable_code is None:
            return counts
        cells = np.moveaxis(counts.copy(), axis, 0)
        cells[self.null_code] += cells[self.unreadable_code]
        cells[self.unreadable_code] = 0
        return np.moveaxis(cells, 0, axis)

    @property
    def absent_code(self) -> int | None:
        """Code of the cell of rows that do not have the column; None if all have it."""
        return None

    @property
    def has_gaps(self) -> bool:
        """Whether a row of the table may have no value: a missing one, or none to have."""
        return self.nullable or self.absent_code is not None

    @property
    def column(self) -> str:
        """Name of the column that people read; several attributes may be of one."""
        return self.name

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label of each cell in plots and tables."""
        unreadable = (UNREADABLE_LABEL,) if self.unreadable == "apart" else ()
        return (*self._labels(), *unreadable, *((NULL_LABEL,) if self.nullable else ()))

    @abstractmethod
    def _labels(self) -> Iterator[str]: ...

    @property
    def listed(self) -> tuple[Value, ...]:
        """The listed values; none if cells are bins."""
        return ()

    @property
    def other_code(self) -> int | None:
        """Code of the cell that encodes every unlisted value, if there is one."""
        return None

    @property
    def catch_all_cells(self) -> list[CatchAll]:
        """The cells that also count values which the domain does not hold."""
        both: list[tuple[Caught, int | None]] = [
            ("unreadable", self.unreadable_code),
            ("missing", self.null_code),
        ]
        return [CatchAll(caught, code) for caught, code in both if code is not None]

    @property
    def ordered(self) -> bool:
        """Whether the values are categories in an order."""
        return self.dtype == "ordered category"

    @property
    def decimals(self) -> int | None:
        """Number of decimals of the decoded values, if it is declared."""
        return None

    @property
    def hour_from(self) -> str | None:
        """The attribute whose number is the hour of this one, if there is one."""
        return None

    @property
    def format(self) -> str | None:
        """How texts are written, if they have a format."""
        return None

    @property
    def compared_as(self) -> tuple[str, ...] | None:
        """The common unit of the two attributes of an order; None if an order has none of it."""
        return None

    def alone(self, names: Collection[str]) -> Self:
        """Return the attribute as it is if there are no attributes but those of these names."""
        return self

    def within_period(self, first: date, last: date) -> Self:
        """Return the attribute with bounds that hold a period, if its values are dates."""
        return self

    @property
    @abstractmethod
    def kind_text(self) -> str:
        """The kind of the values, in a word or two."""

    @property
    @abstractmethod
    def outside_text(self) -> str:
        """The words for the treatment of a value that the attribute does not list."""

    @abstractmethod
    def values_text(self, shown: int) -> str:
        """Return the values, if there are many only so many of them."""

    def describe(self) -> str:
        """Return the values of the attribute in words."""
        return f"{self._described()}{', or null' if self.nullable else ''}"

    @abstractmethod
    def _described(self) -> str: ...

    @classmethod
    @abstractmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> Attribute:
        """Return the attribute that an entry of a domain file declares by `keys`."""

    @staticmethod
    def shared(what: str, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that every kind has, by an entry of a domain file."""
        return {
            "nullable": as_boolean(what, "nullable", entry.get("nullable", False)),
            "dtype": dtype_in(what, entry),
            "unreadable": entry.get("unreadable", "error"),
        }

    def to_entry(self) -> dict[str, Any]:
        """Return the entry of a domain file, as short as `from_entry` allows."""
        entry = self._own_entry()
        if self.nullable:
            entry["nullable"] = True
        if self.unreadable != "error":
            entry["unreadable"] = self.unreadable
        return entry if self.dtype == self._default_dtype else entry | {"dtype": self.dtype}

    @abstractmethod
    def _own_entry(self) -> dict[str, Any]: ...

    @property
    @abstractmethod
    def _default_dtype(self) -> str: ...

    def canonical_form(self) -> dict[str, Any]:
        """Return what identifies the attribute in the domain's digest."""
        return {
            "name": self.name,
            "nullable": self.nullable,
            "dtype": self.dtype,
            "unreadable": self.unreadable,
        }

    @abstractmethod
    def condition_codes(self, what: str, item: object) -> list[int]:
        """Return the codes that meet an item, not null, of a condition in a domain file."""

    @abstractmethod
    def conditions(self, codes: list[int]) -> list[Any]:
        """Return items that `condition_codes` turns into the codes."""

    def check_column(self, column: pd.Series[Any]) -> None:  # noqa: B027  # any text is a value
        """Raise DomainError if a column has a dtype that the attribute cannot hold."""

    @abstractmethod
    def codes_in(self, column: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], Mask]:
        """Return the code of each cell, any if it is missing, and which cells are missing.

        A cell that the attribute cannot hold is missing too if `unreadable` is "missing".

        Each cell is encoded by itself. Errors quote values.
        """

    @abstractmethod
    def listed_codes(self, column: pd.Series[Any]) -> npt.NDArray[np.int64]:
        """Return the code of each cell of a table that is checked, `OUTSIDE` if none is listed.

        Encoding sends unlisted values to `other` and moves numbers to the bounds; a check of a
        synthetic table must not, or it could not find them.
        """

    def points_of(self, codes: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
        """Return what `column_of` decodes of codes: these, or what was drawn in each cell."""
        return codes

    @abstractmethod
    def column_of(self, points: npt.NDArray[Any], null: Mask) -> pd.Series[Any]:
        """Return the values of codes, or of what was drawn in cells, missing where `null` is."""

    def notes(self, column: pd.Series[Any], codes: npt.NDArray[Any]) -> Iterator[str]:
        """Yield what a person should look at in a public column, which has these codes; or ""."""
        yield from ()


def dtype_in(what: str, entry: Mapping[str, Any]) -> str | None:
    """Return the dtype that an entry of a domain file declares, if it does."""
    return None if entry.get("dtype") is None else as_text(what, "dtype", entry["dtype"])


def of_rows(rows: Mask) -> str:
    """Return how many rows are chosen, for an error."""
    return f" in {int(rows.sum()):,} of {len(rows):,} rows"


def examples(column: pd.Series[Any], rows: Mask) -> str:
    """Return the number of wrong rows and examples of their values."""
    values = list(dict.fromkeys(map(repr, column[rows].tolist())))
    more = ", ..." if len(values) > _EXAMPLES else ""
    return f"{of_rows(rows)} ({', '.join(values[:_EXAMPLES])}{more})"
