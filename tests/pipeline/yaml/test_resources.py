"""The ledger and the stores from YAML."""

import dataclasses
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import (
    LedgerResource,
    ReleaseResources,
    ReleaseStoreResource,
    build_release_resources,
)

BUDGET = {"people": {"epsilon": 3.0, "delta": "1e-9"}}


def resources(project: Path, **attributes: Any) -> dict[str, Any]:
    made = ReleaseResources.from_attributes_dict(attributes={"budgets": BUDGET, **attributes})
    context = dataclasses.replace(dg.ComponentTree.for_test().load_context, project_root=project)
    return dict(made.build_defs(context).resources or {})


def places(found: dict[str, Any]) -> tuple[str, str, str]:
    ledger, private = found["ledger"], found["private_io_manager"]
    releases = found["releasable_io_manager"]
    assert isinstance(ledger, LedgerResource)
    assert isinstance(private, ReleaseStoreResource)
    assert isinstance(releases, ReleaseStoreResource)
    assert private.private
    assert not releases.private
    return ledger.url, private.root, releases.root


def test_everything_lies_below_one_folder_of_the_project(tmp_path: Path) -> None:
    found = resources(tmp_path, home=".jam")
    home = f"{tmp_path}/.jam"
    assert places(found) == (f"{home}/ledger.sqlite", f"{home}/private", f"{home}/releases")
    budget = found["ledger"].budgets["people"]
    assert (budget.epsilon, budget.delta, budget.period) == (3.0, 1e-9, "lifetime")


def test_each_may_have_a_place_of_its_own(tmp_path: Path) -> None:
    given = {"home": "/j", "ledger": "postgresql://h/d", "private": "${P}", "releases": "s3://r"}
    assert places(resources(tmp_path, **given)) == ("postgresql://h/d", "${P}", "s3://r")
    assert places(resources(tmp_path, home="${HOME}/jam"))[1] == "${HOME}/jam/private"


def test_without_a_home_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("JAM_HOME", "DAGSTER_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert places(resources(tmp_path))[1] == f"{tmp_path}/.jam/private"
    monkeypatch.setenv("DAGSTER_HOME", "/d")
    assert places(resources(tmp_path))[1] == "/d/jam/private"
    monkeypatch.setenv("JAM_HOME", "/j")
    assert places(resources(tmp_path))[1] == "/j/private"


def test_budgets_may_renew_and_compose_in_parallel(tmp_path: Path) -> None:
    ground = "membership public and fixed"
    budget = {"epsilon": 1.0, "period": "month", "partitions": "disjoint", "ground": ground}
    policy = resources(tmp_path, budgets={"people": budget})["ledger"].budgets["people"].policy
    assert (policy.period, policy.partitions, policy.ground) == ("month", "disjoint", ground)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": "much"}, "much"),
        ({"epsilon": 1, "partitions": "disjoint"}, "ground"),
        ({"epsilon": 1, "attempts": 0}, "attempts"),
        ({"epsilon": 1, "sources": "several"}, "several"),
    ],
)
def test_a_budget_that_is_none_is_refused_by_name(
    tmp_path: Path, budget: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SpecificationError, match=r"budgets\.people: ") as caught:
        resources(tmp_path, budgets={"people": budget})
    assert expected in str(caught.value)


def test_from_python_they_are_the_same(tmp_path: Path) -> None:
    assert places(build_release_resources({}, home="/j")) == (
        *("/j/ledger.sqlite", "/j/private", "/j/releases"),
    )
