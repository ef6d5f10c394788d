"""The product of one-way marginals, a baseline of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Clique, Domain


@dataclass(frozen=True)
class IndependentTable:
    """The product of one-way marginals: each attribute exact, and no relation between any two.

    `one_way` has the counts of every attribute, shape ``(size,)`` each.
    """

    domain: Domain
    records: int
    one_way: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, table: MarginalSource) -> IndependentTable:
        """Build the product from the one-way marginals of a table."""
        counts = table.marginals([(name,) for name in table.domain.names])
        return cls(table.domain, table.records, {name: c for (name,), c in counts.items()})

    @classmethod
    def uniform(
        cls, domain: Domain, records: int, known: Mapping[str, Sequence[float]] | None = None
    ) -> IndependentTable:
        """Build the table without any information, in which all rows are as likely.

        `known` are weights of the cells of attributes in which it is not uniform, by name.
        """
        one_way = {name: np.full(size, records / size) for name, size in domain.sizes.items()}
        for name, weights in (known or {}).items():
            weight = np.asarray(weights, dtype=np.float64)
            one_way[name] = weight * (records / weight.sum())
        return cls(domain, records, one_way)

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the expected counts of a marginal, float64 of the clique's shape."""
        answer = np.array(float(self.records))
        for name in clique:
            answer = np.multiply.outer(answer, self.one_way[name] / max(1, self.records))
        return answer

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return the expected counts of several marginals."""
        return {clique: self.marginal(clique) for clique in cliques}
