"""What a trial measures next to the workload's errors: what a user does with the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.trials.runs import (
    PRIOR_ROWS,
    PUBLIC_TABLE,
    SAMPLING_FLOOR,
    TRUE_ONE_WAYS,
    Run,
)
from jam_dagster.trials.splits import Split
from jam_dagster.trials.trial import run_trial

DOMAIN = Domain.from_sizes({"a": 2, "b": 2, "c": 3})


def table(rows: int, seed: int, *, alike: float) -> EncodedTable:
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 2, rows), rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < alike, a, 1 - a)
    return EncodedTable(DOMAIN, (a, b, c))


# The public table has the opposite of a relation that private and held-out rows have.
SPLIT = Split(
    "made",
    table(600, 0, alike=0.9),
    table(200, 1, alike=0.1),
    target="b",
    test=table(400, 2, alike=0.9),
)


def measured(name: str, split: Split = SPLIT, **given: float) -> dict[str, float]:
    return run_trial(Run("made", name, seed=0, degree=2, **given), split)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_learns_the_relation_predicts_held_out_rows() -> None:
    pytest.importorskip("sklearn")
    floor, public, prior = (measured(name) for name in (SAMPLING_FLOOR, PUBLIC_TABLE, PRIOR_ROWS))
    released = measured("independent", epsilon=1.0)

    assert {row["tested_on"] for row in (floor, public, prior, released)} == {"held-out rows"}
    assert floor["tstr_auc"] == pytest.approx(0.9, abs=0.04)
    assert all(row["tstr_auc"] < 0.2 for row in (public, prior))
    assert 0 <= released["tstr_auc"] <= 1
    for name in ("pairs8", "association", "correlation"):
        assert 0 <= floor[name] < public[name]


def test_without_held_out_rows_private_ones_are_the_test() -> None:
    pytest.importorskip("sklearn")
    row = measured(SAMPLING_FLOOR, replace(SPLIT, test=None))
    assert row["tested_on"] == "private rows"
    assert row["tstr_auc"] == pytest.approx(0.9, abs=0.04)


def test_nothing_is_learnt_without_rows_a_target_or_a_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert measured(TRUE_ONE_WAYS)["tstr_auc"] is None
    assert measured(PUBLIC_TABLE, replace(SPLIT, target=None))["tstr_auc"] is None
    monkeypatch.setattr("jam_dagster.trials.trial.can_classify", lambda: False)
    row = measured(PUBLIC_TABLE)
    assert row["tstr_auc"] is None
    assert row["pairs8"] > 0
