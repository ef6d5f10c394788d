"""The definitions of one release: assets, checks, job, and the check of their labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.keys import DAGSTER_KEYS, GraphOptions
from jam_dagster.pipeline.assets.assessment import assessment_assets
from jam_dagster.pipeline.assets.asset_options import previous_asset
from jam_dagster.pipeline.assets.budget import budget_assets
from jam_dagster.pipeline.assets.certification import certification_assets, certification_checks
from jam_dagster.pipeline.assets.checks import release_checks
from jam_dagster.pipeline.assets.private_side import private_assets
from jam_dagster.pipeline.assets.public_side import public_assets
from jam_dagster.pipeline.assets.source_assets import check_source_assets
from jam_dagster.pipeline.budget.automation import check_automation
from jam_dagster.pipeline.budget.labels import DATASET, check_privacy_labels, check_translated
from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
from jam_dagster.pipeline.graph import LEDGER, Execute, ReleaseGraph, Translate, yield_all
from jam_dagster.pipeline.launch import MAX_RETRIES_TAG, NO_CONFIG, RELEASE_TAG
from jam_dagster.pipeline.partitions import build_release_schedule
from jam_dagster.release.spec import ReleaseSpec
from jam_dagster.tables.sources.base import whole
from jam_dagster.tables.sources.parquet import ParquetSource
from jam_dagster.tables.sources.sniffing import dialect_remark, header_fault

if TYPE_CHECKING:
    from jam_dagster.pipeline.dagster_internals import UnresolvedAssetJobDefinition


def build_synthetic_release(
    release: str, *, translate: Translate | None = None, ledger_id: str = "", **keys: Any
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
    translate
        Maps the spec of every asset to the one to use, for an organisation's own conventions: key,
        group, owners, tags, kinds, description. Everything that depends on an asset follows it
        to its key, which follows from the key, tags and kinds that it is given. It must leave
        labels and dependencies as they are.
    ledger_id
        The identity of the ledger that pays (`Ledger.identity`), where a file has `ledger.id`: any
        other is refused. Empty: none is named.
    **keys
        The other keys of a release's file, of which ``dataset``, ``private``, ``domain`` and
        ``privacy`` are needed. Each is what the file would say, or an object that it stands for: a
        `Source` of a table, `PublicSources` or a `PreviousRelease`; a `Domain` or `DomainSpec`;
        `PrivacySpec`, `MechanismSpec`, `WorkloadSpec`, `EvaluationSpec`, `SamplingSpec`,
        `PartitionsSpec`.

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
    graph = {key: one for key in DAGSTER_KEYS if (one := keys.pop(key, None)) is not None}
    spec = ReleaseSpec.from_config({"release": release, **keys}, Path())
    spec = spec.model_copy(update={"ledger_id": ledger_id})
    return release_definitions(spec, translate=translate, **graph)


def release_definitions(
    spec: ReleaseSpec,
    *,
    translate: Translate | None = None,
    execute: Execute = yield_all,
    **options: Any,
) -> dg.Definitions:
    """Build the definitions of a specified release; see `build_synthetic_release`."""
    _warn_of_tables(spec)
    assets = build_release_assets(spec, translate=translate, execute=execute, **options)
    job = build_release_job(spec, assets, **options)
    schedule = GraphOptions(**options).schedule
    return dg.Definitions(
        assets=assets,
        asset_checks=build_release_checks(spec, translate=translate, **options),
        jobs=[job],
        schedules=[]
        if schedule is None
        else [build_release_schedule(job, spec.partitions, schedule)],
    )


def _warn_of_tables(spec: ReleaseSpec) -> None:
    """Log which files of public tables are not there, or have other columns than the domain.

    They may come, or are on other machines. No private file is looked at.
    """
    log, declared = dg.get_dagster_logger(), spec.domain.declared
    if (public := spec.public_tables.get("")) is not None:
        if remark := dialect_remark(spec.private.parts[0], public.parts[0]):
            log.warning(f"Release {spec.release}: {remark}")
        plain = None if declared is None or declared.restricted else declared
        if plain and not plain.children and (fault := header_fault(public, plain.names)):
            log.warning(
                f"Release {spec.release}: {public.describe()}, its public table, {fault}. Its runs"
                " will fail until it is corrected."
            )
        held = whole(public)
        if plain and not plain.children and isinstance(held, ParquetSource):
            fault = held.public_fault(plain) if Path(held.path).exists() else ""
            if fault:
                log.warning(
                    f"Release {spec.release}: {fault}. Its runs will fail until that is corrected."
                )
    parts = ((name, one) for name, table in spec.public_tables.items() for one in table.parts)
    for name, source in parts:
        path = getattr(source, "path", "")
        # The values of variables and partitions are known when it runs.
        if not path or any(part in str(path) for part in ("$", "{", "://", "*")):
            continue
        if not Path(path).exists():
            log.warning(
                f"Release {spec.release}: there is no {path}, its public table"
                f"{f' {name!r}' if name else ''}. Its runs will fail until it is there."
            )


def build_release_assets(
    spec: ReleaseSpec,
    *,
    translate: Translate | None = None,
    execute: Execute = yield_all,
    **options: Any,
) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Build the assets of a release, without checks, job and schedule.

    Parameters
    ----------
    spec
        The release.
    translate
        As for `build_synthetic_release`.
    execute
        Runs the step that draws; see `SyntheticRelease.execute`.
    **options
        ``group``, ``owners`` and ``tags`` of the assets, and the ``schedule`` by which their
        freshness is judged; it starts nothing.

    Raises
    ------
    SpecificationError, PrivacyLabelError
        As for `build_synthetic_release`.

    Examples
    --------
    >>> import dagster as dg
    >>> from jam_dagster.pipeline import DomainSpec, PrivacySpec, ReleaseSpec, build_release_assets
    >>> from jam_dagster.tables import DemoSource
    >>> spec = ReleaseSpec(
    ...     release="demo",
    ...     dataset="demo",
    ...     private=DemoSource(),
    ...     public=DemoSource(part="public"),
    ...     domain=DomainSpec(identify="public"),
    ...     privacy=PrivacySpec(epsilon=1.0),
    ... )
    >>> assets = build_release_assets(spec)
    >>> len(assets)
    7
    """
    graph = ReleaseGraph(spec, GraphOptions(**options), translate, execute)
    with _without_preview_warnings():
        assets = [
            *public_assets(graph),
            *budget_assets(graph),
            private_assets(graph),
            *assessment_assets(graph),
            *certification_assets(graph),
        ]
    before = [previous_asset(graph)] if spec.previous is not None else []
    if translate is not None:
        made = [spec for one in assets for spec in one.specs]
        assets = [one.map_asset_specs(graph.translated) for one in assets]
        check_translated(made, [spec for one in assets for spec in one.specs])
        check_translated(before, before := [graph.translated(one) for one in before])
    specs = [*before, *(spec for one in assets for spec in one.specs)]
    check_privacy_labels(specs)
    check_automation(specs)
    return [*before, *assets]


def build_release_checks(
    spec: ReleaseSpec,
    *,
    translate: Translate | None = None,
    **options: Any,
) -> list[dg.AssetChecksDefinition]:
    """Build the checks of a release's assets; what the assets themselves check is theirs.

    Parameters
    ----------
    spec
        The release.
    translate
        As its assets were built with: checks follow them to their keys, and so with ``tags``.
    **options
        ``checks``, ``misfit``, ``accept_misfit`` and ``tags``, as in a release's file.

    Raises
    ------
    SpecificationError
        If an option is unknown or out of range.
    """
    graph = ReleaseGraph(spec, GraphOptions(**options), translate)
    with _without_preview_warnings():
        return [
            *release_checks(graph),
            *certification_checks(graph),
        ]


# A step in a process of its own spends seconds on imports, and steps wait for each other anyway.
# It takes no config: a launch that lets steps run before those upstream of them, and leaves these
# out, would have Dagster look for a step that can run, without a pause and without an end.
_ONE_PROCESS = dg.in_process_executor.configured(
    lambda _: {}, name="one_process", config_schema=NO_CONFIG
)


def build_release_job(
    spec: ReleaseSpec,
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    **options: Any,
) -> UnresolvedAssetJobDefinition:
    """Build the job ``<release>_release``, which makes the assets of a release and checks them.

    Parameters
    ----------
    spec
        The release.
    assets
        What `build_release_assets` returned.
    **options
        The ``executor`` and the ``run_tags``, as in a release's file.

    Raises
    ------
    SpecificationError
        If an option is unknown or out of range.
    """
    given = GraphOptions(**options)
    executor = given.executor
    # A run that is started again may count as an attempt, so a person starts it.
    own = {RELEASE_TAG: spec.release, MAX_RETRIES_TAG: "0"}
    if taken := sorted(own.keys() & given.run_tags.keys()):
        raise SpecificationError(f"run_tags: the release sets the tag {taken[0]!r}: remove it.")
    description = f"Makes and checks the synthetic release {spec.release}."
    if spec.partitions is not None:
        description += f" {ReleaseGraph(spec).price_of_partitions}"
    return dg.define_asset_job(
        f"{spec.release}_release",
        selection=dg.AssetSelection.assets(
            *(one for one in assets if isinstance(one, dg.AssetsDefinition))
        ),
        description=description,
        tags={**given.run_tags, **own},
        executor_def=_ONE_PROCESS if executor == "in_process" else None,
    )


@contextmanager
def _without_preview_warnings() -> Iterator[None]:
    """Silence Dagster's preview warning for checks with partitions, on which tests rely."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)
        yield


def check_definitions(definitions: dg.Definitions) -> dg.Definitions:
    """Refuse a code location in which something private reaches something releasable uncharged.

    A release checks its own assets when it is built; what else the code location holds, and what
    is done to labels and automation conditions later, is known only once everything is together.

    Parameters
    ----------
    definitions
        All that a code location holds, merged. A dataset without a budget is logged as a warning:
        an officer may grant it one later.

    Returns
    -------
    dagster.Definitions
        The same.

    Raises
    ------
    PrivacyLabelError
        See `check_privacy_labels`.
    SpecificationError
        If something upstream would make an asset spend (see `check_automation`), or an asset
        that a release takes its private table from is missing.

    Examples
    --------
    >>> import dagster as dg
    >>> from jam_dagster.pipeline import check_definitions
    >>> defs = check_definitions(dg.Definitions.merge(dg.Definitions(), dg.Definitions()))
    """
    specs = definitions.resolve_all_asset_specs()
    check_source_assets(specs)
    check_privacy_labels(specs)
    check_automation(specs)
    _warn_of_missing_budgets(definitions, specs)
    return definitions


def _warn_of_missing_budgets(definitions: dg.Definitions, specs: Iterable[dg.AssetSpec]) -> None:
    ledger = (definitions.resources or {}).get(LEDGER)
    if not isinstance(ledger, LedgerResource):
        return
    for dataset in sorted({spec.metadata[DATASET] for spec in specs if DATASET in spec.metadata}):
        ledger.warn_unless_known(dataset)
