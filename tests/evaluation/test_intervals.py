"""Counts by a condition: by hand, and how often their intervals hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.evaluation.bounds.table import ErrorBound, ErrorBounds
from jam_dagster.evaluation.intervals import Answer, answer
from jam_dagster.mechanisms import FittedModel, Transcript
from jam_dagster.models.graphical.model import Where
from jam_dagster.privacy import Neighbours
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS, NoiseCall
from jam_dagster.privacy.noise.seeded import discrete_gaussian
from jam_dagster.tables import Clique, Domain, ImpossibleCombination
from tests.evaluation.conftest import measured_round, transcript_of
from tests.tiers import slow

N = 4000
Z = 1.959964
TRUE = np.array([[1000.0, 500, 300], [700, 900, 600]])
DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 4})
A0: Where = {"a": 0}


def measured(*made: tuple[Clique, np.ndarray, float], domain: Domain = DOMAIN) -> Transcript:
    """Return a transcript with these noisy counts."""
    rounds = []
    for index, (clique, counts, sigma) in enumerate(made):
        done = measured_round(index, clique, "private", counts, sigma)
        assert done.measurement is not None
        rounds.append(replace(done, measurement=replace(done.measurement, values=counts)))
    return transcript_of(domain, rounds)


def private_n(transcript: Transcript, sigma: float = 20.0) -> Transcript:
    """Return the transcript as if records came and went, and n were measured."""
    call = NoiseCall("records", COUNTS, 0.001, 1.0, sigma, 1, subject=RECORDS)
    return replace(transcript, neighbours=Neighbours("add_remove"), calls=(call,))


def asked(
    where: Where,
    transcript: Transcript,
    *,
    domain: Domain = DOMAIN,
    bounds: Callable[[], ErrorBounds | None] = lambda: None,
    population: bool = False,
) -> Answer:
    model = FittedModel.uniform(domain, float(transcript.records))
    return answer(where, transcript, domain, model, bounds, population=population)


def test_a_public_number_of_records_takes_part_of_the_noise_away() -> None:
    noisy = TRUE + np.array([[3.0, -1, 4], [1, -5, 9]])
    found = asked(A0, measured((("a", "b"), noisy, 10.0)))
    # All cells together are 11 too many; half of it is taken from 3 of 6 cells.
    half = Z * 10.0 * math.sqrt(3 * 3 / 6) + 0.5
    assert found.estimate == pytest.approx(1806 - 5.5)
    assert found.low == math.ceil(1800.5 - half)
    assert found.high == math.floor(1800.5 + half)
    assert found.basis == "measured"


def test_a_private_number_of_records_takes_none() -> None:
    found = asked(A0, private_n(measured((("a", "b"), TRUE, 10.0))))
    half = Z * 10.0 * math.sqrt(3) + 0.5
    assert (found.low, found.high) == (math.ceil(1800 - half), math.floor(1800 + half))


def test_several_measurements_are_averaged_by_their_precision() -> None:
    single = np.array([1700.0, 2300])
    found = asked(A0, measured((("a", "b"), TRUE, 10.0), (("a",), single, 20.0)))
    # Variances 100 x 3 x 3 / 6 = 150, and 400 x 1 x 1 / 2 = 200.
    assert found.estimate == pytest.approx((1800 / 150 + 1700 / 200) / (1 / 150 + 1 / 200))
    assert found.high is not None
    deviation = (1 / (1 / 150 + 1 / 200)) ** 0.5
    assert found.high - found.estimate == pytest.approx(Z * deviation + 0.5, abs=1)
    assert "2 measurements" in str(found)


def test_impossible_cells_have_no_noise() -> None:
    impossible = ImpossibleCombination(("a", "b"), ((0,), (1, 2)))
    domain = Domain(DOMAIN.attributes, impossible=(impossible,))
    counts = np.array([[1000.0, 77, -88], [900, 1100, 1000]])
    found = asked(A0, measured((("a", "b"), counts, 10.0), domain=domain), domain=domain)
    half = Z * 10.0 * math.sqrt(1 * 3 / 4) + 0.5
    assert found.estimate == 1000
    assert (found.low, found.high) == (math.ceil(1000 - half), math.floor(1000 + half))
    nobody = asked(
        {"a": 0, "b": 2}, measured((("a", "b"), counts, 10.0), domain=domain), domain=domain
    )
    assert (nobody.low, nobody.estimate, nobody.high) == (0, 0, 0)


def test_all_records_are_known_or_have_the_noise_of_their_draw() -> None:
    known = asked({}, measured((("a", "b"), TRUE, 10.0)))
    assert (known.low, known.estimate, known.high) == (N, N, N)
    assert asked({}, measured((("a", "b"), TRUE / 3, 10.0)), population=True) == known
    # The sum of six cells has the variance 600, the draw 400.
    transcript = private_n(measured((("a", "b"), TRUE + 5, 10.0)))
    found = asked({}, transcript)
    assert asked({}, transcript, population=True) == found
    assert found.estimate == pytest.approx((4030 / 600 + 4000 / 400) / (1 / 600 + 1 / 400))
    assert found.high is not None
    assert found.high > N


def test_no_interval_leaves_the_numbers_that_there_can_be() -> None:
    counts = np.array([[-30.0, 2000], [1000, 1030]])
    domain = Domain.from_sizes({"a": 2, "b": 2})
    found = asked(
        {"a": 0, "b": 0}, measured((("a", "b"), counts, 1.0), domain=domain), domain=domain
    )
    assert (found.low, found.estimate, found.high) == (0, 0, 0)


def test_what_was_not_measured_has_no_interval() -> None:
    transcript = measured((("a",), np.array([1800.0, 2200]), 10.0))
    found = asked({"a": 0, "b": [0, 1]}, transcript)
    assert found == Answer(
        pytest.approx(N / 3),
        None,
        None,
        "model",
        "there is no interval: no private measurement covers these attributes",
    )
    assert str(found) == f"about 1,333; {found.how}"


def test_half_a_bound_on_a_marginal_bounds_a_sum_of_its_cells() -> None:
    bounds = ErrorBounds((ErrorBound(("a", "b"), "unsupported", 400.0, 1),), 0.95, N)
    transcript = measured((("a",), np.array([1800.0, 2200]), 10.0))
    where: Where = {"a": 0, "b": 0}
    found = asked(where, transcript, bounds=lambda: bounds)
    assert found.basis == "bound"
    assert (found.low, found.high) == (pytest.approx(N / 6 - 200), pytest.approx(N / 6 + 200))
    other = asked(where, private_n(transcript), bounds=lambda: bounds)
    assert (other.low, other.high) == (pytest.approx(N / 6 - 400), pytest.approx(N / 6 + 400))
    # The bound is of the private table alone.
    assert asked(where, transcript, bounds=lambda: bounds, population=True).low is None


def test_rows_of_one_person_are_no_sample() -> None:
    transcript = private_n(measured((("a", "b"), TRUE, 10.0)))
    transcript = replace(transcript, neighbours=Neighbours("add_remove", 3))
    assert asked(A0, transcript).low is not None
    found = asked(A0, transcript, population=True)
    assert found.low is None
    assert "rows of one person" in str(found)


def test_unknown_conditions_are_refused() -> None:
    with pytest.raises(InputError, match="no attribute 'd'"):
        asked({"d": 0}, measured((("a", "b"), TRUE, 10.0)))


@pytest.mark.parametrize("sigma", [0.4, *slow(12.0)])
@pytest.mark.parametrize("public", [True, *slow(False)])
def test_intervals_hold_as_often_as_they_say(sigma: float, public: bool) -> None:
    """1,000 tables at 95%: below 91% has probability 1e-7, and half of the noise gives 67%.

    Noise of 0.4 is mostly 0, and intervals of whole numbers hold more often.
    """
    rng, held = np.random.default_rng(5), 0
    for _ in range(1000):
        noise = discrete_gaussian(rng, sigma, TRUE.size).reshape(TRUE.shape)
        transcript = measured((("a", "b"), TRUE + noise, sigma))
        found = asked(A0, transcript if public else private_n(transcript))
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1800 <= found.high
    assert held >= 910
    if sigma > 1:
        # The half record makes 95.3% of 95%; more than 98.5% have probability 1e-8.
        assert held <= 985


@pytest.mark.parametrize("of_records", [*slow(0.0), 30.0])
def test_intervals_of_the_population_hold_as_often_as_they_say(of_records: float) -> None:
    """1,000 samples at 95%: above 98% has probability 3e-7; without the sampling 42% would."""
    rng, held, share = np.random.default_rng(6), 0, 0.3
    for _ in range(1000):
        sample = rng.multinomial(N, [share, 1 - share]).astype(float)
        noise = discrete_gaussian(rng, 12.0, 2)
        transcript = measured((("a",), sample + noise, 12.0))
        if of_records:
            records = N + int(discrete_gaussian(rng, of_records, 1)[0])
            transcript = replace(private_n(transcript, of_records), records=records)
        found = asked(A0, transcript, population=True)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= transcript.records * share <= found.high
    assert 910 <= held <= 980
