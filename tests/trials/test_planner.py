"""A plan is made of the public table alone, and says what it measured and what it did not."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError, PrivateStepError, SpecificationError
from jam_dagster.mechanisms import FittedModel
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.privacy import Budget
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.tables import DemoSource, Domain, FrameSource, encode, health_survey_domain
from jam_dagster.trials import plan_words, planner
from jam_dagster.trials.plan_request import AROUND, NeverOpened, PlanRequest
from jam_dagster.trials.plan_words import simulated_in_words
from jam_dagster.trials.planner import prepare, simulate
from jam_dagster.trials.release_plan import Plan
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import RepeatedTable, Split
from jam_dagster.trials.trial import run_trial

PUBLIC = DemoSource(part="public", rows=400)
DOMAIN = health_survey_domain().project(["age", "sex", "education", "employment"])

SETTINGS = {"rounds": 3, "iterations": 20}


def request(**options: Any) -> PlanRequest:
    given: dict[str, Any] = {
        "public": PUBLIC,
        "domain": DOMAIN,
        "epsilon": 1.0,
        "mechanism": "jam_pgm",
        "settings": SETTINGS,
        "degree": 2,
        "records": 1000,
        "seeds": 2,
    }
    return PlanRequest.of(**(given | options))


def planned(asked: PlanRequest) -> Plan:
    return simulate(prepare(asked))


@pytest.fixture(scope="module")
def plan() -> Plan:
    asked = replace(request(epsilons=(0.5, 2.0), seconds=600.0), compare=True)
    return planned(asked)


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other mechanisms take time; they are in `plan`."""
    monkeypatch.setattr(planner, "compared", lambda: ())


# --- what a plan says


def test_candidates_are_the_closure_and_those_that_fit_alone(plan: Plan) -> None:
    domain = DOMAIN
    closure = [q for k in (1, 2) for q in combinations(domain.names, k)]
    # By the definition: the junction tree of the candidate and nothing else.
    limit = 80.0 / 3
    fits = sum(TractabilityFilter(domain, [q]).fitting([], limit) == [0] for q in closure)
    assert plan.size.candidates == len(closure)
    # The others are within pairs.
    pairs = [q for q in closure if len(q) == 2]
    assert plan.size.counted == len(pairs)
    assert plan.size.counted_cells == sum(map(domain.size, pairs))
    assert plan.size.workload == sum(len(q) == 2 for q in closure)
    assert (plan.size.fit_first, plan.size.first_limit_mb) == (fits, pytest.approx(limit))
    assert plan.size.last_limit_mb == 80.0


def test_a_tight_limit_lets_fewer_candidates_in_at_first() -> None:
    empty = FittedModel.uniform(DOMAIN, 1.0).size_mb

    size = planned(
        request(settings=SETTINGS | {"size_limit_mb": 6 * empty}, epsilons=(1.0,), seeds=1)
    ).size

    assert 0 < size.fit_first < size.fit_last <= size.candidates
    assert empty < size.largest_model_mb <= size.last_limit_mb


def test_sigma_is_that_of_an_even_share(plan: Plan) -> None:
    rho = 0.95 * Budget(1.0, 1e-9).rho
    # Replace-one: sigma^2 = 1 / rho of the measurement.
    assert plan.noise.sigma == pytest.approx((0.8 * rho / 3) ** -0.5, rel=1e-6)
    assert plan.noise.measured is not None
    # Frugal rounds leave more to later ones, never less.
    assert plan.noise.measured[2] <= plan.noise.sigma * (1 + 1e-9)


def test_a_private_number_of_rows_costs_noise() -> None:
    public, private = (
        planned(request(epsilons=(1.0,), seeds=1, **options)).noise.sigma
        for options in ({}, {"neighbours": "add_remove"})
    )
    # An L2 sensitivity of 1 in place of sqrt 2, and 95% of the budget.
    assert private == pytest.approx(public * (0.5 / 0.95) ** 0.5, rel=1e-6)


def test_the_curve_has_what_was_asked_for_in_its_order(plan: Plan) -> None:
    assert [point["epsilon"] for point in plan.curve] == [0.5, 1.0, 2.0]
    assert plan.asked["epsilon"] == 1.0
    for point in plan.curve:
        assert point["runs"] == 2
        assert 0 < point["error"] < 2
        assert point["error_se"] is not None
        assert point["gain"] == pytest.approx(point["public_error"] - point["error"])
        assert point["private_picks"] + point["public_picks"] == 3
    # The halves are the same at every epsilon: so is what they are without a synthetic table.
    assert len({point["public_error"] for point in plan.curve}) == 1


def test_a_plan_errs_as_the_benchmark_does() -> None:
    """On one split with one seed; the synthetic rows of the domain are repaired."""
    number = {"bounds": [0, 9], "integer": True, "bins": 5}
    attributes = {"low": number, "high": number, "kind": {"values": ["x", "y"]}}
    domain = Domain.from_dict({"attributes": attributes, "repairs": ["low <= high"]})
    rng = np.random.default_rng(5)
    low = rng.integers(0, 10, 300)
    frame = pd.DataFrame({"low": low, "high": np.maximum(low, rng.integers(0, 10, 300))})
    frame["kind"] = rng.choice(["x", "y"], 300)
    public = FrameSource(frame, "survey")
    split = Split.halves(encode(frame, domain, private=False), 150, 0)
    assert isinstance(split.private, RepeatedTable)
    files = Split("s", split.private.table, split.public)
    for mechanism, settings in (("independent", {}), ("jam_pgm", SETTINGS)):
        about = {"mechanism": mechanism, "settings": settings, "evaluation_mode": "off", "seeds": 1}
        tables = {"public": public, "domain": domain, "records": 150}
        (planned_row,) = planned(request(**about, **tables)).rows

        run = Run("s", mechanism, tuple(settings.items()), epsilon=1.0, seed=0, degree=2)
        row = run_trial(run, files)

        own = {"split", "split_of", "label", "key", "date", "peak_memory_mb", "settings"}
        # Shares are rounded to units.
        own |= {"rho_budget"}
        same = {name for name in row if name not in own and "seconds" not in name}
        assert {name: planned_row[name] for name in same} == {name: row[name] for name in same}
        assert row["searched_error_mean"] > 0


@pytest.mark.slow
def test_much_budget_brings_less_error_than_hardly_any() -> None:
    made = planned(
        request(epsilon=20.0, epsilons=(0.02,), settings=SETTINGS | {"rounds": 6}, seconds=600.0)
    )
    assert made.curve[-1]["error"] < 0.8 * made.curve[0]["error"]


def test_a_curve_tries_epsilons_around_the_asked_one() -> None:
    assert request(epsilon=2.0).tried == (2.0,)
    assert request(epsilon=2.0, curve=True).tried == tuple(2.0 * factor for factor in AROUND)


def test_other_mechanisms_are_tried_once(plan: Plan) -> None:
    without = "TILT without public data"
    assert set(plan.mechanisms) == {"tilt", without, "jam_pgm", "aim"}
    assert json.loads(plan.mechanisms[without]["parameters"])["prior"] == "uniform"
    asked = {name: plan.mechanisms["jam_pgm"][name] for name in ("epsilon", "seed")}
    assert asked == {"epsilon": 1.0, "seed": 0}
    # On the same halves.
    assert len({one["fingerprint"] for one in plan.mechanisms.values()}) == 1
    assert f"than about {plan.asked['error']:.3f}" in plan.break_even
    assert plan.to_dict()["simulation"]["break_even"] == {
        "distance": plan.asked["error"],
        "halves_apart": plan.asked["public_error"],
        "text": plan.break_even,
    }


def test_a_release_that_begins_uniform_is_one_of_its_own() -> None:
    settings = {"prior": "uniform", "iterations": 20}
    asked = request(mechanism="tilt", settings=settings, seeds=1, epsilons=(1.0,))
    made = planned(asked)
    assert made.known.described == (
        "TILT without public data (size_limit_mb = 40.0, iterations = 20, prior = uniform)"
    )
    assert [one["label"] for one in made.curve] == ["TILT without public data"]


def test_what_each_budget_buys_is_said_next_to_rows_that_cost_nothing(plan: Plan) -> None:
    assert set(plan.prior_errors) == set(plan.public_errors)
    for point in plan.curve:
        assert point["bought"] == pytest.approx(point["prior_error"] - point["error"])
        assert f"epsilon {point['epsilon']:g} buys {point['bought']:.3f}" in plan.bought
    # A budget changes nothing in rows that follow from public data.
    assert len({round(point["prior_error"], 12) for point in plan.curve}) == 1
    curve = plan.to_dict()["simulation"]["curve"]
    assert [one["bought"]["mean"] for one in curve] == [one["bought"] for one in plan.curve]


def test_no_trial_after_the_first_starts_that_would_end_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner, "compared", lambda: [MechanismSpec("public_prior")])
    made = planned(request(epsilons=(2.0,), seconds=0.0))
    # Of the mechanism that is named alone, no other is tried.
    assert list(made.mechanisms) == ["jam_pgm"]
    assert [point["runs"] for point in made.curve] == [1]
    free = "public prior, which is free"
    late = ("epsilon 1 with seed 1", "epsilon 2 with seed 0", "epsilon 2 with seed 1")
    assert made.not_tried == (free, late[0], f"{free} with seed 1", *late[1:])
    assert made.bought == ""
    assert made.to_dict()["simulation"]["seconds_allowed"] == 0.0


def test_the_columns_that_cost_most_are_named(plan: Plan) -> None:
    sizes = DOMAIN.sizes
    cells = sum(sizes[a] * sizes[b] for a, b in combinations(sizes, 2))
    largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:3]
    assert [one.name for one in plan.size.costly] == largest
    first = plan.size.costly[0]
    others = sum(size for name, size in sizes.items() if name != first.name)
    assert first.share == pytest.approx(first.values * others / cells)


@pytest.mark.gate
def test_the_same_plan_comes_out_again(plan: Plan) -> None:
    again = planned(request(epsilons=(0.5, 2.0)))
    curve = plan.to_dict()["simulation"]["curve"]
    assert again.to_dict()["simulation"]["curve"] == curve


@pytest.mark.slow
def test_time_and_memory_grow_with_the_records_that_are_extrapolated_to(plan: Plan) -> None:
    cost = plan.cost
    assert (cost.records, cost.public_records) == (1000, 400)
    both = 1400
    assert cost.counted == both
    assert cost.expected_seconds["count"] >= cost.measured_seconds["count"]
    assert cost.expected_seconds["encode"] == pytest.approx(
        cost.measured_seconds["encode"] * both / 400
    )
    assert cost.expected_seconds["mechanism"] == pytest.approx(
        cost.measured_seconds["mechanism"] - cost.measured_seconds["count"]
    )
    more = planned(request(epsilons=(1.0,), seeds=1, records=2000)).cost
    assert more.private_table_mb == pytest.approx(2 * cost.private_table_mb)


def test_counting_more_records_is_expected_to_take_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planner, "MOST_COUNTED", 100_000)
    monkeypatch.setattr(planner, "MOST_UNREHEARSED", 10**9)
    made = planned(request(epsilons=(1.0,), seeds=1, records=100_000_000))
    cost = made.cost
    assert (cost.counted, cost.records) == (100_000, 100_000_000)
    # Private and synthetic counts are kept, 4 bytes each; codes of so many may stay in files.
    sizes = DOMAIN.sizes
    cells = sum(sizes[a] * sizes[b] for a, b in combinations(sizes, 2))
    assert cost.counts_mb == pytest.approx(8 * cells / 2**20)
    assert cost.memory_mb == pytest.approx(cost.in_files_mb + cost.private_table_mb)
    monkeypatch.setattr(plan_words, "ENCODED_BYTES", 10_000)
    assert "if it is in Parquet files" in simulated_in_words(made)["Memory"]


@pytest.mark.parametrize("kept", [True, False])
def test_counts_that_are_not_kept_are_made_in_each_round_again(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MOST_UNREHEARSED", 10**9)
    monkeypatch.setattr(planner, "can_be_kept", lambda domain, cliques: kept)
    asked: list[int] = []

    def counting_seconds(table: object, cliques: object, number: int) -> float:
        asked.append(number)
        return number / 1e12

    monkeypatch.setattr(planner, "counting_seconds", counting_seconds)
    cost = planned(request(epsilons=(1.0,), seeds=1, records=100_000_000)).cost
    times = cost.expected_seconds["count"] / cost.measured_seconds["count"]
    both = cost.records + cost.public_records
    # One pass over all takes less than what was measured.
    assert times < 2.0 if kept else times == pytest.approx(both / min(asked))


def test_an_unknown_number_of_records_is_assumed_and_said() -> None:
    made = planned(request(records=None, epsilons=(1.0,), seeds=1))
    assert (made.known.records, made.known.records_assumed) == (400, True)
    assert any("assumed" in note and "--records" in note for note in made.known.notes)


def test_what_the_configuration_deserves_is_warned_of() -> None:
    made = planned(request(epsilon=21.0, delta=1e-3, epsilons=(21.0,), seeds=1))
    assert len(made.known.warnings) == 2
    assert "is not below 1 / n" in made.known.warnings[0]


def test_an_epsilon_too_small_to_try_is_told() -> None:
    made = planned(request(epsilons=(1e-7,), seeds=1))
    assert [point["epsilon"] for point in made.curve] == [1.0]
    assert any("not tried: epsilon 1e-07" in note for note in made.known.notes)


# --- what it refuses


def test_there_is_no_private_table_to_open() -> None:
    with pytest.raises(PrivateStepError):
        NeverOpened().read(private=True)
    assert request().spec.private == NeverOpened()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"public": None}, "learns from a public table"),
        ({"epsilon": None}, "--epsilon"),
        ({"records": 0}, "records must be at least 1"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"seconds": -1.0}, "seconds must be at least 0"),
        ({"epsilons": (-1.0,)}, "epsilon"),
        ({"settings": {"rounds": 0}}, "rounds must be a whole number, at least 1"),
        ({"max_rows": 2}, "--privacy-unit"),
        ({"noise": "loud"}, "noise must be one of"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(SpecificationError, match=expected):
        request(**options)


def test_a_public_table_without_rows_is_refused(tmp_path: Any) -> None:
    (tmp_path / "none.csv").write_text("a,b\n")
    from jam_dagster.tables import CsvSource

    empty = request(public=CsvSource(str(tmp_path / "none.csv")), domain=None)
    with pytest.raises(InputError, match="no rows"):
        planned(empty)
