"""Two mechanisms that are no rounds of one choice and one measurement, as another package has them.

One releases many statistics in one draw and chooses among what they leave, in the way of PrivMRF;
the other chooses several queries from one vector of scores and measures nothing, in the way of
DualQuery. They are small, and no more than that: their papers' choices are not followed.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import Mechanism, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support
from jam_dagster.privacy.ledger.release_id import canonical_json
from jam_dagster.tables import Clique, Domain, Workload


@dataclass(frozen=True)
class InRounds(Mechanism, ABC):
    """The share of the two that any mechanism in rounds has."""

    rounds: int = setting(3, "T, the number of rounds", minimum=1, maximum=100)

    rank: ClassVar[int] = 900

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        self.check_budget(rho)


@dataclass(frozen=True)
class Linked(InRounds, GraphicalMechanism):
    """Pairs are linked by noisy scores of dependence, and marginals of linked pairs are measured.

    The number of records is public here: half the L1 distance of a pair from its independent
    estimate moves by at most 3 if a record is replaced.
    """

    name: ClassVar[str] = "linked"
    title: ClassVar[str] = "Linked"
    summary: ClassVar[str] = "measures marginals of dependent pairs"
    page: ClassVar[str] = "https://tiny.example/linked"

    def draw(self, ctx: Context) -> FittedModel:
        """Score the dependence of each pair in one draw, then choose and measure."""
        closure = list(ctx.workload.downward_closure())
        pairs = [clique for clique in closure if len(clique) == 2]
        fit = GraphicalFit(ctx, self, closure)

        def dependence() -> np.ndarray:
            counts: dict[Clique, np.ndarray] = {}
            for block in ctx.counts(closure):
                counts |= block
            return np.array(
                [
                    0.5
                    * l1_distance(
                        counts[a, b], np.outer(counts[a,], counts[b,]) / max(counts[a,].sum(), 1)
                    )
                    for a, b in pairs
                ]
            )

        reach = 3.0 * ctx.neighbours.max_rows * len(pairs) ** 0.5
        noisy = ctx.values(
            "dependence", dependence, size=len(pairs), rho=0.1 * ctx.total, sensitivity=reach
        )
        # A lost draw leaves all of them.
        least = -np.inf if noisy is None else float(np.median(noisy))
        known = np.zeros(len(pairs)) if noisy is None else noisy
        linked = {pair for pair, score in zip(pairs, known, strict=True) if score >= least}
        for t in ctx.rounds(self.rounds):
            near = [q for q in fit.tractable(80.0) if {*combinations(q, 2)} <= linked]
            share = ctx.share(self.rounds - t)
            if ctx.has_ended():
                break
            chosen = fit.select(near, rho=0.2 * share)
            if chosen is not None:
                fit.add(ctx.measure(chosen, 0.8 * share))
        return fit.model


@dataclass(frozen=True)
class Sampled(InRounds):
    """Records that answer the worst queries best, chosen several at a time."""

    queries: int = setting(3, "queries that each record is to answer", minimum=1, maximum=100)

    name: ClassVar[str] = "sampled"
    title: ClassVar[str] = "Sampled"
    summary: ClassVar[str] = "finds records for sampled queries"
    page: ClassVar[str] = "https://tiny.example/sampled"

    def draw(self, ctx: Context) -> WeightedTable:
        """Choose queries by how far the records are from them, and find a record for them."""
        support, cliques = Support.of_domain(ctx.domain), ctx.workload.cliques
        picked = np.zeros(support.size)
        queries = [
            (clique, cell, sign)
            for sign in (1, -1)
            for clique in cliques
            for cell in range(ctx.domain.size(clique))
        ]
        ctx.hold(cliques)

        def payoff(made: int) -> np.ndarray:
            apart = [
                max(made, 1) * block[q].ravel() - ctx.records * support.marginal(q, picked).ravel()
                for block in ctx.counts(cliques)
                for q in cliques
            ]
            return np.concatenate([*apart, *(-one for one in apart)])

        for t in ctx.rounds(self.rounds, again=False):
            chosen = ctx.select_many(
                queries,
                partial(payoff, t),
                choices=self.queries,
                rho=ctx.share(self.rounds - t),
                sensitivity=max(t, 1) * ctx.neighbours.cell,
                named=canonical_json,
            )
            if chosen:
                signed = sum(sign * (support.codes(q) == cell) for q, cell, sign in chosen)
                picked[int(np.argmax(signed))] += 1
        weights = picked + 1e-9
        return WeightedTable(support, ctx.records, np.log(weights))
