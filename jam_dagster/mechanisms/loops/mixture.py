"""The base of GEM, GEM^Pub and RAP^softmax: settings, rounds, refit.

Liu, Vietri, Wu: "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
NeurIPS 2021, Algorithm 3.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.queries import QueryMechanism
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.adam_step import check_size
from jam_dagster.models.mixture.model import ProductMixture, check_products
from jam_dagster.models.mixture.training import MixtureTrainer, Target
from jam_dagster.tables import Clique, Domain, MarginalSource, PublicTables, Workload


def threshold_setting(default: float) -> float:
    """Return the setting of the training threshold."""
    gamma: float = setting(
        default,
        "gamma: a measurement counts in training while its error is more than gamma standard"
        " deviations above the mean that its noise explains",
        minimum=0,
    )
    return gamma


@dataclass(frozen=True)
class MixtureMechanism(QueryMechanism):
    """A mechanism that trains a mixture of products, and the settings of all of them.

    Attributes
    ----------
    rounds, alpha
        See `QueryMechanism`.
    components
        K, the number of products in the mixture.
    loss
        The loss of a measurement: ``l1``, the sum of absolute errors of its cells, or ``l2``, of
        squared ones.
    learning_rate
        Adam's rate in the first step of a round; it falls to zero along a cosine.
    iterations
        Most steps of a round.
    threshold
        gamma: a measurement counts while its error is above the expected error of its noise plus
        gamma standard deviations; a round's training ends when none counts.
    generator_seed
        Seed of the initial weights, independent of private data.

    Choices where the paper is silent or whole marginals need another method:

    - A measured query may be chosen again.
    - T is tuned in the paper, from 30 to 200 single queries; a marginal holds many, so 10 are
      enough here for small and large budgets.
    - Measured values are not clipped to [0, 1]: squared errors from a distribution gain nothing by
      it, and it would favour cells with positive noise.
    - The paper lowers the absolute errors that are above half of their recent maximum. Here the
      threshold follows from the noise, and errors are squared: training on noise, which absolute
      errors invite where a cell holds less than its noise, made the model worse than it began.
    - Adam restarts in each round, as in the authors' code.
    """

    components: int = setting(
        500, "K, the number of products in the mixture", minimum=1, maximum=100_000
    )
    loss: str = setting(
        "l2", "what training lowers, absolute (l1) or squared errors (l2)", choices=("l1", "l2")
    )
    learning_rate: float = setting(3e-4, "of Adam, in the first step of a round", above=0)
    iterations: int = setting(
        100, "most steps of a round's training", minimum=1, maximum=MOST_ITERATIONS
    )
    threshold: float = threshold_setting(2.0)
    generator_seed: int = setting(0, "seed of the initial weights", minimum=0)

    page: ClassVar[str] = "mixtures.md"

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""
        super().check(domain, workload, rho)
        check_products(domain)
        check_size(domain.shape, self.components, self.parameters().get("width", 0))

    @abstractmethod
    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return the untrained generator."""

    def averaging(self) -> float | None:
        """Return beta of the released moving average over rounds; None without one."""
        return None

    def public_tables(self, domain: Domain, public: MarginalSource | None) -> PublicTables | None:
        """Return the public tables for training, or raise DomainError."""
        return None

    def target(self, measurement: Measurement, records: int) -> Target:
        """Return what a measurement asks for in training."""
        return Target.measured(measurement, records)

    def left(self, times: Mapping[Clique, int]) -> list[Clique]:
        """Return what a round may choose, given how often each marginal was measured: all."""
        return list(times)

    def start(self, ctx: Context) -> Training:
        """Return the mixture before any measurement."""
        public = self.public_tables(ctx.domain, ctx.public)
        records = ctx.records
        with ctx.stage("fit"):
            return Training(self, ctx.domain, public, records)


class Training:
    """The trained model of a run or of a refit: measurements in, mixtures out."""

    def __init__(
        self,
        mechanism: MixtureMechanism,
        domain: Domain,
        public: PublicTables | None,
        records: int,
    ) -> None:
        self.mechanism = mechanism
        self.domain = domain
        self.records = records
        self.targets: list[Target] = []
        self.trainer = mechanism.trainer(domain, public)
        self.averaged: Any = None
        self.model = self._mixture(self.trainer.tables())

    def add(self, measurement: Measurement) -> Convergence:
        """Train on all measurements so far and a further one."""
        mechanism = self.mechanism
        self.targets.append(mechanism.target(measurement, self.records))
        convergence = self.trainer.train(
            self.targets,
            iterations=mechanism.iterations,
            learning_rate=mechanism.learning_rate,
            threshold=mechanism.threshold,
        )
        keep = mechanism.averaging()
        if keep is not None and measurement.round >= mechanism.rounds // 2:
            held = self.trainer.weights if self.averaged is None else self.averaged
            self.averaged = self.trainer.average(held, keep)
        self.model = self._mixture(self.trainer.tables())
        return convergence

    def candidates(self, times: Mapping[Clique, int]) -> list[Clique]:
        """Return what a round may choose."""
        return self.mechanism.left(times)

    @property
    def released(self) -> ProductMixture:
        """The mixture of the averaged weights, or of the last ones without averaging."""
        if self.averaged is None:
            return self.model
        return self._mixture(self.trainer.tables(self.averaged))

    def _mixture(self, tables: tuple[np.ndarray, ...]) -> ProductMixture:
        cliques = tuple(dict.fromkeys(target.clique for target in self.targets))
        return ProductMixture(self.domain, float(self.records), tables, cliques)
