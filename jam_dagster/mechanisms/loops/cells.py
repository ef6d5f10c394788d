"""The cells of marginals as counting queries, one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.transcript import subject_of
from jam_dagster.tables import Clique, Domain


@dataclass(frozen=True)
class Cells:
    """The cells of some marginals, numbered one marginal after another."""

    domain: Domain
    cliques: Sequence[Clique]

    @cached_property
    def ends(self) -> list[int]:
        """The number after each marginal's last cell."""
        return list(accumulate(self.domain.size(clique) for clique in self.cliques))

    @property
    def number(self) -> int:
        """How many there are."""
        return self.ends[-1]

    def place(self, cell: int) -> tuple[Clique, tuple[int, ...]]:
        """Return the marginal of a cell, and its values in it."""
        which = bisect_right(self.ends, cell)
        clique = self.cliques[which]
        shape = [self.domain.sizes[name] for name in clique]
        start = self.ends[which - 1] if which else 0
        return clique, tuple(int(one) for one in np.unravel_index(cell - start, shape))

    def columns(self, cell: int) -> tuple[int, ...]:
        """Return the values of a cell as indices in all attributes' values side by side."""
        starts, (clique, values) = self._starts, self.place(cell)
        return tuple(starts[name] + one for name, one in zip(clique, values, strict=True))

    @cached_property
    def _starts(self) -> dict[str, int]:
        starts = accumulate(self.domain.shape[:-1], initial=0)
        return dict(zip(self.domain.names, starts, strict=True))

    def named(self, cell: int) -> str:
        """Return the name of a cell, which the digest of a choice covers."""
        clique, values = self.place(cell)
        return f"{subject_of(clique)} at {values}"

    def find(self, name: str) -> int | None:
        """Return a cell by its name; None if it is not one of a marginal."""
        subject, _, values = name.partition(" at ")
        which = self._indices.get(subject)
        try:
            at = tuple(int(one) for one in values.strip("()").split(",") if one)
            if which is None:
                return None
            clique = self.cliques[which]
            inside = np.ravel_multi_index(at, [self.domain.sizes[one] for one in clique])
        except (ValueError, OverflowError):
            return None
        return int(inside) + (self.ends[which - 1] if which else 0)

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {subject_of(clique): index for index, clique in enumerate(self.cliques)}

    def held(self, records: np.ndarray) -> np.ndarray:
        """Return the counts of all cells in some records, shape ``(rows, attributes)``."""
        counts, start = np.zeros(self.number), 0
        for clique, end in zip(self.cliques, self.ends, strict=True):
            columns = tuple(records[:, self.domain.positions[name]] for name in clique)
            sizes = [self.domain.sizes[name] for name in clique]
            np.add.at(counts, start + np.ravel_multi_index(columns, sizes), 1.0)
            start = end
        return counts

    def counts(self, ctx: Context, cells: Sequence[int] | None = None) -> np.ndarray:
        """Return the private counts of some cells, or of all; for the input of a draw alone."""
        every = cells is None
        places = [] if cells is None else [self.place(cell) for cell in cells]
        held: dict[Clique, np.ndarray] = {}
        for block in ctx.counts(
            self.cliques if every else list(dict.fromkeys(clique for clique, _ in places))
        ):
            held.update(block)
        if every:
            return np.concatenate([held[q].ravel() for q in self.cliques]).astype(np.float64)
        return np.array([float(held[clique][values]) for clique, values in places])
