"""`dg check yaml` goes by the JSON schema alone: mistakes are found in it, where they stand."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import dagster as dg
import pytest
from dagster_dg_cli.utils.yaml_template_generator import generate_defs_yaml_schema
from jsonschema import Draft202012Validator

from jam_dagster import ReleaseResources, SyntheticRelease
from tests.pipeline.test_component import ATTRIBUTES
from tests.pipeline.yaml.test_resources import BUDGET


@cache
def validator_of(component: type[SyntheticRelease | ReleaseResources]) -> Draft202012Validator:
    """Return what checks the attributes of a component."""
    return Draft202012Validator(component.model().model_json_schema())


def found(validator: Draft202012Validator, attributes: dict[str, Any]) -> list[tuple[str, str]]:
    """Return where mistakes are, and what is wrong there."""
    return [
        (".".join(map(str, error.absolute_path)), error.message)
        for error in validator.iter_errors(attributes)
    ]


CHILDREN = {"private": "p.csv", "key": "household", "max": 3}

MISTAKES: dict[str, tuple[Callable[[dict[str, Any]], Any], str, str]] = {
    "unknown key": (lambda a: a.update(epsilonn=1), "", "'epsilonn' was unexpected"),
    "missing key": (lambda a: a.pop("dataset"), "", "'dataset' is a required property"),
    "a text for a mapping": (lambda a: a.update(privacy="1"), "privacy", "is not of type 'object'"),
    "a text for a number": (
        lambda a: a["privacy"].update(epsilon="one"),
        *("privacy.epsilon", "'one' is not of type 'number'"),
    ),
    "epsilon of 0": (lambda a: a["privacy"].update(epsilon=0), "privacy.epsilon", "minimum of 0"),
    "noise": (
        lambda a: a["privacy"].update(noise="laplace"),
        *("privacy.noise", "'laplace' is not one of ['exact', 'numpy']"),
    ),
    "a fraction for a count": (
        lambda a: a["privacy"].update(unit={"column": "who", "max_rows": 2.5}),
        *("privacy.unit.max_rows", "2.5 is not of type 'integer'"),
    ),
    "cliques": (
        lambda a: a.update(workload={"cliques": ["age"]}),
        *("workload.cliques.0", "'age' is not of type 'array'"),
    ),
    "unknown key of children": (
        lambda a: a.update(children={"persons": {**CHILDREN, "privat": "q.csv"}}),
        *("children.persons", "'privat' was unexpected"),
    ),
    "missing key of children": (
        lambda a: a.update(children={"persons": {"private": "p.csv", "max": 3}}),
        *("children.persons", "'key' is a required property"),
    ),
    "a number for a source": (lambda a: a.update(private=3), "private", "is not of type 'string'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_found_at_its_line(case: str) -> None:
    spoil, place, message = MISTAKES[case]
    attributes = copy.deepcopy(ATTRIBUTES)
    spoil(attributes)
    places = found(validator_of(SyntheticRelease), attributes)
    assert any(where == place and message in what for where, what in places), places


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"public": {"previous_release": {"first": "old.csv", "first_share": 0.2}}},
        {"privacy": {"epsilon": "1e-2", "delta": "1.0e-9"}},
        {"privacy": {"epsilon": "{{ env.EPSILON }}", "noise": "{{ env.NOISE }}"}},
        {"privacy": "{{ privacy }}", "domain": "{{ domain }}", "partitions": "{{ every }}"},
        {"private": {"sql": "${URL}", "query": "select 1"}, "owners": "{{ owners }}"},
        {"private": {"demo": "health_survey", "part": "private", "rows": 300}},
        {
            "private": {"split": {"csv": "x.csv"}, "by": "sex", "value": "F", "public_share": 0.5}
            | {"public_rows": 0.1}
        },
        {"partitions": "monthly", "start": "2026-01-01", "schedule": "0 6 3 * *"},
        {"partitions": {"static": ["wave1", "wave2"]}},
        {"partitions": None, "start": None, "group": None, "workload": {"degree": None}},
        {"domain": {"identify": "public", "bins": 8}},
        {"children": {"persons": CHILDREN | {"public": {"csv": "q.csv"}, "max": "{{ most }}"}}},
        {"children": {"persons": CHILDREN | {"domain": {"attributes": {"sex": {"values": [1]}}}}}},
        {"children": "{{ children }}"},
        {"mechanism": "aim"},
        {"mechanism": {"name": "aim", "rounds": None, "alpha": "9e-1"}},
        {"mechanism": {"name": "{{ env.HOW }}", "anything": 1}},
        {"mechanism": {"rounds": "{{ env.ROUNDS }}"}},
        {"mechanism": {"iterations": "{{ env.STEPS }}"}},
        {"domain": {"attributes": {"sex": {"values": ["F", "M"]}}}},
        {"evaluation": {"mode": False}, "privacy": {"epsilon": 1, "edition": 2, "seed": None}},
    ],
)
def test_what_is_right_is_let_through(changes: dict[str, Any]) -> None:
    assert found(validator_of(SyntheticRelease), ATTRIBUTES | changes) == []


@pytest.mark.parametrize("component", [SyntheticRelease, ReleaseResources])
def test_types_and_nested_keys_are_written_out(component: type[dg.Component]) -> None:
    schema = component.get_model_cls().model_json_schema()  # type: ignore[union-attr]
    written = generate_defs_yaml_schema("component", schema)

    assert "unknown" not in written
    if component is SyntheticRelease:
        assert "      max_rows: <['integer', 'string']>  # Optional: most rows" in written
        assert "  private: <['string', 'object']>  # Required: source of the table" in written


def test_a_subclass_may_have_a_key_of_its_own() -> None:
    @dataclass
    class Ours(SyntheticRelease):
        team: Annotated[str, dg.Resolver.default(description="who asked for it")] = ""

    ours = Draft202012Validator(Ours.model().model_json_schema())

    assert found(ours, ATTRIBUTES | {"team": "statistics"}) == []
    assert found(ours, ATTRIBUTES | {"teem": "statistics"})[0][0] == ""


def test_budgets_are_checked_where_they_stand() -> None:
    assert found(validator_of(ReleaseResources), {"budgets": BUDGET, "home": ".jam"}) == []
    spoiled = {"budgets": {"people": {"epsilon": 0}, "visitors": {"epsilon": 1, "period": "day"}}}
    assert sorted(where for where, _ in found(validator_of(ReleaseResources), spoiled)) == [
        *("budgets.people.epsilon", "budgets.visitors.period"),
    ]
    assert (
        found(validator_of(ReleaseResources), {"home": "x"})[0][1]
        == "'budgets' is a required property"
    )
