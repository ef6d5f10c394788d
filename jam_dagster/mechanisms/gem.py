"""GEM and GEM^Pub: a generator network, trained on measurements.

Liu, Vietri, Wu: "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
NeurIPS 2021, Algorithms 3 and 4, Section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import PublicUse, public_of
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.mixture import MixtureMechanism, threshold_setting
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.models.base import Model
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.adam_step import network
from jam_dagster.models.mixture.training import MixtureTrainer, Target, pretrain
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import Clique, Domain, MarginalSource, PublicTables, Workload

MAX_CELL = "max_cell"


@dataclass(frozen=True)
class Gem(MixtureMechanism):
    """The mechanism and its settings.

    A network maps K fixed inputs to K products of distributions, one for each attribute.

    Attributes
    ----------
    rounds, alpha, components, loss, learning_rate, iterations, threshold, generator_seed
        See `MixtureMechanism`. The paper's runs have ``components=1000``,
        ``learning_rate=1e-4`` and ``iterations=100``.
    width
        Inputs of the network; each of its two hidden layers has twice as many outputs. The paper's
        runs have 512, which takes twenty times as long; 128 is the default of the authors' code.
    averaging_beta
        Beta of the moving average of weights over the second half of the rounds, which is released
        (Section 5 of the paper). The authors' 0.9 is for a hundred rounds: over five, the first
        would keep two thirds of the weight.
    score
        ``l1``: see `QueryMechanism`. ``max_cell``: the rounds of the authors' code for whole
        marginals, which the JAM and AIM papers ran. Candidates are the marginals of the workload,
        none of which is measured twice; the score is the largest error of a cell, of sensitivity
        one record (`Neighbours.cell`); and measured values are clipped to [0, 1].

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - A round measures a whole marginal, as the JAM and AIM papers ran it; the paper measures single
      cells. A marginal costs twice what one of its cells does, and gives all of them.
    - The score is ``||q(D) - q(model)||_1 - sqrt(2/pi) sigma n_q``, of sensitivity 2: a marginal
      whose noise exceeds its error gives no information.
    - The loss is squared errors; the paper's are absolute, which in a cell that holds less than its
      noise pull by the sign of the noise.
    - The threshold follows from the noise; the paper's is half of the largest error lately. On
      titanic at epsilon 0.1, training below it made GEM^Pub's error three times as large.
    - Pre-training is on all marginals of three attributes, until 50 steps bring less than 1%; the
      paper says "until convergence".
    """

    width: int = setting(
        128,
        "inputs of the generator network; its two hidden layers have twice as many",
        minimum=1,
        maximum=10_000,
    )
    averaging_beta: float = setting(
        0.5,
        "beta of the moving average of weights over the second half of the rounds, which is"
        " released; 0 releases the last",
        minimum=0,
        below=1,
    )

    score: str = setting(
        "l1",
        "what a marginal is chosen by: its L1 error above its noise, or as in the authors' code"
        " the largest error of a cell",
        choices=("l1", MAX_CELL),
    )

    name: ClassVar[str] = "gem"
    title: ClassVar[str] = "GEM"
    summary: ClassVar[str] = "trains a network that holds a mixture of products"
    rank: ClassVar[int] = 110

    @property
    def _by_cell(self) -> bool:
        return self.score == MAX_CELL

    def candidates(self, workload: Workload) -> Sequence[Clique]:
        """Return the marginals that a round may choose from."""
        return workload.cliques if self._by_cell else super().candidates(workload)

    def left(self, times: Mapping[Clique, int]) -> list[Clique]:
        """Return what a round may choose, given how often each marginal was measured."""
        return [clique for clique, measured in times.items() if not (self._by_cell and measured)]

    def scores(
        self, ctx: Context, model: Model, cliques: Sequence[Clique], cells: np.ndarray, sigma: float
    ) -> np.ndarray:
        """Return the scores of marginals."""
        if not self._by_cell:
            return super().scores(ctx, model, cliques, cells, sigma)
        answered = ctx.answered(model, cliques)
        largest = {clique: np.abs(counts - answer).max() for clique, counts, answer in answered}
        return np.array([largest[clique] for clique in cliques])

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Return how far one person moves any score, in counts."""
        return neighbours.cell if self._by_cell else super().sensitivity(neighbours)

    def target(self, measurement: Measurement, records: int) -> Target:
        """Return what a measurement asks for in training."""
        target = super().target(measurement, records)
        return replace(target, values=target.values.clip(0, 1)) if self._by_cell else target

    def averaging(self) -> float:
        """Return beta."""
        return self.averaging_beta

    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return an untrained network."""
        weights = network(domain.shape, self.components, self.width, self.generator_seed)
        return MixtureTrainer(domain, weights, self.loss)


@dataclass(frozen=True)
class GemPub(Gem):
    """The mechanism and its settings: those of GEM, and of the training before the first round.

    Attributes
    ----------
    threshold
        gamma is 3 by default, while GEM has 2: the pretrained network is worth keeping, and among
        ten measurements of a few cells, noise alone likely moves one by two deviations.
    pretraining_degree
        The network is first trained on all public marginals of so many attributes, as far as the
        public tables have them. They need not be the workload's, which a transcript does not
        record.
    pretraining_iterations, pretraining_rate, pretraining_tolerance
        See `pretraining.pretrain`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    The public table is not in the transcript: `refit` needs it.
    """

    threshold: float = threshold_setting(3.0)
    pretraining_degree: int = setting(
        3, "attributes of the public marginals that are trained on first", minimum=1
    )
    pretraining_iterations: int = setting(
        1000, "most steps of that training", minimum=1, maximum=MOST_ITERATIONS
    )
    pretraining_rate: float = setting(1e-3, "learning rate of that training", above=0)
    pretraining_tolerance: float = setting(
        0.01,
        "that training slows down, and at last ends, where 50 steps lower its loss by less than"
        " this share",
        minimum=0,
        below=1,
    )

    name: ClassVar[str] = "gem_pub"
    title: ClassVar[str] = "GEM^Pub"
    summary: ClassVar[str] = "as GEM, trained on public tables first"
    rank: ClassVar[int] = 120
    takes_public: ClassVar[PublicUse] = "must"

    def public_tables(self, domain: Domain, public: MarginalSource | None) -> PublicTables:
        """Return the public tables, or raise DomainError."""
        return PublicTables.of(domain, public_of(self, public))

    def trainer(self, domain: Domain, public: PublicTables | None) -> MixtureTrainer:
        """Return a network pretrained on the public tables."""
        trainer = super().trainer(domain, None)
        if public is not None:
            pretrain(
                trainer,
                public,
                degree=self.pretraining_degree,
                iterations=self.pretraining_iterations,
                learning_rate=self.pretraining_rate,
                tolerance=self.pretraining_tolerance,
                seed=self.generator_seed,
            )
        return trainer
