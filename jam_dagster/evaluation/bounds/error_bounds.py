"""Bounds on a release's error by marginal, from released results.

McKenna, Mullins, Sheldon, Miklau: "AIM", VLDB 2022, Section 5 (Theorems 2 to 4, Corollaries 1, 2).
Bounds follow from a transcript, so they read no private data and cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.evaluation.bounds.table import ErrorBound, ErrorBounds
from jam_dagster.mechanisms.context import Selection
from jam_dagster.mechanisms.loops.scores import l1_distance, lowest_score
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.mechanisms.registry import MECHANISMS, check_domain, find_mechanism
from jam_dagster.mechanisms.replay import Replay, refit
from jam_dagster.models.base import Model, answerable
from jam_dagster.models.graphical.model import possible_cells
from jam_dagster.models.measurement import Measurement
from jam_dagster.privacy.accounting import exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.noise.calls import RECORDS
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload, marginal_blocks

RELEASED_CELLS = 2**26
"""Half a gibibyte of released counts; with more, every round computes them again."""

SHARES = {"selections": 0.45, "measurements": 0.45, "records": 0.1}
"""The division of the failure probability; the last part is unused if n is public."""


def has_bounds(transcript: Transcript) -> bool:
    """Return whether a release's mechanism gives bounds."""
    found = find_mechanism(transcript.mechanism)
    return found is not None and found.bounds_errors


def known_bounds(
    transcript: Transcript, domain: Domain, workload: Workload, *, released: MarginalSource
) -> ErrorBounds | None:
    """Return the `error_bounds` of a release; None if its mechanism gives none."""
    if not has_bounds(transcript):
        return None
    return error_bounds(transcript, domain, workload, released=released)


def error_bounds(
    transcript: Transcript,
    domain: Domain,
    workload: Workload,
    *,
    confidence: float = 0.95,
    released: MarginalSource | None = None,
) -> ErrorBounds:
    """Bound the error of every marginal of the workload's downward closure.

    Parameters
    ----------
    transcript
        A whole transcript of a mechanism that selects by weighted L1 errors, such as AIM.
    domain, workload
        Domain and workload of the run.
    confidence
        The probability with which each bound holds.
    released
        The model or table with the bounded answers; scaled to n. By default the run's model.

    Returns
    -------
    ErrorBounds
        Each bound holds separately with at least that probability, over the noise of the run. The
        bounds from selections hold simultaneously.

    Raises
    ------
    SpecificationError
        If the mechanism selects in another way, or the confidence is not between 0 and 1.
    DomainError
        If `domain` is not the transcript's.
    InputError
        If `workload` is not the run's (its weights count too: a round chose by them), or the
        transcript is not what its mechanism does.

    Notes
    -----
    D is the private table, q_r a marginal of n_r cells, D' the released model or table. There are
    two bounds, and the smaller counts. Each may use 0.45 of the failure probability that
    `confidence` leaves; the bound on a private n uses the other 0.1 (`SHARES`).

    *By measurements* (Theorems 2, 3, Corollary 1). Every measurement ``y_i`` of a marginal that has
    r within it answers r too, with noise of variance ``(n_i / n_r) sigma_i^2`` a cell. Let y be
    their average, weighted by one over these variances. Then::

        ||q_r(D) - q_r(D')||_1  <=  ||q_r(D') - y||_1 + ||q_r(D) - y||_1

    The first part is known, and `summed_noise` bounds the second.

    *By selections* (Theorem 4, Corollary 2). In round t a score ``w_r (e_r - p_r)`` was computed of
    each candidate r, where ``e_r = ||q_r(D) - q_r(M)||_1`` for the model M of that time. It chose
    s, of weight w_s, and measured y with noise sigma. So, with `chosen_score` and `aligned_noise`::

        w_r (e_r - p_r)  <=  w_s (e_s - p_s) + chosen_score
                    e_s  <=  ||q_s(M) - y||_1 + aligned_noise

    The first line holds for all candidates at once. Solved for e_r, it bounds the error of D' by
    ``e_r + ||q_r(M) - q_r(D')||_1``. The sensitivity in `chosen_score` is the one that the run
    selected with: `Neighbours.error_score` of the round's heaviest candidate.

    Which rounds there are, in which of them r is a candidate, and whether r gets measured, depend
    on the noise. The paper states its theorems for a round that was fixed before. Here every round
    may fail with that share of the probability that its rho is of the budget (half in the
    selection, half in the measurement): it is known before the round draws, and shares add up to
    one at most. So all rounds hold at once, the best may be taken, and a marginal that turned out
    to be measured may go the other way.

    *From the larger to the smaller.* For r within s, ``||q_r(D) - q_r(D')||_1 <= ||q_s(D) -
    q_s(D')||_1``, since sums over cells bring tables no further apart. So the bound by selections
    is the least of those of all marginals that have r within, which costs no confidence: they hold
    at once. Bounds by measurements do not: each may fail with the whole share by itself, and the
    least of several with more. They are not handed on; r is answered by the same measurements.

    The cells of the domain's impossible combinations are empty in D: their measured counts are
    noise, and are left out.

    If n is private, the number of records of D is at most the measured one plus
    ``sigma sqrt(2 log(1 / failure))``; without any other bound the error is the sum of both
    tables' records.
    """
    _check_bounded(transcript, domain, workload)
    if not 0.0 < confidence < 1.0:
        raise SpecificationError(
            f"confidence must be between 0 and 1, both excluded, got {confidence!r}."
        )
    failure = {name: (1 - confidence) * share for name, share in SHARES.items()}
    released = refit(transcript, domain, workload) if released is None else released
    closure = workload.downward_closure()
    pairs = _pairs(closure)
    answers = _Released(released, transcript.records, closure)
    measured = _bound_by_measurements(transcript, domain, closure, answers, failure["measurements"])
    bounds = np.minimum(measured, _without_anything(transcript, failure["records"]))
    worth = bounds.copy()
    for whole, part in pairs:
        worth[whole] = max(worth[whole], worth[part])
    selected, rounds, was_candidate = _bound_by_selections(
        transcript, domain, workload, closure, answers, failure["selections"], worth
    )
    for whole, part in reversed(pairs):
        was_candidate[part] |= was_candidate[whole]
        if selected[whole] < selected[part]:
            selected[part], rounds[part] = selected[whole], rounds[whole]
    found = tuple(
        ErrorBound(
            clique,
            "supported" if held else "unsupported" if within else "none",
            min(bound, by_choice),
            done if by_choice < bound else None,
        )
        for clique, held, within, bound, by_choice, done in zip(
            closure,
            np.isfinite(measured),
            was_candidate,
            bounds.tolist(),
            selected.tolist(),
            rounds,
            strict=True,
        )
    )
    return ErrorBounds(found, confidence, transcript.records)


def _check_bounded(transcript: Transcript, domain: Domain, workload: Workload) -> None:
    """Raise unless the run was of this domain and workload, and gives bounds."""
    check_domain(transcript, domain)
    if transcript.workload_digest != workload.digest:
        raise InputError(
            "This transcript belongs to a run of another workload "
            f"(digest {transcript.workload_digest[:12]}, given {workload.digest[:12]}) with other "
            "marginals or weights; give the run's workload."
        )
    if not has_bounds(transcript):
        known = [name for name, one in MECHANISMS.items() if one.bounds_errors]
        raise SpecificationError(
            f"Error bounds need rounds that select by weighted L1 errors, as those of "
            f"{', '.join(known)}; this transcript is of {transcript.mechanism}."
        )


def _pairs(closure: Sequence[Clique]) -> list[tuple[int, int]]:
    """Return each marginal with all its subsets that lack one attribute, by number, smaller first.

    Removing one attribute after another leads from any marginal of a downward closure to all its
    subsets, with far fewer steps than there are pairs of marginals.
    """
    number_of = {clique: number for number, clique in enumerate(closure)}
    return [
        (number, number_of[part])
        for number, clique in enumerate(closure)
        if len(clique) > 1
        for part in combinations(clique, len(clique) - 1)
    ]


def _bound_by_measurements(
    transcript: Transcript,
    domain: Domain,
    closure: Sequence[Clique],
    released: _Released,
    failure: float,
) -> np.ndarray:
    """Bound the marginals within measured ones, shape ``(m,)``; infinity for the others."""
    held: dict[Clique, list[Measurement]] = {}
    for one in transcript.measurements:
        if one.source == "private":
            held.setdefault(one.clique, []).append(one)
    # The precision of one marginal that takes the whole budget.
    most = 1 / gaussian_sigma(transcript.neighbours.marginal_l2, transcript.rho_budget) ** 2
    bounds = np.full(len(closure), np.inf)
    for number, clique in enumerate(closure):
        within = [
            one for measured in held if set(clique) <= set(measured) for one in held[measured]
        ]
        if not within:
            continue
        size = domain.size(clique)
        precisions = [size / one.values.size / one.sigma**2 for one in within]
        precision = math.fsum(precisions)
        answers = [_summed(one, clique) for one in within]
        average = np.average(answers, axis=0, weights=precisions)
        possible = possible_cells(domain, clique)
        known = l1_distance(released.marginals([clique])[clique], average * possible)
        bounds[number] = known + summed_noise(int(possible.sum()), precision, most, failure)
    return bounds


def _summed(measurement: Measurement, clique: Clique) -> np.ndarray:
    """Return a measurement's answer to a marginal within it."""
    away = tuple(i for i, name in enumerate(measurement.clique) if name not in clique)
    summed: np.ndarray = measurement.values.sum(axis=away)
    return summed


def _bound_by_selections(
    transcript: Transcript,
    domain: Domain,
    workload: Workload,
    closure: Sequence[Clique],
    released: _Released,
    failure: float,
    worth: np.ndarray,
) -> tuple[np.ndarray, list[int | None], np.ndarray]:
    """Bound candidates by the rounds' selections; also return the round, and all ever candidates.

    A bound that is not below `worth`, shape ``(m,)``, is useless and may stay infinite.
    """
    number_of = {clique: number for number, clique in enumerate(closure)}
    bounds = np.full(len(closure), np.inf)
    rounds: list[int | None] = [None] * len(closure)
    was_candidate = np.zeros(len(closure), dtype=bool)
    attempts: list[Selection] = []

    def bound(done: Round) -> None:
        if not attempts:
            return
        selection = attempts[-1]
        attempts.clear()
        numbers = [number_of[clique] for clique in selection.cliques]
        was_candidate[numbers] = True
        if done.measurement is None:
            return
        part = failure * (done.rho_select + done.rho_measure) / transcript.rho_budget
        chosen = selection.cliques.index(done.clique)
        possible = possible_cells(domain, done.clique)
        seen = _error_seen(done.measurement, possible, selection.model, part / 2)
        now = _errors_then(transcript, done, selection, chosen, seen, part / 2)
        # The other terms only add to it: a bound that is no better already is skipped.
        better = now < np.minimum(bounds, worth)[numbers]
        wanted = {
            clique: error
            for clique, error, answer in zip(selection.cliques, now.tolist(), better, strict=True)
            if answer
        }
        for block in marginal_blocks(selection.model, answerable(selection.model, wanted)):
            answers = released.marginals(list(block))
            for clique in filter(answers.__contains__, block):
                number, answer = number_of[clique], block[clique]
                error = wanted[clique] + l1_distance(answer, answers[clique])
                if error < bounds[number]:
                    bounds[number], rounds[number] = error, done.index

    replay = Replay(transcript, domain, workload)
    replay.on_selection, replay.on_round = attempts.append, bound
    replay.run()
    return bounds, rounds, was_candidate


def _error_seen(
    measurement: Measurement, possible: np.ndarray, model: Model, failure: float
) -> float:
    """Bound the error that a model had on the marginal measured next, in counts."""
    seen = l1_distance(model.marginal(measurement.clique), measurement.values * possible)
    return seen + aligned_noise(int(possible.sum()), measurement.sigma, failure)


def _errors_then(
    transcript: Transcript,
    done: Round,
    selection: Selection,
    chosen: int,
    seen: float,
    failure: float,
) -> np.ndarray:
    """Bound the errors that a round's candidates had when it chose, in counts, shape ``(m,)``."""
    weights, penalties = selection.weights, selection.penalties
    sensitivity = transcript.neighbours.error_score(float(weights.max()))
    epsilon = exponential_epsilon(done.rho_select)
    # The run's candidates never have a smaller error.
    best = max(weights[chosen] * (seen - penalties[chosen]), lowest_score(sensitivity))
    best += chosen_score(len(weights), sensitivity, epsilon, failure)
    errors: np.ndarray = np.maximum(0.0, penalties + best / weights)
    return errors


class _Released:
    """The released model or table, with counts scaled to n records."""

    def __init__(self, source: MarginalSource, records: int, closure: Sequence[Clique]) -> None:
        self._source = source
        self._scale = records / source.records
        cells = sum(source.domain.size(clique) for clique in closure)
        self._held = self._answer(closure) if cells <= RELEASED_CELLS else None

    def _answer(self, cliques: Sequence[Clique]) -> dict[Clique, np.ndarray]:
        found = self._source.marginals(answerable(self._source, cliques))
        return {clique: counts * self._scale for clique, counts in found.items()}

    def marginals(self, cliques: Sequence[Clique]) -> Mapping[Clique, np.ndarray]:
        """Return counts of at least these marginals, but for those that a model cannot compute."""
        return self._answer(cliques) if self._held is None else self._held


def _without_anything(transcript: Transcript, failure: float) -> float:
    """Bound the distance of two tables by their numbers of records alone."""
    most = float(transcript.records)
    if not transcript.neighbours.records_public:
        counted = [one.scale for one in transcript.calls if one.subject == RECORDS]
        sigma = max((one for one in counted if one is not None), default=math.inf)
        most += sigma * math.sqrt(2 * math.log(1 / failure))
    return transcript.records + most


_TILTS = np.geomspace(0.02, 20.0, 400)
"""The tried exponents of `summed_noise`; each gives a valid bound."""


def aligned_noise(cells: int, sigma: float, failure: float) -> float:
    """Bound the excess of the true marginal's distance from an answer over the noisy one's.

    Theorem 4 of the AIM paper rests on it, with ``failure = exp(-lambda_1^2 / 2)``. With
    ``s = sign(x - a)``, ``||x - a||_1 = s (x - a) = s (y - a) - s z <= ||y - a||_1 - s z``, and
    ``s z`` is subgaussian of variance ``n sigma^2``: s does not depend on z.
    """
    return sigma * math.sqrt(2 * cells * math.log(1 / failure))


def chosen_score(candidates: int, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound the distance of the exponential mechanism's chosen score below the best score.

    It chooses with a probability proportional to ``exp(epsilon s / (2 sensitivity))``: a candidate
    that is g below the best has at most ``exp(-epsilon g / (2 sensitivity))``, and there are at
    most so many candidates.
    """
    return 2 * sensitivity / epsilon * (math.log(candidates) + math.log(1 / failure))


def summed_noise(cells: int, precision: float, most: float, failure: float) -> float:
    """Bound the L1 norm of the noise of a marginal that averages several measurements.

    Let ``W = sum_i z_i / sigma_i^2`` be the noise before it is divided by V. The next measurement,
    and its precision, depend on earlier noise, so V does, and W / V is no Gaussian given V. For
    a fixed t, however, and every vector s of n signs, ``exp(t s W - t^2 n V / 2)`` is a
    supermartingale over the rounds, as what a round adds to V is known before its noise. So is the
    mean over all s, which is ``prod_c cosh(t W_c) exp(-t^2 n V / 2)``. It starts at 1, and thus
    exceeds ``1 / failure`` at the end with at most that probability (Markov). Else, as log cosh is
    convex and even (Jensen)::

        n log cosh(t ||W||_1 / n) <= sum_c log cosh(t W_c) <= t^2 n V / 2 + log(1 / failure)
        ||W||_1 / V <= n / (t V) arccosh(exp(t^2 V / 2 + log(1 / failure) / n))

    The best t depends on V. There is one for each halving of V below the largest that the budget
    buys; the j-th, counted from 0, may fail with ``failure / ((j + 1) (j + 2))``, which add up to
    `failure`, so that all hold at once. The paper takes the average for a Gaussian.
    """
    halvings = max(0, math.floor(math.log2(most / precision)))
    surprise = (math.log(1 / failure) + math.log((halvings + 1) * (halvings + 2))) / cells
    # The best t for the middle of the interval in which V is; t itself must not depend on V.
    middle = most * 2.0 ** -(halvings + 0.5)
    exponents = _arccosh_exp(_TILTS**2 / 2 + surprise) / _TILTS
    tilt = float(_TILTS[np.argmin(exponents)])
    t = tilt / math.sqrt(middle)
    exponent = float(_arccosh_exp(np.array(t * t * precision / 2 + surprise)))
    return cells / (t * precision) * exponent


def _arccosh_exp(x: np.ndarray) -> np.ndarray:
    """Return ``arccosh(exp(x))``, also where the exponential is too large."""
    found: np.ndarray = x + np.log1p(np.sqrt(-np.expm1(-2 * x)))
    return found
