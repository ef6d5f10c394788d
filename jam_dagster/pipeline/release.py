"""The definitions of one release: assets, checks, job, and the check of their labels."""

import warnings
from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from jam_dagster.pipeline.assessment import assessment_assets
from jam_dagster.pipeline.automation import check_automation
from jam_dagster.pipeline.budget import budget_assets
from jam_dagster.pipeline.certification import certification_assets, certification_checks
from jam_dagster.pipeline.checks import release_checks
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.ingestion import ingestion_assets
from jam_dagster.pipeline.labels import check_privacy_labels, check_translated
from jam_dagster.pipeline.partitions import PartitionsSpec, build_release_schedule, tick_of
from jam_dagster.pipeline.sections import (
    DomainSpec,
    EvaluationSpec,
    MechanismSpec,
    PrivacySpec,
    WorkloadSpec,
)
from jam_dagster.pipeline.specification import ReleaseSpec
from jam_dagster.pipeline.synthesis import synthesis_assets
from jam_dagster.tables import Domain, PreviousRelease, Source

Translate = Callable[[dg.AssetSpec], dg.AssetSpec]


def build_synthetic_release(
    release: str,
    *,
    dataset: str,
    private: Source,
    public: Source | PreviousRelease,
    domain: Domain | DomainSpec,
    privacy: PrivacySpec,
    mechanism: MechanismSpec | None = None,
    workload: WorkloadSpec | None = None,
    evaluation: EvaluationSpec | None = None,
    partitions: PartitionsSpec | str | Mapping[str, Sequence[str]] | None = None,
    start: str | None = None,
    schedule: str | None = None,
    group: str | None = None,
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    translate: Translate | None = None,
) -> dg.Definitions:
    """Build the definitions of one release of a synthetic table.

    It makes the assets of the release under the key prefix `release`, their checks, and the job
    ``<release>_release`` that makes them all. They need three resources: ``ledger``
    (`LedgerResource`), ``private_io_manager`` and ``releasable_io_manager``
    (`ReleaseStoreResource`).

    Parameters
    ----------
    release
        The release's name: letters, digits and underscores.
    dataset
        The protected dataset whose budget pays.
    private, public
        Sources of the two tables; see `jam_dagster.tables.source_from_config`. As the public one a
        release with partitions may have a `PreviousRelease`.
    domain
        The declared domain, or a `DomainSpec` that says where to identify it.
    privacy
        Budget, noise and edition.
    mechanism
        The mechanism's parameters; the paper's by default.
    workload
        The marginals that matter; all three-way ones by default.
    evaluation
        How the error is measured; with noise, from 5% of the budget, by default.
    partitions, start
        Where it is made of one snapshot after another, which the sources name by ``{partition}``:
        ``daily``, ``weekly`` or ``monthly`` from `start` on (see `PartitionsSpec`), or
        ``{"static": names}``. Every partition pays for itself.
    schedule
        ``monthly`` and so on, as the partitions are, or a cron expression that is due once for
        each of them; the schedule is stopped until somebody starts it.
    group
        The asset group; the release's name by default.
    owners, tags
        Put on every asset.
    translate
        Maps the spec of every asset to the one to use, for an organisation's own conventions. It
        must leave labels and dependencies as they are.

    Returns
    -------
    dagster.Definitions
        Assets, checks and the job, and the schedule where there is one.

    Raises
    ------
    SpecificationError
        If a parameter is out of range, or `translate` gives a step that spends an automation
        condition that something upstream would fire.
    PrivacyLabelError
        If something private would reach something releasable uncharged, or `translate` changes a
        label. For what else a code location holds see `check_definitions`.

    Examples
    --------
    >>> from jam_dagster.pipeline import PrivacySpec, build_synthetic_release
    >>> from jam_dagster.tables import Domain, source_from_config
    >>> defs = build_synthetic_release(
    ...     "people",
    ...     dataset="people_2026",
    ...     private=source_from_config({"parquet": "/secure/people.parquet"}),
    ...     public=source_from_config("people_2016.csv"),
    ...     domain=Domain.load("people.yaml"),
    ...     privacy=PrivacySpec(epsilon=1.0),
    ... )  # doctest: +SKIP
    """
    spec = ReleaseSpec(
        release=release,
        dataset=dataset,
        private=private,
        public=public.first if isinstance(public, PreviousRelease) else public,
        previous=public if isinstance(public, PreviousRelease) else None,
        domain=domain if isinstance(domain, DomainSpec) else DomainSpec(declared=domain),
        privacy=privacy,
        mechanism=mechanism or MechanismSpec(),
        workload=workload or WorkloadSpec(degree=3),
        evaluation=evaluation or EvaluationSpec(),
        partitions=PartitionsSpec.of(partitions, start),
    )
    tick = None if schedule is None else tick_of(spec.partitions, schedule)
    graph = ReleaseGraph(spec, group=group, owners=owners, tags=tags or {}, tick=tick)
    with warnings.catch_warnings():
        # That checks have partitions is young in Dagster; tests here rely on it.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        assets = [
            *ingestion_assets(graph),
            *budget_assets(graph),
            *synthesis_assets(graph),
            *assessment_assets(graph),
            *certification_assets(graph),
        ]
        checks = [*release_checks(graph), *certification_checks(graph)]
    before = [graph.previous_spec()] if spec.previous is not None else []
    if translate is not None:
        built = [spec for one in assets for spec in one.specs]
        assets = [one.map_asset_specs(translate) for one in assets]
        check_translated(built, [spec for one in assets for spec in one.specs])
        check_translated(before, before := [translate(one) for one in before])
    made = [*before, *(spec for one in assets for spec in one.specs)]
    check_privacy_labels(made)
    check_automation(made)
    description = f"Makes and checks the synthetic release {release}."
    if spec.partitions is not None:
        description += f" {graph.price_of_partitions}"
    job = dg.define_asset_job(
        f"{release}_release",
        selection=dg.AssetSelection.assets(*assets),
        description=description,
    )
    schedules = []
    if schedule is not None:
        schedules.append(build_release_schedule(job, spec.partitions, schedule))
    return dg.Definitions(
        assets=[*before, *assets], asset_checks=checks, jobs=[job], schedules=schedules
    )
