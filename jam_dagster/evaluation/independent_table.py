"""The product of one-way marginals, a baseline of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    def uniform(cls, domain: Domain, records: int) -> IndependentTable:
        """Build the table without any information, in which all rows are as likely."""
        sizes = domain.sizes.items()
        return cls(domain, records, {name: np.full(size, records / size) for name, size in sizes})

    def marginal(self, clique: Clique) -> np.ndarray:
        """Return the expected counts of a marginal, float64 of the clique's shape."""
        answer = np.array(float(self.records))
        for name in clique:
            answer = np.multiply.outer(answer, self.one_way[name] / max(1, self.records))
        return answer

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return the expected counts of several marginals."""
        return {clique: self.marginal(clique) for clique in cliques}
