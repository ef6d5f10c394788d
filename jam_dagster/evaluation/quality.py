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
from jam_dagster.evaluation.sentences import said
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

# The keys of sentences: by the widths of the weakest marginals, and by one width.
_NOTES = {(): "alike", (1,): "column", (2,): "pair", (1, 2): "both"}
_STATISTICS = {1: ("shapes", "weakest_column"), 2: ("trends", "weakest_pair")}


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
    return quality_of(errors, len(synthetic.domain.names), noise) if errors else None


def _weakest(
    errors: Mapping[Clique, float], noise: Mapping[Clique, CountNoise] | None
) -> dict[int, Clique]:
    """Return the weakest marginal of each width that noise does not explain; see `quality_of`."""
    found: dict[int, Clique] = {}
    for width in _STATISTICS:
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


def quality_of(
    errors: Mapping[Clique, float],
    attributes: int,
    noise: Mapping[Clique, CountNoise] | None = None,
) -> Quality:
    """Return shapes and trends from L1 errors of marginals, fractions of the records.

    `noise` is that of the counts, where these are not exact. The weakest marginal is the one whose
    similarity falls furthest short of what noise leaves. It is named where noise alone does not
    explain it: of the true table with a chance of at most `LEVEL`, for all marginals together.
    """
    sentences = []
    found, suffix = _weakest(errors, noise), "_exact" if noise is None else ""
    (column,), (first, second) = found.get(1, ("",)), found.get(2, ("", ""))
    names = {"column": column, "first": first, "second": second}
    for width, (mean, weakest) in _STATISTICS.items():
        alike = {one: 1.0 - min(2.0, errors[one]) / 2 for one in errors if len(one) == width}
        if not alike:
            continue
        left = {one: 1.0 - (noise[one].mean if noise else 0.0) / 2 for one in alike}
        means = {"alike": fmean(alike.values()), "left": fmean(left.values())}
        wanted = math.comb(attributes, width)
        sentences.append(said(mean + suffix, compared=len(alike), wanted=wanted, **means))
        if (own := found.get(width)) is not None:
            similar = {"weakest": alike[own], "weakest_left": left[own]}
            sentences.append(said(weakest + suffix, **similar, **names))
    return Quality(said(_NOTES[tuple(found)] + suffix, **names), " ".join(sentences))
