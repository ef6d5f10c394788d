"""Columns whose values no two rows share: a player once a year, a station once an hour.

::

    repairs:
      - unique: [player, year]

A row in which one of them is missing breaks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_list, as_text
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.expressions import column_text

if TYPE_CHECKING:
    from jam_dagster.tables.domain.impossible import OrderedAttributes

_MOST_COLUMNS = 3


@dataclass(frozen=True)
class Unique:
    """No two rows have the same values of some attributes.

    Parameters
    ----------
    attributes
        The names of two or three attributes.
    """

    attributes: tuple[str, ...]

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        return ["unique", list(self.attributes)]

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the rule in words."""
        *some, last = map(column_text, self.attributes)
        return f"no two rows have the same {', '.join(some)} and {last}"

    def checked(self, domain: OrderedAttributes) -> Unique:
        """Return it as it is, or raise an error if it does not fit the attributes."""
        for name in self.attributes:
            domain.attribute(name)
        if not 2 <= len(set(self.attributes)) == len(self.attributes) <= _MOST_COLUMNS:
            raise DomainError(
                f"'unique' names two or three attributes, each once, got"
                f" {', '.join(self.attributes)}: a key of one column is derived, such as row()"
            )
        return self

    def clique(self, domain: OrderedAttributes) -> tuple[str, ...]:
        """Return the attributes that decide the values: those whose hour another one is, too."""
        names = [(name, domain.attribute(name).hour_from) for name in self.attributes]
        return tuple(dict.fromkeys(one for pair in names for one in pair if one is not None))

    def repeated(self, table: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Return the rows of a decoded table whose values an earlier row has."""
        return repeated_rows([table[name] for name in self.attributes])


def repeated_rows(columns: Sequence[Any]) -> npt.NDArray[np.bool_]:
    """Return the rows whose values in all columns an earlier row has.

    A column is one of a table, or an array of numbers of its values, -1 where it is missing. Such
    a row repeats nothing.
    """
    codes = [pd.factorize(one)[0] if isinstance(one, pd.Series) else one for one in columns]
    keys = np.stack(codes, axis=1)
    known = (keys >= 0).all(axis=1)
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[known] = pd.DataFrame(keys[known]).duplicated().to_numpy()
    return repeated


def unique_from(what: str, written: object) -> Unique:
    """Return what an entry of a domain file has under `unique`."""
    names = as_list(what, "unique", written)
    return Unique(tuple(as_text(what, "each of 'unique'", name) for name in names))
