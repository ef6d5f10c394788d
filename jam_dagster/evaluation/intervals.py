"""Counts by a condition, with an interval of 95% if a release has an honest one.

Only the transcript, the model and the domain are read, so an answer costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from jam_dagster.evaluation.released_marginals import covers
from jam_dagster.models.graphical.model import Where, codes_meeting, possible_cells
from jam_dagster.privacy.noise.calls import RECORDS

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.base import Model
    from jam_dagster.models.measurement import Measurement
    from jam_dagster.tables import Domain

_Z = NormalDist().inv_cdf(0.975)

_ONE_ROW_EACH = "rows of one person are no independent sample of a population"


@dataclass(frozen=True)
class Answer:
    """How many records meet a condition.

    Attributes
    ----------
    estimate
        Number of records.
    low, high
        Ends of the interval, in records; None if there is no honest interval.
    basis
        ``measured``: private measurements cover the condition, and their noise gives the interval,
        of width 0 if there is no noise.
        ``bound``: a bound on the model's error gives it. ``model``: the model gives the estimate
        alone.
    how
        The same in a sentence.
    """

    estimate: float
    low: float | None
    high: float | None
    basis: Literal["measured", "bound", "model"]
    how: str

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"about {self.estimate:,.0f}; {self.how}"
        return f"{self.estimate:,.0f}, {self.low:,.0f} to {self.high:,.0f}; {self.how}"


def answer(
    where: Where,
    transcript: Transcript,
    domain: Domain,
    model: Model,
    bounds: Callable[[], ErrorBounds | None],
    *,
    population: bool = False,
) -> Answer:
    """Estimate how many records meet a condition.

    Parameters
    ----------
    where
        The condition, such as ``{"sex": "female", "age": {"from": 30, "below": 40}}``; see `Where`.
        All records meet an empty one.
    transcript, domain, model
        Of the release.
    bounds
        Returns its `known_bounds`, if no measurement covers the condition.
    population
        Whether the interval is of the expected number among so many records of the population of
        which the private table is a random sample. By default it is of the private table's own
        number, as encoded, and holds whatever the table.

    Returns
    -------
    Answer

    Raises
    ------
    InputError
        If `where` names an unknown attribute or value, or a bound that cuts through a bin, or the
        marginal of its attributes is too large for the model.

    Notes
    -----
    *Measured.* Noise is drawn afresh in each measurement, whatever was selected and measured
    before. So the sum of k cells with noise sigma has an error of standard deviation
    ``sigma sqrt(k)``, also given that the mechanism selected this marginal. Impossible cells are
    empty and left out. If n is public and K cells are possible, the noise of all of them is known
    in sum; subtracting k/K of it leaves ``sigma sqrt(k (K - k) / K)``. Several measurements are
    averaged by one over their variances. Noise is of whole numbers, and its tails are at most those
    of a Gaussian, so the half-width is 1.96 standard deviations plus one half, cut to whole numbers
    from 0 to n.

    The interval is that of a condition which is named beforehand. Adaptive mechanisms measure again
    where the model is far off, hence where noise was large. So intervals from one measurement hold
    more often than 95%, and those from several less often than these
    (``python -m benchmarks.intervals``).

    *Bound.* Model and table have the same number of records if n is public. A sum of cells then
    differs by at most half of their L1 distance on the marginal, and else by all of it.

    *Population.* The number of records has the variance ``n p (1 - p)`` as well. The interval holds
    all p with ``|y - n p| <= 1.96 sqrt(sigma^2 + n p (1 - p))`` (Wilson), and if n is measured with
    noise sigma_n, the variance grows by ``p^2 sigma_n^2`` (Fieller).
    """
    met = codes_meeting(domain, where)
    clique, records = domain.canonical(met), transcript.records
    met = {domain.attribute(name).name: allowed for name, allowed in met.items()}
    public = transcript.neighbours.records_public
    found = _measured(transcript, domain, met)
    if found is not None:
        value, variance, many = found
        how = f"from {many} measurement{'s' if many > 1 else ''} with noise"
        if variance == 0.0:
            # All records, or none: so it is in the population, too.
            exact = float(round(value))
            return Answer(exact, exact, exact, "measured", "known without noise")
        population = population and bool(met)
        if population and transcript.neighbours.max_rows > 1:
            return Answer(
                _within(value, records, public), None, None, "measured", _no(_ONE_ROW_EACH)
            )
        if population:
            low, high = _of_population(value, variance, records, noise_of_records(transcript))
            how += ", and a random sample of the population"
        else:
            half = _Z * math.sqrt(variance) + 0.5
            low, high = math.ceil(value - half), math.floor(value + half)
        estimate, low, high = (_within(end, records, public) for end in (value, low, high))
        return Answer(estimate, low, high, "measured", how)
    counts = model.marginals([clique])[clique][np.ix_(*(met[name] for name in clique))]
    estimate = float(counts.sum()) * records / model.total
    known = None if population else bounds()
    held = {} if known is None else {one.clique: one.bound for one in known.bounds}
    if clique not in held:
        return Answer(
            estimate, None, None, "model", _no("no private measurement covers these attributes")
        )
    half = held[clique] / 2 if public else held[clique]
    low, high = (_within(end, records, public) for end in (estimate - half, estimate + half))
    return Answer(estimate, low, high, "bound", "from the model, with a bound on its error")


def _no(reason: str) -> str:
    return f"there is no interval: {reason}"


def _within(count: float, records: int, public: bool) -> float:
    """Return a number of records that there can be."""
    return float(min(max(count, 0.0), records if public else math.inf))


def _measured(
    transcript: Transcript, domain: Domain, met: Mapping[str, np.ndarray]
) -> tuple[float, float, int] | None:
    """Return a count, the variance of its noise, and the number of measurements; None without one.

    The count may be negative.
    """
    clique = domain.canonical(met)
    total = transcript.records if transcript.neighbours.records_public else None
    found = [
        _counted(one, possible_cells(domain, one.clique), met, total)
        for one in transcript.measurements
        if covers(one, clique)
    ]
    if not met:
        found.append((float(transcript.records), noise_of_records(transcript)))
    if not found:
        return None
    for value, variance in found:
        if variance == 0.0:
            return value, 0.0, 1
    values, variances = np.array(found).T
    precision = float((1 / variances).sum())
    return float((values / variances).sum() / precision), 1 / precision, len(found)


def _counted(
    measured: Measurement,
    possible: np.ndarray,
    met: Mapping[str, np.ndarray],
    total: int | None,
) -> tuple[float, float]:
    """Return a measurement's count and the variance of its noise; `total` is n if it is public."""
    wanted = possible.copy()
    for axis, name in enumerate(measured.clique):
        if name in met:
            np.moveaxis(wanted, axis, 0)[~met[name]] = False
    cells, every = int(wanted.sum()), int(possible.sum())
    value, variance = float(measured.values[wanted].sum()), cells * measured.sigma**2
    if total is not None:
        value += cells / every * (total - float(measured.values[possible].sum()))
        variance *= 1 - cells / every
    return value, variance


def noise_of_records(transcript: Transcript) -> float:
    """Return the variance of the noise in the number of records."""
    if transcript.neighbours.records_public:
        return 0.0
    scales = [one.scale for one in transcript.calls if one.subject == RECORDS and not one.lost]
    return float(scales[-1] or 0.0) ** 2


def _of_population(
    value: float, variance: float, records: int, of_records: float
) -> tuple[float, float]:
    """Return the ends of the interval of the expected number among `records` of the population.

    They are the roots of ``(y - n p)^2 = z^2 (variance + p^2 of_records + n p (1 - p))``, times n.
    """
    n, z2 = float(records), _Z**2
    square = n * n + z2 * n - z2 * of_records
    if square <= 0:
        return 0.0, n
    middle = n * value + z2 * n / 2
    root = math.sqrt(max(0.0, middle**2 - square * (value**2 - z2 * variance)))
    return n * (middle - root) / square, n * (middle + root) / square
