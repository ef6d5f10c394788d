"""What the rounds of a transcript chose from, and by which scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jam_dagster.mechanisms.aim import weights_of
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, Workload

EXPLAINED = ("aim", "mwem_pgm")
"""The mechanisms whose rounds select, once, by weighted L1 errors."""


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


def explained(transcript: Transcript) -> bool:
    """Return whether `selections_of` knows how the transcript's mechanism selects."""
    return transcript.mechanism in EXPLAINED


def selections_of(
    transcript: Transcript, domain: Domain, workload: Workload
) -> Iterator[Selection | None]:
    """Yield what each round chose from; None for one that chose nothing.

    Parameters
    ----------
    transcript
        Of a mechanism that is `explained`.
    domain, workload
        Those of the run.
    """
    aim = transcript.mechanism == "aim"
    cliques = workload.downward_closure() if aim else workload.cliques
    weights = weights_of(workload, cliques) if aim else np.ones(len(cliques))
    cells = possible_sizes(domain, cliques)
    fits = TractabilityFilter(domain, cliques)
    measured: list[Clique] = []
    for done in transcript.rounds:
        if done.rho_select > 0.0:
            numbers = fits.fitting(measured, done.size_limit_mb or 0.0)
            noise = _expected_noise(transcript, done) if aim else 1.0
            candidates = [cliques[number] for number in numbers]
            yield Selection(candidates, weights[numbers], noise * cells[numbers])
        else:
            yield None
        measured += [done.clique] if done.measurement is not None else []


def _expected_noise(transcript: Transcript, done: Round) -> float:
    """Return what a measurement was expected to err by in each cell, in counts."""
    sigma = gaussian_sigma(transcript.neighbours.marginal_l2, done.rho_measure)
    return MEAN_ABSOLUTE_NORMAL * sigma
