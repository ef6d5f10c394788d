"""A component's file is read for a plan as Dagster reads it for a release."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import Aim, JamPgm, Mechanism
from jam_dagster.pipeline import EvaluationSpec, MechanismSpec, PrivacySpec, WorkloadSpec
from jam_dagster.pipeline.yaml.sections import UnitSpec
from jam_dagster.planning import PlanRequest
from jam_dagster.release.definition import SECTIONS, UNIT, read_definition
from jam_dagster.tables import DemoSource, Domain

CENSUS = Path(__file__).parents[2] / "assets" / "releases" / "census_demo"
SPECS = {
    "privacy": PrivacySpec,
    "workload": WorkloadSpec,
    "evaluation": EvaluationSpec,
}


def written(folder: Path, **attributes: Any) -> Path:
    base: dict[str, Any] = {
        "release": "people",
        "dataset": "people",
        "private": "nowhere.csv",
        "public": {"demo": "census", "part": "public"},
        "domain": str(CENSUS / "domain.yaml"),
        "privacy": {"epsilon": 1.0},
    }
    content = {"type": "jam_dagster.SyntheticRelease", "attributes": base | attributes}
    path = folder / "defs.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("section", SPECS)
def test_every_key_of_the_component_is_known(section: str) -> None:
    assert set(SECTIONS[section]) == {one.name for one in dataclasses.fields(SPECS[section])}


def test_every_key_of_a_unit_is_known() -> None:
    assert set(UNIT) == {one.name for one in dataclasses.fields(UnitSpec)}


def test_what_a_file_leaves_out_is_what_the_component_takes(tmp_path: Path) -> None:
    planned = PlanRequest.of(written(tmp_path))

    privacy, evaluation = PrivacySpec(epsilon=1.0), EvaluationSpec()
    assert planned.release.made_mechanism() == MechanismSpec().build()
    assert planned.release.delta == privacy.delta
    assert planned.release.protection == privacy.protection
    assert planned.noise == privacy.noise
    assert planned.release.edition == privacy.edition
    assert planned.release.evaluate == evaluation.mode
    assert planned.release.share == evaluation.share


@pytest.mark.parametrize(
    "mechanism",
    [
        {"rounds": 4, "size_limit_mb": 20},
        "aim",
        {"name": "aim", "rounds": "40", "alpha": "9e-1"},
        {"name": "pmw_pub", "queries": "cell", "rounds": None},
    ],
    ids=str,
)
def test_a_plan_has_the_ledger_key_that_the_component_would_have(
    tmp_path: Path, mechanism: Any
) -> None:
    from jam_dagster.pipeline.specification import ReleaseSpec
    from jam_dagster.pipeline.yaml.sections import DomainSpec

    path = written(
        tmp_path,
        privacy={"epsilon": 1, "unit": {"column": "person", "max_rows": 2}, "delta": "1e-7"},
        mechanism=mechanism,
        workload={"cliques": [["age_group", "sex"]], "weights": [2.0]},
    )
    domain = Domain.load(CENSUS / "domain.yaml")
    cliques = [[domain.names[0], domain.names[1]]]
    content = yaml.safe_load(path.read_text())
    content["attributes"]["workload"]["cliques"] = cliques
    path.write_text(yaml.safe_dump(content))

    spec = ReleaseSpec(
        "people",
        "people",
        DemoSource(),
        DemoSource(part="public"),
        DomainSpec(declared=domain),
        PrivacySpec(epsilon=1.0, delta=1e-7, unit=UnitSpec("person", 2)),
        MechanismSpec.of(mechanism),
        WorkloadSpec(cliques=cliques, weights=[2.0]),
    )

    assert PlanRequest.of(path).key(domain).specification == spec.digest(domain)


def test_a_plan_has_the_key_of_a_release_whose_domain_comes_from_private_data(
    tmp_path: Path,
) -> None:
    from jam_dagster.pipeline.specification import ReleaseSpec
    from jam_dagster.pipeline.yaml.sections import DomainSpec

    path = written(tmp_path, domain={"identify": "both", "bins": 16}, privacy={"epsilon": 1})
    tables = (DemoSource(), DemoSource(part="public"))
    spec = ReleaseSpec(
        "people", "people", *tables, DomainSpec(identify="both", bins=16), PrivacySpec(epsilon=1.0)
    )

    planned = PlanRequest.of(path).key(Domain.load(CENSUS / "domain.yaml"))

    assert planned.specification == spec.digest(None)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text((CENSUS / "domain.yaml").read_text())

    settings = read_definition(written(tmp_path, domain="domain.yaml", public="pub.csv").parent)

    assert settings["public"].path == str(tmp_path / "pub.csv")
    assert settings["domain"].digest == Domain.load(CENSUS / "domain.yaml").digest


def test_the_private_table_is_no_part_of_what_is_read(tmp_path: Path) -> None:
    # Not even a source that could not be: it is another place's business.
    path = written(tmp_path, private={"asset": "warehouse/people"})

    assert "private" not in read_definition(path)


def test_options_override_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path, workload={"cliques": [["x"]]}, evaluation={"mode": "private", "share": 0.1}
    )

    planned = PlanRequest.of(path, epsilon=2.0, degree=2, evaluate="off")

    assert planned.release.epsilon == 2.0
    assert (planned.release.degree, planned.cliques) == (2, None)
    assert planned.release.shares().keys() == {"mechanism"}


def test_options_change_settings_of_the_files_mechanism_and_none_of_anothers(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, mechanism={"name": "aim", "rounds": 40, "alpha": 0.5})

    def made(**options: Any) -> Mechanism:
        return PlanRequest.of(path, **options).release.made_mechanism()

    assert made() == made(mechanism="aim") == Aim(rounds=40, alpha=0.5)
    assert made(settings={"rounds": "50"}) == Aim(rounds=50, alpha=0.5)
    assert made(mechanism="jam_pgm", settings={"rounds": 5}) == JamPgm(rounds=5)
    with pytest.raises(InputError, match="alpha is no setting of mst; it has merge_rare"):
        made(mechanism="mst", settings={"alpha": 0.5})
    with pytest.raises(InputError, match="gaussian answers marginals and makes no synthetic"):
        made(mechanism="gaussian")


@pytest.mark.parametrize(
    ("privacy", "options", "share"),
    [
        # What is scaffolded says every key.
        ({"neighbours": "replace_one"}, {}, 0.05),
        ({"unit": {"column": "person", "max_rows": 1}}, {}, 0.05),
        ({"neighbours": "add_remove"}, {}, 0.2),
        ({"unit": {"column": "person", "max_rows": 2}}, {}, 0.2),
        ({}, {"neighbours": "add_remove"}, 0.2),
    ],
)
def test_a_share_of_a_file_counts_where_something_is_paid_from_it(
    tmp_path: Path, privacy: dict[str, Any], options: dict[str, Any], share: float
) -> None:
    path = written(tmp_path, privacy={"epsilon": 1.0, "records_share": 0.2} | privacy)

    assert PlanRequest.of(path, **options).release.protection.records_share == share


def test_an_option_from_which_nothing_is_paid_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="records_share pays for"):
        PlanRequest.of(written(tmp_path), records_share=0.2)


def test_an_asset_for_which_a_table_stands_is_not_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path, public={"asset": "warehouse/survey"}, domain="nowhere.yaml")

    planned = PlanRequest.of(
        path, public=DemoSource(part="public"), domain=str(CENSUS / "domain.yaml")
    )

    assert planned.release.public == DemoSource(part="public")


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"privacy": {"epsilon": "{{ env.EPSILON }}"}}, "privacy.epsilon is a template"),
        ({"dataset": "{{ env.DATASET }}"}, "dataset is a template"),
        ({"privacy": {"epsilon": "much"}}, "privacy.epsilon must be a number, got 'much'"),
        ({"privacy": {"epsilom": 1}}, "privacy has the unknown key 'epsilom'"),
        (
            {"mechanism": {"rounds": 2.5}},
            "mechanism.rounds must be a whole number, at least 1, got 2.5",
        ),
        ({"mechanism": 3}, "mechanism must be one of jam_pgm"),
        ({"mechanism": "jam"}, "mechanism must be one of jam_pgm"),
        ({"mechanism": {"name": "jam"}}, "mechanism.name must be one of jam_pgm"),
        ({"mechanism": {"name": "aim", "round": 2}}, "mechanism.round is no setting of aim"),
        ({"mechanism": "{{ env.HOW }}"}, "mechanism is a template"),
        ({"mechanism": {"alpha": "{{ env.ALPHA }}"}}, "mechanism.alpha is a template"),
        ({"public": {"asset": "warehouse/survey"}}, "a table that stands for it with --public"),
        ({"public": {"asset": ""}}, "--public"),
        ({"domain": {"identify": "public", "bins": 1}}, "domain.bins"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, attributes: dict[str, Any], told: str
) -> None:
    path = written(tmp_path, **attributes)

    with pytest.raises(InputError) as caught:
        read_definition(path)

    assert told in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("a: [", "no YAML"), ("type: x", "must hold one component"), ("- a", "must hold one")],
)
def test_a_file_that_is_no_release_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "defs.yaml").write_text(text)

    with pytest.raises(InputError, match=told):
        read_definition(tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml cannot be read"):
        read_definition(tmp_path / "nowhere.yaml")


def test_a_plan_takes_the_first_table_where_releases_follow_each_other(tmp_path: Path) -> None:
    given = {"previous_release": {"first": "pub.csv", "first_share": 0.2}}
    assert read_definition(written(tmp_path, public=given))["public"].path == str(
        tmp_path / "pub.csv"
    )
