"""One specification: a file and options describe the same release to every tool."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jam_dagster.common.section import ContradictionError
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.keys import OPTIONS, DefaultWorkload
from jam_dagster.mechanisms import Aim, JamPgm, Mechanism
from jam_dagster.privacy import advantage_from_rho
from jam_dagster.release import (
    EvaluationSpec,
    MechanismSpec,
    PartitionsSpec,
    PrivacySpec,
    ReleaseSpec,
    SynthesisRequest,
    WorkloadSpec,
)
from jam_dagster.release.options import check_partition_named, release_spec
from jam_dagster.tables import CsvSource, DemoSource, Domain
from jam_dagster.trials.plan_request import PlanRequest

SURVEY = Path(__file__).parents[2] / "assets" / "releases" / "health_survey"


def written(folder: Path, **attributes: Any) -> Path:
    base: dict[str, Any] = {
        "release": "people",
        "dataset": "people",
        "private": "nowhere.csv",
        "public": {"demo": "health_survey", "part": "public"},
        "domain": str(SURVEY / "domain.yaml"),
        "privacy": {"epsilon": 1.0},
    }
    content = {"type": "jam_dagster.SyntheticRelease", "attributes": base | attributes}
    path = folder / "defs.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def test_what_a_file_leaves_out_has_the_default(tmp_path: Path) -> None:
    planned = PlanRequest.of(written(tmp_path)).spec

    assert planned.mechanism == MechanismSpec("tilt")
    assert planned.privacy == PrivacySpec(epsilon=1.0)
    assert planned.evaluation == EvaluationSpec()
    assert planned.workload == DefaultWorkload()


def test_a_plan_a_command_and_a_component_read_one_file(tmp_path: Path) -> None:
    path = written(tmp_path, private="people.csv", mechanism="aim", workload={"degree": 2})
    attributes = yaml.safe_load(path.read_text())["attributes"]
    domain = Domain.load(SURVEY / "domain.yaml")

    dagster = ReleaseSpec.from_config(attributes, tmp_path)
    command = SynthesisRequest.of(path, out=tmp_path / "out", ledger="l.db").spec
    planned = PlanRequest.of(path)

    assert command == dagster
    assert command.private == CsvSource(str(tmp_path / "people.csv"))
    assert planned.release_id(domain) == dagster.release_id(domain)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text((SURVEY / "domain.yaml").read_text())
    path = written(tmp_path, domain="domain.yaml", public="pub.csv")

    spec = release_spec(path.parent)

    assert spec.public == CsvSource(str(tmp_path / "pub.csv"))
    assert spec.domain.declared == Domain.load(SURVEY / "domain.yaml")


@pytest.mark.parametrize("private", [{"asset": "warehouse/people"}, "{{ env.TABLE }}", None])
def test_a_plan_holds_no_private_table(tmp_path: Path, private: Any) -> None:
    planned = PlanRequest.of(written(tmp_path, private=private)).spec

    assert planned.private.describe() == "not opened"


def test_options_override_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path, workload={"cliques": [["x"]]}, evaluation={"mode": "private", "share": 0.1}
    )

    planned = PlanRequest.of(path, epsilon=2.0, degree=2, evaluation_mode="off").spec

    assert planned.privacy.epsilon == 2.0
    assert planned.workload == WorkloadSpec(degree=2)
    assert planned.shares.keys() == {"mechanism"}


def test_options_change_settings_of_the_files_mechanism_and_none_of_anothers(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, mechanism={"name": "aim", "rounds": 40, "alpha": 0.5})

    def made(**options: Any) -> Mechanism:
        return PlanRequest.of(path, **options).spec.mechanism.build()

    assert made() == made(mechanism="aim") == Aim(rounds=40, alpha=0.5)
    assert made(settings={"rounds": "50"}) == Aim(rounds=50, alpha=0.5)
    assert made(mechanism="jam_pgm", settings={"rounds": 5}) == JamPgm(rounds=5)
    with pytest.raises(InputError, match="alpha is no setting of mst; it has merge_rare"):
        made(mechanism="mst", settings={"alpha": 0.5})
    with pytest.raises(InputError, match="gaussian answers marginals and makes no synthetic"):
        made(mechanism="gaussian")
    with pytest.raises(InputError, match="no setting 'name'"):
        made(settings={"name": "mst"})


@pytest.mark.parametrize("other", [{"cliques": [["x"]]}, {"weights": [5.0]}])
def test_a_degree_beside_what_it_excludes_is_refused(tmp_path: Path, other: Any) -> None:
    with pytest.raises(InputError, match="workload"):
        PlanRequest.of(written(tmp_path, workload={"degree": 2}), degree=1, **other)


@pytest.mark.parametrize(
    ("privacy", "options", "share"),
    [
        # What is scaffolded says every key.
        ({"neighbours": "replace_one"}, {}, 0.2),
        ({"unit": {"column": "person", "max_rows": 1}}, {}, 0.2),
        ({"neighbours": "add_remove"}, {}, 0.2),
        ({"unit": {"column": "person", "max_rows": 2}}, {}, 0.2),
        ({}, {"neighbours": "add_remove"}, 0.2),
    ],
)
def test_a_file_may_say_a_share_from_which_nothing_is_paid(
    tmp_path: Path, privacy: dict[str, Any], options: dict[str, Any], share: float
) -> None:
    path = written(tmp_path, privacy={"epsilon": 1.0, "records_share": 0.2} | privacy)

    assert PlanRequest.of(path, **options).spec.privacy.records_share == share


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"records_share": 0.2}, r"privacy\.records_share \(--records-share\) pays for"),
        (
            {"evaluation_share": 0.2, "evaluation_mode": "off"},
            r"evaluation\.share \(--evaluation-share\) pays for .* instead of 'off'",
        ),
        ({"max_rows": 2}, r"privacy\.unit needs the key 'column' \(--privacy-unit\)"),
    ],
)
def test_an_option_without_effect_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    for ask in (PlanRequest.of, release_spec):
        with pytest.raises(InputError, match=message):
            ask(written(tmp_path, private="people.csv"), **options)


def test_the_share_of_a_private_number_of_roots_has_an_effect() -> None:
    persons = {"private": "persons.csv", "key": "home", "max": 3}

    spec = release_spec(
        release="homes",
        private="homes.csv",
        domain=Domain.from_sizes({"size": 2}),
        children={"persons": {**persons, "domain": Domain.from_sizes({"age": 2})}},
        epsilon=1.0,
        degree=1,
        records_share=0.2,
    )

    assert spec.privacy.neighbours == "add_remove"


@pytest.mark.parametrize(
    ("section", "keys", "options", "left"),
    [
        ("privacy", {"epsilon": 1.0, "noise": "numpy", "seed": 7}, {"noise": "exact"}, "epsilon"),
        ("workload", {"cliques": [["age"]], "weights": [2.0]}, {"degree": 1}, ""),
        ("workload", {"degree": 2}, {"cliques": [["age"]]}, ""),
        ("evaluation", {"mode": "exact", "share": 0.1}, {"evaluation_mode": "private"}, "share"),
    ],
)
def test_an_option_replaces_what_contradicts_it(
    tmp_path: Path, section: str, keys: dict[str, Any], options: dict[str, Any], left: str
) -> None:
    path = written(tmp_path, private="people.csv", **{section: keys})

    kept = {key: one for key, one in keys.items() if key == left}
    made = {OPTIONS[name].path.partition(".")[2]: value for name, value in options.items()}
    spec = release_spec(path, **options)
    assert getattr(spec, section) == type(getattr(spec, section))(**kept, **made)


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        # A file that contradicts itself does not say which key was meant.
        ({"workload": {"cliques": [["age"]], "degree": 2}}, {"epsilon": 2.0}),
        ({"privacy": {"epsilon": 1.0, "seed": 7}}, {"epsilon": 2.0}),
        # An option is never dropped.
        ({"privacy": {"epsilon": 1.0}}, {"seed": 7}),
        ({"workload": {"degree": 2}}, {"weights": [1.0]}),
        ({"workload": {"cliques": [["age"]], "weights": [1.0]}}, {"cliques": [["age"], ["sex"]]}),
        ({}, {"noise": "exact", "seed": 7}),
    ],
)
def test_any_other_contradiction_is_refused(
    tmp_path: Path, keys: dict[str, Any], options: dict[str, Any]
) -> None:
    with pytest.raises(ContradictionError):
        release_spec(written(tmp_path, private="people.csv", **keys), **options)


@pytest.mark.parametrize(
    "attributes",
    [
        {"privacy": {"advantage": 0.1}},
        {"evaluation": {"mode": "exact"}, "purpose": [{"target": "sex"}]},
        {"workload": {"cliques": [["age", "sex"]]}},
    ],
)
def test_a_plan_takes_any_keys_of_a_release(tmp_path: Path, attributes: dict[str, Any]) -> None:
    path = written(tmp_path, private="people.csv", **attributes)

    assert PlanRequest.of(path).spec == release_spec(path).changed(
        private=PlanRequest.of(path).spec.private
    )


def test_an_option_is_named_by_its_key() -> None:
    named = {one.path: name for name, one in OPTIONS.items()}
    leaves = {path: path.rpartition(".")[2] for path in named}

    assert len(set(leaves.values())) == len(leaves)
    others = {path: name for path, name in named.items() if path != "privacy.unit.column"}
    assert all(name in (leaves[path], path.replace(".", "_")) for path, name in others.items())
    assert {
        "privacy.unit.column": "privacy_unit",
        "privacy.unit.max_rows": "max_rows",
        "evaluation.mode": "evaluation_mode",
        "evaluation.share": "evaluation_share",
        "purpose": "purpose",
    }.items() <= named.items()
    flags = {name: one.flag for name, one in OPTIONS.items()}
    assert {
        "evaluation_mode": "--evaluation-mode",
        "privacy_unit": "--privacy-unit",
        "cliques": "--clique",
        "weights": "--weight",
        "public": "--public",
        "search": "--search/--no-search",
        "sampling_mark": "--sampling-mark",
    }.items() <= flags.items()


def test_an_option_that_no_release_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no option 'epsilom'"):
        release_spec(written(tmp_path), epsilom=2.0)


def test_an_asset_for_which_a_table_stands_is_not_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path, public={"asset": "warehouse/survey"}, domain="nowhere.yaml")

    planned = PlanRequest.of(
        path, public=DemoSource(part="public"), domain=str(SURVEY / "domain.yaml")
    )

    assert planned.spec.public == DemoSource(part="public")


@pytest.mark.parametrize("key", ["warehouse/survey", ""])
def test_a_plan_asks_for_a_table_in_the_place_of_an_asset(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match="a table that stands for it with --public"):
        PlanRequest.of(written(tmp_path, public={"asset": key}))


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"privacy": {"epsilon": "{{ env.EPSILON }}"}}, "privacy.epsilon is a template"),
        ({"dataset": "{{ env.DATASET }}"}, "dataset is a template"),
        ({"mechanism": {"name": "aim", "round": 2}}, "mechanism.round is no setting of aim"),
        ({"mechanism": "{{ env.HOW }}"}, "mechanism is a template"),
        ({"mechanism": {"alpha": "{{ env.ALPHA }}"}}, "mechanism.alpha is a template"),
        ({"privacy": {"epsilon": 1, "edition": "{{ env.E }}"}}, "privacy.edition is a template"),
        (
            {"privacy": {"epsilon": 1, "unit": {"column": "{{ env.C }}"}}},
            "privacy.unit.column is a template",
        ),
        ({"domain": "{{ project_root }}/domain.yaml"}, "domain is a template"),
        ({"privacy": "{{ privacy }}"}, "privacy is a template"),
        ({"partitions": "{{ env.P }}"}, "partitions is a template"),
        ({"release": "r r/../x"}, "release must start with a letter"),
        ({"privacy": {"epsilon": 1, "edition": "a b"}}, "privacy.edition must be of letters"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, attributes: dict[str, Any], expected: str
) -> None:
    path = written(tmp_path, **{"private": "people.csv", **attributes})

    with pytest.raises(InputError) as caught:
        SynthesisRequest.of(path, out=tmp_path)

    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a: [", "not valid YAML"), ("type: x", "must hold one component"), ("- a", "must hold one")],
)
def test_a_file_that_is_no_release_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "defs.yaml").write_text(text)

    with pytest.raises(InputError, match=expected):
        release_spec(tmp_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml cannot be read"):
        release_spec(tmp_path / "nowhere.yaml")


def test_a_plan_takes_the_first_table_where_releases_follow_each_other(tmp_path: Path) -> None:
    given = {"previous_release": {"first": "pub.csv", "first_share": 0.2}}

    planned = PlanRequest.of(written(tmp_path, public=given))

    assert planned.spec.public == CsvSource(str(tmp_path / "pub.csv"))


def test_what_an_option_says_is_no_template(tmp_path: Path) -> None:
    file = written(tmp_path, private="{{ env.TABLE }}", mechanism={"name": "{{ env.HOW }}"})

    spec = release_spec(file, private="{{1}}.csv", mechanism="aim")

    assert spec.private == CsvSource(str(tmp_path / "{{1}}.csv"))
    assert spec.mechanism.name == "aim"


def test_templates_of_the_asset_graph_alone_are_none_of_the_command_lines(tmp_path: Path) -> None:
    file = written(
        tmp_path, private="people.csv", group="{{ env.GROUP }}", tags={"of": "{{ env.TEAM }}"}
    )

    assert release_spec(file).release == "people"


def test_the_default_mechanism_named_again_keeps_its_settings(tmp_path: Path) -> None:
    file = written(tmp_path, private="people.csv", mechanism={"iterations": 7})

    assert release_spec(file, mechanism="tilt").mechanism == MechanismSpec("tilt", iterations=7)


def test_without_a_public_table_the_default_is_the_one_that_needs_none(tmp_path: Path) -> None:
    file = written(tmp_path, private="people.csv", public=None, mechanism={"iterations": 7})

    assert release_spec(file).mechanism == MechanismSpec("tilt", iterations=7, prior="uniform")
    assert release_spec(file, mechanism="tilt").mechanism.settings["iterations"] == 7


@pytest.mark.parametrize("public", ["pub.csv", None])
@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": {"name": "tilt", "prior": "uniform"}},
        {"mechanism": "{name: tilt, prior: uniform}"},
        {"mechanism": '{"prior": "uniform"}'},
        {"settings": {"prior": "uniform"}},
        {"mechanism": {"name": "tilt", "prior": "uniform"}, "settings": {"prior": "uniform"}},
    ],
)
def test_a_mechanism_with_settings_is_that_of_the_file(
    tmp_path: Path, public: str | None, options: Any
) -> None:
    domain = Domain.load(SURVEY / "domain.yaml")
    tables = {"private": "people.csv", "public": public}
    uniform = written(tmp_path, **tables, mechanism={"name": "tilt", "prior": "uniform"})
    expected = PlanRequest.of(uniform).release_id(domain)

    file = written(tmp_path, **tables)

    assert PlanRequest.of(file, **options).release_id(domain) == expected


def test_a_mechanism_with_settings_takes_the_place_of_the_files(tmp_path: Path) -> None:
    file = written(tmp_path, mechanism={"name": "aim", "rounds": 40, "alpha": "{{ env.ALPHA }}"})

    made = PlanRequest.of(file, mechanism={"name": "aim", "alpha": 0.5}).spec.mechanism

    assert made == MechanismSpec("aim", alpha=0.5)


@pytest.mark.parametrize(
    ("mechanism", "refused"),
    [
        ({"name": "aim", "rounds": 40}, "says rounds: 40, and --setting says rounds=50"),
        ("{name: aim, rounds: 40", "--mechanism is not valid YAML at line 1, column 23"),
        ("{name: ours}", "mechanism.name must be one of jam_pgm"),
        ("{name: aim, round: 4}", "mechanism.round is no setting of aim"),
    ],
)
def test_a_mechanism_with_settings_that_cannot_be(
    tmp_path: Path, mechanism: Any, refused: str
) -> None:
    with pytest.raises(InputError, match=re.escape(refused)):
        release_spec(written(tmp_path), mechanism=mechanism, settings={"rounds": "50"})


def monthly(folder: Path) -> SynthesisRequest:
    path = written(
        folder,
        private="priv_{partition}.csv",
        public="pub_{partition}.csv",
        partitions="monthly",
        start="2026-01",
    )
    return SynthesisRequest.of(path, out=folder / "out", ledger="l.db", partition="2026-01")


def test_a_partition_s_public_table_is_not_its_private_one(tmp_path: Path) -> None:
    (tmp_path / "priv_2026-01.csv").write_text("a")
    (tmp_path / "pub_2026-01.csv").symlink_to(tmp_path / "priv_2026-01.csv")

    with pytest.raises(InputError, match="The public table is the private table"):
        monthly(tmp_path).validate()


@pytest.mark.parametrize(
    ("partition", "words"),
    [("", "name one with --partition"), ("2025-12", "no partition"), ("9999-01", "not over yet")],
)
def test_a_partition_is_one_that_is_over(tmp_path: Path, partition: str, words: str) -> None:
    request = replace(monthly(tmp_path), partition=partition)

    with pytest.raises(InputError, match=words):
        request.validate()


@pytest.mark.parametrize(
    ("partitions", "name", "near"),
    [
        (PartitionsSpec.of("monthly", "2026-01-01"), "2026-1", "2026-01"),
        (PartitionsSpec.of({"static": ["north", "south", "east"]}), "nort", "north"),
    ],
)
def test_a_misspelled_partition_is_answered_with_the_nearest(
    partitions: PartitionsSpec, name: str, near: str
) -> None:
    with pytest.raises(InputError, match=rf"no partition '{name}': name one .* such as .*{near}"):
        check_partition_named(partitions, name)


def test_in_time_the_partitions_that_are_over_are_near() -> None:
    spec = PartitionsSpec.of("monthly", "2020-11-01")
    assert spec is not None
    assert spec.nearest("2020-1")[:2] == ["2020-12", "2020-11"]
    assert spec.nearest("winter") == []


@pytest.mark.parametrize("name", ["20260101", "2026-W01-4", "2026W014", "2026-1-1", "2026-01-01 "])
def test_a_day_has_one_spelling(name: str) -> None:
    assert PartitionsSpec.of("daily", "2026-01-01").holds("2026-01-01")
    assert not PartitionsSpec.of("daily", "2026-01-01").holds(name)


def test_a_release_is_reported_unless_not_wanted() -> None:
    tables = {"private": CsvSource("priv.csv"), "public": CsvSource("pub.csv")}
    made = {
        (noise, report): SynthesisRequest.of(
            **tables, out=Path("out"), epsilon=1, noise=noise, report=report
        ).with_report
        for noise in ("exact", "numpy")
        for report in (None, True, False)
    }

    assert made == {
        ("exact", None): True,
        ("exact", True): True,
        ("exact", False): False,
        ("numpy", None): False,
        ("numpy", True): True,
        ("numpy", False): False,
    }


@pytest.mark.parametrize(
    ("spec", "order"),
    [
        (PartitionsSpec("monthly", "2025-11"), ["2025-11", "2025-12", "2026-01"]),
        (PartitionsSpec("weekly", "2026-01-01"), ["2026-01-05", "2026-01-12"]),
        (PartitionsSpec("daily", "2026-02-28"), ["2026-02-28", "2026-03-01"]),
        (PartitionsSpec(static=("b", "a", "c")), ["b", "a", "c"]),
    ],
)
def test_the_partition_before(spec: PartitionsSpec, order: list[str]) -> None:
    assert [spec.before(one) for one in order] == [None, *order[:-1]]


def test_a_budget_is_asked_for_by_its_risk(tmp_path: Path) -> None:
    def spec(**privacy: object) -> ReleaseSpec:
        path = written(tmp_path, privacy=privacy)
        attributes = yaml.safe_load(path.read_text())["attributes"]
        asked = ReleaseSpec.from_config(attributes, tmp_path)
        by_option = release_spec(written(tmp_path, privacy={"epsilon": 1.0}), **privacy)
        # An option replaces what a file says, its epsilon too.
        assert by_option.privacy == asked.privacy
        return asked

    domain = Domain.load(SURVEY / "domain.yaml")
    asked = spec(advantage=0.1)
    assert 0.1 * (1 - 1e-9) <= advantage_from_rho(asked.budget.rho) <= 0.1
    # The specification has the epsilon alone.
    assert asked.digest(domain) == spec(epsilon=asked.privacy.epsilon).digest(domain)


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"advantage": 0.1, "epsilon": 1}, "say the same thing: remove one"),
        ({"advantage": 10}, r"privacy\.advantage: an advantage is above 0"),
        ({"advantage": 1e-12}, "leaves no epsilon"),
        ({"advantage": [0.1]}, r"privacy\.advantage: advantage must be a number, got \[0\.1\]"),
        ({"advantage": 10**400}, r"privacy\.advantage: advantage must be a finite number"),
        ({"advantage": 0.1, "delta": [1]}, r"privacy\.advantage: delta must be a number"),
    ],
)
def test_a_risk_that_no_budget_has_is_refused(privacy: dict[str, float], message: str) -> None:
    with pytest.raises(SpecificationError, match=message):
        PrivacySpec.of(privacy)
