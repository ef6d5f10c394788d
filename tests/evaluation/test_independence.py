"""The test of independence: its level, its power, and where there is no p-value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.evaluation.independence import IndependenceTest, independence_test
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import Neighbours
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS, NoiseCall
from jam_dagster.privacy.noise.seeded import discrete_gaussian
from jam_dagster.tables import Domain, ImpossibleCombination
from tests.evaluation.conftest import measured_round, transcript_of
from tests.tiers import slow

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 4})
N = 500


def of(counts: np.ndarray, sigma: float, domain: Domain = DOMAIN) -> Transcript:
    """Return a transcript with these noisy counts of a and b."""
    done = measured_round(0, ("a", "b"), "private", counts, sigma)
    assert done.measurement is not None
    done = replace(done, measurement=replace(done.measurement, values=counts))
    return replace(transcript_of(domain, [done]), records=N)


def sampled(shares: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    table: np.ndarray = rng.multinomial(N, shares.ravel()).reshape(shares.shape)
    return table + discrete_gaussian(rng, sigma, table.size).reshape(table.shape)


@pytest.mark.parametrize("sigma", [*slow(0.4), 3.0, *slow(15.0)])
def test_what_is_independent_is_rejected_as_often_as_the_level(sigma: float) -> None:
    """200 tables at 5%: more than 29 have probability 1e-7. Ignoring noise of 15 rejects 74%."""
    rng = np.random.default_rng(1)
    shares = np.outer([0.3, 0.7], [0.2, 0.3, 0.5])
    found = [
        independence_test(of(sampled(shares, sigma, rng), sigma), DOMAIN, "b", "a")
        for _ in range(200)
    ]
    rejections = sum(one.p_value is not None and one.p_value <= 0.05 for one in found)
    assert rejections <= 29


def with_measured_records(made: Transcript, records: int, sigma: float) -> Transcript:
    """Return a transcript as if n had been measured with noise, and was `records`."""
    call = NoiseCall("records", COUNTS, 0.001, 1.0, sigma, 1, subject=RECORDS)
    return replace(made, neighbours=Neighbours("add_remove"), calls=(call,), records=records)


@pytest.mark.slow
@pytest.mark.parametrize("of_records", [7.0, *slow(50.0)])
def test_the_noise_of_a_private_number_of_records_rejects_nothing(of_records: float) -> None:
    """As above; taking n as measured for the true one rejects 30% if its noise is 50."""
    rng = np.random.default_rng(4)
    shares = np.outer([0.4, 0.6], [0.2, 0.3, 0.5])
    rejections = 0
    for _ in range(200):
        made = of(sampled(shares, 7.0, rng), 7.0)
        records = max(1, N + int(discrete_gaussian(rng, of_records, 1)[0]))
        found = independence_test(
            with_measured_records(made, records, of_records), DOMAIN, "a", "b"
        )
        rejections += found.p_value is not None and found.p_value <= 0.05
    assert 1 <= rejections <= 29


def test_what_depends_is_rejected_with_a_private_number_of_records() -> None:
    rng = np.random.default_rng(2)
    made = of(sampled(np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]]), 5.0, rng), 5.0)
    for records in (N - 60, N + 60):
        found = independence_test(with_measured_records(made, records, 50.0), DOMAIN, "a", "b")
        assert found.p_value == 1 / 2000


def test_what_depends_is_rejected() -> None:
    rng = np.random.default_rng(2)
    shares = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])
    found = independence_test(of(sampled(shares, 5.0, rng), 5.0), DOMAIN, "a", "b")
    assert found.p_value == 1 / 2000
    assert str(found).startswith("p = 0.0005; from 1 measurement")


def test_counts_that_are_noise_alone_say_nothing() -> None:
    found = independence_test(of(np.full((2, 3), -50.0), 200.0), DOMAIN, "a", "b")
    assert found.p_value is not None
    assert found.p_value > 0.05


def test_without_an_honest_p_value_there_is_none() -> None:
    counts = np.full((2, 3), N / 6)
    rows = replace(of(counts, 5.0), neighbours=Neighbours("add_remove", 2))
    impossible = ImpossibleCombination(("a", "b"), ((0,), (2,)))
    tied = Domain(DOMAIN.attributes, impossible=(impossible,))
    found = [
        independence_test(of(counts, 5.0), DOMAIN, "a", "c"),
        independence_test(rows, DOMAIN, "a", "b"),
        independence_test(of(counts, 5.0, tied), tied, "a", "b"),
    ]
    assert [one.p_value for one in found] == [None] * 3
    words = ["no private measurement covers both", "rows of one person", "impossible"]
    assert all(word in str(one) for word, one in zip(words, found, strict=True))


def test_a_test_needs_two_attributes() -> None:
    with pytest.raises(InputError, match="two attributes"):
        independence_test(of(np.ones((2, 3)), 5.0), DOMAIN, "a", "a")
    with pytest.raises(InputError, match="no attribute 'd'"):
        independence_test(of(np.ones((2, 3)), 5.0), DOMAIN, "a", "d")


def test_the_same_release_gives_the_same_p_value() -> None:
    made = of(np.array([[60.0, 70, 80], [90, 100, 100]]), 5.0)
    first: IndependenceTest = independence_test(made, DOMAIN, "a", "b")
    assert first == independence_test(made, DOMAIN, "b", "a")
