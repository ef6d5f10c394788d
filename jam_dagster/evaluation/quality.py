"""Shapes of columns and trends of pairs, as SDMetrics' quality score names them.

The similarity of two marginals is one less their total variation distance, which is half their L1
distance: 1 where they are equal, 0 where they share no cell. SDMetrics calls it TVComplement for a
column and ContingencySimilarity for a pair; here a numeric column is compared by its bins too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.evaluation.released_marginals import released_marginal
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Clique, Domain

MOST_CELLS = 1_000_000
"""Largest number of cells of a pair that is compared."""

MOST_NOISE = 1.0
"""The L1 distance, of at most 2, that the noise of counts may be for a table to be compared."""

LEVEL = 0.05
"""The chance, at most, that of a true table a weakest column is named, and so of a weakest pair."""

_KINDS = {1: ("column shapes", "columns"), 2: ("trends of pairs", "pairs")}


@dataclass(frozen=True)
class CountNoise:
    """The noise of `cells` counts, each with a standard deviation of `sigma` of the records."""

    sigma: float
    cells: int

    @property
    def mean(self) -> float:
        """The expected L1 distance of the counts from the true ones: ``k sigma sqrt(2 / pi)``."""
        return MEAN_ABSOLUTE_NORMAL * self.sigma * self.cells

    def most(self, level: float) -> float:
        """Return a distance that noise alone exceeds with a chance of at most `level`.

        Chernoff's bound for a sum of k half-normals:
        ``min_s (k (s^2 / 2 + log(2 Phi(s))) - log(level)) / s``, in sigma.
        """
        s, log_moment = _LOG_MOMENTS
        return self.sigma * float(((self.cells * log_moment - math.log(level)) / s).min())


@dataclass(frozen=True)
class Quality:
    """How like other counts a table is: a note in plain words, and its statistics."""

    note: str
    statistics: str


def _log_moments() -> tuple[np.ndarray, np.ndarray]:
    """Return values of s, and ``log E exp(s |Z|)`` for each."""
    s = np.geomspace(1e-3, 10.0, 400)
    phi = np.array([NormalDist().cdf(one) for one in s.tolist()])
    return s, s**2 / 2 + np.log(2.0 * phi)


_LOG_MOMENTS = _log_moments()


def columns_and_pairs(domain: Domain) -> list[Clique]:
    """Return the one-way marginals, and the two-way ones of at most `MOST_CELLS`."""
    pairs = (pair for pair in combinations(domain.names, 2) if domain.size(pair) <= MOST_CELLS)
    return [*((name,) for name in domain.names), *pairs]


def measured_quality(transcript: Transcript, synthetic: MarginalSource) -> Quality | None:
    """Say how like the released counts a synthetic table is; None if none was measured.

    Only released results are read. A marginal whose noise hides half of it is left out. The noise
    of the others takes similarity off, so the text says what the true table would have: at least
    ``1 - k sigma sqrt(2 / pi) / (2 n)`` of k cells.
    """
    cliques = columns_and_pairs(synthetic.domain)
    released = {one: released_marginal(transcript, one) for one in cliques}
    measured = {clique: one for clique, one in released.items() if one is not None}
    n = max(1, transcript.records)
    errors: dict[Clique, float] = {}
    noise: dict[Clique, CountNoise] = {}
    for clique, counts in synthetic.marginals(measured).items():
        one = measured[clique]
        noises = CountNoise(one.sigma / n, counts.size)
        if noises.mean > MOST_NOISE:
            continue
        distance = np.abs(counts * (n / synthetic.records) - one.counts).sum() / n
        errors[clique] = float(distance)
        noise[clique] = noises
    text = quality_text(errors, len(synthetic.domain.names), noise)
    if not text:
        return None
    names = _named(_weakest(errors, noise))
    if not names:
        note = "No measured column or pair differs from its counts by more than noise explains."
    elif len(names) == 1:
        note = f"The {names[0]} differs most from its counts, by more than noise explains."
    else:
        both = " and the ".join(names)
        note = f"The {both} differ most from their counts, by more than noise explains."
    return Quality(note, f"Next to released counts: {text}.")


def exact_quality(errors: Mapping[Clique, float], attributes: int) -> Quality:
    """Say how like the private table a synthetic one is, from exact L1 errors of marginals."""
    names = _named(_weakest(errors, None))
    note = "Every compared column and pair equals that of the private table."
    if names:
        verb = "is" if len(names) == 1 else "are"
        note = f"The {' and the '.join(names)} {verb} furthest from the private table."
    return Quality(note, f"Exactly: {quality_text(errors, attributes)}.")


def _named(weakest: Mapping[int, Clique]) -> list[str]:
    units = {1: "column", 2: "pair"}
    return [f"{units[width]} {' with '.join(clique)}" for width, clique in weakest.items()]


def _weakest(
    errors: Mapping[Clique, float], noise: Mapping[Clique, CountNoise] | None
) -> dict[int, Clique]:
    """Return the weakest marginal of each width that noise does not explain; see `quality_text`."""
    found: dict[int, Clique] = {}
    for width in _KINDS:
        own = [one for one in errors if len(one) == width]
        sure = [
            one
            for one in own
            if errors[one] > (noise[one].most(LEVEL / len(own)) if noise else 0.0)
        ]
        if sure:
            found[width] = max(
                sure, key=lambda one: min(2.0, errors[one]) - (noise[one].mean if noise else 0.0)
            )
    return found


def quality_text(
    errors: Mapping[Clique, float],
    attributes: int,
    noise: Mapping[Clique, CountNoise] | None = None,
) -> str:
    """Return shapes and trends from L1 errors of marginals, fractions of the records, in words.

    `noise` is that of the counts, where these are not exact. The weakest marginal is the one whose
    similarity falls furthest short of what noise leaves. It is named where noise alone does not
    explain it: of the true table with a chance of at most `LEVEL`, for all marginals together.
    """
    parts = []
    found = _weakest(errors, noise)
    for width, (name, unit) in _KINDS.items():
        alike = {
            one: 1.0 - min(2.0, error) / 2 for one, error in errors.items() if len(one) == width
        }
        if not alike:
            continue
        wanted = math.comb(attributes, width)
        compared = f"all {wanted}" if len(alike) == wanted else f"{len(alike)} of {wanted}"
        left = {one: 1.0 if noise is None else 1.0 - noise[one].mean / 2 for one in alike}
        text = f"{name} {fmean(alike.values()):.1%} ({compared} {unit}"
        if width in found:
            weakest = found[width]
            text += f", weakest {' with '.join(weakest)} {alike[weakest]:.1%}"
            text += "" if noise is None else f" where the true one has about {left[weakest]:.1%}"
        if noise is not None:
            about = f"{fmean(left.values()):.1%}"
            text += f"; the true table has about {about} next to counts so noisy"
        parts.append(f"{text})")
    return ", ".join(parts)
