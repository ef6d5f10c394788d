"""The candidates of rounds that select by weighted L1 errors, from a transcript."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.tables import Clique, Domain, Workload


@dataclass(frozen=True)
class Selection:
    """The candidates of a round, with scores ``w_r (||q_r(D) - q_r(model)||_1 - p_r)``.

    Weights and penalties have shape ``(m,)``; penalties are in counts.
    """

    cliques: Sequence[Clique]
    weights: np.ndarray
    penalties: np.ndarray


@dataclass(frozen=True)
class SelectionRule:
    """The selections of a mechanism's rounds, one a round, by weighted L1 errors.

    `candidates` returns the marginals before the size limit with their weights, `penalty` the
    counts for each cell of a candidate in a round.
    """

    candidates: Callable[[Workload], tuple[Sequence[Clique], np.ndarray]]
    penalty: Callable[[Transcript, Round], float]

    def selections(
        self, transcript: Transcript, domain: Domain, workload: Workload
    ) -> Iterator[Selection | None]:
        """Yield the candidates of each round of a transcript; None for a round without a choice."""
        cliques, weights = self.candidates(workload)
        cells = possible_sizes(domain, cliques)
        fits = TractabilityFilter(domain, cliques)
        measured: list[Clique] = []
        for done in transcript.rounds:
            if done.rho_select > 0.0:
                numbers = fits.fitting(measured, done.size_limit_mb or 0.0)
                penalty = self.penalty(transcript, done)
                candidates = [cliques[number] for number in numbers]
                yield Selection(candidates, weights[numbers], penalty * cells[numbers])
            else:
                yield None
            measured += [done.clique] if done.measurement is not None else []
