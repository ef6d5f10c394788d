"""What GEM, GEM^Pub and RAP^softmax have in common: settings, rounds, refit.

Liu, Vietri, Wu: "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
NeurIPS 2021, Algorithm 3.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.mechanisms.base import MechanismResult, OnRound
from jam_dagster.mechanisms.loops.base import in_rounds
from jam_dagster.mechanisms.loops.queries import QueryMechanism, QueryRun
from jam_dagster.mechanisms.loops.settings import setting, told_settings
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.model import ProductMixture, check_products
from jam_dagster.models.mixture.training import MixtureTrainer, Target
from jam_dagster.tables import Domain, MarginalSource, PublicTables, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws


def threshold_setting(default: float) -> float:
    """Return the setting of what counts in training."""
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
    rounds, alpha, queries
        See `QueryMechanism`.
    components
        K, the number of products in the mixture.
    loss
        What a measurement adds: ``l1``, the sum of absolute errors of its cells, or ``l2``, of
        squared ones.
    learning_rate
        Of Adam in the first step of a round; it falls to zero along a cosine.
    iterations
        Most steps of a round.
    threshold
        gamma: a measurement counts while its error is above what its noise explains, the mean and
        gamma standard deviations; a round's training ends where none does.
    generator_seed
        Of the initial weights. Private data have no part in it.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    Where the paper leaves room, or whole marginals ask for something else:

    - What was measured may be chosen again.
    - T is tuned in the paper, from 30 to 200 single queries; a marginal holds many, so that 10 are
      enough here, on small budgets and large.
    - Measured values are not clipped to [0, 1]: squared errors from a distribution gain nothing by
      it, and it would favour cells whose noise is positive.
    - The paper lowers the absolute errors that are above half of their recent maximum. Here the
      threshold follows from the noise, and errors are squared: training on noise, which absolute
      errors invite where a cell holds less than its noise, made the model worse than it began.
    - Adam starts anew in each round, as in the authors' code.
    """

    components: int = setting(500, "K, the number of products in the mixture", minimum=1)
    loss: str = setting(
        "l2", "what training lowers, absolute (l1) or squared errors (l2)", choices=("l1", "l2")
    )
    learning_rate: float = setting(3e-4, "of Adam, in the first step of a round", above=0)
    iterations: int = setting(100, "most steps of a round's training", minimum=1)
    threshold: float = threshold_setting(2.0)
    generator_seed: int = setting(0, "seed of the initial weights", minimum=0)

    page: ClassVar[str] = "mixtures.md"

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` leaves nothing worth its noise to a round, or a marginal of the workload is
            too large to be counted.
        DomainError
            If the domain has impossible combinations.
        """
        super().check(domain, workload, rho)
        check_products(domain)

    @abstractmethod
    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return what is trained, as it is before the first round."""

    def averaging(self) -> float | None:
        """Return beta of the moving average over rounds whose weights are released; None: none."""
        return None

    def public_tables(self, domain: Domain, public: MarginalSource | None) -> PublicTables | None:
        """Return the public tables that are learned from, or raise DomainError."""
        return None

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`.

        Parameters
        ----------
        private
            The table to protect.
        public
            A related table over some or all of the attributes, or `PublicTables`; rows are not
            protected. Learned from only where `uses_public` says so.
        workload
            The marginals that matter; they are the candidates.
        draws
            Charges, draws and stores. Outcomes that it already holds are used again, free, so a
            run that stopped goes on where it was.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If a table that is needed is missing or empty, the public one's attributes are not the
            private one's, or the domain has impossible combinations.
        BudgetExceededError
            If the account does not hold what `draws` says it holds.
        ReleaseClosedError
            If the account was closed before anything was measured; later that ends the run.
        """
        tables = self.public_tables(private.domain, public)
        self.check(private.domain, workload, draws.total)
        run = _Run(self, private, tables, workload, draws)
        return run.result(in_rounds(self.rounds, run.round, on_round), workload)

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> ProductMixture:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        mechanism = cls(**told_settings(cls, transcript))
        tables = mechanism.public_tables(domain, public)
        training = Training(mechanism, domain, tables, transcript.records)
        for measurement in transcript.measurements:
            training.add(measurement)
        return training.released


class Training:
    """The trained model of a run or of a refit: measurements in, mixtures out.

    Parameters
    ----------
    mechanism
        Whose settings hold.
    domain
        The attributes.
    public
        What is trained on first, where the mechanism does.
    records
        n.
    """

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
        """Train on all measurements so far and one more."""
        mechanism = self.mechanism
        self.targets.append(Target.measured(measurement, self.records))
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

    @property
    def released(self) -> ProductMixture:
        """The mixture of the averaged weights, where they are averaged; else the last."""
        if self.averaged is None:
            return self.model
        return self._mixture(self.trainer.tables(self.averaged))

    def _mixture(self, tables: tuple[np.ndarray, ...]) -> ProductMixture:
        cliques = tuple(dict.fromkeys(target.clique for target in self.targets))
        return ProductMixture(self.domain, float(self.records), tables, cliques)


class _Run(QueryRun):
    """A run of a mechanism that trains mixtures: its training."""

    def __init__(
        self,
        mechanism: MixtureMechanism,
        private: MarginalSource,
        public: PublicTables | None,
        workload: Workload,
        draws: Draws,
    ) -> None:
        super().__init__(mechanism, private, workload, draws)
        with self.stage("fit"):
            self.training = Training(mechanism, self.domain, public, self.records)

    @property
    def model(self) -> ProductMixture:
        """The model of all measurements so far."""
        return self.training.model

    @property
    def released(self) -> ProductMixture:
        """The model that the run returns."""
        return self.training.released

    def fit(self, measurement: Measurement) -> Convergence:
        """Train with one measurement more."""
        return self.training.add(measurement)
