"""Rows of different experiments are never averaged, and figures and tables say what differs."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pandas as pd
import pytest

from jam_dagster.trials.measures import best_runs, levels, main_runs, means, ratios, sweep
from jam_dagster.trials.summary import markdown
from tests.tiers import slow_rows
from tests.trials.rows import row


def comparison(error: float, **columns: Any) -> list[dict[str, Any]]:
    """A mechanism on a split at two epsilons with two seeds, and its public table."""
    made = []
    for epsilon, seed in itertools.product((1.0, 10.0), (0, 1)):
        about = {"split": "s", "mechanism": "aim", "label": "AIM", "epsilon": epsilon, "seed": seed}
        made.append(row(0, **{**about, "error_mean": error, "error_max": error, **columns}))
    about = {"kind": "baseline", "mechanism": "public_table", "label": "public table alone"}
    asked = {
        name: columns[name] for name in columns if name not in ("version", "mechanism", "label")
    }
    made.append(row(0, **{"split": "s", "error_mean": 2 * error, **about, **asked}))
    return made


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        *slow_rows(({"delta": 1e-9}, {"delta": 1e-6}, ("s, delta 1e-09", "s, delta 1e-06"))),
        ({"degree": 3}, {"degree": 2}, ("s, 3-way marginals", "s, 2-way marginals")),
        *slow_rows(
            ({"records": 1000}, {"records": 1200}, ("s, 1,000 records", "s, 1,200 records")),
            (
                {"workload": "target a"},
                {"workload": "random 8"},
                ("s, marginals with a", "s, 8 random marginals"),
            ),
            (
                {"workload": "all"},
                {"workload": "skewed"},
                ("s, all marginals", "s, skewed marginals"),
            ),
            (
                {"public_records": 30},
                {"public_records": None},
                ("s, 30 public records", "s, no public table"),
            ),
            ({"attributes": 9}, {"attributes": 5}, ("s, 9 attributes", "s, 5 attributes")),
            (
                {"fingerprint": "a" * 64},
                {"fingerprint": "b" * 64},
                ("s, tables aaaaaa", "s, tables bbbbbb"),
            ),
        ),
    ],
)
def test_another_question_is_another_panel(
    one: dict[str, Any], other: dict[str, Any], words: tuple[str, str]
) -> None:
    frame = pd.DataFrame(comparison(0.1, **one) + comparison(0.3, **other))

    points = means(main_runs(frame), ["label", "split", "epsilon"])

    assert {(point["split"], round(point["error_mean"], 9)) for point in points} == {
        (words[0], 0.1),
        (words[1], 0.3),
    }
    assert {point["label"] for point in points} == {"AIM"}
    assert re.findall("## (.*): .* records", markdown(frame, [], search=False)) == list(words)
    if "delta" not in one:
        assert levels(frame, "public_table") == {words[0]: 0.2, words[1]: 0.6}


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        *slow_rows(
            (
                {"version": "0.1.0"},
                {"version": "0.2.0"},
                ("AIM (version 0.1.0)", "AIM (version 0.2.0)"),
            )
        ),
        ({"mechanism": "aim"}, {"mechanism": "mst"}, ("AIM (aim)", "AIM (mst)")),
    ],
)
def test_another_answer_is_another_line(
    one: dict[str, Any], other: dict[str, Any], words: tuple[str, str]
) -> None:
    frame = pd.DataFrame(comparison(0.1, **one) + comparison(0.3, **other))

    points = means(main_runs(frame), ["label", "split", "epsilon"])

    assert {(point["label"], round(point["error_mean"], 9)) for point in points} == {
        (words[0], 0.1),
        (words[1], 0.3),
    }
    text = markdown(frame, [], search=False).split("## s:")[1]
    assert re.findall(r"^\| (AIM.*?) \|", text, re.MULTILINE) == list(words)


def test_a_label_says_that_panels_have_different_settings() -> None:
    small, large = ({"parameters": json.dumps({"size_limit_mb": mb})} for mb in (5, 80))
    frame = pd.DataFrame(comparison(0.1, **small) + comparison(0.3, split="t", **large))

    runs = main_runs(frame)

    assert set(zip(runs["split"], runs["label"], strict=True)) == {
        ("s", "AIM (size_limit_mb 5)"),
        ("t", "AIM (size_limit_mb 80)"),
    }


def test_a_sweep_keeps_questions_and_versions_apart() -> None:
    made = []
    for version, delta, rounds in itertools.product(("0.1.0", "0.2.0"), (1e-9, 1e-6), (5, 10)):
        parameters = json.dumps({"rounds": rounds})
        made += comparison(0.1, version=version, delta=delta, parameters=parameters)

    runs = sweep(pd.DataFrame(made), "rounds")

    assert set(runs["label"]) == {"AIM (version 0.1.0)", "AIM (version 0.2.0)"}
    assert set(runs["split"]) == {"s, delta 1e-09", "s, delta 1e-06"}
    places = runs.groupby(["label", "split", "epsilon", "rounds", "seed"]).size()
    assert set(places) == {1}


def test_times_on_different_machines_are_apart_and_errors_are_not() -> None:
    frame = pd.DataFrame(comparison(0.1, machine="slow") + comparison(0.1, machine="fast"))

    assert set(main_runs(frame)["label"]) == {"AIM"}
    assert set(main_runs(frame, machines=True)["label"]) == {"AIM (slow)", "AIM (fast)"}


def test_baselines_hold_whatever_delta() -> None:
    frame = pd.DataFrame(comparison(0.1) + comparison(0.3, delta=1e-6)[:-1])

    assert levels(frame, "public_table") == {"s, delta 1e-09": 0.2, "s, delta 1e-06": 0.2}


def test_the_best_settings_are_those_of_each_epsilon() -> None:
    errors = {(5, 1.0): 0.2, (9, 1.0): 0.3, (5, 10.0): 0.2, (9, 10.0): 0.1}
    made = [
        row(
            0, split="s", mechanism="gem", label="GEM", epsilon=epsilon, seed=seed, error_mean=error
        )
        | {"parameters": json.dumps({"rounds": rounds})}
        for (rounds, epsilon), error in errors.items()
        for seed in (0, 1)
    ]
    runs = best_runs(pd.DataFrame(made + comparison(0.4)), "error_mean")

    found = {(one["label"], one["epsilon"], one["error_mean"]) for _, one in runs.iterrows()}
    tuned = "GEM (best setting, tuned on private data)"
    assert found == {(tuned, 1.0, 0.2), (tuned, 10.0, 0.1), ("AIM", 1.0, 0.4), ("AIM", 10.0, 0.4)}
    # Nothing is tuned if each mechanism has one setting.
    assert best_runs(pd.DataFrame(comparison(0.4)), "error_mean").empty


def test_ratios_to_aim_are_pooled_over_what_both_have() -> None:
    other = {"mechanism": "mst", "label": "MST"}
    made = comparison(0.1) + comparison(0.4, **other) + comparison(0.2, split="t")
    made += comparison(0.2, split="t", **other) + comparison(9.0, split="u", **other)

    made += comparison(0.1, split="v")[:2] + comparison(0.4, split="v", **other)[:2]
    frame = pd.DataFrame(made)

    found = ratios(main_runs(frame))

    assert found.index.tolist() == ["AIM", "MST"]
    assert found.loc["AIM"].tolist() == pytest.approx([1.0, 1.0, 1.0, 5.0])
    # Geometric means of 4, 1 and 4, of 4 and 1, and of all five; AIM has no run on the third split.
    assert found.loc["MST"].tolist() == pytest.approx([16 ** (1 / 3), 2.0, 64 ** (1 / 5), 5.0])
    text = markdown(frame, [], search=False)
    assert "| mechanism | epsilon 1 | epsilon 10 | all | splits and budgets |" in text
    assert "| MST | 2.52 | 2.00 | 2.30 | 5 |" in text
    assert ratios(main_runs(pd.DataFrame(comparison(0.4, **other)))).empty


def test_a_round_takes_its_part_of_the_mechanism() -> None:
    about = {"seconds_by_stage": json.dumps({"mechanism": 6.0, "sample": 9.0}), "rounds": 4}
    frame = pd.DataFrame(comparison(0.1, **about))
    assert set(main_runs(frame)["round_seconds"]) == {1.5}
    text = markdown(frame, [], search=False)
    assert "| seconds a round |" in text
    assert "| 1.50 |" in text
