"""Tables of integer codes, and the marginals counted from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.errors import InputError, OutsideDomainError
from jam_dagster.tables.domain import Clique, Domain

Counts = npt.NDArray[np.int64]

# Rows counted at a time: codes of that many fit the second-level cache.
_BLOCK_ROWS = 1 << 16
# Above this many cells a marginal is counted in one go: adding up blocks would cost more.
_BLOCK_CELLS = 1 << 18
# A marginal of more cells would take more than a gibibyte.
_MAX_CELLS = 1 << 27


class MarginalSource(Protocol):
    """Anything that answers marginals: a table in memory, a database, a model."""

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        ...

    @property
    def records(self) -> int:
        """Number of records."""
        ...

    def marginal(self, clique: Clique) -> npt.NDArray[Any]:
        """Return the counts of a clique, an array of the shape of its sizes."""
        ...

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[Any]]:
        """Return the counts of several cliques by clique."""
        ...


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table of integer codes over a domain; a `MarginalSource`.

    Parameters
    ----------
    domain
        What the codes mean.
    columns
        One array of codes per attribute, each of shape (records,), kept in the smallest unsigned
        integer type and read-only.

    Raises
    ------
    InputError
        The columns do not fit the domain. No message holds a value.
    """

    domain: Domain
    columns: tuple[npt.NDArray[np.integer[Any]], ...]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain.names):
            raise InputError(
                f"a table over {len(self.domain.names)} attributes needs as many columns, got"
                f" {len(self.columns)}"
            )
        columns = tuple(
            _smallest(np.asarray(column), attribute.size, attribute.name)
            for column, attribute in zip(self.columns, self.domain.attributes, strict=True)
        )
        if len({len(column) for column in columns}) > 1:
            raise InputError("the columns of a table must be equally long")
        object.__setattr__(self, "columns", columns)

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.columns[0])

    def column(self, name: str) -> npt.NDArray[np.integer[Any]]:
        """Return the codes of an attribute, shape (records,)."""
        return self.columns[self.domain.positions[self.domain.attribute(name).name]]

    def take(self, indices: npt.ArrayLike) -> EncodedTable:
        """Return the records at the indices (or where a boolean array is True), in their order."""
        chosen = np.asarray(indices)
        if chosen.dtype != bool:
            chosen = chosen.astype(np.intp)
        return EncodedTable(self.domain, tuple(column[chosen] for column in self.columns))

    def to_frame(self) -> pd.DataFrame:
        """Return the codes as a DataFrame, columns in the order of the domain."""
        return pd.DataFrame(dict(zip(self.domain.names, self.columns, strict=True)))

    @classmethod
    def from_frame(cls, domain: Domain, frame: pd.DataFrame) -> EncodedTable:
        """Build a table from a DataFrame of codes; columns not in the domain are ignored.

        Raises
        ------
        InputError
            A column is missing, occurs twice or does not hold integers.
        OutsideDomainError
            A code is negative or too large for its attribute.
        """
        columns = []
        for name in domain.names:
            if name not in frame.columns:
                raise InputError(f"the table of codes has no column {name!r}: encode it again")
            column = frame[name]
            if not isinstance(column, pd.Series):
                raise InputError(f"the table of codes has column {name!r} twice: rename one")
            if not pd.api.types.is_integer_dtype(column.dtype) or column.isna().any():
                raise InputError(
                    f"column {name!r} of the table of codes does not hold integers: encode it again"
                )
            columns.append(column.to_numpy())
        return cls(domain, tuple(columns))

    def marginal(self, clique: Clique) -> Counts:
        """Count a marginal.

        Parameters
        ----------
        clique
            Names of attributes in the order of the domain; ``()`` counts the records.

        Returns
        -------
        int64 array of shape (size of each attribute of the clique)

        Raises
        ------
        InputError
            A name is unknown, the order is not the domain's, or there are too many cells.
        """
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, Counts]:
        """Count several marginals, sharing the work on the prefixes that they have in common.

        Cliques are visited in lexicographic order, so that for all triples that begin with
        ``(a, b)`` the joint code of a and b is computed once (all pairs and triples of d
        attributes: one addition and one count each). Beside the answers, memory is a few arrays
        of the length of a block of rows.

        Parameters
        ----------
        cliques
            Names of attributes in the order of the domain.

        Returns
        -------
        The counts by clique, in the order asked.

        Raises
        ------
        InputError
            As `marginal`.
        """
        wanted = list(dict.fromkeys(tuple(clique) for clique in cliques))
        places = {self._places(clique): clique for clique in wanted}
        ordered = sorted(places)
        flat = {one: np.zeros(self._cells(one), dtype=np.int64) for one in ordered}
        small = [one for one in ordered if len(flat[one]) <= _BLOCK_CELLS]
        large = [one for one in ordered if len(flat[one]) > _BLOCK_CELLS]
        for start in range(0, self.records, _BLOCK_ROWS):
            self._count(small, slice(start, start + _BLOCK_ROWS), flat)
        self._count(large, slice(None), flat)
        shape = self.domain.shape
        counts = {
            places[one]: flat[one].reshape([shape[place] for place in one]) for one in ordered
        }
        return {clique: counts[clique] for clique in wanted}

    def _count(
        self, ordered: list[tuple[int, ...]], rows: slice, flat: dict[tuple[int, ...], Counts]
    ) -> None:
        if not ordered:
            return
        columns = {
            place: self.columns[place][rows].astype(np.intp)
            for place in sorted({place for clique in ordered for place in clique})
        }
        for clique, codes in _joint_codes(ordered, columns, self.domain.shape):
            if clique:
                flat[clique] += np.bincount(codes, minlength=len(flat[clique]))
            else:
                flat[clique] += len(self.columns[0][rows])

    def _places(self, clique: Clique) -> tuple[int, ...]:
        if self.domain.canonical(clique) != clique:
            raise InputError(
                f"marginal {clique} is not in the order of the domain: use"
                f" {self.domain.canonical(clique)}"
            )
        return tuple(self.domain.positions[name] for name in clique)

    def _cells(self, places: tuple[int, ...]) -> int:
        clique = tuple(self.domain.names[place] for place in places)
        cells = self.domain.size(clique)
        if cells > _MAX_CELLS:
            raise InputError(
                f"the marginal of {', '.join(clique)} has {cells:,} cells, more than"
                f" {_MAX_CELLS:,}: use fewer attributes, or fewer bins"
            )
        return cells


def _joint_codes(
    ordered: list[tuple[int, ...]],
    columns: dict[int, npt.NDArray[np.intp]],
    shape: tuple[int, ...],
) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.intp]]]:
    """Yield each clique with the joint code of its columns, reusing the codes of its prefix."""
    prefix: tuple[int, ...] = ()
    codes: list[npt.NDArray[np.intp]] = []
    for clique in ordered:
        common = 0
        while common < min(len(prefix), len(clique) - 1) and prefix[common] == clique[common]:
            common += 1
        del codes[common:]
        for depth in range(common, len(clique)):
            column = columns[clique[depth]]
            codes.append(codes[-1] * shape[clique[depth]] + column if depth else column)
        prefix = clique
        yield clique, codes[-1] if codes else np.empty(0, dtype=np.intp)


def _smallest(column: npt.NDArray[Any], size: int, name: str) -> npt.NDArray[np.integer[Any]]:
    if column.ndim != 1 or column.dtype.kind not in "ui":
        raise InputError(f"the codes of attribute {name!r} must be a one-dimensional integer array")
    if len(column) and (column.min() < 0 or column.max() >= size):
        raise OutsideDomainError(
            f"the codes of attribute {name!r} must lie in 0 to {size - 1}: check that"
            " the table was encoded with this domain"
        )
    smallest = column.astype(np.min_scalar_type(size - 1), copy=False).view()
    smallest.flags.writeable = False
    return smallest
