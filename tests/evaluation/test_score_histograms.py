"""Histograms of scores: one cell a record, and the area that follows with its interval."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation.score_histograms import (
    BINS,
    CELLS,
    Scorer,
    area,
    histograms,
    predicted_value,
    scored,
)
from jam_dagster.tables import Domain, EncodedTable, PublicTables

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "x": {"values": [*range(12)]},
            "ill": {"values": ["no", "yes"], "nullable": True},
        }
    }
)


def patients(records: int, seed: int, rising: bool = True) -> EncodedTable:
    """Return people who are ill the more often, the higher x is (or the lower)."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 12, records)
    chance = (x if rising else 11 - x) / 14
    return EncodedTable(DOMAIN, (x, (rng.random(records) < chance).astype(int)))


def test_a_record_is_in_one_cell_of_a_histogram() -> None:
    private, public = patients(500, 0), patients(300, 1)
    found = Scorer.of(public, "ill", 1, public).histogram(private)

    assert found.shape == (CELLS,)
    assert found.sum() == 500
    ill = private.column("ill") == 1
    assert found[BINS:].sum() == ill.sum()
    # Replacing one record moves one from a cell to another.
    other = EncodedTable(DOMAIN, tuple(np.r_[0, one[1:]] for one in private.columns))
    moved = Scorer.of(public, "ill", 1, public).histogram(other) - found
    assert np.abs(moved).sum() in (0.0, 2.0)


def test_the_tables_come_one_after_another_and_those_without_rows_are_left_out() -> None:
    private, rows, wrong = patients(2000, 0), patients(500, 1), patients(500, 2, rising=False)
    tables = {"synthetic": rows, "public": wrong}
    found = histograms(private, tables, ["ill"]).reshape(2, CELLS) / 2000
    ours, theirs = (area(one.tolist(), 1e-6) for one in found)

    assert ours is not None
    assert theirs is not None
    assert ours.area == pytest.approx(0.8, abs=0.05)
    assert theirs.area == pytest.approx(1 - ours.area, abs=0.05)
    several = PublicTables(DOMAIN, {"one": rows})
    assert scored({"synthetic": rows, "public": several}, ["ill"]) == ["synthetic"]
    assert scored(tables, []) == []


def test_the_predicted_value_is_the_rarer_one_and_not_a_missing_one() -> None:
    ill = np.array([0] * 5 + [1] * 3 + [2] * 9)
    assert predicted_value(EncodedTable(DOMAIN, (np.zeros(17, int), ill)), "ill") == 1


def test_an_area_is_within_its_margin_at_the_stated_level() -> None:
    """95% of 600 noisy histograms are: bounds at 6 standard deviations, p < 1e-8."""
    private, rows = patients(4000, 0), patients(1000, 1)
    shares = histograms(private, {"synthetic": rows}, ["ill"]) / 4000
    truth = area(shares.tolist(), 1e-9)
    assert truth is not None
    rng, sigma = np.random.default_rng(2), 0.004
    drawn = [area((shares + rng.normal(0, sigma, CELLS)).tolist(), sigma) for _ in range(600)]
    within = [one is not None and abs(one.area - truth.area) <= one.margin for one in drawn]

    assert sum(within) == pytest.approx(570, abs=6 * np.sqrt(600 * 0.05 * 0.95) + 12)


def test_noise_that_hides_a_class_hides_the_area() -> None:
    shares = [0.1] * BINS + [0.001] * BINS
    assert area(shares, 0.01) is None
    assert area(shares, 1e-5) is not None
