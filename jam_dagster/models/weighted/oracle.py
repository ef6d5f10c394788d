"""The record that satisfies most of some counting queries, by integer programming.

Gaboardi, Gallego Arias, Hsu, Roth, Wu: "Dual Query: Practical Private Query Release for High
Dimensional Data", ICML 2014; Vietri, Tian, Bun, Steinke, Wu: "New Oracle-Efficient Algorithms for
Private Synthetic Data Release", ICML 2020.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

NODES = 20
"""Nodes of branch and bound, at most: never a time, which depends on the machine."""

SLACK = 0.05
"""The part of all queries' weight that a record may satisfy less than another solver's."""


class CellQuery(NamedTuple):
    """Whether a record is in a cell, or is not.

    `columns` are the cell's values, as places in all attributes' values side by side.
    """

    columns: tuple[int, ...]
    negated: bool = False


@dataclass(frozen=True, eq=False)
class BestRecords:
    """Programs ``max over x of sum_q w_q q(x) + sum_a b_a(x_a)``, one for each row of bonuses.

    `queries` have the weights w. `bonuses` are b, for all attributes' values side by side, shape
    ``(programs, values)``. If they differ, one record is best.
    """

    shape: Sequence[int]
    queries: Mapping[CellQuery, float]
    bonuses: npt.NDArray[np.float64]

    @property
    def slack(self) -> float:
        """Most by which a record may be worth less than another solver's."""
        return SLACK * math.fsum(self.queries.values())

    def worth(self, records: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return what each program has for its record, shape ``(programs,)``."""
        held = np.asarray(records) + self._starts
        rows = np.arange(len(held))[:, None]
        gained: npt.NDArray[np.float64] = self.bonuses[rows, held].sum(axis=1)
        for (columns, negated), weight in self.queries.items():
            within = np.all([(held == one).any(axis=1) for one in columns], axis=0)
            gained += weight * (within != negated)
        return gained

    def solve(self) -> npt.NDArray[np.int64]:
        """Return the record of each program, shape ``(programs, attributes)``."""
        return np.stack([self._best(bonus) for bonus in self.bonuses])

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0, *self.shape[:-1]])

    @cached_property
    def _constraints(self) -> Any:
        """One value an attribute, and no query more satisfied than its values say.

        A cell's query is at most each of its values, and a negated one at most the number of those
        that differ.
        """
        from scipy.optimize import LinearConstraint
        from scipy.sparse import csr_array

        values, queries = sum(self.shape), len(self.queries)
        rows: list[int] = np.repeat(np.arange(len(self.shape)), self.shape).tolist()
        columns, factors = list(range(values)), [1.0] * values
        lowest, highest = [1.0] * len(self.shape), [1.0] * len(self.shape)
        for number, (held, negated) in enumerate(self.queries):
            for terms in [held] if negated else [(one,) for one in held]:
                rows += [len(highest)] * (1 + len(terms))
                columns += [values + number, *terms]
                factors += [1.0, *[1.0 if negated else -1.0] * len(terms)]
                highest.append(float(len(terms)) if negated else 0.0)
                lowest.append(-math.inf)
        shape = len(highest), values + queries
        return LinearConstraint(csr_array((factors, (rows, columns)), shape), lowest, highest)

    def _best(self, bonus: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        from scipy.optimize import Bounds, milp

        gains = np.concatenate([bonus, list(self.queries.values())])
        whole = np.repeat([1, 0], [len(bonus), len(self.queries)])
        nodes, found = NODES, None
        # A search that finds no record in so many nodes has more of them.
        while found is None:
            options = {"node_limit": nodes, "mip_rel_gap": 0.0}
            found = milp(
                -gains,
                integrality=whole,
                bounds=Bounds(0.0, 1.0),
                constraints=self._constraints,
                options=options,
            ).x
            nodes = 10 * nodes + 1
        ends = [*self._starts[1:], len(bonus)]
        parts = zip(self._starts, ends, strict=True)
        return np.array([int(np.argmax(found[start:end])) for start, end in parts])
