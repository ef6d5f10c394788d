"""Public tables that are plain wrong, the measures of a table, and rows that are compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.relations import CODED, KEYS, WRONG, Cell, _values, means, of_all, ratios
from jam_dagster.tables import Domain, EncodedTable

SIZES = {"Pclass": 3, "Sex": 2, "Age": 9, "Fare": 8, "Survived": 3}
DOMAIN = Domain.from_sizes(SIZES)


def passengers(records: int = 3000) -> pd.DataFrame:
    """Return rows of which fares fall with the class, and older women survive."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame({name: rng.integers(0, size, records) for name, size in SIZES.items()})
    made["Fare"] = np.clip(6 - 2 * made["Pclass"] + rng.integers(0, 3, records), 0, 7)
    made["Survived"] = (made["Sex"] + made["Age"] / 9 + rng.random(records) > 1.5).astype(int)
    made.loc[made.index[::10], "Survived"] = 2
    return made


def cell_of(public: pd.DataFrame) -> Cell:
    private, known = (EncodedTable.from_frame(DOMAIN, one) for one in (passengers(), public))
    return Cell(CODED["titanic"], private, known, _values(private, 0))


def test_wrong_tables_keep_turn_or_lose_correlations() -> None:
    rows = passengers()
    made = {name: make(rows, SIZES, 0) for name, make in WRONG.items()}
    truth = rows.corr().to_numpy()
    signs = np.where(np.add.outer(range(5), range(5)) % 2, -1.0, 1.0)

    np.testing.assert_allclose(made["reversed"].corr(), truth, atol=1e-9)
    np.testing.assert_allclose(made["half reversed"].corr(), signs * truth, atol=1e-9)
    assert np.abs(made["shuffled"].corr().to_numpy() - np.eye(5)).max() < 0.1
    for name in rows:
        assert sorted(made["turned"][name]) == sorted(rows[name])
    fares = [one["Pclass"].corr(one["Fare"]) for one in (rows, made["turned"])]
    assert fares[1] == pytest.approx(-fares[0], abs=0.1)


@pytest.mark.slow  # It loads scikit-learn.
def test_a_table_has_no_error_of_its_own_and_a_turned_one_has_wrong_signs() -> None:
    pytest.importorskip("sklearn")
    cell = cell_of(WRONG["turned"](passengers(), SIZES, 0))
    right, wrong = (cell.measures(one, 0) for one in (cell.private, cell.public))

    zero = ("L1", "pairs", "correlations", "coefficients", "wrong signs")
    assert [right[name] for name in zero] == [0.0] * 5
    assert right["AUC"] > 0.8 > wrong["AUC"]
    assert wrong["wrong signs"] == 2
    assert wrong["correlations"] > 0.1


def test_rows_are_compared_over_the_seeds_that_both_have() -> None:
    def rows(errors: dict[int, float]) -> pd.DataFrame:
        same = {"table": "t", "public": "fair", "epsilon": 1.0, "stage": "rows"}
        return pd.DataFrame([{**same, "seed": seed, "L1": one} for seed, one in errors.items()])

    ours, before = rows({0: 1.0, 1: 3.0, 2: 50.0}), rows({0: 2.0, 1: 2.0, 7: 9.0})

    assert means(ours)["L1"].tolist() == [18.0]
    assert ratios(ours, before)["L1"].tolist() == [1.0]
    assert set(KEYS) <= set(ours)


def test_rows_of_a_run_that_tilted_nothing_are_those_without_the_tilt() -> None:
    columns = ["table", "public", "epsilon", "seed", "stage", "L1"]
    rows = pd.DataFrame(
        [
            ("a", "fair", 1.0, 0, "rows", 0.1),
            ("a", "fair", 1.0, 0, "rows without the tilt", 0.2),
            ("a", "fair", 1.0, 1, "rows", 0.4),
            ("a", "fair", None, 1, "public", 0.9),
        ],
        columns=columns,
    )
    found = means(of_all(rows))["L1"]
    assert found["a", "fair", 1.0, "rows"] == pytest.approx(0.25)
    assert found["a", "fair", 1.0, "rows without the tilt"] == pytest.approx(0.3)
    assert len(found) == 3
