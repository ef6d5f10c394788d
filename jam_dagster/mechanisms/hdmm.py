"""HDMM and HDMM+PGM: the strategy that answers all marginals of a workload best.

McKenna, Miklau, Hay, Machanavajjhala: "Optimizing Error of High-Dimensional Statistical Queries
under Differential Privacy", VLDB 2018, strategies of marginals (OPT_M). Their optimum has a closed
form: Xiao, He, Zhang, Kifer: "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under
Convex Loss Functions", NeurIPS 2023 (ResidualPlanner). With the graphical model: McKenna, Sheldon,
Miklau: "Graphical-model based estimation and inference for differential privacy", ICML 2019.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import (
    Mechanism,
    attributes_of,
    check_countable,
    check_share,
    maximal_of,
)
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    size_limit_setting,
    tolerance_setting,
)
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.residuals import Strategy, centred, integer_residual
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    JunctionTree,
    mask_of,
)
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.records import consistent
from jam_dagster.tables import Clique, Domain, Workload

MOST_CELLS = 2**24
"""Most cells of all residuals together. They are one draw, and exact noise takes 10 microseconds a
cell."""

REPAIRS = 50
"""Repetitions of consistency and non-negativity. Ten times as many lower errors by less than 2%,
and take ten times as long."""


@dataclass(frozen=True)
class ResidualMechanism(Mechanism, ABC):
    """A mechanism that releases the residuals of a workload's marginals, all in one draw."""

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return 1."""
        return 1

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for the draw."""
        check_share(rho, 1, remedy="choose a mechanism that uses a public table")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for the draw, or the residuals are too large.
        """
        self.check_budget(rho)
        check_countable(domain, workload.cliques)
        parts = parts_of(domain, workload)
        if not parts:
            raise SpecificationError(
                f"The attributes of the workload have one value each: {self.name} has nothing to "
                "release. Add an attribute of two values or more."
            )
        cells = sum(domain.size(part) for part in parts)
        if cells > MOST_CELLS:
            raise SpecificationError(
                f"The marginals of the workload and those within them have {cells:,} cells "
                f"together, and {self.name} releases at most {MOST_CELLS:,} at once. Lower the "
                "workload's degree, give the attributes fewer values, or choose a mechanism that "
                "measures one marginal after another, such as gaussian or tilt."
            )

    def reconstructed(self, ctx: Context, cliques: Sequence[Clique]) -> list[Measurement]:
        """Release the residuals, and return marginals within the workload that are made of them.

        - the strategy: the variance s_A^2 of each residual, in closed form
        - residual A of D, times its number of cells N_A and a whole number k_A in proportion to
          1 / (s_A N_A), + N_Z(0, sigma^2) in each cell; all A together
        - the marginal B: the sum of all residuals A within B, spread over B

        They are even if the draw was lost.
        """
        sizes = {name: ctx.domain.sizes[name] for name in attributes_of(ctx.workload)}
        scales = strategy_of(ctx.domain, ctx.workload).scales()
        strategy, parts = Strategy.of_scales(sizes, scales), list(scales)
        cells = [ctx.domain.size(part) for part in parts]
        rho, reach = ctx.remaining, ctx.neighbours.residuals(scales, sizes)

        def residuals() -> np.ndarray:
            found = {
                part: integer_residual(counts, scales[part]).ravel()
                for block in ctx.counts(parts)
                for part, counts in block.items()
            }
            return np.concatenate([found[part] for part in parts])

        noisy = ctx.values(
            *("residuals", residuals),
            size=sum(cells),
            rho=rho,
            sensitivity=reach,
            integers=True,
        )
        if noisy is None:
            noisy = np.zeros(sum(cells))
        known: dict[Clique, np.ndarray] = {(): np.array(float(ctx.records))}
        for part, values in zip(parts, np.split(noisy, np.cumsum(cells)[:-1]), strict=True):
            table = values.reshape([sizes[name] for name in part])
            known[part] = centred(table) * math.sqrt(strategy.variances[part])
        sigma = reach / math.sqrt(2.0 * rho)
        return [
            Measurement(
                *(clique, "private", strategy.reconstructed(known, clique)),
                # A marginal of one cell has no noise, and fits ask for some.
                *(sigma * math.sqrt(strategy.cell_variance(clique) or 1.0), 0),
            )
            for clique in cliques
        ]


@dataclass(frozen=True)
class Hdmm(ResidualMechanism):
    """The mechanism; it has no settings.

    Notes
    -----
    - HDMM searches the weights of all marginals of a strategy by descent from random starts. The
      optimum is computed in closed form here: no strategy of marginals has a smaller sum of squared
      errors, each query times its weight.
    - That optimum is for records that come and go. If records are replaced, the same strategy is
      paid for what any two records move it by together, a little more than twice as much.
    - The number of records is public, or measured by itself, and its residual has no noise. The
      paper's strategies measure it with everything else.
    - Noise is discrete Gaussian. The paper's is Laplace's; the PMW^Pub paper's runs of HDMM have
      Gaussian noise for a sensitivity of 1, although records are replaced.
    - Least squares alone is far worse than no answer where a marginal has many cells. So the
      marginals are made consistent and non-negative in turns, as in PrivSyn.
    - The answers need not be consistent with any table, so no rows are sampled.
    """

    name: ClassVar[str] = "hdmm"
    title: ClassVar[str] = "HDMM"
    summary: ClassVar[str] = "answers a workload by its best strategy; samples no table"
    rank: ClassVar[int] = 62
    page: ClassVar[str] = "without_public_data.md#hdmm"
    samples: ClassVar[bool] = False
    pace: ClassVar[float] = 2.0

    def draw(self, ctx: Context) -> MeasuredAnswers:
        """Release the residuals, and make marginals without negative counts of them."""
        answers = MeasuredAnswers(ctx.domain, ctx.records)
        ctx.hold(parts_of(ctx.domain, ctx.workload))
        for _ in ctx.rounds(1, again=False):
            marginals = self.reconstructed(ctx, maximal_of(ctx.workload.cliques))
            with ctx.stage("fit"):
                tables = consistent(ctx.domain, marginals, float(ctx.records), repairs=REPAIRS)
            for one in marginals:
                answers.add(replace(one, values=tables[one.clique]))
        return answers


@dataclass(frozen=True)
class HdmmPgm(ResidualMechanism, GraphicalMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. 80, which the AIM paper grants to all
        that fit a model. A workload with a larger one is refused.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`. The tolerance
        is a hundredth of other mechanisms', whose later rounds mend what a fit leaves.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The strategy is that of `Hdmm`. The authors' HDMM+PGM weights the workload's own marginals
      (OPT_+), whose errors are no smaller.
    - The model is fitted to the workload's marginals and those within them, each weighted by one
      over the variance of its cells. If a table can have all of them, the weights do not matter;
      else they ignore that the noise of marginals that share attributes is correlated. Without the
      smaller ones errors are up to a fifth larger.
    """

    size_limit_mb: float = size_limit_setting()
    tolerance: float = tolerance_setting(0.001)

    name: ClassVar[str] = "hdmm_pgm"
    title: ClassVar[str] = "HDMM+PGM"
    summary: ClassVar[str] = "answers a small workload by its best strategy, and fits a model"
    rank: ClassVar[int] = 38
    page: ClassVar[str] = "without_public_data.md#hdmm"
    weighting: ClassVar[Weighting] = "noise"

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            As of `Hdmm`, or if the junction tree of the whole workload is larger than the limit.
        """
        super().check(domain, workload, rho)
        if (size := tree_mb(domain, workload)) > self.size_limit_mb:
            raise SpecificationError(
                f"The model of the whole workload takes {size:,.0f} MB, more than size_limit_mb = "
                f"{self.size_limit_mb:g}. Use a workload of fewer marginals or attributes, or "
                "choose a mechanism whose model need not hold the whole workload, such as tilt."
            )

    def draw(self, ctx: Context) -> FittedModel:
        """Release the residuals, and fit a model to the marginals that they make."""
        parts = parts_of(ctx.domain, ctx.workload)
        fit = GraphicalFit(ctx, self, parts)
        for _ in ctx.rounds(1, again=False):
            # The largest come first: the model's tree is theirs from then on.
            for one in self.reconstructed(ctx, parts[::-1]):
                fit.add(one)
        return fit.model


def parts_of(domain: Domain, workload: Workload) -> list[Clique]:
    """Return the marginals of a workload and those within them, but for residuals that are zero.

    A residual is zero if an attribute has one value.
    """
    return [q for q in workload.downward_closure() if min(domain.project(q).shape) > 1]


def strategy_of(domain: Domain, workload: Workload) -> Strategy:
    """Return the best strategy for a workload, of the squares of its weights."""
    sizes = {name: domain.sizes[name] for name in attributes_of(workload)}
    squares = (weight**2 for weight in workload.weights)
    wanted = dict(zip(workload.cliques, squares, strict=True))
    return Strategy.best(sizes, wanted, parts_of(domain, workload))


def tree_mb(domain: Domain, workload: Workload) -> float:
    """Return the size of the junction tree of a whole workload, in megabytes."""
    every = [*workload.cliques, *domain.impossible_masks()]
    masks = [mask_of(domain.positions[name] for name in clique) for clique in every]
    return JunctionTree.build(domain.shape, masks).cells * BYTES_PER_CELL / MEGABYTE
