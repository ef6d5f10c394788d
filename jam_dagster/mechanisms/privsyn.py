"""PrivSyn: marginals that are dense enough, and records that are updated until they have them.

Zhang, Wang, Li, Honorio, Backes, He, Chen, Zhang: "PrivSyn: Differentially Private Data Synthesis",
USENIX Security 2021, Algorithms 1 (DenseMarg) and 2 (combination) and Section 5 (GUM).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import (
    Mechanism,
    attributes_of,
    check_pairs,
    check_share,
    subsets_of,
)
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.dependence import released_dependence
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.records import consistent, fit_records
from jam_dagster.models.weighted.support import Support, log_frequencies
from jam_dagster.tables import Clique, Domain, Workload

DEPENDENCE, SINGLES, MEASURES = 0.1, 0.1, 0.8
"""Shares of the budget: dependence of pairs, single attributes, combined marginals."""

MOST_SHARED, MOST_ATTRIBUTES, MOST_CLIQUES = 2, 6, 50_000
"""Attributes that a combined marginal shares with those before, that it has, and cliques that are
looked at, at most."""

MOST_RECORDS = 200_000
"""Largest number of records that are updated; a larger table is sampled from so many."""


@dataclass(frozen=True)
class PrivSyn(Mechanism):
    """The mechanism and its settings; the defaults are the paper's.

    Attributes
    ----------
    gamma
        A combined marginal has fewer cells than this.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The dependence of pairs (InDif) and the noise of measurements are compared in counts. The
      authors' code multiplies the dependence by n once more, and stops below a threshold that was
      set for this; here selection stops where no pair lowers the expected error, as in the paper.
    - A pair's dependence moves by `Neighbours.independence_score`: 4 under add/remove, as in the
      paper, and 6 if a record is replaced.
    - Single attributes that are in no pair join their most dependent selected one, as in the
      authors' code; if no pair is worth its noise, all stay single.
    - Single attributes weigh by their noise in the consistency step; the code gives them no weight.
    - The model is the table of updated records. Which of them are changed depends on no data but
      on a fixed seed, so that a run can be repeated.
    - A combined marginal has at most six attributes, so that sources that count marginals can be
      asked for all of them.
    """

    gamma: int = setting(
        5000, "a combined marginal has fewer cells than this", minimum=1, maximum=10**7
    )

    name: ClassVar[str] = "privsyn"
    title: ClassVar[str] = "PrivSyn"
    summary: ClassVar[str] = "measures marginals that are worth their noise, and updates records"
    rank: ClassVar[int] = 55
    page: ClassVar[str] = "without_public_data.md#privsyn"
    pace: ClassVar[float] = 4.0

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a draw, or a pair of attributes is too large to be counted.
        """
        names = attributes_of(workload)
        check_share(SINGLES * rho, len(names), remedy="use fewer attributes")
        check_pairs(domain, names, "PrivSyn compares")

    def marginals(self, domain: Domain, workload: Workload) -> list[Clique]:
        """Return the marginals of up to six attributes, among which noisy dependence decides."""
        return subsets_of(attributes_of(workload), MOST_ATTRIBUTES)

    def draw(self, ctx: Context) -> WeightedTable:
        """Compare pairs, select and combine, measure, and update records.

        - InDif of every pair, noisy
        - DenseMarg: the pairs that lower the expected error
        - combination: cliques of the selected pairs, the largest first
        - measure each attribute, and each combined marginal with a share by its cells ^ (2/3)
        - make the measured marginals consistent, and records that have them
        """
        names = attributes_of(ctx.workload)
        _, total = ctx.records, ctx.remaining
        noisy = released_dependence(ctx, names, DEPENDENCE * total)
        price = MEASURES * total
        pairs = dense_pairs(ctx.domain, noisy, price, ctx.neighbours.marginal_l2)
        most = len(subsets_of(names, MOST_ATTRIBUTES)[-1])
        combined = combine(ctx.domain, pairs, self.gamma, most)
        parts = [ctx.domain.size(clique) ** (2 / 3) for clique in combined]
        shares = [SINGLES * total / len(names)] * len(names)
        shares += [price * part / math.fsum(parts) for part in parts]
        wanted = [*((name,) for name in names), *combined]
        answers, measured = MeasuredAnswers(ctx.domain, ctx.records), []
        ctx.hold(wanted)
        ctx.model = lambda: answers
        for number in ctx.rounds(len(wanted)):
            found = ctx.measure(wanted[number], shares[number], among=len(wanted))
            ctx.fit(answers, found)
            if found is not None:
                measured.append(found)
        with ctx.stage("fit"):
            return self._model(ctx, names, measured)

    def _model(
        self, ctx: Context, names: Sequence[str], measured: Sequence[Measurement]
    ) -> WeightedTable:
        """Return a table of records with the measured marginals; what none has is even."""
        domain, held = ctx.domain, {name for one in measured for name in one.clique}
        targets = consistent(domain, measured, float(ctx.records))
        for name in domain.names:
            if name not in held:
                targets[name,] = np.full(domain.sizes[name], ctx.records / domain.sizes[name])
        rows = fit_records(domain, targets, max(1, min(int(ctx.records), MOST_RECORDS)))
        support, counts = Support.of_records(rows)
        cliques = tuple(dict.fromkeys(one.clique for one in measured))
        return WeightedTable(support, float(ctx.records), log_frequencies(counts), cliques)


def dense_pairs(
    domain: Domain, noisy: Mapping[Clique, float], rho: float, sensitivity: float
) -> list[Clique]:
    """Return the pairs that lower the expected error (Algorithm 1), with lone attributes joined.

    The error is the sum of the dependence of pairs that are not selected, and of the noise of those
    that are; see `expected_noise`.
    """
    parts = {pair: domain.size(pair) ** (2 / 3) for pair in noisy}
    left, selected, whole = dict(noisy), [], 0.0
    while left:
        noise = expected_noise(whole, rho, sensitivity)
        gains = {
            pair: lost - (expected_noise(whole + parts[pair], rho, sensitivity) - noise)
            for pair, lost in left.items()
        }
        best = max(gains, key=gains.__getitem__)
        if gains[best] <= 0.0:
            break
        selected.append(best)
        del left[best]
        whole += parts[best]
    within = {name for pair in selected for name in pair}
    lone = dict.fromkeys(name for pair in noisy for name in pair if name not in within)
    for name in lone if within else ():
        joining = {p: noisy[p] for p in noisy if name in p and not within.isdisjoint(p)}
        selected.append(max(joining, key=joining.__getitem__))
    return selected


def expected_noise(whole: float, rho: float, sensitivity: float) -> float:
    """Return the expected L1 noise of marginals of c_i cells with the best shares of `rho`.

    It is ``S sensitivity sqrt(S / (pi rho))``, with the sum S of all ``c_i^(2/3)`` as `whole`.
    """
    return whole * sensitivity * math.sqrt(whole / (math.pi * rho))


def combine(
    domain: Domain, pairs: Sequence[Clique], gamma: int, most: int = MOST_ATTRIBUTES
) -> list[Clique]:
    """Return cliques of pairs in place of these, the largest first (Algorithm 2).

    A clique of three to `most` attributes has fewer than `gamma` cells, and shares at most two with
    all that were combined before.
    """
    linked = {frozenset(pair) for pair in pairs}
    names = [name for name in domain.names if any(name in pair for pair in pairs)]
    position = domain.positions
    sized: list[list[Clique]] = [[(name,) for name in names]]
    seen = 0
    while sized[-1] and len(sized) < most and seen < MOST_CLIQUES:
        grown = [
            (*clique, name)
            for clique in sized[-1]
            for name in names
            if position[name] > position[clique[-1]]
            and all(frozenset((name, other)) in linked for other in clique)
        ]
        sized.append([clique for clique in grown if domain.size(clique) < gamma])
        seen += len(grown)
    combined: list[Clique] = []
    covered: set[str] = set()
    for cliques in reversed(sized[2:]):
        for clique in cliques:
            if len(covered.intersection(clique)) <= MOST_SHARED:
                combined.append(clique)
                covered.update(clique)
    inside = {frozenset(pair) for clique in combined for pair in combinations(clique, 2)}
    return [*combined, *(domain.canonical(pair) for pair in pairs if frozenset(pair) not in inside)]
