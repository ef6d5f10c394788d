"""A test of independence of two attributes, by a measured marginal and its noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.evaluation.intervals import noise_of_records
from jam_dagster.evaluation.released_marginals import released_marginal
from jam_dagster.models.graphical.model import possible_cells

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables import Domain

_TABLES = 1999
"""Simulated tables: the least p-value is 1 in 2000."""

_CELLS_AT_ONCE = 2**22


@dataclass(frozen=True)
class IndependenceTest:
    """A test of whether two attributes are independent in the population.

    Attributes
    ----------
    p_value
        None if there is no honest one.
    how
        How it was computed, or why there is none, in a sentence.
    """

    p_value: float | None
    how: str

    def __str__(self) -> str:
        return self.how if self.p_value is None else f"p = {self.p_value:.4f}; {self.how}"


def independence_test(
    transcript: Transcript, domain: Domain, first: str, second: str
) -> IndependenceTest:
    """Test whether two attributes are independent in the population of the private table.

    Bins and missing values are values like others.

    The private table is taken for n independent draws from a population. With y the released
    counts, sigma their noise, and p and q the shares of y in rows and columns, none below 0, the
    statistic is ``sum (y - n p q)^2 / (n p q + max(1, sigma^2))``: cells in units of the variance
    of sampling and noise (Gaboardi, Lim, Rogers and Vadhan, "Differentially Private Chi-Squared
    Hypothesis Testing", ICML 2016, test by simulation too). It is compared with that of tables that
    are drawn from p and q, with noise; the seed is fixed. If n is measured with noise, it is
    averaged with the sum of y by one over their variances, in each drawn table as well.

    The level is that of a pair that is named before the release, over all releases: those that do
    not measure it reject nothing. A mechanism that selects marginals by the private table prefers
    pairs that are dependent in it by chance.
    """
    pair = domain.canonical((first, second))
    if len(pair) < 2:
        raise InputError(f"A test of independence needs two attributes, got {first!r} twice.")
    if transcript.neighbours.max_rows > 1:
        return IndependenceTest(
            None, "there is no p-value: rows of one person are no independent sample"
        )
    if not possible_cells(domain, pair).all():
        return IndependenceTest(
            None, "there is no p-value: the domain declares combinations of them impossible"
        )
    released = released_marginal(transcript, pair)
    if released is None:
        return IndependenceTest(
            None, "there is no p-value: no private measurement covers both attributes"
        )
    sigma, of_records = released.sigma, noise_of_records(transcript)
    least = max(1.0, sigma**2)
    summed = 0.0 if of_records == 0 else of_records / (of_records + sigma**2 * released.counts.size)

    def compared(counts: np.ndarray, records: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = np.maximum((1 - summed) * records + summed * counts.sum(axis=(-1, -2)), 1.0)
        return _compared(counts, total, least)

    expected, statistic = compared(released.counts, transcript.records)
    above = sum(
        int((compared(*drawn)[1] >= statistic).sum())
        for drawn in _null_tables(expected, sigma, math.sqrt(of_records))
    )
    many = len(released.rounds)
    return IndependenceTest(
        (1 + above) / (1 + _TABLES),
        f"from {many} measurement{'s' if many > 1 else ''} with noise, and a random sample of the"
        " population",
    )


def _compared(
    counts: np.ndarray, records: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected counts of tables, shape ``(..., r, c)``, and their statistics.

    `records` are those of each table, shape ``(...)``.
    """
    rows, columns = (np.maximum(counts.sum(axis=axis), 0.0) for axis in (-1, -2))
    rows, columns = (
        # Without any record left, all values count alike.
        np.where(one.sum(axis=-1, keepdims=True) > 0, one, 1.0)
        for one in (rows, columns)
    )
    rows /= rows.sum(axis=-1, keepdims=True)
    columns /= columns.sum(axis=-1, keepdims=True)
    expected = records[..., None, None] * rows[..., :, None] * columns[..., None, :]
    return expected, ((counts - expected) ** 2 / (expected + least)).sum(axis=(-1, -2))


def _null_tables(
    expected: np.ndarray, sigma: float, of_records: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield noisy tables of independent attributes, and the measured n of each, some at a time."""
    rng = np.random.default_rng(0)
    shares, records = expected.ravel() / expected.sum(), max(1, round(float(expected.sum())))
    step = max(1, _CELLS_AT_ONCE // shares.size)
    for start in range(0, _TABLES, step):
        drawn = rng.multinomial(records, shares, size=min(step, _TABLES - start))
        tables = (drawn + rng.normal(0.0, sigma, drawn.shape)).reshape(-1, *expected.shape)
        # A measured n is at least 1.
        yield tables, np.maximum(records + rng.normal(0.0, of_records, len(tables)), 1.0)
