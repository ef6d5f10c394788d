"""What rounds that select by weighted L1 errors chose from, told by a transcript."""

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
    """What a round chose from: scores ``w_r (||q_r(D) - q_r(model)||_1 - p_r)``.

    Attributes
    ----------
    cliques
        The candidates.
    weights, penalties
        w and p of each, shape ``(m,)``, the second in counts.
    """

    cliques: Sequence[Clique]
    weights: np.ndarray
    penalties: np.ndarray


@dataclass(frozen=True)
class SelectionRule:
    """How the rounds of a mechanism select, once each, by weighted L1 errors.

    Attributes
    ----------
    candidates
        Returns the marginals that rounds choose from, as far as they fit, and the weight of each.
    penalty
        Returns what a round takes from the error of a candidate for each of its cells, in counts.
    """

    candidates: Callable[[Workload], tuple[Sequence[Clique], np.ndarray]]
    penalty: Callable[[Transcript, Round], float]

    def selections(
        self, transcript: Transcript, domain: Domain, workload: Workload
    ) -> Iterator[Selection | None]:
        """Yield what each round of a transcript chose from; None for one that chose nothing."""
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
