"""What is scaffolded loads as it is, says of every key what it is for, and is whole or nothing."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pandas as pd
import pytest
import yaml
from dagster.components.component_scaffolding import scaffold_object
from dagster.components.testing import create_defs_folder_sandbox

from jam_dagster import SyntheticRelease
from jam_dagster.pipeline import build_release_resources
from jam_dagster.pipeline.yaml import scaffold_text as templates
from jam_dagster.privacy import Budget, Ledger
from jam_dagster.privacy.ledger.identity import read_ledger_id
from jam_dagster.tables import Domain, TimeAttribute
from tests.pipeline.conftest import AS_DAGSTER_WARNS, people
from tests.release.test_children import two_tables

pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.slow]

RELEASE = "jam_dagster.SyntheticRelease"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with two tables, where the user stands."""
    (tmp_path / "defs").mkdir()
    people(80, seed=1).to_csv(tmp_path / "people.csv", index=False)
    people(60, seed=2).to_csv(tmp_path / "survey.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scaffold(project: Path, name: str, *, written: str = "yaml", **params: Any) -> Path:
    path = project / "defs" / name
    scaffold_object(path, RELEASE, json.dumps(params), written, project)
    return path


def attributes(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((path / "defs.yaml").read_text())["attributes"]
    return found


@pytest.fixture
def loaded(project: Path) -> Iterator[Callable[[Path], tuple[SyntheticRelease, dg.Definitions]]]:
    """Load one release of a project as Dagster does, and build it."""
    with create_defs_folder_sandbox() as sandbox:

        def load(path: Path) -> tuple[SyntheticRelease, dg.Definitions]:
            shutil.copytree(path, sandbox.defs_folder_path / path.name)
            with sandbox.build_component_tree() as tree:
                made = tree.load_component(Path(path.name))
                assert isinstance(made, SyntheticRelease)
                resources = build_release_resources({}, home=project)
                built = tree.build_defs(Path(path.name))
                return made, dg.Definitions.merge(built, dg.Definitions(resources=resources))

        yield load


Loaded = Callable[[Path], tuple[SyntheticRelease, dg.Definitions]]


def test_with_a_public_table_its_domain_is_drafted(project: Path, loaded: Loaded) -> None:
    people(60, seed=2).assign(year=2013).to_csv(project / "survey.csv", index=False)
    path = scaffold(
        project, "mine", public="survey.csv", private="people.csv", epsilon=2.0, infer=True
    )
    given = attributes(path)
    assert (given["private"], given["public"]) == ("../../people.csv", "../../survey.csv")
    assert given["privacy"]["epsilon"] == 2.0
    drafted = yaml.safe_load((path / "domain.yaml").read_text())
    assert drafted["identified_from"] == "public"
    assert drafted["derived"] == {"year": {"expression": None, "dtype": "Int64"}}
    assert "# year: 2013" in (path / "domain.yaml").read_text()
    names = list(drafted["attributes"])
    chosen = scaffold(project, "some", public="survey.csv", columns=f"{names[1]},{names[0]}")
    assert list(yaml.safe_load((chosen / "domain.yaml").read_text())["attributes"]) == names[:2]
    made, definitions = loaded(path)
    assert (made.release, made.dataset, made.mechanism) == ("mine", "mine", {"name": "tilt"})
    assert definitions.resolve_job_def("mine_release")


def test_two_tables_are_scaffolded_at_once(project: Path, loaded: Loaded) -> None:
    for name, seed in (("people", 1), ("survey", 2)):
        households, persons = two_tables(200, seed)
        households.to_csv(project / f"{name}.csv", index=False)
        persons.assign(bmi=20.5).to_csv(
            project / f"{name}_of.csv", index=False, sep=";", decimal=","
        )
    (project / "people.csv").unlink()
    persons = {"private": "people_of.csv", "public": "survey_of.csv", "key": "household", "max": 3}
    children = json.dumps({"persons": persons})
    path = scaffold(project, "mine", public="survey.csv", private="people.csv", children=children)
    german = {"separator": ";", "decimal": ","}
    written = attributes(path)["children"]["persons"]
    assert written["private"] == {"csv": "../../people_of.csv", **german}
    assert (written["key"], written["max"]) == ("household", 3)
    drafted = Domain.load(path / "domain.yaml")
    assert drafted.children is not None
    assert drafted.children.domain.columns.keys() == {"job", "sex", "bmi"}
    _, definitions = loaded(path)
    keys = {spec.key.path[-1] for spec in definitions.resolve_all_asset_specs()}
    assert {"synthetic_records", "synthetic_persons"} <= keys


@pytest.mark.parametrize(
    ("changes", "params", "said"),
    [
        ({"public": None}, {}, "--children needs public below persons"),
        ({}, {"records_public": True}, "goes with neither --records-public"),
        ({"max": 99}, {}, "max must be a whole number"),
    ],
)
def test_children_that_cannot_be_scaffolded(
    project: Path, changes: dict[str, Any], params: dict[str, Any], said: str
) -> None:
    persons = {"private": "a.csv", "public": "survey.csv", "key": "town", "max": 3, **changes}
    given = {"children": json.dumps({"persons": persons}), "public": "survey.csv", **params}
    with pytest.raises(click.ClickException, match=said):
        scaffold(project, "mine", **given)
    assert not (project / "defs" / "mine").exists()


def test_columns_without_a_name_are_remarked_on(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people(60, seed=2).to_csv(project / "survey.csv")
    path = scaffold(project, "mine", public="survey.csv", private="people.csv")
    assert attributes(path)["private"] == "../../people.csv"
    assert "survey.csv without a name" in capsys.readouterr().out


def test_a_key_that_repeats_is_asked_about(
    project: Path, capsys: pytest.CaptureFixture[str], loaded: Loaded
) -> None:
    keys = {"client_id": [row // 2 for row in range(60)]}
    people(60, seed=2).assign(**keys).to_csv(project / "survey.csv", index=False)
    path = scaffold(project, "mine", public="survey.csv", private="people.csv")
    assert "client_id (30 values) looks like a person's key" in capsys.readouterr().out
    text = (path / "defs.yaml").read_text()
    answered = text.replace("    # unit: ", "    unit: row  # ")
    assert answered != text
    (path / "defs.yaml").write_text(answered)
    assert loaded(path)[0].privacy.unit is None


def test_the_dialect_of_a_public_file_is_found_and_written_down(
    project: Path, loaded: Loaded, capsys: pytest.CaptureFixture[str]
) -> None:
    table = people(60, seed=2).assign(bmi=[20.5 + row % 40 / 10 for row in range(60)])
    table.to_csv(project / "survey.csv", index=False, sep=";", decimal=",")
    (project / "people.csv").unlink()
    german = {"separator": ";", "decimal": ","}
    path = scaffold(project, "mine", public="survey.csv", private="people.csv")
    assert attributes(path)["public"] == {"csv": "../../survey.csv", **german}
    assert attributes(path)["private"] == {"csv": "../../people.csv", **german}
    assert "bmi" in yaml.safe_load((path / "domain.yaml").read_text())["attributes"]
    said = capsys.readouterr().out
    assert "survey.csv is read with separator ';' and decimal ','" in said
    assert "The private table, which is not opened, is declared to be in the same dialect" in said
    made, _ = loaded(path)
    assert made.public == {"csv": "../../survey.csv", **german}


def test_public_dates_are_shifted_to_a_declared_period(
    project: Path, loaded: Loaded, capsys: pytest.CaptureFixture[str]
) -> None:
    days = pd.date_range("2024-01-01", "2024-12-30", freq="D")
    born = [f"{1950 + row % 40}-05-{1 + row % 28:02}" for row in range(len(days))]
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "born": born})
    table.to_csv(project / "survey.csv", index=False)
    (project / "people.csv").unlink()
    period = {"period": "2025-01-01/2025-12-31"}
    path = scaffold(project, "mine", public="survey.csv", private="people.csv", **period)

    given = attributes(path)
    assert given["public"] == {"shift": "../../survey.csv", "by": "52 weeks"}
    assert given["private"] == "../../people.csv"
    said = capsys.readouterr().out
    assert "its dates shifted by 52 weeks, to the private period" in said
    # It was shifted, so nobody is advised to.
    written = (path / "domain.yaml").read_text()
    for text in (said, written):
        assert "dates beyond its bounds are moved to them" in text
        assert "`shift`" not in text
    domain = Domain.load(path / "domain.yaml")
    day, birth = domain.attribute("day"), domain.attribute("born")
    assert isinstance(day, TimeAttribute)
    assert isinstance(birth, TimeAttribute)
    assert day.bounds_text == ("2024-12-30", "2025-12-31")
    assert birth.bounds_text[1] < "1992"
    made, _ = loaded(path)
    assert made.public == given["public"]
    # Already there: nothing moves.
    there = {"period": "2024-01-01/2024-12-31"}
    assert attributes(scaffold(project, "same", public="survey.csv", **there))["public"] == (
        "../../survey.csv"
    )


def test_tables_may_be_sources_in_json(project: Path) -> None:
    people(60, seed=2).to_csv(project / "survey.csv", index=False, sep=";")
    tables = {
        "public": json.dumps({"csv": "survey.csv", "separator": ";"}),
        "private": json.dumps({"csv": "people.csv", "text": ["town"]}),
    }
    given = attributes(scaffold(project, "mine", **tables))
    assert given["public"] == {"csv": "../../survey.csv", "separator": ";"}
    assert given["private"] == {"csv": "../../people.csv", "text": ["town"]}


def test_without_tables_it_is_of_the_demo(project: Path, loaded: Loaded) -> None:
    made, _ = loaded(scaffold(project, "my-first"))
    assert made.release == "my_first"
    assert made.private == {"demo": "health_survey", "part": "private"}
    assert made.domain == {"identify": "public"}


def test_the_lines_for_partitions_can_be_put_to_use(project: Path, loaded: Loaded) -> None:
    path = scaffold(project, "mine", public="survey.csv", private="people_{partition}.csv")
    text = (path / "defs.yaml").read_text()
    for key in ("partitions", "start", "schedule"):
        text = text.replace(f"  # {key}:", f"  {key}:")
    (path / "defs.yaml").write_text(text)
    _, definitions = loaded(path)
    assert definitions.resolve_schedule_def("mine_release_schedule")


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        (
            {"partitions": "monthly", "start": "2026-01-01"},
            {"partitions": "monthly", "start": "2026-01-01", "schedule": "monthly"},
        ),
        (
            {"partitions": '{"static": ["wave1", "wave2"]}'},
            {"partitions": {"static": ["wave1", "wave2"]}},
        ),
    ],
)
def test_snapshots_are_scaffolded_at_once(
    project: Path, loaded: Loaded, params: dict[str, str], wanted: dict[str, Any]
) -> None:
    path = scaffold(project, "mine", public="survey.csv", private="people.csv", **params)
    given = attributes(path)
    assert given["private"] == "../../people_{partition}.csv"
    assert {name: given.get(name) for name in wanted} == wanted
    resources = attributes(project / "defs" / "release_resources")
    count = 12 if "start" in params else 2
    whole = Budget(resources["budgets"]["mine"]["epsilon"], 1e-9).rho
    assert count * Budget(1.0, 1e-9).rho <= whole < (count + 0.5) * Budget(1.0, 1e-9).rho
    _, definitions = loaded(path)
    assert definitions.resolve_job_def("mine_release").partitions_def is not None


def test_the_project_gets_what_it_runs_on_once(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scaffold(project, "mine", public="survey.csv", private="people.csv", dataset="people")
    resources = project / "defs" / "release_resources"
    budget = attributes(resources)["budgets"]["people"]
    rhos = [Budget(one, 1e-9).rho for one in (budget["epsilon"] - 0.01, budget["epsilon"])]
    assert rhos[0] < 3 * Budget(1.0, 1e-9).rho <= rhos[1]
    assert (project / templates.HOME / ".gitignore").read_text() == "*\n"
    # The ledger is there, and named next to the release, so that a clone of it begins no other.
    identity = read_ledger_id(project / "defs" / "mine")
    ledger = Ledger(project / templates.HOME / "ledger.sqlite")
    assert identity == ledger.identity != ""
    assert ledger.datasets() == ()
    assert "ledger.id names the ledger: commit it" in capsys.readouterr().out
    before = (resources / "defs.yaml").read_text()
    second = scaffold(project, "second", dataset="others")
    assert read_ledger_id(second) == identity
    assert (resources / "defs.yaml").read_text() == before
    output = capsys.readouterr().out
    assert "defs/release_resources/defs.yaml" in output
    assert "others: {epsilon: 1.78, delta: 1.0e-9}" in output


@pytest.mark.parametrize("own", ["resources={'ledger': LedgerResource(url='x')}", None])
def test_resources_of_ones_own_are_left_alone(
    project: Path, own: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = project / "venv" if own is None else project
    elsewhere.mkdir(exist_ok=True)
    if own is None:
        # What is installed beside is not the project's.
        (elsewhere / "pyvenv.cfg").touch()
    (elsewhere / "theirs.py").write_text(own or "ReleaseResources(budgets={})")
    path = scaffold(project, "mine")
    assert (project / "defs" / "release_resources").exists() is (own is None)
    # Which ledger is theirs only they can say.
    assert bool(read_ledger_id(path)) is (own is None)
    said = "jam-dagster ledger adopt --ledger LEDGER --reason REASON defs/mine"
    assert (said in capsys.readouterr().out) is (own is not None)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"public": "none.csv"}, "none.csv"),
        ({"public": "survey.xlsx"}, "survey.xlsx"),
        ({"private": "people.csv"}, "--private and --children need --public"),
        ({"dataset": "two words"}, "--dataset"),
        ({"public": "survey.csv", "partitions": "monthly"}, "--partitions needs --private"),
        (
            {"public": "survey.csv", "private": "people.csv", "partitions": "monthly"},
            "need a start, a day such as 2026-01-01",
        ),
        ({"public": "survey.csv", "private": "people.csv", "partitions": "{x"}, "is no JSON"),
        ({"public": "survey.csv", "period": "2025"}, "--period must be FIRST/LAST"),
        ({"public": "survey.csv", "period": "2025-01-01/2025-12-31"}, "no column of dates"),
    ],
)
def test_what_fails_leaves_nothing_behind(
    project: Path, params: dict[str, str], expected: str
) -> None:
    with pytest.raises(click.ClickException) as caught:
        scaffold(project, "mine", **params)
    assert expected in caught.value.message
    assert list((project / "defs").iterdir()) == []


def test_a_release_can_be_added_to_a_file(project: Path) -> None:
    path = scaffold(project, "mine") / "defs.yaml"
    scaffold_object(path, RELEASE, json.dumps({"dataset": "people"}), "yaml", project, append=True)
    documents = list(yaml.safe_load_all(path.read_text()))
    assert [one["attributes"]["dataset"] for one in documents] == ["mine", "people"]


def test_python_is_written_by_hand(project: Path) -> None:
    with pytest.raises(click.ClickException, match="is scaffolded as YAML"):
        scaffold(project, "again", written="python")
    assert not (project / "defs" / "again").exists()
