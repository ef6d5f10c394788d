"""Shapes of columns and trends of pairs, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation.quality import (
    CountNoise,
    columns_and_pairs,
    measured_quality,
    quality_of,
)
from jam_dagster.tables import Domain, EncodedTable
from tests.evaluation.conftest import RECORDS, measured_round, transcript_of
from tests.tiers import slow

DOMAIN = Domain.from_sizes({"a": 2, "b": 2, "c": 3})


def test_pairs_that_are_too_large_are_left_out() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 1_000, "c": 1_001})
    assert columns_and_pairs(domain) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c")]


def test_similarity_is_one_less_half_the_error() -> None:
    text = quality_of({("a",): 0.1, ("b",): 0.3, ("a", "b"): 0.5}, 3).statistics
    assert text == (
        "Exactly, the mean column shape is 90.0% (columns: 2 of 3)."
        " The weakest column is b with 85.0%."
        " Exactly, the mean trend of pairs is 75.0% (pairs: 1 of 3)."
        " The weakest pair is a with b: it has 75.0%."
    )


def test_the_weakest_column_is_not_the_noisiest_one() -> None:
    scale = np.sqrt(2 / np.pi)
    noise = {("a",): CountNoise(0.01 / scale, 10), ("b",): CountNoise(0.002 / scale, 10)}
    text = quality_of({("a",): 0.12, ("b",): 0.06}, 2, noise).statistics
    assert "weakest column is b with 97.0%, and the true table has about 99.0% there." in text
    assert "weakest" not in quality_of({("a",): 0.12, ("b",): 0.021}, 2, noise).statistics


@pytest.mark.parametrize("cells", [2, *slow(10, 100)])
def test_noise_names_no_weakest_column(cells: int) -> None:
    """In 2,000 true tables of 20 columns at most 5% have one: 2.5% is more than 5 deviations off.

    Bounds at level .05 leave room: a chance below 5% is found above 7.5% with p < 1e-6.
    """
    rng = np.random.default_rng(7)
    noise = CountNoise(0.01, cells)
    apart = np.abs(0.01 * rng.standard_normal((2_000, 20, cells))).sum(axis=2).max(axis=1)
    named = np.mean(apart > noise.most(0.05 / 20))
    assert named < 0.075
    # And the bound is no idle one: four in ten are named at a level of one.
    assert np.mean(apart > noise.mean) > 0.4


def test_what_was_measured_is_compared_and_noise_is_told() -> None:
    n, sigma = RECORDS, 0.01 * RECORDS
    counts = np.array([[0.4, 0.1], [0.3, 0.2]]) * n
    transcript = transcript_of(DOMAIN, [measured_round(0, ("a", "b"), "private", counts, sigma)])
    # Two equal columns: far from what was counted.
    half = np.repeat([0, 1], 50)
    table = EncodedTable(DOMAIN, [half, half, np.zeros(100, int)])
    quality = measured_quality(transcript, table)
    assert quality is not None
    text = quality.statistics
    assert quality.note == (
        "The column b and the pair a with b differ most from their counts,"
        " by more than noise explains."
    )
    # Halves against .5 .5 and .7 .3, and the diagonal of .5 .5 against .4 .1 .3 .2.
    released = transcript.measurements[0].values / n
    shapes = [abs(released.sum(axis=axis) - 0.5).sum() / 2 for axis in (0, 1)]
    trend = abs(released - np.diag([0.5, 0.5])).sum() / 2
    assert f"column shape is {1 - np.mean(shapes):.1%} (columns: 2 of 3)" in text
    assert f"trend of pairs is {1 - trend:.1%} (pairs: 1 of 3)" in text
    # Four cells of noise .01 n, and two of .01 sqrt 2 n.
    left = [
        1 - cells * 0.01 * spread * np.sqrt(2 / np.pi) / 2
        for cells, spread in ((2, 2**0.5), (4, 1))
    ]
    for about in left:
        assert f"the true table has about {about:.1%} against counts so noisy." in text
    assert text.endswith(
        f"The weakest pair is a with b: it has {1 - trend:.1%}, and the true table has about"
        f" {left[1]:.1%} there."
    )


def test_nothing_measured_or_hidden_by_noise_is_nothing_told() -> None:
    table = EncodedTable(DOMAIN, [np.zeros(3, int)] * 3)
    assert measured_quality(transcript_of(DOMAIN, []), table) is None
    noisy = measured_round(0, ("a",), "private", np.array([0.5, 0.5]) * RECORDS, RECORDS)
    assert measured_quality(transcript_of(DOMAIN, [noisy]), table) is None


def test_the_note_names_what_the_statistics_call_weakest() -> None:
    counts = np.array([[0.5, 0.0], [0.0, 0.5]]) * RECORDS
    transcript = transcript_of(DOMAIN, [measured_round(0, ("a", "b"), "private", counts, 1.0)])
    half = np.repeat([0, 1], 50)
    like = measured_quality(transcript, EncodedTable(DOMAIN, [half, half, np.zeros(100, int)]))
    assert like is not None
    assert like.note == (
        "No measured column or pair differs from its counts by more than noise explains."
    )
    other = EncodedTable(DOMAIN, [np.zeros(100, int), half, np.zeros(100, int)])
    unlike = measured_quality(transcript, other)
    assert unlike is not None
    assert unlike.note == (
        "The column a and the pair a with b differ most from their counts,"
        " by more than noise explains."
    )
    exactly = quality_of({("a",): 0.1, ("b",): 0.3, ("a", "b"): 0.5}, 2)
    assert exactly.note == "The column b and the pair a with b are furthest from the private table."
    assert "weakest column is b with 85.0%." in exactly.statistics
    equal = quality_of({("a",): 0.0}, 1)
    assert equal.note == "Every compared column and pair equals that of the private table."
