"""The `SyntheticRelease` component: a release in one YAML file."""

# Dagster reads the annotations of this class as types when it derives the YAML schema, so they
# must not be postponed to strings.
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import dagster as dg
from dagster.components.scaffold.scaffold import scaffold_with

from jam_dagster.keys import (
    KEYS,
    Checks,
    EvaluationSpec,
    Executor,
    GraphOptions,
    Misfit,
    OpOptions,
    PrivacySpec,
    ReleaseKeys,
    SamplingSpec,
    WorkloadSpec,
)
from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
from jam_dagster.pipeline.build import release_definitions
from jam_dagster.pipeline.dagster_internals import TranslationFn, TranslationFnResolver
from jam_dagster.pipeline.graph import LEDGER
from jam_dagster.pipeline.yaml.configuration import (
    Configured,
    as_written,
    catalogue_entry,
    error_location,
    section,
)
from jam_dagster.pipeline.yaml.resources import ReleaseResources
from jam_dagster.pipeline.yaml.scaffold import SyntheticReleaseScaffolder
from jam_dagster.privacy.ledger.identity import read_ledger_id
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.release.spec import ReleaseSpec

# Dagster accepts no pydantic model with limits of its own as an annotation; a resolver reads each.
if TYPE_CHECKING:
    Privacy: TypeAlias = PrivacySpec
    WorkloadSection: TypeAlias = WorkloadSpec
    Evaluation: TypeAlias = EvaluationSpec
    Sampling: TypeAlias = SamplingSpec
    Op: TypeAlias = OpOptions
else:
    Privacy = WorkloadSection = Evaluation = Sampling = Op = object


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

    declared_keys = ReleaseKeys

    release: str
    dataset: str
    private: str | dict[str, Any]
    domain: Annotated[
        str | dict[str, Any], dg.Resolver(as_written, model_field_type=str | dict[str, Any])
    ]
    privacy: Annotated[Privacy, section(PrivacySpec)]
    public: str | dict[str, Any] | None = None
    children: Annotated[
        dict[str, Any] | None, dg.Resolver(as_written, model_field_type=dict[str, Any] | None)
    ] = None
    mechanism: Annotated[
        MechanismSpec | str | dict[str, Any] | None,
        dg.Resolver(
            lambda context, given: context.resolve_value(given),
            model_field_type=str | dict[str, Any] | None,
        ),
    ] = None
    workload: Annotated[WorkloadSection, section(WorkloadSpec)] = field(
        default_factory=lambda: WorkloadSpec(degree=3)
    )
    purpose: Annotated[
        list[dict[str, Any]] | None,
        dg.Resolver(as_written, model_field_type=list[dict[str, Any]] | None),
    ] = None
    evaluation: Annotated[Evaluation, section(EvaluationSpec)] = field(
        default_factory=EvaluationSpec
    )
    sampling: Annotated[Sampling, section(SamplingSpec)] = field(default_factory=SamplingSpec)
    partitions: str | dict[str, list[str]] | None = None
    start: str | None = None
    schedule: str | None = None
    executor: Executor = "in_process"
    checks: Checks = "grouped"
    misfit: Misfit | None = None
    accept_misfit: list[str] = field(default_factory=list)
    group: str | None = None
    owners: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    op: Annotated[Op, section(OpOptions)] = field(default_factory=OpOptions)
    run_tags: Annotated[
        dict[str, Any], dg.Resolver(as_written, model_field_type=dict[str, Any])
    ] = field(default_factory=dict)
    translation: Annotated[
        TranslationFn[dg.AssetSpec] | None, TranslationFnResolver[dg.AssetSpec](lambda spec: {})
    ] = None

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
        return spec if self.translation is None else self.translation(spec, spec)

    def execute(
        self, context: dg.AssetExecutionContext, results: Iterator[dg.MaterializeResult[Any]]
    ) -> Iterator[dg.MaterializeResult[Any]]:
        """Run the step that draws; override it to do something before or after each result.

        `results` makes the assets of the step one by one. Each result is yielded, with further
        metadata or as it is, before the next is taken. It has no value: the tables stay
        within the step.
        """
        yield from results

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions of the release.

        Files are looked for relative to the folder of ``defs.yaml``, unless their path is absolute.
        """
        folder = Path(context.path)
        folder = folder if folder.is_dir() else folder.parent
        attributes = {key: getattr(self, key) for key in KEYS}
        with error_location(context):
            spec = ReleaseSpec.from_config(attributes, folder)
            spec = spec.model_copy(update={"ledger_id": read_ledger_id(folder)})
            if spec.exact:
                _warn_of_ledger(context, spec)
            return release_definitions(
                spec,
                translate=self.get_asset_spec,
                execute=self.execute,
                **{key: getattr(self, key) for key in GraphOptions.model_fields},
            )


def _warn_of_ledger(context: dg.ComponentLoadContext, spec: ReleaseSpec) -> None:
    """Log that the project's ledger has no budget for a dataset, is new to it, or another one."""
    # A resources file with a fault is refused where it is loaded.
    with suppress(Exception):
        for one in context.component_tree.get_all_components(ReleaseResources):
            ledger = (one.build_defs(context).resources or {}).get(LEDGER)
            if isinstance(ledger, LedgerResource):
                ledger.warn_unless_known(spec.dataset)
                ledger.warn_of_identity(spec.dataset, spec.ledger_id)
