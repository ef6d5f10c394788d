"""A tight audit: worst-case neighbours, and the likelihood ratio of what their runs release.

Each run's transcript is replayed on both tables, which gives the exact probability of every
outcome under either. The mean logarithm of the ratio is the Kullback-Leibler divergence, which
rho-zCDP bounds by rho; a threshold on the ratio is the best attack there is, and its errors bound
epsilon from below whether or not the ratio was computed rightly. An audit that found nothing would
prove nothing, so each bound has a floor that it must reach.

Each bound holds with confidence 1 - 1e-6, and an audit has four: one on rho for each table, and two
on the rates of the attack. So a mechanism that keeps its claim is accused with a chance below 4e-6
by the choice of seeds; noise is seeded, so the tests always pass or always fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy

from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount, epsilon_from_rho
from jam_dagster.privacy.accounting import exponential_epsilon
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.battery.listening import Call, Listening
from tests.battery.mechanisms import CASES, SLOW_CASES, Audit, Case, marked

DOMAIN = Domain.from_sizes({"a": 2, "b": 2})
MISTAKE = 1e-6
DELTA = 0.01
RUNS, MORE_RUNS = 120, 2_000
# A fault that doubles what is told shows in few runs.
RUNS_OF_A_FAULT = 60

# The mechanisms whose choices and measurements are both audited always; of others one of the two.
BOTH = ("jam_pgm", "tilt", "aim")

AUDITED = [case for case in CASES if case.audits]


def test_every_mechanism_that_draws_is_audited() -> None:
    """The others leave nothing to audit."""
    audited = {case.make().name for case in AUDITED}
    silent = {case.make().name for case in CASES if case.draws == ()}
    assert audited | silent == MECHANISMS.keys()
    assert not audited & silent


audits = pytest.mark.parametrize(
    ("case", "audit"),
    [
        pytest.param(
            case,
            audit,
            id=f"{case.name}-{audit.name}",
            marks=() if case not in SLOW_CASES and audit is case.audits[0] else pytest.mark.slow,
        )
        for case in CASES
        for audit in case.audits
    ],
)


def table(joint: Any) -> EncodedTable:
    counts = np.array(joint)
    cells = np.repeat(np.arange(4), counts.ravel())
    return EncodedTable(DOMAIN, np.unravel_index(cells, counts.shape))


def run(case: Case, audit: Audit, joint: Any, noise: Listening) -> list[Call]:
    draws = Draws(noise, UnledgeredAccount(audit.rho))
    case.make(**audit.settings).run(
        table(joint), table(audit.public), Workload.all_k_way(DOMAIN, audit.degree), draws
    )
    return noise.calls


def log_likelihood(calls: list[Call], outcomes: list[Call]) -> float:
    """Return the log probability of outcomes, but for constants, where draws ask as in `calls`."""
    total = 0.0
    for asked, drawn in zip(calls, outcomes, strict=True):
        if drawn.kind == "select":
            logits = exponential_epsilon(drawn.rho) * asked.asked / (2 * drawn.reach)
            total += float(logits[drawn.answer] - np.logaddexp.reduce(logits))
        else:
            values, sigma = drawn.answer
            total -= float(((values - asked.asked) ** 2).sum()) / (2 * sigma**2)
    return total


def log_ratios(case: Case, audit: Audit, truth: int, runs: int) -> np.ndarray:
    """Return log P(transcript | table) / P(transcript | other) of runs on one of the two tables."""
    other = audit.neighbours[1 - truth]
    found = []
    for seed in range(runs):
        drawn = run(case, audit, audit.neighbours[truth], Listening(SeededNoise(2 * seed + truth)))
        answers = {call.step: call.answer for call in drawn}
        replayed = run(case, audit, other, Listening(SeededNoise(0), answers=answers))
        found.append(log_likelihood(drawn, drawn) - log_likelihood(replayed, drawn))
    return np.array(found)


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on what a mechanism really costs."""

    rho: float
    epsilon: float


def least_rho(ratios: Sequence[np.ndarray]) -> float:
    """Return a lower bound on rho from the log ratios of runs on either table."""
    z = scipy.stats.norm.isf(MISTAKE)
    return max(float(r.mean() - z * r.std(ddof=1) / math.sqrt(len(r))) for r in ratios)


def bounds(case: Case, audit: Audit, runs: int) -> Bounds:
    ratios = [log_ratios(case, audit, truth, runs) for truth in (0, 1)]
    # Runs on the first table are told from runs on the second by a large ratio.
    score = [ratios[0], -ratios[1]]
    half = runs // 2
    thresholds = np.quantile(np.concatenate([s[:half] for s in score]), np.linspace(0.02, 0.98, 49))
    best = max(thresholds, key=lambda t: _epsilon(*((s[:half] > t).sum() for s in score), half))
    rest = runs - half
    return Bounds(least_rho(ratios), _epsilon(*((s[half:] > best).sum() for s in score), rest))


def _epsilon(true: int, false: int, runs: int) -> float:
    """Return the epsilon that an attack with so many hits and false alarms proves."""
    detected = scipy.stats.beta.ppf(MISTAKE, true, runs - true + 1) if true else 0.0
    alarmed = scipy.stats.beta.isf(MISTAKE, false + 1, runs - false) if false < runs else 1.0
    proven = detected - DELTA
    return math.log(proven / alarmed) if proven > 0 else -math.inf


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "audit"),
    [
        pytest.param(
            case,
            audit,
            id=f"{case.name}-{audit.name}",
            marks=() if case.name in BOTH or audit is case.audits[0] else pytest.mark.gate,
        )
        for case in CASES
        for audit in case.audits
    ],
)
def test_a_few_runs(case: Case, audit: Audit) -> None:
    found = bounds(case, audit, RUNS)
    assert 0.1 * audit.tight < found.rho <= audit.rho
    assert found.epsilon <= epsilon_from_rho(audit.rho, DELTA)


@pytest.mark.gate
@pytest.mark.slow
@audits
def test_many_runs(case: Case, audit: Audit) -> None:
    """2 x 2,000 runs: below the claim, and close enough to it to have noticed a fault."""
    found = bounds(case, audit, MORE_RUNS)
    assert 0.75 * audit.tight < found.rho <= audit.rho
    assert 0.3 * math.sqrt(2 * audit.rho) < found.epsilon <= epsilon_from_rho(audit.rho, DELTA)


def is_noticed(case: Case, audit: Audit) -> bool:
    """Whether a run tells more than it pays for, on one of the tables at least."""
    ratios = (log_ratios(case, audit, truth, RUNS_OF_A_FAULT) for truth in (0, 1))
    return any(least_rho([found]) > audit.rho for found in ratios)


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(case for case in AUDITED if case.score))
def test_halved_score_sensitivity_is_noticed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert case.score is not None
    stated = vars(Neighbours)[case.score].fget
    monkeypatch.setattr(Neighbours, case.score, property(lambda self: stated(self) / 2))
    assert any(is_noticed(case, audit) for audit in case.audits)


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(AUDITED))
def test_halved_marginal_sensitivity_is_noticed(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = vars(Neighbours)[case.measured].fget
    monkeypatch.setattr(Neighbours, case.measured, property(lambda self: stated(self) / 2))
    # The audits of what is chosen come first.
    assert any(is_noticed(case, audit) for audit in reversed(case.audits))
