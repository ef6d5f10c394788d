"""PrivBayes and PrivBayes+PGM: the marginals of a Bayesian network.

Zhang, Cormode, Procopiuc, Srivastava, Xiao: "PrivBayes: Private Data Release via Bayesian
Networks", SIGMOD 2014, TODS 42 (4), 2017. With the graphical model: McKenna, Sheldon, Miklau:
"Graphical-model based estimation and inference for differential privacy", ICML 2019.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import Mechanism, attributes_of, check_share, subsets_of
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.dependence import joint_dependence
from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism, size_limit_setting
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.bayesian.model import BayesianNetwork, check_possible
from jam_dagster.models.graphical.estimator import Convergence, Weighting
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import (
    LARGEST_MARGINAL_CELLS,
    MEAN_ABSOLUTE_NORMAL,
    Measurement,
)
from jam_dagster.tables import Clique, Domain, Workload

MOST_PARENTS = 4
"""Most parents of an attribute; fewer if all marginals of so many are too many."""


@dataclass(frozen=True)
class NetworkMechanism(Mechanism, ABC):
    """A mechanism that measures an attribute with its parents, one attribute after another."""

    theta: float = setting(
        4.0, "a marginal's mean count, in mean absolute noises of a cell, at least", above=0
    )
    beta: float = setting(
        0.3, "share of the budget that chooses parents, the rest measures", above=0, below=1
    )

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of attributes that the workload names."""
        return len(attributes_of(workload))

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a draw."""
        check_share(min(self.beta, 1.0 - self.beta) * rho, 1, remedy="use fewer attributes")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a draw."""
        least = min(self.beta, 1.0 - self.beta)
        check_share(least * rho, len(attributes_of(workload)), remedy="use fewer attributes")

    def marginals(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return the marginals of each attribute with as many others as may be its parents."""
        return subsets_of(attributes_of(workload), MOST_PARENTS + 1)

    def useful(self, ctx: Context) -> list[Clique]:
        """Return the theta-useful marginals, and every attribute by itself.

        They have at most ``n / (theta sqrt(2/pi) sigma)`` cells, with the noise sigma of each of
        the d measurements.
        """
        names = attributes_of(ctx.workload)
        records, noise = ctx.records, ctx.sigma((1.0 - self.beta) * ctx.remaining / len(names))
        limit = records / (self.theta * MEAN_ABSOLUTE_NORMAL * noise)
        return [
            clique
            for clique in subsets_of(names, MOST_PARENTS + 1)
            if len(clique) == 1 or ctx.domain.size(clique) <= min(limit, LARGEST_MARGINAL_CELLS)
        ]

    def network(
        self, ctx: Context, allowed: Callable[[], Sequence[Clique]]
    ) -> Iterator[tuple[str, Clique, Measurement | None]]:
        """Yield each attribute with its marginal, and the measurement unless it was lost.

        `allowed` returns the marginals that may be measured next. The first attribute has no
        parents, and a draw chooses each further one with its parents.
        """
        left = list(attributes_of(ctx.workload))
        choosing = self.beta / (len(left) - 1) if len(left) > 1 else 0.0
        measuring = (1.0 - self.beta) / len(left)
        placed: list[str] = []
        for t in ctx.rounds(len(left)):
            options = options_of(ctx.domain, left if placed else left[:1], placed, allowed())
            # The share is of the rest: a lost draw lowers the price of all later ones.
            whole = ctx.share(len(left) * measuring + (len(left) - (t == 0)) * choosing)
            clique = next(iter(options))
            rho_measure = ctx.affordable(whole * measuring)
            # Attributes without parents score alike.
            if len(options) > 1 and max(map(len, options)) > 1:
                chosen = self._chosen(ctx, options, ctx.affordable(whole * choosing))
                if chosen is None:
                    continue
                clique = chosen
            elif placed:
                rho_measure += whole * choosing
            measured = ctx.measure(clique, rho_measure, among=len(options))
            name = options[clique]
            left.remove(name)
            placed.append(name)
            yield name, clique, measured

    def _chosen(self, ctx: Context, options: dict[Clique, str], rho: float) -> Clique | None:
        """Choose a marginal by how much its attribute depends on the others together."""

        def scores() -> np.ndarray:
            found = {
                clique: joint_dependence(counts, clique.index(options[clique]))
                for block in ctx.counts(list(options))
                for clique, counts in block.items()
            }
            return np.array([found[clique] for clique in options])

        reach = ctx.neighbours.independence_score
        return ctx.select(list(options), scores, rho=rho, sensitivity=reach)


@dataclass(frozen=True)
class PrivBayes(NetworkMechanism):
    """The mechanism and its settings; the defaults are those of the paper.

    Attributes
    ----------
    theta
        A marginal of two and more attributes is measured if its mean count is at least so many
        times the mean absolute noise of a cell.
    beta
        Share of the budget that chooses parents.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The workload only names the attributes: the network is over those.
    - The score of an attribute x with parents P is R of the paper in counts,
      ``||n_xP - n_x n_P / n||_1 = 2 n R``, which moves by `Neighbours.independence_score`; R itself
      divides by n, which is private where records come and go.
    - Noise is Gaussian, so theta-usefulness has the mean absolute noise of a cell in place of the
      Laplace scale.
    - The first attribute is that of the domain; the paper draws it at random, whatever the data.
    - An attribute has at most four parents, and fewer where four make more than 20,000 marginals of
      all attributes. The authors' code lowers its limit of cells instead.
    - An attribute with its parents is measured when it is chosen. The paper measures in the end;
      the draws are the same.
    - Nothing is drawn where there is one choice, or no attribute can have a parent; the measurement
      gets that share.
    - A conditional table is that of a measured marginal: negative counts are zero, and an attribute
      is uniform where its parents have no count. Tables need not agree on what they share.
    - Impossible combinations of the domain are refused, since the network has no zeros.
    """

    name: ClassVar[str] = "privbayes"
    title: ClassVar[str] = "PrivBayes"
    summary: ClassVar[str] = "a Bayesian network, sampled attribute after attribute"
    rank: ClassVar[int] = 37
    page: ClassVar[str] = "without_public_data.md#privbayes"
    pace: ClassVar[float] = 1.0

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a draw.
        DomainError
            If the domain has impossible combinations.
        """
        check_possible(domain)
        super().check(domain, workload, rho)

    def draw(self, ctx: Context) -> BayesianNetwork:
        """Choose a network, and give each attribute the distribution that was measured of it.

        An attribute whose measurement was lost is uniform.
        """
        useful = self.useful(ctx)
        model = BayesianNetwork(ctx.domain, float(ctx.records), {})
        ctx.hold(useful)
        ctx.model = lambda: model
        for name, clique, measured in self.network(ctx, lambda: useful):
            if measured is not None:
                # Nothing has to converge.
                ctx.round.convergence = Convergence(0, 0.0)
                model = model.given(name, clique, measured.values)
        return model


@dataclass(frozen=True)
class PrivBayesPgm(NetworkMechanism, GraphicalMechanism):
    """The mechanism and its settings; the defaults are those of the paper.

    Attributes
    ----------
    theta, beta
        See `PrivBayes`.
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. 80, which the AIM paper grants to all
        that fit a model; the authors of Private-PGM set none.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.
        Measurements are weighted by their noise.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    The network is chosen as by `PrivBayes`, but for its size.

    - The marginals of a network need a larger junction tree than each by itself. Parents that make
      it too large are no candidates, so that an attribute may come to have none.
    - Code of Private-PGM leaves a quarter of epsilon unspent.
    """

    size_limit_mb: float = size_limit_setting()

    name: ClassVar[str] = "privbayes_pgm"
    title: ClassVar[str] = "PrivBayes+PGM"
    summary: ClassVar[str] = "a Bayesian network, whose marginals a graphical model is fitted to"
    rank: ClassVar[int] = 36
    page: ClassVar[str] = "without_public_data.md#privbayes"
    pace: ClassVar[float] = 1.0
    weighting: ClassVar[Weighting] = "noise"

    def draw(self, ctx: Context) -> FittedModel:
        """Choose a network, and fit a model to the marginal of each attribute with its parents."""
        fit = GraphicalFit(ctx, self, self.useful(ctx))
        for _, _, measured in self.network(ctx, lambda: fit.tractable(self.size_limit_mb)):
            fit.add(measured)
        return fit.model


def options_of(
    domain: Domain, left: Sequence[str], placed: Sequence[str], allowed: Iterable[Clique]
) -> dict[Clique, str]:
    """Return marginals of an attribute that is left with maximal parents, and that attribute.

    No further parent can be added to maximal ones within what is allowed. An attribute without an
    allowed marginal has no parents.
    """
    before = set(placed)
    found: dict[Clique, str] = {}
    for clique in allowed:
        others = [name for name in clique if name not in before]
        if len(others) == 1 and others[0] in left:
            found[clique] = others[0]
    # Each marginal without one of its parents.
    within = {
        tuple(other for other in clique if other != parent)
        for clique, name in found.items()
        for parent in clique
        if parent != name
    }
    options = {clique: name for clique, name in found.items() if clique not in within}
    alone = [name for name in left if name not in options.values()]
    return options | {domain.canonical((name,)): name for name in alone}
