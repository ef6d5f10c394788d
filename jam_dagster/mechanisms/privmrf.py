"""PrivMRF: a Markov random field over a graph of the dependent pairs.

Cai, Lei, Wei, Xiao: "Data Synthesis via Differentially Private Markov Random Fields", VLDB 2021.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import (
    attributes_of,
    check_pairs,
    check_share,
    maximal_of,
    subsets_of,
)
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.dependence import Dependence, graph_of, released_dependence
from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism, size_limit_setting
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.tables import Clique, Domain, Workload

STRUCTURE, SCORES, MEASURES = 0.1, 0.1, 0.8
"""Shares of the budget: dependence of pairs, distances of candidates, marginals."""

MOST_PARENTS, MOST_ATTRIBUTES, MOST_STEPS, QUERIES = 5, 6, 8, 400
"""Parents in an initial network, attributes of a later marginal, steps of entropy descent, and
candidates of a step, at most."""


@dataclass(frozen=True)
class PrivMrf(GraphicalMechanism):
    """The mechanism and its settings; the defaults are those of the authors' code.

    Attributes
    ----------
    theta
        A marginal of two and more attributes is measured if its mean count is at least so many
        times the mean absolute noise of a cell.
    t
        Marginals that entropy descent measures, for each attribute.
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. 80, which the AIM paper grants to all
        that fit a model; the authors' code allows five times as much on a GPU.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The dependence of a pair is the total variation distance of its marginal from the product of
      its attributes' marginals. It is released in counts, ``||n_ab - n_a n_b / n||_1``, which moves
      by `Neighbours.independence_score`; the authors add less noise, for a sensitivity of 2 / n
      under add/remove, and further noise to n beyond their budget.
    - The merit of parents divides by the dependence of the parents; the authors' code takes that of
      their places in a list.
    - An edge that makes the graph too large is not tried again, and a graph is triangulated in the
      order of Private-PGM, whose trees the model has.
    - Fits run to convergence, and measured marginals alone have potentials: without a measurement
      a clique's potential stays zero, so the distribution is the same. The authors end fits early.
    - Random choices depend on no data. They come from a fixed seed, so that a run can be repeated.
    """

    theta: float = setting(
        6.0, "a marginal's mean count, in mean absolute noises of a cell, at least", above=0
    )
    t: float = setting(
        0.8,
        "marginals that are measured after the initial ones, for each attribute",
        minimum=0,
        maximum=MOST_ROUNDS,
    )
    size_limit_mb: float = size_limit_setting()

    name: ClassVar[str] = "privmrf"
    title: ClassVar[str] = "PrivMRF"
    summary: ClassVar[str] = "a graph of dependent pairs, whose cliques' marginals it measures"
    rank: ClassVar[int] = 35
    page: ClassVar[str] = "without_public_data.md#privmrf"
    pace: ClassVar[float] = 1.0
    weighting: ClassVar[Weighting] = "noise"

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of marginals, the initial ones included."""
        attributes = len(attributes_of(workload))
        return attributes + int(self.t * attributes)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a draw, or a pair of attributes is too large to be counted.
        """
        names = attributes_of(workload)
        rounds = self.expected_rounds(domain, workload)
        check_share(MEASURES * rho, rounds, remedy="use fewer attributes")
        check_share(SCORES * rho, MOST_STEPS, remedy="use fewer attributes")
        check_pairs(domain, names, "PrivMRF scores")

    def marginals(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return the marginals of up to six attributes, of which the graph decides."""
        return subsets_of(attributes_of(workload), MOST_ATTRIBUTES)

    def draw(self, ctx: Context) -> FittedModel:
        """Find a graph, measure marginals of a network in each of its cliques, and descend.

        - R_ab: the noisy dependence of every pair
        - the graph: the edge that adds most dependence, as long as the model stays tractable
        - theta-usefulness: a marginal has at most n / (theta sqrt(2/pi) sigma) cells
        - initial marginals: networks of the maximal cliques, by the merit of parents
        - entropy descent, J steps: noisy distances of sampled candidates from the model, of which
          the largest are measured
        """
        names, coins = attributes_of(ctx.workload), np.random.default_rng(0)
        records, total = ctx.records, ctx.remaining
        noisy = released_dependence(ctx, names, STRUCTURE * total)
        dependence = {frozenset(pair): one / (2.0 * records) for pair, one in noisy.items()}
        cliques = graph_of(ctx.domain, dependence, self.size_limit_mb)
        later = int(self.t * len(names))

        def useful(measured: int) -> float:
            sigma = ctx.sigma(MEASURES * total / measured)
            return records / (self.theta * MEAN_ABSOLUTE_NORMAL * sigma)

        networks = Networks(ctx.domain, dependence, useful(len(names) + later), coins)
        initial = networks.marginals(names, cliques)
        most = len(subsets_of(names, MOST_ATTRIBUTES)[-1])
        weights = candidates_of(ctx.domain, cliques, useful(len(initial) + later), most)
        later = min(later, len(weights))
        even = MEASURES * total / (len(initial) + later)
        steps = min(len(names) // 2, MOST_STEPS, later)
        fit = GraphicalFit(ctx, self, list(dict.fromkeys([*initial, *weights])))
        waiting: list[Clique] = []
        # How many marginals the steps measure; the first ones take what is left over.
        counts = iter(later // steps + (step < later % steps) for step in range(steps))
        for number in ctx.rounds(len(initial) + later):
            ctx.round.size_limit_mb = self.size_limit_mb
            if number < len(initial):
                fit.add(ctx.measure(initial[number], even, among=len(initial)))
                continue
            if not waiting:
                measuring = next(counts)
                sampled = sample_of(weights, coins, measuring)
                order = self._farthest(ctx, fit, sampled, SCORES * total / steps)
                waiting = order[:measuring]
                for clique in order[len(order) // 2 :]:
                    weights[clique] /= 2.0
                for clique in waiting:
                    del weights[clique]
            fit.add(ctx.measure(waiting.pop(0), even, among=len(sampled)))
        return fit.model

    def _farthest(
        self, ctx: Context, fit: GraphicalFit, sampled: Sequence[Clique], rho: float
    ) -> list[Clique]:
        """Return candidates by their noisy distance from the model, the farthest first."""
        noisy = ctx.values(
            "distances",
            lambda: fit.errors(sampled),
            size=len(sampled),
            rho=rho,
            sensitivity=ctx.neighbours.error_score() * math.sqrt(len(sampled)),
        )
        if noisy is None:
            # A lost draw leaves them as they were sampled.
            return list(sampled)
        return [sampled[index] for index in np.argsort(-noisy, kind="stable")]


@dataclass(frozen=True)
class Networks:
    """Bayesian networks of maximal cliques, for their marginals.

    Parameters
    ----------
    domain, dependence
        The attributes, and R of their pairs.
    limit
        Most cells of a marginal.
    coins
        Random choices.
    """

    domain: Domain
    dependence: Dependence
    limit: float
    coins: np.random.Generator

    def marginals(self, names: Sequence[str], cliques: Sequence[Clique]) -> list[Clique]:
        """Return at least one marginal over each attribute, and at most d if these suffice.

        They are the best of each attribute in the networks of all cliques, single attributes for
        those that have none, and further ones of the networks at random.
        """
        best: dict[str, tuple[float, Clique]] = {}
        every: dict[Clique, None] = {}
        for clique in cliques:
            for name, merit, marginal in self.network(clique):
                every[marginal] = None
                best[name] = max(best.get(name, (-math.inf, marginal)), (merit, marginal))
        found = maximal_of(marginal for _, marginal in best.values())
        found += [(name,) for name in names if not any(name in marginal for marginal in found)]
        others = maximal_of(every)
        while others and len(found) < len(names):
            one = others.pop(int(self.coins.random() * len(others)))
            if not any(set(one) <= set(marginal) for marginal in found):
                found.append(one)
        return found

    def network(self, clique: Clique) -> Iterator[tuple[str, float, Clique]]:
        """Yield attributes of a clique with the merit of their parents, and their marginal.

        Parents are a largest set among the attributes before that is within the limit.
        """
        left = list(clique)
        placed = [left.pop(int(self.coins.random() * len(left)))]
        while left:
            options = [
                (self.merit(name, parents), name, parents)
                for name in left
                for parents in self.largest(placed, self.limit / self.domain.sizes[name])
            ]
            merit, name, parents = max(options, default=(0.0, "", ()))
            if not parents:
                return
            yield name, merit, self.domain.canonical([name, *parents])
            left.remove(name)
            placed.append(name)

    def largest(self, placed: Sequence[str], cells: float) -> list[Clique]:
        """Return the sets of at most five attributes within some cells that no other one is in."""
        within = [
            parents
            for degree in range(min(len(placed), MOST_PARENTS) + 1)
            for parents in combinations(placed, degree)
            if self.domain.size(parents) <= cells
        ]
        smaller = {one[:place] + one[place + 1 :] for one in within for place in range(len(one))}
        return [parents for parents in within if parents not in smaller]

    def merit(self, name: str, parents: Clique) -> float:
        """Return ``sum_p R_xp / sqrt(max(1, |P| + sum_(p, q) R_pq))``."""
        of_name = math.fsum(self.dependence[frozenset((name, parent))] for parent in parents)
        among = math.fsum(self.dependence[frozenset(pair)] for pair in combinations(parents, 2))
        return of_name / math.sqrt(max(1.0, len(parents) + among))


def candidates_of(
    domain: Domain, cliques: Sequence[Clique], limit: float, most: int = MOST_ATTRIBUTES
) -> dict[Clique, float]:
    """Return the proper subsets of maximal cliques within limits, with their weights.

    They have fewer cells than `limit`, and at most `most` attributes.
    A clique shares out the square of its attributes; single attributes have no limit.
    """
    weights: dict[Clique, float] = {}
    for clique in cliques:
        within = [
            subset
            for degree in range(1, min(len(clique), most + 1))
            for subset in combinations(clique, degree)
            if degree == 1 or domain.size(subset) < limit
        ]
        for subset in within:
            weights[subset] = weights.get(subset, 0.0) + len(clique) ** 2 / len(within)
    return weights


def sample_of(
    weights: Mapping[Clique, float], coins: np.random.Generator, least: int = 1
) -> list[Clique]:
    """Return the candidates, or different ones of `QUERIES` that are drawn by their weights.

    If fewer than `least` of them differ, the first others follow.
    """
    cliques = list(weights)
    if len(cliques) <= QUERIES:
        return cliques
    ends = np.cumsum(list(weights.values()))
    drawn = np.searchsorted(ends, coins.random(QUERIES) * ends[-1], side="right")
    found = dict.fromkeys(cliques[index] for index in drawn.tolist())
    others = (clique for clique in cliques if clique not in found)
    return [*found, *islice(others, max(least - len(found), 0))]
