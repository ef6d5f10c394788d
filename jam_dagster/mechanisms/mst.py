"""MST: single attributes, then a maximum spanning tree of pairs.

McKenna, Miklau, Sheldon: "Winning the NIST Contest: A scalable and general approach to
differentially private synthetic data", Journal of Privacy and Confidentiality 11 (3), 2021:
Algorithm 1 (measurements), Algorithm 2 (the tree).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import attributes_of, check_pairs, check_share, subsets_of
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.model import FittedModel, possible_cells
from jam_dagster.models.measurement import Measurement
from jam_dagster.tables import Clique, Domain, Workload

RARE = 3.0
"""Number of sigmas below which a noisy count marks a rare value."""

PARTS = 3
"""Single attributes, choosing the tree and measuring it have a third of the budget each."""


@dataclass(frozen=True)
class Mst(GraphicalMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    merge_rare
        Whether values of an attribute with a noisy count below three sigma are merged.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.
        Measurements are weighted by their noise.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The workload only names the attributes: the tree spans those.
    - A pair is scored by the L1 distance of its counts from the model of the single attributes.
      Replacing a record moves that by 2 (published code, for records added or removed, has 1), and
      k rows a person by k times as much; the L2 sensitivity of counts is no bound.
    - An edge is measured when it is chosen, and the next is chosen by the same scores. The paper
      chooses all first; the draws are the same.
    - Two attributes have only one pair, without a choice; its measurement gets that third.
    - The paper merges rare values into one before it chooses the tree, and spreads records evenly
      over them in the end. Here pairs are scored with rare values merged, and measured unmerged. In
      the fit each block of rare values gets the mean of its measured counts, so that the model is
      uniform within it. This keeps the marginals of the domain, which transcripts, certificates and
      impossible combinations refer to, and gives the same error.
    """

    merge_rare: bool = setting(
        True, "whether values with a noisy count below three sigma are merged"
    )

    name: ClassVar[str] = "mst"
    title: ClassVar[str] = "MST"
    summary: ClassVar[str] = "each attribute, then a tree of pairs"
    rank: ClassVar[int] = 40
    page: ClassVar[str] = "without_public_data.md#mst"
    weighting: ClassVar[Weighting] = "noise"

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of attributes and of the tree's edges."""
        return 2 * len(attributes_of(workload)) - 1

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a draw."""
        check_share(rho, PARTS, remedy="use fewer attributes")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a draw, or a pair of attributes is too large to be counted.
        """
        names = attributes_of(workload)
        check_share(rho, PARTS * len(names), remedy="use fewer attributes")
        check_pairs(domain, names, "MST measures")

    def marginals(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return each attribute and all pairs, those too that the workload lacks."""
        return subsets_of(attributes_of(workload), 2)

    def draw(self, ctx: Context) -> FittedModel:
        """Measure the attributes (Algorithm 1), then the edges of a tree (Algorithm 2).

        - measure every single attribute, and estimate the independent model
        - score each pair by the independent model's L1 error
        - select an edge by the exponential mechanism among the pairs that join two parts of the
          tree, with an equal share of what is left, and join them
        - measure the edge
        """
        names = attributes_of(ctx.workload)
        singles, pairs = [(name,) for name in names], list(combinations(names, 2))
        fit = GraphicalFit(ctx, self, [*singles, *pairs])
        rare = RareValues(ctx.domain) if self.merge_rare else None
        # A single attribute has no tree, and takes all of the budget.
        even = ctx.remaining / (PARTS if pairs else 1) / len(singles)
        # The connected component of each name in the tree so far.
        part = {name: frozenset([name]) for name in names}

        @cache
        def errors(independent: FittedModel) -> dict[Clique, float]:
            if rare is None:
                return dict(zip(pairs, fit.errors(pairs), strict=True))
            answered = ctx.answered(independent, pairs)
            return {pair: rare.distance(pair, *counts) for pair, *counts in answered}

        def add(measured: Measurement | None) -> None:
            fit.add(measured if rare is None or measured is None else rare.merged(measured))

        rounds = self.expected_rounds(ctx.domain, ctx.workload)
        for t in ctx.rounds(rounds):
            if t < len(singles):
                add(ctx.measure(singles[t], even, among=len(singles)))
                continue
            if t == len(singles):
                scored = fit.current
            joining = [(a, b) for a, b in pairs if b not in part[a]]
            rho_select, rho_measure, edge = 0.0, ctx.remaining, joining[0]
            # The last edge may be the only one left; it has the share of all edges then.
            if len(joining) > 1:
                share = ctx.share(rounds - t)
                rho_select = 0.5 * share
                rho_measure = share - rho_select
                chosen = ctx.select(
                    joining,
                    lambda: np.array([errors(scored)[pair] for pair in joining]),
                    rho=rho_select,
                    sensitivity=ctx.neighbours.error_score(),
                )
                if chosen is None:
                    continue
                edge = chosen
            whole = part[edge[0]] | part[edge[1]]
            part |= dict.fromkeys(sorted(whole), whole)
            add(ctx.measure(edge, rho_measure, among=len(joining)))
        return fit.model


class RareValues:
    """The rare values of attributes, from their measurements."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        # The group of each value, for each measured attribute: rare values share one.
        self._groups: dict[str, np.ndarray] = {}

    def merged(self, measurement: Measurement) -> Measurement:
        """Return a measurement with the mean of each block of rare values in its cells.

        A single attribute's measurement then determines its rare values. Impossible cells do not
        enter a mean, and keep their measured counts.
        """
        clique, values = measurement.clique, measurement.values
        if len(clique) == 1:
            rare = values < RARE * measurement.sigma
            first_rare = int(rare.argmax())
            self._groups[clique[0]] = np.where(rare, first_rare, np.arange(rare.size))
        block, possible = self._blocks(clique), possible_cells(self._domain, clique)
        cells = np.bincount(block[possible], minlength=values.size)
        mean = np.bincount(block[possible], values[possible], values.size) / np.maximum(cells, 1)
        return replace(measurement, values=np.where(possible, mean[block], values))

    def distance(self, clique: Clique, counts: np.ndarray, model: np.ndarray) -> float:
        """Return ``||counts - model||_1`` with rare values merged, in counts.

        Counts of merged cells move no further than those of cells.
        """
        merged = np.bincount(self._blocks(clique).ravel(), (counts - model).ravel())
        return float(np.abs(merged).sum())

    def _blocks(self, clique: Clique) -> np.ndarray:
        """Return for each cell of a marginal the first of those it is merged with."""
        shape = self._domain.project(clique).shape
        indices = [
            self._groups.get(name, np.arange(size))
            for name, size in zip(clique, shape, strict=True)
        ]
        block: np.ndarray = np.ravel_multi_index(np.ix_(*indices), shape)
        return block
