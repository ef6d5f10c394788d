"""Purposes: their three forms, the pairs that they need, and the workload that serves them."""

from __future__ import annotations

from typing import Any

import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables import Domain, Workload
from jam_dagster.tables.codes.purpose import checked, pairs_of, regressions, targets

DOMAIN = Domain.from_sizes({"age": 3, "sex": 2, "income": 4, "hour": 5, "temp": 6})


def test_analyses_are_specified_in_one_spelling() -> None:
    given = [{"target": "income"}, {"regress": "income~ age+sex "}, {"pairs": [("hour", "temp")]}]
    made = checked(given)

    assert made == [
        {"target": "income"},
        {"regress": "income ~ age + sex"},
        {"pairs": [["hour", "temp"]]},
    ]
    assert checked(made) == made
    assert targets(made) == ("income",)
    assert regressions(made) == ("income ~ age + sex",)


@pytest.mark.parametrize(
    "purpose",
    [
        "target: income",
        [],
        ["income"],
        [{"target": 3}],
        [{"forget": "income"}],
        [{"target": "income", "pairs": []}],
        [{"regress": "income"}],
        [{"regress": "income ~ age + age"}],
        [{"regress": "~ age"}],
        [{"pairs": [["hour"]]}],
        [{"pairs": [["hour", "hour"]]}],
    ],
)
def test_other_forms_are_refused_with_those_that_there_are(purpose: Any) -> None:
    with pytest.raises(SpecificationError, match=r"COLUMN ~ COLUMN \+ COLUMN"):
        checked(purpose)


@pytest.mark.parametrize(
    ("analysis", "pairs"),
    [
        ({"target": "sex"}, [("age", "sex"), ("sex", "income"), ("sex", "hour"), ("sex", "temp")]),
        (
            {"regress": "temp ~ hour + age"},
            [("age", "hour"), ("age", "temp"), ("hour", "temp")],
        ),
        ({"pairs": [["temp", "hour"], ["age", "sex"]]}, [("age", "sex"), ("hour", "temp")]),
    ],
)
def test_each_analysis_needs_its_pairs(
    analysis: dict[str, Any], pairs: list[tuple[str, str]]
) -> None:
    assert list(pairs_of(DOMAIN, [analysis])) == pairs


def test_a_column_that_the_domain_lacks_is_named() -> None:
    with pytest.raises(InputError, match="purpose names 'wage'"):
        pairs_of(DOMAIN, [{"target": "wage"}])


def test_the_marginals_of_a_purpose_have_half_of_the_weight() -> None:
    given = {"degree": 3, "purpose": [{"pairs": [["hour", "temp"]]}]}
    made = Workload.specified(DOMAIN, given)

    assert made.cliques == Workload.all_k_way(DOMAIN, 3).cliques
    ours = [w for c, w in zip(made.cliques, made.weights, strict=True) if c[1:] == ("hour", "temp")]
    assert ours == [pytest.approx(7 / 3)] * 3
    assert sum(ours) == pytest.approx(sum(made.weights) / 2)
    assert made.purpose == (("hour", "temp"),)


def test_pairs_of_no_marginal_are_added_and_enough_weight_stays() -> None:
    single = {"cliques": [["age"], ["sex"]], "purpose": [{"pairs": [["hour", "temp"]]}]}
    made = Workload.specified(DOMAIN, single)

    assert made.cliques == (("age",), ("sex",), ("hour", "temp"))
    assert made.weights == (1.0, 1.0, 2.0)
    every = Workload.specified(DOMAIN, {"degree": 2, "purpose": [{"regress": "age ~ sex + hour"}]})
    assert every.weights.count(pytest.approx(7 / 3)) == 3
    most = {"degree": 4, "purpose": [{"target": "age"}]}
    assert set(Workload.specified(DOMAIN, most).weights) == {1.0}
