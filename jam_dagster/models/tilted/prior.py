"""The public prior: a network of public tables, mixed with their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.network import learn_network, network_domain
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support, log_frequencies
from jam_dagster.tables import Clique, Domain, EncodedTable, MarginalSource, PublicTables

Floats = npt.NDArray[np.float64]

LARGEST_SHARE = 0.3
"""The share of the records in the prior."""


@dataclass(frozen=True, eq=False)
class PublicPrior:
    """``p0 = (1 - a) network + a records``, of public data alone.

    `potentials` are the logarithms of the network's conditional distributions. `support` has the
    distinct public records with all attributes, None if there are none in memory, and
    `log_weights` the logarithms of their frequencies. `share` is a.
    """

    domain: Domain
    populations: int
    potentials: Mapping[Clique, Floats]
    support: Support | None
    log_weights: Floats
    share: float

    @classmethod
    def of(cls, domain: Domain, public: MarginalSource) -> PublicPrior:
        """Return the prior of public data: a table, or several that may lack attributes.

        The last one is kept: a mechanism starts from it, and the evaluation judges it.
        """
        for of, prior in _LAST:
            if of is public and prior.domain.digest == domain.digest:
                return prior
        prior = cls._learned(domain, public)
        _LAST[:] = [(public, prior)]
        return prior

    @classmethod
    def _learned(cls, domain: Domain, public: MarginalSource) -> PublicPrior:
        tables = PublicTables.of(domain, public)
        whole = [
            table
            for table in tables.tables.values()
            if isinstance(table, EncodedTable) and table.domain.digest == domain.digest
        ]
        potentials = learn_network(domain, tables)
        alike = all(name in domain.positions for clique in potentials for name in clique)
        populations = 1 if alike else len(tables.tables)
        if not whole:
            return cls(domain, populations, potentials, None, np.empty(0), 0.0)
        columns = zip(*(table.columns for table in whole), strict=True)
        together = EncodedTable(domain, tuple(np.concatenate(parts) for parts in columns))
        support, counts = Support.of_records(together)
        weights = log_frequencies(counts)
        return cls(domain, populations, potentials, support, weights, LARGEST_SHARE)

    @classmethod
    def uniform(cls, domain: Domain) -> PublicPrior:
        """Return the prior without public data: every possible record is as likely."""
        return cls(domain, 1, {}, None, np.empty(0), 0.0)

    @cached_property
    def network_domain(self) -> Domain:
        """The attributes of the network; see `network_domain`."""
        return network_domain(self.domain, self.populations)

    def model(self, total: float) -> TiltedModel:
        """Return the prior as a model with `total` records."""
        records = None
        if self.support is not None:
            records = WeightedTable(self.support, total, self.log_weights)
        network = FittedModel(self.network_domain, total, self.potentials)
        return TiltedModel(network, records, self.share, populations=self.populations)


_LAST: list[tuple[MarginalSource, PublicPrior]] = []
