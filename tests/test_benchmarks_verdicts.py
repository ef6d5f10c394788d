"""Splits and losses of the benchmark that compares verdicts with uses of a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.verdicts import Table, losses, split


def rows(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hour, x = rng.integers(0, 24, 4000), rng.normal(size=4000)
    return pd.DataFrame({"hour": hour, "x": x, "warm": 10 * (hour == 15) + x})


TABLE = Table(rows(0), "x", {"warm": ("x",)}, daily=("warm", "hour"))


@pytest.mark.parametrize(("moved", "share"), [(False, 0.5), (True, 0.72)])
def test_rows_above_a_median_are_more_often_public_where_it_moved(
    moved: bool, share: float
) -> None:
    private, public = split(TABLE, moved, seed=1)

    assert len(private) + len(public) == 4000
    assert len(public) == 800
    assert (public["x"] > TABLE.rows["x"].median()).mean() == pytest.approx(share, abs=0.05)


def test_a_loss_is_the_distance_of_a_result_from_the_private_one() -> None:
    made = losses(TABLE, TABLE.rows)
    flat = TABLE.rows.assign(warm=TABLE.rows["x"])

    assert all(loss(TABLE.rows) == 0.0 for loss in made.values())
    assert made["daily curve"](flat) == pytest.approx(10.0, abs=0.5)
    # In standard units of the private table the slope stays, and a turned one is twice as far.
    assert made["coefficients"](flat) < 0.05
    turned = TABLE.rows.assign(warm=-TABLE.rows["warm"])
    slope = TABLE.rows["x"].std() / TABLE.rows["warm"].std()
    assert made["coefficients"](turned) == pytest.approx(2 * slope, rel=0.1)
