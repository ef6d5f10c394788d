"""The analyses of a purpose: train on synthetic, test on real, and regressions."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.evaluation import utility as module
from jam_dagster.evaluation.utility import (
    Classifier,
    Regression,
    TargetUtility,
    points_of,
    regression,
    target_utility,
    utility,
)
from jam_dagster.tables import Domain, EncodedTable, PublicTables
from jam_dagster.tables.codes.marginals import RecordsOnly

DOMAIN = Domain.from_sizes({"cause": 4, "effect": 4, "other": 3})
NUMBERS = Domain.from_dict(
    {
        "attributes": {
            "wage": {"bounds": [0, 1000], "bins": 100, "nullable": True},
            "age": {"bounds": [20, 60], "bins": 40, "integer": True},
            "sex": {"values": ["f", "m"]},
            "town": {"values": ["a", "b", "c"]},
            "rooms": {"values": [5, 1, 3]},
        }
    }
)


def table(seed: int, shift: int, records: int = 400) -> EncodedTable:
    """Return records whose effect is their cause plus a shift."""
    rng = np.random.default_rng(seed)
    cause, other = rng.integers(0, 4, records), rng.integers(0, 3, records)
    return EncodedTable(DOMAIN, (cause, (cause + shift) % 4, other))


def paid(slope: float, records: int = 2000) -> EncodedTable:
    """Return people whose wage is 100 and a slope times their age, and 50 more for a sex."""
    rng = np.random.default_rng(0)
    age, sex = rng.integers(20, 60, records), rng.integers(0, 2, records)
    wage = (10 + slope * age / 10 + 5 * sex).astype(int)
    wage[:50] = 100
    columns = (wage, age - 20, sex, rng.integers(0, 3, records), rng.integers(0, 3, records))
    return EncodedTable(NUMBERS, columns)


def test_what_holds_in_a_table_is_learnt_from_it() -> None:
    tables = {"synthetic": table(1, 1), "public": table(2, 2), "prior": table(3, 1)}
    found = target_utility(table(0, 1), tables, "effect")
    assert found is not None
    assert (found.scores["synthetic"].accuracy, found.scores["synthetic"].auc) == (1.0, 1.0)
    assert found.scores["private"].balanced == 1.0
    assert found.scores["prior"].auc == 1.0
    # Its rule is another one.
    assert found.scores["public"].accuracy == 0.0
    assert found.scores["public"].auc < 0.5
    assert found.scores["majority"].balanced == 0.25
    assert 0.15 < found.scores["majority"].accuracy < 0.35
    assert target_utility(table(0, 1), tables, "effect") == found


def test_a_table_of_one_value_predicts_it_and_several_public_ones_are_left_out() -> None:
    constant = EncodedTable(DOMAIN, tuple(np.full(5, 2) for _ in range(3)))
    several = PublicTables(DOMAIN, {"one": table(2, 2), "two": table(3, 2)})
    tables = {"synthetic": constant, "public": several}
    found = target_utility(table(0, 1), tables, "effect")
    assert found is not None
    assert (found.scores["synthetic"].balanced, found.scores["synthetic"].auc) == (0.25, 0.5)
    assert "public" not in found.scores
    assert target_utility(table(0, 1, records=1), tables, "effect") is None


def test_an_area_is_that_of_ranks_with_ties() -> None:
    """Against a count of all pairs."""
    rng = np.random.default_rng(0)
    truth, scores = rng.random(200) < 0.3, rng.integers(0, 9, 200) / 9
    pairs = scores[truth][:, None] - scores[~truth]
    wanted = ((pairs > 0) + 0.5 * (pairs == 0)).mean()

    assert module._area(truth, scores) == pytest.approx(wanted)


def test_a_value_that_no_training_row_has_is_never_predicted() -> None:
    few = table(1, 1).take(np.flatnonzero(table(1, 1).column("effect") != 3))
    chances = Classifier.of(few, "effect").chances(table(0, 1))

    assert (chances[:, 3] == 0.0).all()
    assert chances.sum(axis=1) == pytest.approx(1.0)


def test_a_regression_has_the_coefficients_of_the_cells_values() -> None:
    found = regression(paid(3.0), {"synthetic": paid(1.0)}, "wage ~ age + sex")

    assert found is not None
    assert found.predictors == ("age", "sex")
    # A code of the wage is ten; rows without a wage are left out.
    assert found.coefficients["private"] == pytest.approx((3.0, 50.0), rel=0.02)
    assert found.coefficients["synthetic"] == pytest.approx((1.0, 50.0), rel=0.1)
    assert regression(paid(3.0), {}, "wage ~ town") is None


def test_the_points_of_cells_are_numbers() -> None:
    points = {name: points_of(NUMBERS.attribute(name)) for name in NUMBERS.names}

    assert points["town"] is None
    assert points["wage"] is not None
    assert points["wage"][:2] == pytest.approx([5.0, 15.0], abs=0.01)
    assert np.isnan(points["wage"][-1])
    assert pd.Series(points["rooms"]).tolist() == [5.0, 1.0, 3.0]
    assert pd.Series(points["sex"]).tolist() == [0.0, 1.0]


def test_analyses_that_cannot_be_made_are_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    private, tables = paid(3.0), {"synthetic": paid(1.0)}
    asked = ("sex",), ("wage ~ age", "wage ~ town")
    made, fitted, left = utility(private, tables, *asked)
    assert [one.target for one in made] == ["sex"]
    assert [one.formula for one in fitted] == ["wage ~ age"]
    assert left == "a column of a regression has neither numbers nor two values"
    assert utility(RecordsOnly(NUMBERS, 3), tables, *asked)[2].endswith("are counted, not held")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert "jam-dagster[utility]" in utility(private, tables, *asked)[2]


def test_analyses_come_back_from_their_dictionaries() -> None:
    from dataclasses import asdict

    private, tables = paid(3.0), {"synthetic": paid(1.0)}
    (made,), (fitted,), _ = utility(private, tables, ("sex",), ("wage ~ age",))
    assert TargetUtility.from_dict(asdict(made)) == made
    assert Regression.from_dict(asdict(fitted)) == fitted
