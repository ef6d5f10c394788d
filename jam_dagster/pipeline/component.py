"""The `SyntheticRelease` component: a release in one YAML file."""

# Dagster reads the annotations of this class as types when it derives the YAML schema, so they
# must not be postponed to strings.
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import dagster as dg
from dagster.components.scaffold.scaffold import scaffold_with

from jam_dagster.keys import KEYS, EvaluationSpec, PrivacySpec, SamplingSpec, WorkloadSpec
from jam_dagster.pipeline.build import Checks, Executor, release_definitions
from jam_dagster.pipeline.yaml.catalogue import catalogue_entry
from jam_dagster.pipeline.yaml.configuration import (
    Configured,
    described,
    error_location,
    section,
    valued,
)
from jam_dagster.pipeline.yaml.scaffold import SyntheticReleaseScaffolder
from jam_dagster.pipeline.yaml.schemas import DOMAIN, MECHANISM, PARTITIONS, PUBLIC, SOURCE
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.release.spec import ReleaseSpec

# Dagster accepts no pydantic model with limits of its own as an annotation; a resolver reads each.
if TYPE_CHECKING:
    Privacy: TypeAlias = PrivacySpec
    WorkloadSection: TypeAlias = WorkloadSpec
    Evaluation: TypeAlias = EvaluationSpec
    Sampling: TypeAlias = SamplingSpec
else:
    Privacy = WorkloadSection = Evaluation = Sampling = object


@scaffold_with(SyntheticReleaseScaffolder)
@dataclass
class SyntheticRelease(dg.Component, Configured):
    """A differentially private synthetic release of a private table, with the help of a public one.

    It makes the assets from the two tables to the synthetic one and a report on it, charges the
    privacy ledger for every draw, and checks the result.

    `dg scaffold defs jam_dagster.SyntheticRelease NAME` writes one to fill in. With
    `--public TABLE` it drafts the domain from that table; `--private TABLE`, `--dataset NAME` and
    `--epsilon NUMBER` fill in more.
    """

    release: Annotated[str, described("name of the release: the key prefix of its assets")]
    dataset: Annotated[str, described("protected dataset whose privacy budget pays")]
    private: Annotated[
        str | dict[str, Any],
        described(
            "source of the table to protect",
            {"parquet": "/secure/people.parquet"},
            {"asset": "warehouse/people"},
            values=SOURCE,
        ),
    ]
    domain: Annotated[
        str | dict[str, Any],
        described(
            "the attributes and their values: a domain file, the same inline, or {identify:"
            " public}",
            "domain.yaml",
            {"identify": "public"},
            values=DOMAIN,
        ),
    ]
    privacy: Annotated[Privacy, section(PrivacySpec, "the guarantee, the noise and the edition")]
    public: Annotated[
        str | dict[str, Any] | None,
        described(
            "source of a related table that needs no protection, or several by name; with"
            " partitions also the release of the partition before; none, where the mechanism"
            " learns from none and the domain is declared",
            "old.csv",
            {"tables": {"census": "census.parquet", "survey": "survey.csv"}},
            {"previous_release": {"first": "old.csv", "first_share": 0.2}},
            values=PUBLIC,
        ),
    ] = None
    mechanism: Annotated[
        MechanismSpec,
        dg.Resolver(
            lambda context, given: MechanismSpec.of(context.resolve_value(given)),
            model_field_type=str | dict[str, Any],
            description="the mechanism: its name, or a mapping of name and settings",
            examples=["aim", {"name": "jam_pgm", "rounds": 10}],
            json_schema_extra=valued(MECHANISM),
        ),
    ] = field(default_factory=MechanismSpec)
    trusted_mechanisms: Annotated[
        list[str],
        described(
            "packages whose mechanisms this release trusts, by name; what a mechanism of another"
            " package than jam-dagster makes is restricted without",
            ["tiny-mechanisms"],
        ),
    ] = field(default_factory=list)
    workload: Annotated[
        WorkloadSection,
        section(WorkloadSpec, "the marginals that matter; all three-way ones by default"),
    ] = field(default_factory=lambda: WorkloadSpec(degree=3))
    evaluation: Annotated[
        Evaluation,
        section(EvaluationSpec, "how the error is measured; with noise by default"),
    ] = field(default_factory=EvaluationSpec)
    sampling: Annotated[
        Sampling,
        section(SamplingSpec, "how rows are made of the model"),
    ] = field(default_factory=SamplingSpec)
    partitions: Annotated[
        str | dict[str, list[str]] | None,
        described(
            "daily, weekly, monthly (with start) or {static: [names]}: one release of each"
            " snapshot, which private (and public) name by {partition} in path or query",
            "monthly",
            {"static": ["wave1", "wave2"]},
            values=PARTITIONS,
        ),
    ] = None
    start: Annotated[
        str | None, described("the day from which on there are partitions", "2026-01-01")
    ] = None
    schedule: Annotated[
        str | None,
        described(
            "as partitions, or a cron expression due once for each of them, in UTC; stopped until"
            " it is started",
            "monthly",
            "0 6 3 * *",
        ),
    ] = None
    executor: Annotated[
        Executor,
        described(
            "in_process: the job's steps run in one process; code_location: by the executor of the"
            " code location, which may give each a process or a container of its own",
            "code_location",
        ),
    ] = "in_process"
    checks: Annotated[
        Checks,
        described(
            "grouped: an asset check for each question about the synthetic table; each: one for"
            " each expectation",
            "each",
        ),
    ] = "grouped"
    group: Annotated[str | None, described("asset group; the release's name by default")] = None
    owners: Annotated[list[str], described("owners of every asset", ["team:statistics"])] = field(
        default_factory=list
    )
    tags: Annotated[dict[str, str], described("tags of every asset")] = field(default_factory=dict)

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what Dagster's catalogue of components shows."""
        return catalogue_entry(
            cls.__doc__,
            tags=["differential privacy", "synthetic data"],
            produces=["asset", "asset_check", "job", "schedule"],
        )

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the spec to use for an asset; override it for an organisation's conventions."""
        return spec

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions of the release.

        Files are looked for relative to the folder of ``defs.yaml``, unless their path is absolute.
        """
        folder = Path(context.path)
        folder = folder if folder.is_dir() else folder.parent
        attributes = {key: getattr(self, key) for key in KEYS}
        with error_location(context):
            return release_definitions(
                ReleaseSpec.from_config(attributes, folder),
                schedule=self.schedule,
                executor=self.executor,
                checks=self.checks,
                group=self.group,
                owners=self.owners,
                tags=self.tags,
                translate=self.get_asset_spec,
            )
