"""The release engine of a step: its place, its funding, and what is checked before either."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
from jam_dagster.pipeline.graph import (
    LEDGER,
    PRIVATE_STORE,
    RELEASABLE_STORE,
    ReleaseGraph,
)
from jam_dagster.pipeline.launch import check_launch
from jam_dagster.pipeline.storage.formats import RunFormat
from jam_dagster.pipeline.storage.io_manager import check_stores
from jam_dagster.pipeline.storage.store_place import StorePlace, research_place
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.release.engine import Engine, Progress
from jam_dagster.release.funding import LedgerFunding, ResearchFunding
from jam_dagster.tables import AssetSource, Domain, Source, at_partition
from jam_dagster.tables.sources.identity import canonical, place_of
from jam_dagster.tables.sources.partition_template import linked_file, template_of
from jam_dagster.tables.sources.public_apart import check_apart, check_headers, check_outside

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms import Round
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore

STORES = (PRIVATE_STORE, RELEASABLE_STORE)


def release_engine(
    graph: ReleaseGraph,
    context: dg.AssetExecutionContext,
    domain: Domain,
    *,
    reads: Source | None = None,
    on_round: "Callable[[Round], None] | None" = None,
) -> Engine:
    """Return the engine of a release for one step."""
    partition = graph.partition_of(context)
    spec = graph.spec.at(partition)
    if reads is not None:
        spec = spec.model_copy(update={"private": reads})
    progress = Progress(on_round=on_round or (lambda outcome: None), notify=context.log.warning)
    run_id = context.run.run_id
    shares, protection = graph.shares, spec.privacy.protection
    closed = private_store(context)
    if not spec.exact:
        research = research_place(closed, spec)
        free = ResearchFunding(shares, protection, spec.privacy.seed or 0, research, run_id)
        return Engine(spec, domain, research, free, partition, progress)
    check_launch(context, (LEDGER, *STORES))
    resource: object = getattr(context.resources, LEDGER)
    if not isinstance(resource, LedgerResource):
        raise SpecificationError(
            f"{LEDGER} is a {type(resource).__name__}; make it a LedgerResource. {NOTHING_DONE}"
        )
    open_: ReleaseStore = getattr(context.resources, RELEASABLE_STORE)
    archive: ReleaseStore = getattr(context.resources, graph.archive_store)
    stores = (open_, closed)
    key = spec.key(domain, partition)
    run = run_folder(graph, context)
    place = StorePlace(archive, key, run, closed, spec=spec, domain=domain, stores=stores)
    funding = LedgerFunding(
        resource.open(spec.dataset, stores=stores),
        key,
        shares,
        protection,
        place,
        run_id,
        identity="" if reads is None else _identity(graph, partition),
        template="" if reads is None else template_of(graph.spec.private, partition),
        linked="" if reads is None else linked_file(graph.source("private_records", partition)),
        signer=resource.signer(),
        notify=context.log.warning,
    )
    return Engine(spec, domain, place, funding, partition, progress)


def run_folder(graph: ReleaseGraph, context: dg.AssetExecutionContext) -> "UPath":
    """Return where the asset of a partition's run lies."""
    store: ReleaseStore = getattr(context.resources, graph.store(MECHANISM_RUN))
    return store.beside(graph.key(MECHANISM_RUN), graph.partition_of(context), RunFormat.suffix)


def ledger_funding(engine: Engine) -> LedgerFunding | None:
    """Return what pays for a release with exact noise; None in research."""
    return engine.funding if isinstance(engine.funding, LedgerFunding) else None


def _identity(graph: ReleaseGraph, partition: str) -> str:
    """Return the identity of the private source at a partition."""
    source = graph.source("private_records", partition)
    identity = source.identity()
    if isinstance(source, AssetSource) and partition:
        # The partition stands in no text of the source.
        identity = canonical(source=identity, partition=partition)
    return identity


def private_store(context: dg.AssetExecutionContext) -> "ReleaseStore":
    """Return the private store."""
    return cast("ReleaseStore", getattr(context.resources, PRIVATE_STORE))


def check_places(context: dg.AssetExecutionContext) -> None:
    """Make sure that the two stores are what they are called, before anything is opened."""
    check_launch(context, STORES)
    check_stores(
        getattr(context.resources, PRIVATE_STORE), getattr(context.resources, RELEASABLE_STORE)
    )


def check_public(graph: ReleaseGraph, context: dg.AssetExecutionContext) -> None:
    """Raise where a public table is the private one, or lies where private tables are kept.

    What was checked when the release was defined is checked again for the partition of the run:
    files, links and variables may be others here.
    """
    public = graph.spec.public
    if public is None:
        return
    partition = graph.partition_of(context)
    public = at_partition(public, partition)
    check_apart(graph.source("private_records", partition), public)
    kept = [place_of(str(private_store(context).root))]
    check_outside(public, kept, "the private store")
    check_headers(public, unit_column(graph))


def unit_column(graph: ReleaseGraph) -> str | None:
    """Return the column that identifies a person; None where every record is a person."""
    unit = graph.spec.privacy.unit
    return None if unit is None else unit.column
