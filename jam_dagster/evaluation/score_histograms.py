"""How well classifiers predict private records, by noisy histograms of their scores.

A classifier that learns from public or released rows gives each private record a score. How many
records of each class have a score between two cut points is a histogram in which a person is in one
cell, and the area under the ROC curve follows from it, with the interval that its noise leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from jam_dagster.evaluation.utility import Classifier
from jam_dagster.tables.codes.table import EncodedTable

if TYPE_CHECKING:
    from jam_dagster.tables.codes.marginals import MarginalSource

Floats = npt.NDArray[np.float64]

BINS = 10
"""Bins between the cut points of a score."""

CELLS = 2 * BINS
"""Cells of a histogram: the bins of the records of the other classes, then of the predicted one."""

_DRAWS = 500
_LEAST = 3.0


class Area(NamedTuple):
    """An area under the ROC curve, and half the width of its interval of 95%."""

    area: float
    margin: float


@dataclass(frozen=True, eq=False)
class Scorer:
    """A classifier of one value of a target, with the cut points of its scores."""

    classifier: Classifier
    value: int
    cuts: Floats

    @classmethod
    def of(cls, table: EncodedTable, target: str, value: int, basis: EncodedTable) -> Scorer:
        """Train on a table; the cut points part the rows of the basis into tenths."""
        classifier = Classifier.of(table, target)
        scores = classifier.chances(basis)[:, value]
        return cls(classifier, value, np.quantile(scores, np.arange(1, BINS) / BINS))

    def histogram(self, rows: EncodedTable) -> Floats:
        """Return how many rows are in each cell, shape ``(20,)``."""
        scores = self.classifier.chances(rows)[:, self.value]
        bins = np.searchsorted(self.cuts, scores, side="right")
        positive = rows.column(self.classifier.target) == self.value
        return np.bincount(bins + BINS * positive, minlength=CELLS).astype(float)


def scored(tables: Mapping[str, MarginalSource], targets: Sequence[str]) -> list[str]:
    """Return the tables of which classifiers can learn: those that hold rows, if targets do."""
    rows = [name for name, one in tables.items() if isinstance(one, EncodedTable) and one.records]
    return rows if targets else []


def histograms(
    private: EncodedTable, tables: Mapping[str, EncodedTable], targets: Sequence[str]
) -> Floats:
    """Return the histograms of all tables and targets, one after another.

    The predicted value is the second most frequent one of the synthetic rows, and the public rows
    give the cut points, or the synthetic ones if there are no others.

    Parameters
    ----------
    private
        The private table.
    tables
        The tables to learn from, by name; ``"synthetic"`` is among them.
    targets
        The columns to predict.
    """
    # All have missing values where they may have unreadable ones, as released rows do.
    private = private.as_released()
    tables = {name: table.as_released() for name, table in tables.items()}
    basis = tables.get("public", tables["synthetic"])
    made = []
    for table in tables.values():
        for target in targets:
            value = predicted_value(tables["synthetic"], target)
            made.append(Scorer.of(table, target, value, basis).histogram(private))
    return np.concatenate(made)


def predicted_value(rows: EncodedTable, target: str) -> int:
    """Return the code that is the second most frequent, a missing one aside."""
    counts = np.bincount(rows.column(target), minlength=rows.domain.sizes[target])
    counts[list(rows.domain.attribute(target).missing_codes)] = -1
    return int(np.argsort(-counts, kind="stable")[min(1, len(counts) - 1)])


def area(shares: Sequence[float], sigma: float) -> Area | None:
    """Return the area under the ROC curve of a noisy histogram; None if noise hides a class.

    Parameters
    ----------
    shares
        The 20 cells, as fractions of the records.
    sigma
        The standard deviation of the noise in each.
    """
    held = np.asarray(shares, dtype=np.float64)
    least = _LEAST * sigma * BINS**0.5
    if min(held[:BINS].sum(), held[BINS:].sum()) <= least:
        return None
    # Each histogram has the same draws, so that a repeated verdict is the same.
    noise = np.random.default_rng(0).normal(0.0, sigma, (_DRAWS, CELLS))
    spread = float(_areas(held + noise).std())
    z = NormalDist().inv_cdf(0.975)
    return Area(float(np.clip(_areas(held[None])[0], 0.0, 1.0)), z * spread)


def _areas(held: Floats) -> Floats:
    """Return the areas of histograms, shape ``(number, 20)``: ties within a bin are half."""
    negative, positive = held[:, :BINS], held[:, BINS:]
    below = np.cumsum(negative, axis=1) - negative / 2
    whole = negative.sum(axis=1) * positive.sum(axis=1)
    made: Floats = (positive * below).sum(axis=1) / whole
    return made
