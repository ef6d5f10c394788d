import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.keys import EvaluationSpec, PrivacySpec, SamplingSpec, WorkloadSpec
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.release.options import release_spec
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.sections import DomainSpec, MechanismSpec
from jam_dagster.release.spec import ReleaseSpec
from jam_dagster.tables import CategoricalAttribute, CsvSource, Domain, SplitSource

DOMAIN = Domain(
    (CategoricalAttribute("sex", ("F", "M")), CategoricalAttribute("town", ("A", "B", "C")))
)

MONTHLY = PartitionsSpec("monthly", "2026-01-01")


def spec(**changes: Any) -> ReleaseSpec:
    given: dict[str, Any] = {
        "release": "people",
        "dataset": "people_2026",
        "private": CsvSource("private.csv"),
        "public": CsvSource("public.csv"),
        "domain": DomainSpec(declared=DOMAIN),
        "privacy": PrivacySpec(epsilon=1.0),
        "workload": WorkloadSpec(degree=2),
    }
    return ReleaseSpec(**{**given, **changes})


def test_each_row_may_be_said_to_be_a_person() -> None:
    said: Any = "row"
    assert PrivacySpec(epsilon=1.0, unit=said) == PrivacySpec(epsilon=1.0)
    with pytest.raises(SpecificationError, match="unit"):
        PrivacySpec(epsilon=1.0, unit="rows")  # type: ignore[arg-type]


def test_numbers_that_yaml_reads_as_text_are_numbers() -> None:
    assert PrivacySpec(epsilon="1", delta="1e-9").delta == 1e-9


def test_exact_noise_has_no_seed() -> None:
    with pytest.raises(SpecificationError, match="numpy only"):
        PrivacySpec(epsilon=1.0, seed=3)
    assert PrivacySpec(epsilon=1.0, noise="numpy").seed == 0


@pytest.mark.parametrize("edition", ["", "2026/07", "../1", "a b"])
def test_edition_that_is_no_name_is_refused(edition: str) -> None:
    with pytest.raises(SpecificationError, match=r"privacy\.edition"):
        ReleaseGraph(spec(privacy=PrivacySpec(epsilon=1.0, edition=edition)))


def test_an_edition_of_one_partition_is_in_no_digest() -> None:
    monthly = {"private": CsvSource("p_{partition}.csv"), "partitions": MONTHLY}
    plain = spec(**monthly)
    # YAML reads a name such as 2026-03-01 as a day, and 2 as a number.
    editions: dict[Any, Any] = {"2026-03": 2}
    mended = spec(**monthly, privacy=PrivacySpec(epsilon=1.0, editions=editions))
    assert [mended.edition_of(name) for name in ("2026-02", "2026-03")] == ["1", "2"]
    assert mended.at("2026-03").privacy.edition == "2"
    assert mended.digest(DOMAIN) == plain.digest(DOMAIN)
    assert mended.at("2026-03").digest(DOMAIN) == plain.at("2026-03").digest(DOMAIN)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"partitions": None, "private": CsvSource("p.csv")}, "is for a release with partitions"),
        ({"editions": {"2026-3": "2"}}, "names '2026-3', which is no partition"),
        ({"editions": {"2025-12": "2"}}, "names '2025-12', which is no partition"),
        ({"editions": {"2026-03": "a/b"}}, "privacy.editions.2026-03 must be of letters"),
        ({"editions": {"2026-03": True}}, "editions"),
        ({"editions": {"2026-03": None}}, "editions"),
        ({"editions": ["2026-03"]}, "editions"),
    ],
)
def test_an_edition_of_no_partition_is_refused(changes: dict[str, Any], named: str) -> None:
    editions = changes.pop("editions", {"2026-03": "2"})
    given = {"private": CsvSource("p_{partition}.csv"), "partitions": MONTHLY, **changes}
    with pytest.raises(SpecificationError, match=re.escape(named)):
        spec(**given, privacy=PrivacySpec(epsilon=1.0, editions=editions))


def test_edition_may_be_a_number() -> None:
    assert PrivacySpec(epsilon=1.0, edition=2).edition == "2"


@pytest.mark.parametrize("edition", [True, False, 1.0])
def test_an_edition_that_yaml_read_as_something_else_is_refused(edition: Any) -> None:
    """Each would be edition 1, or 0, whatever was written."""
    with pytest.raises(SpecificationError, match=r"privacy\.edition must be a text"):
        PrivacySpec(epsilon=1.0, edition=edition)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": "jam_pgm", "rounds": 1.5}, "rounds"),
        ({"name": "jam_pgm", "tolerance": "loose"}, "tolerance must be a number"),
        ({"name": "jam"}, "name must be one of jam_pgm, tilt, aim"),
        ({"name": "aim", "rounds": 1}, "rounds must be a whole number, at least 2"),
        ({"name": "jam_pgm", "round": 3}, "round is no setting of jam_pgm; it has rounds"),
        ({"name": "jam_pgm", "rounds": 10**400}, "rounds must be a whole number"),
        ({"name": "jam_pgm", "self": 3}, "self is no setting of jam_pgm"),
        ({"rounds": 3}, r"rounds is no setting of tilt; it has .*\. It is one of jam_pgm, aim"),
    ],
)
def test_mechanism_parameter_out_of_range_is_refused(change: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecificationError, match=rf"mechanism\.{named}"):
        MechanismSpec.of(change, public=True)


def test_a_key_that_is_no_text_is_refused_as_any_other() -> None:
    with pytest.raises(SpecificationError, match=r"mechanism\.5 is no setting of aim"):
        MechanismSpec.of({"name": "aim", 5: 3}, public=True)


def test_only_mechanisms_that_make_a_table_are_offered() -> None:
    with pytest.raises(SpecificationError, match="must be one of") as refused:
        MechanismSpec.of("gauss", public=True)
    assert "gaussian" not in str(refused.value)
    assert "rap_softmax" in str(refused.value)


def test_workload_is_a_degree_or_a_list() -> None:
    with pytest.raises(SpecificationError, match="either degree"):
        WorkloadSpec()
    with pytest.raises(SpecificationError, match="either degree"):
        WorkloadSpec(degree=2, cliques=[["sex"]])
    with pytest.raises(SpecificationError, match="weights"):
        WorkloadSpec(degree=2, weights=[1.0])
    workload = WorkloadSpec(cliques=[["town", "sex"], ["sex"]], weights=[3, 1]).build(DOMAIN)
    assert set(workload.cliques) == {("sex", "town"), ("sex",)}


def test_workload_that_the_domain_cannot_serve_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="twon"):
        spec(workload=WorkloadSpec(cliques=[["twon"]]))
    with pytest.raises(InputError):
        spec(workload=WorkloadSpec(degree=3))


@pytest.mark.parametrize("share", [0, 1, -0.1, "none"])
def test_evaluation_share_out_of_range_is_refused(share: Any) -> None:
    with pytest.raises(SpecificationError, match=r"evaluation\.share"):
        EvaluationSpec(share=share)


def test_bare_off_of_yaml_is_the_mode_off() -> None:
    assert EvaluationSpec(mode=False).mode == "off"
    with pytest.raises(SpecificationError, match=r"evaluation\.mode"):
        EvaluationSpec(mode=True)


def test_domain_is_declared_or_identified() -> None:
    with pytest.raises(SpecificationError, match="declared"):
        DomainSpec()
    with pytest.raises(SpecificationError, match="declared"):
        DomainSpec(declared=DOMAIN, identify="public")
    with pytest.raises(SpecificationError, match=r"domain\.identify"):
        DomainSpec(identify="private")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "2people", "pe ople", "a/b", "../x", "people-1"])
def test_release_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(SpecificationError, match="release must"):
        ReleaseGraph(spec(release=name))


def test_releasable_needs_exact_noise_and_a_domain_without_private_values() -> None:
    assert spec().releasable
    seeded = spec(privacy=PrivacySpec(epsilon=1.0, noise="numpy"))
    assert not seeded.releasable
    assert "numpy" in seeded.not_releasable_because[0]
    drafted = dataclasses.replace(DOMAIN, identified_from="private")
    assert not spec(domain=DomainSpec(declared=drafted)).releasable


CHANGES: dict[str, dict[str, Any]] = {
    "epsilon": {"privacy": PrivacySpec(epsilon=2.0)},
    "delta": {"privacy": PrivacySpec(epsilon=1.0, delta=1e-8)},
    "noise": {"privacy": PrivacySpec(epsilon=1.0, noise="numpy")},
    "seed": {"privacy": PrivacySpec(epsilon=1.0, noise="numpy", seed=1)},
    "rounds": {"mechanism": MechanismSpec(name="jam_pgm", rounds=29)},
    "alpha": {"mechanism": MechanismSpec("jam_pgm", alpha=0.5)},
    "size limit": {"mechanism": MechanismSpec("jam_pgm", size_limit_mb=40)},
    "estimator": {"mechanism": MechanismSpec("jam_pgm", estimator="mbi")},
    "iterations": {"mechanism": MechanismSpec("jam_pgm", iterations=999)},
    "tolerance": {"mechanism": MechanismSpec("jam_pgm", tolerance=0.01)},
    "mechanism": {"mechanism": MechanismSpec("aim")},
    "another mechanism's setting": {"mechanism": MechanismSpec("aim", rounds=30)},
    "workload": {"workload": WorkloadSpec(degree=1)},
    "share": {"evaluation": EvaluationSpec(share=0.1)},
    "mode": {"evaluation": EvaluationSpec(mode="exact")},
}


def test_digest_changes_with_everything_that_influences_a_draw() -> None:
    digests = [spec(**change).digest(DOMAIN) for change in CHANGES.values()]
    other = Domain((*DOMAIN.attributes, CategoricalAttribute("job", ("x", "y"))))
    digests += [spec().digest(DOMAIN), spec().digest(other)]
    assert len(set(digests)) == len(digests)


def test_digest_stays_where_no_draw_changes() -> None:
    digest = spec().digest(DOMAIN)
    assert spec(private=CsvSource("moved.csv")).digest(DOMAIN) == digest
    assert spec(privacy=PrivacySpec(epsilon=1.0, edition="2")).digest(DOMAIN) == digest
    exact = spec(evaluation=EvaluationSpec(mode="exact")).digest(DOMAIN)
    off = spec(evaluation=EvaluationSpec(mode="off")).digest(DOMAIN)
    assert exact == off
    # It sees the model alone.
    assert spec(sampling=SamplingSpec(search=False)).digest(DOMAIN) == digest


def test_a_purpose_is_part_of_the_workload_in_a_file_and_as_options(tmp_path: Path) -> None:
    analyses = [{"target": "sex"}, {"regress": "town ~ sex"}]
    file = {"release": "people", "private": "a.csv", "public": "b.csv", "domain": DOMAIN}
    file |= {"privacy": {"epsilon": 1.0}, "purpose": analyses}
    made = ReleaseSpec.from_config(file, tmp_path)
    texts = ["target: sex", "regress: town~sex"]
    options = release_spec(
        private="a.csv", public="b.csv", domain=DOMAIN, release="people", epsilon=1.0, purpose=texts
    )

    assert made.workload.to_dict() == {"degree": 3, "purpose": analyses}
    assert options.workload == made.workload
    built = made.workload.build(DOMAIN)
    assert ("sex", "town") in built.purpose
    alone = ReleaseSpec.from_config({**file, "purpose": None}, tmp_path)
    assert alone.digest(DOMAIN) != made.digest(DOMAIN)
    listed = {**file, "workload": {"cliques": [["town"]]}}
    assert len(ReleaseSpec.from_config(listed, tmp_path).workload.build(DOMAIN)) > 1
    with pytest.raises(InputError, match="purpose names 'wage'"):
        ReleaseSpec.from_config({**file, "purpose": [{"target": "wage"}]}, tmp_path)
    with pytest.raises(SpecificationError, match="an analysis of purpose must be") as refused:
        ReleaseSpec.from_config({**file, "purpose": [{"wage": "sex"}]}, tmp_path)
    assert refused.value.key == "purpose"


def test_digest_of_a_restricted_domain_holds_nothing_of_it() -> None:
    drafted = [
        dataclasses.replace(one, identified_from="private")
        for one in (DOMAIN, Domain(DOMAIN.attributes[::-1]))
    ]
    one, other = (spec(domain=DomainSpec(declared=domain)) for domain in drafted)
    assert one.digest(drafted[0]) == other.digest(drafted[1]) == one.digest(None)
    with pytest.raises(SpecificationError, match="materialize it first"):
        spec(domain=DomainSpec(identify="public")).digest(None)


@pytest.mark.parametrize("change", [*CHANGES, "none"])
def test_the_command_line_knows_the_release_by_the_same_digest(change: str) -> None:
    """What was paid by one tool is never paid again by the other."""
    release = spec(**CHANGES.get(change, {}))
    given = release_spec(
        private=release.private,
        public=release.public,
        domain=DOMAIN,
        release="of-the-command-line",
        dataset="people_2026",
        epsilon=release.privacy.epsilon,
        delta=release.privacy.delta,
        degree=release.workload.degree,
        mechanism=release.mechanism.name,
        settings=release.mechanism.settings,
        seed=release.privacy.seed,
        noise=release.privacy.noise,
        evaluation_mode=release.evaluation_mode,
        evaluation_share=release.evaluation.share if release.evaluation_mode == "private" else None,
    )
    assert given.digest(DOMAIN) == release.digest(DOMAIN)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-7, 1e6])
def test_budget_that_cannot_be_spent_is_refused_at_once(epsilon: float) -> None:
    with pytest.raises(
        SpecificationError, match=r"privacy\.epsilon: .*(raise|Raise|lower) epsilon"
    ):
        spec(privacy=PrivacySpec(epsilon=epsilon))


def test_a_share_too_small_to_measure_is_refused_at_once() -> None:
    budget = {"privacy": PrivacySpec(epsilon=1.0), "mechanism": MechanismSpec("jam_pgm", rounds=1)}
    with pytest.raises(SpecificationError, match=r"evaluation\.share 1e-15 .* is too small"):
        spec(**budget, evaluation=EvaluationSpec(share=1e-15))
    assert set(spec(**budget).shares) == {"mechanism", "evaluation"}
    assert set(spec(**budget, evaluation=EvaluationSpec(mode="off")).shares) == {"mechanism"}


def test_private_source_whose_n_tells_private_values_is_for_research() -> None:
    split = SplitSource(
        CsvSource("all.csv"), "sex", "F", public_share=0.5, public_rows=0.1, private_share=0.3
    )
    with pytest.raises(SpecificationError, match=r"release people may not be released from.*sex"):
        spec(private=split)
    seeded = spec(private=split, privacy=PrivacySpec(epsilon=1.0, noise="numpy"))
    assert any("private_share" in reason for reason in seeded.not_releasable_because)
    assert spec(private=dataclasses.replace(split, private_share=None)).releasable
    # The public table is no secret, however it was cut.
    assert spec(public=dataclasses.replace(split, part="public")).releasable


@pytest.mark.parametrize("attributes", [1, 2, 3, 4])
def test_the_default_degree_is_no_more_than_there_are_attributes(attributes: int) -> None:
    domain = Domain.from_sizes({f"a{place}": 2 for place in range(attributes)})
    given = {"release": "r", "private": "a.csv", "public": "b.csv", "epsilon": 1.0}
    default = release_spec(**given, noise="numpy")
    assert {*map(len, default.workload.build(domain).cliques)} == {min(3, attributes)}
    stated = release_spec(**given, noise="numpy", degree=3)
    assert stated.configured == default.configured
    if attributes < 3:
        with pytest.raises(InputError, match="the degree of a workload must be"):
            stated.workload.build(domain)
