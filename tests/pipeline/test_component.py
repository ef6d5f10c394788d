"""The component, as `defs.yaml` makes it."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

import jam_dagster
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import SyntheticRelease
from jam_dagster.pipeline.build import release_definitions
from jam_dagster.privacy import Ledger
from jam_dagster.privacy.ledger.identity import LEDGER_ID, write_ledger_id
from jam_dagster.release import DomainSpec
from jam_dagster.release.options import release_spec
from tests.pipeline.conftest import AS_DAGSTER_WARNS, DOMAIN, UP_TO_SYNTHETIC, Bench, failure
from tests.tiers import first_quick, slow, slow_rows

pytestmark = AS_DAGSTER_WARNS

ATTRIBUTES: dict[str, Any] = {
    "release": "people",
    "dataset": "people",
    "private": "private.csv",
    "public": {"csv": "public.csv"},
    "domain": "people.yaml",
    "privacy": {"epsilon": 2.0, "delta": "1e-9"},
    "mechanism": {"name": "jam_pgm", "rounds": 2, "iterations": 20},
    "workload": {"degree": 2},
    "evaluation": {"mode": "exact"},
    "owners": ["team:statistics"],
    "tags": {"domain": "census"},
}


@contextmanager
def loaded(
    bench: Bench,
    attributes: dict[str, Any],
    kind: type[SyntheticRelease] = SyntheticRelease,
    ledger_id: str = "",
) -> Iterator[tuple[SyntheticRelease, dg.Definitions]]:
    """Load a release from the YAML file of a project that has its tables beside it."""
    with create_defs_folder_sandbox() as sandbox:
        name = f"{kind.__module__}.{kind.__name__}"
        contents = {"type": name, "attributes": attributes}
        path = sandbox.scaffold_component(component_cls=kind, defs_yaml_contents=contents)
        DOMAIN.save(path / "people.yaml")
        # The scaffolder names the sandbox's own.
        (path / LEDGER_ID).unlink()
        if ledger_id:
            write_ledger_id(path, ledger_id)
        for name in ("private.csv", "public.csv"):
            (path / name).write_bytes((bench.home / name).read_bytes())
        with sandbox.build_component_tree() as tree:
            made = tree.load_component(path)
            definitions = tree.build_defs(path)
            assert isinstance(made, SyntheticRelease)
            yield (
                made,
                dg.Definitions.merge(definitions, dg.Definitions(resources=bench.resources())),
            )


def test_package_exports_the_component() -> None:
    assert jam_dagster.SyntheticRelease is SyntheticRelease
    assert "SyntheticRelease" in dir(jam_dagster)
    with pytest.raises(AttributeError, match="SyntheticReleas"):
        jam_dagster.SyntheticReleas  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_release_from_yaml_runs(bench: Bench) -> None:
    with loaded(bench, ATTRIBUTES) as (component, definitions):
        assert component.privacy.delta == 1e-9
        result = bench.launch(definitions, [*UP_TO_SYNTHETIC, "workload_error"])
        assert result.success, failure(result)
    assert (bench.releases / "people" / "synthetic_records.csv").exists()


def test_a_clone_with_a_ledger_of_its_own_is_refused(bench: Bench) -> None:
    theirs = Ledger(bench.home / "theirs.sqlite")
    identity = theirs.adopt(reason="scaffolded")
    with loaded(bench, ATTRIBUTES, ledger_id=identity) as (_, definitions):
        result = bench.launch(definitions, UP_TO_SYNTHETIC)
    assert not result.success
    said = failure(result)
    assert f"the release is paid from the ledger {identity[:12]}, which ledger.id next to" in said
    assert "is not there, or empty" in said
    assert "Nothing was opened and nothing charged" in said
    # No run begins a ledger of its own.
    assert not bench.ledger.exists
    # Python says it by a parameter.
    in_python = bench.definitions(ledger_id=identity)
    assert said.partition("\n")[0] in failure(bench.launch(in_python, UP_TO_SYNTHETIC))


def test_yaml_and_python_make_the_same_definitions(bench: Bench) -> None:
    with loaded(bench, ATTRIBUTES) as (_, definitions):
        by_yaml = definitions.resolve_all_asset_specs()
        checks = set(definitions.resolve_asset_graph().asset_check_keys)
    by_python = bench.definitions(owners=["team:statistics"], tags={"domain": "census"})
    for one, other in zip(
        sorted(by_yaml, key=lambda spec: spec.key),
        sorted(by_python.resolve_all_asset_specs(), key=lambda spec: spec.key),
        strict=True,
    ):
        assert (one.key, one.deps, one.owners, one.tags, one.group_name, one.description) == (
            *(other.key, other.deps, other.owners, other.tags),
            *(other.group_name, other.description),
        )
    assert checks == set(by_python.resolve_asset_graph().asset_check_keys)


def messages(error: BaseException | None) -> str:
    shown = ""
    while error is not None:
        shown, error = f"{shown}\n{error}", error.__cause__
    return shown


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], list[str]]] = {
    "unknown key": (
        lambda a: a.update(epsilonn=1),
        ["unknown key 'epsilonn'", "allowed are release, dataset"],
    ),
    "a text in place of a mapping": (
        lambda a: a.update(evaluation="exact"),
        ["evaluation must be a mapping of mode, share", "got 'exact'"],
    ),
    "missing key": (
        lambda a: a["privacy"].pop("epsilon"),
        ["attributes.privacy", "privacy needs the key 'epsilon'"],
    ),
    "unit that is an attribute": (
        lambda a: a["privacy"].update(unit={"column": "town"}),
        ["'town' identifies a person"],
    ),
    "own label": (lambda a: a.update(tags={"jam/privacy": "public"}), ["jam/privacy"]),
}


@pytest.mark.parametrize("case", first_quick(BAD))
def test_bad_yaml_is_refused_with_what_is_wrong(bench: Bench, case: str) -> None:
    spoil, named = BAD[case]
    attributes = copy.deepcopy(ATTRIBUTES)
    spoil(attributes)
    with pytest.raises(Exception) as caught, loaded(bench, attributes):  # noqa: PT011
        pass
    message = messages(caught.value)
    assert all(part in message for part in named), message
    assert not bench.ledger.exists


TRANSLATION = {
    "key_prefix": ["office"],
    "group_name": "official",
    "tags": {"cost_centre": "42"},
    "metadata": {"form": "{{ spec.key.path[-1] }}"},
}


def test_translation_is_read_from_yaml(bench: Bench) -> None:
    with loaded(bench, {**ATTRIBUTES, "translation": TRANSLATION}) as (_, definitions):
        specs = definitions.resolve_all_asset_specs()
    for spec in specs:
        assert spec.key.path[:2] == ["office", "people"]
        assert (spec.group_name, spec.tags["cost_centre"]) == ("official", "42")
        assert spec.metadata["form"] == spec.key.path[-1]
        assert all(dep.asset_key.path[0] == "office" for dep in spec.deps)


def test_domain_is_read_from_where_it_is_given(tmp_path: Path) -> None:
    DOMAIN.save(tmp_path / "people.yaml")
    assert DomainSpec.from_config("people.yaml", tmp_path).declared == DOMAIN
    assert DomainSpec.from_config(DOMAIN.to_dict(), tmp_path).declared == DOMAIN
    assert DomainSpec.from_config({"identify": "public"}, tmp_path).identify == "public"
    assert DomainSpec.from_config({"identify": "public", "bins": 8}, tmp_path).bins == 8
    with pytest.raises(SpecificationError, match=r"'bin'.*bins"):
        DomainSpec.from_config({"identify": "public", "bin": 8}, tmp_path)


def test_texts_of_a_domain_stay_as_they_are_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIGHEST", "90")
    content = {
        "attributes": {
            "sex": {"values": ["1", "2"]},
            "age": {"bounds": [0, "{{ env.HIGHEST }}"], "bins": 3},
        },
        "derived": {"kind": '"person"'},
    }
    with loaded(bench, {**ATTRIBUTES, "domain": content}) as (made, _):
        assert made.domain["attributes"]["sex"]["values"] == ["1", "2"]
        assert made.domain["attributes"]["age"]["bounds"] == [0, 90]
        assert made.domain["derived"] == {"kind": '"person"'}


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({"domain": "none.yaml"}, "domain", "none.yaml"),
        *slow_rows(
            ({"public": "table.xlsx"}, "public", "table.xlsx"),
            ({"private": {"csv": "a.csv", "sep": ";"}}, "private", "separator"),
        ),
        ({"mechanism": {"name": "jam"}}, "mechanism", "tilt"),
        *slow_rows(
            ({"mechanism": {"name": "aim", "round": 2}}, "mechanism", "round is no setting of aim"),
            ({"mechanism": {"name": "aim", "rounds": 1}}, "mechanism", "rounds"),
            ({"partitions": "hourly"}, None, "daily, weekly, monthly"),
            ({"domain": {"identify": "private"}}, "domain", "domain.identify"),
            ({"workload": {"cliques": [["twon"]]}}, None, "workload: the domain has no attribute"),
        ),
        ({"schedule": "monthly"}, None, "schedule is for a release that has partitions"),
    ],
)
def test_what_only_loading_finds_names_file_and_key(
    bench: Bench, changes: dict[str, Any], key: str | None, expected: str
) -> None:
    attributes = {**ATTRIBUTES, **changes}
    with pytest.raises(Exception) as caught, loaded(bench, attributes):  # noqa: PT011
        pass
    text = messages(caught.value)
    place = ": "
    if key is not None:
        place = f" - attributes.{key}: "
    assert f"defs.yaml{place}" in text
    assert expected in text


def test_each_release_depends_on_the_one_before_it(bench: Bench) -> None:
    attributes = {
        **ATTRIBUTES,
        "private": str(bench.home / "private_{partition}.csv"),
        "public": {"previous_release": {"first": str(bench.public), "first_share": 0.25}},
        "partitions": "monthly",
        "start": "2026-01",
    }
    with loaded(bench, attributes) as (_, definitions):
        node = definitions.resolve_asset_graph().get(dg.AssetKey(["people", "public_discretized"]))
        before = dg.AssetKey(["people", "previous_release"])
        assert before in node.parent_keys
        (mapping,) = [
            dep.partition_mapping
            for spec in definitions.resolve_all_asset_specs()
            for dep in spec.deps
            if dep.asset_key == before
        ]
        assert (mapping.start_offset, mapping.end_offset) == (-1, -1)


def test_definitions_warn_of_a_public_header_and_of_dialects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No private file is looked at: there is none."""
    csv, parquet = tmp_path / "survey.csv", tmp_path / "survey.parquet"
    csv.write_text(";".join(DOMAIN.names[1:]) + "\n")
    pd.DataFrame({DOMAIN.names[0]: ["x"]}).to_parquet(parquet)
    for public in ({"csv": str(csv), "separator": ";"}, {"parquet": str(parquet)}):
        spec = release_spec(
            private=str(tmp_path / "people.csv"),
            public=public,
            domain=DOMAIN,
            release="people",
            dataset="people",
            epsilon=1.0,
        )
        release_definitions(spec)

    said = "\n".join(one.getMessage() for one in caplog.records)
    assert f"the public table has no column {DOMAIN.names[1]!r}" in said
    assert f"its public table, has no column {DOMAIN.names[0]!r}" in said
    assert "The public CSV file is read with separator ';'" in said


@pytest.mark.parametrize("named", [True, *slow(False)])
def test_a_project_is_warned_of_a_dataset_that_its_resources_have_no_budget_for(
    bench: Bench, named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody calls `check_definitions` in a project of components alone."""
    with create_defs_folder_sandbox() as sandbox:
        path = sandbox.scaffold_component(
            component_cls=SyntheticRelease,
            defs_yaml_contents={"type": "jam_dagster.SyntheticRelease", "attributes": ATTRIBUTES},
        )
        DOMAIN.save(path / "people.yaml")
        (resources,) = path.parent.glob("release_resources/defs.yaml")
        budgets = {"people" if named else "others": {"epsilon": 3.0, "delta": 1e-9}}
        attributes = {"budgets": budgets, "home": str(bench.home)}
        resources.write_text(
            yaml.safe_dump({"type": "jam_dagster.ReleaseResources", "attributes": attributes})
        )
        with sandbox.build_component_tree() as tree:
            tree.build_defs()
    said = [one.getMessage() for one in caplog.records if "no privacy budget" in one.getMessage()]
    assert len(said) == (not named)
    assert all("'people' has no privacy budget, so its releases will be" in one for one in said)
