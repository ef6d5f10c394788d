"""The assets up to the mechanism: tables, domain, codes."""

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
import pandas as pd

from jam_dagster.errors import DomainError, InputError
from jam_dagster.mechanisms.configuration import takes_named_public
from jam_dagster.pipeline.asset_options import release_asset, table_metadata
from jam_dagster.pipeline.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.graph import (
    LEDGER,
    PRIVATE_STORE,
    RELEASABLE_STORE,
    ReleaseGraph,
)
from jam_dagster.pipeline.identity import IngestedTable, Ingestion
from jam_dagster.pipeline.ledger import LedgerResource
from jam_dagster.pipeline.metadata import column_lineage, domain_table, observed_schema, preview
from jam_dagster.pipeline.outlook import told_if_refused
from jam_dagster.pipeline.previous import check_release_before, public_table
from jam_dagster.pipeline.source_assets import reading
from jam_dagster.pipeline.spending import LedgerSpending
from jam_dagster.pipeline.storage import check_stores
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    MarginalSource,
    PublicTables,
    draft_domain,
    encode,
    seeded_key,
    withheld,
)
from jam_dagster.tables.public_sources import draft_public, encode_public

if TYPE_CHECKING:
    from jam_dagster.pipeline.storage import ReleaseStore

STORES = (PRIVATE_STORE, RELEASABLE_STORE)


@contextmanager
def private_step(what: str) -> Iterator[None]:
    """Let nothing of a private value out of a step: no message, no cause, and no warning."""
    # Warnings land in the compute log, and libraries quote values in them.
    with warnings.catch_warnings(), withheld(what):
        warnings.simplefilter("ignore")
        yield


def spending(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, domain: Domain | None
) -> LedgerSpending:
    """Return what pays for a release with exact noise."""
    resource: LedgerResource = getattr(context.resources, LEDGER)
    store = getattr(context.resources, graph.store(MECHANISM_RUN))
    key = graph.release_key(domain, graph.partition_of(context))
    stores = (
        getattr(context.resources, RELEASABLE_STORE),
        getattr(context.resources, PRIVATE_STORE),
    )
    return LedgerSpending(graph, resource, store, key, stores)


def check_places(context: dg.AssetExecutionContext) -> None:
    """Make sure that the two stores are what they are called, before anything is opened."""
    check_stores(
        getattr(context.resources, PRIVATE_STORE), getattr(context.resources, RELEASABLE_STORE)
    )


def ingestion_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the assets from the two sources to the encoded tables."""
    domain, domain_input = _domain_asset(graph)
    return [
        *(_public_records(graph, name) for name in graph.public_records),
        domain,
        _private_records(graph, domain_input),
        _private_discretized(graph),
        *(_public_discretized(graph) for _ in graph.public_codes),
    ]


def _public_records(graph: ReleaseGraph, name: str) -> dg.AssetsDefinition:
    deps = graph.source_deps(name)
    called = graph.public_records[name]

    @release_asset(graph, name, deps=deps)
    def public_records(context: dg.AssetExecutionContext) -> pd.DataFrame:
        source = reading(graph, name, context)
        table = source.read(private=False)
        _check_not_empty(table, f"public {called}".rstrip())
        context.add_output_metadata(
            {
                "dagster/row_count": len(table),
                "dagster/column_schema": observed_schema(table),
                "source": source.describe(),
                "preview": preview(table),
            }
            | (
                {"dagster/column_lineage": column_lineage(map(str, table.columns), deps)}
                if deps
                else {}
            )
        )
        return table

    return public_records


def _domain_asset(graph: ReleaseGraph) -> tuple[dg.AssetsDefinition, dict[str, dg.AssetIn]]:
    """Build the domain, and the inputs by which what comes before private data may have it."""
    spec = graph.spec.domain

    unit = graph.spec.privacy.unit

    def describe(context: dg.AssetExecutionContext, domain: Domain) -> Domain:
        if unit is not None:
            unit.build().check(domain)
        metadata: dict[str, Any] = {
            "attributes": len(domain.names),
            "origin": _ORIGINS[domain.identified_from],
        }
        if not domain.restricted:
            metadata |= {
                "table": domain_table(domain),
                "cells": domain.cells_text,
                "digest": domain.digest,
            }
            if domain.impossible:
                metadata["impossible"] = dg.MetadataValue.md(
                    "\n".join(f"- {one.describe(domain)}" for one in domain.impossible)
                )
        context.add_output_metadata(metadata)
        return domain

    if spec.declared is not None:
        declared = spec.declared

        @release_asset(graph, "domain")
        def domain(context: dg.AssetExecutionContext) -> Domain:
            return describe(context, declared)

        return domain, graph.ins("domain")

    if spec.identify == "public":

        @release_asset(graph, "domain", ins=graph.ins(*graph.public_records))
        def domain_from_public(
            context: dg.AssetExecutionContext, **records: pd.DataFrame
        ) -> Domain:
            return describe(context, draft_public(_tables(graph, records), bins=spec.bins))

        return domain_from_public, graph.ins("domain")

    @release_asset(graph, "domain", ins=graph.ins("public_records", "private_records"))
    def domain_from_both(
        context: dg.AssetExecutionContext,
        public_records: pd.DataFrame,
        private_records: pd.DataFrame,
    ) -> Domain:
        with private_step("identifying the domain from both tables"):
            drafted = draft_domain(public_records, private=private_records, bins=spec.bins)
        return describe(context, drafted)

    return domain_from_both, {}


_ORIGINS = {
    "declared": "declared",
    "public": "identified from the public table",
    "private": "identified from private data: restricted, for research",
}


def _private_records(
    graph: ReleaseGraph, domain_input: dict[str, dg.AssetIn]
) -> dg.AssetsDefinition:
    spec = graph.spec
    declared = spec.domain.declared

    @release_asset(
        graph,
        "private_records",
        # A declared domain is known without the asset; that saves the graph an arrow.
        ins={} if declared is not None else domain_input,
        deps=[graph.key("privacy_budget"), *graph.source_deps("private_records")],
        resources={*graph.spending_resources, *STORES},
    )
    def private_records(context: dg.AssetExecutionContext, **inputs: Domain) -> pd.DataFrame:
        check_places(context)
        partition = graph.partition_of(context)
        source = reading(graph, "private_records", context)
        domain = inputs.get("domain", declared)
        if spec.privacy.noise == "exact":
            # Once more, for a run that was launched without the asset above: a table that is not
            # paid for is not opened.
            check_release_before(graph, context, domain)
            spends = spending(graph, context, domain)
            with told_if_refused(graph, context, spends):
                spends.reserve(run_id=context.run.run_id)
        with private_step("reading the private table"):
            table = source.read(private=True)
            # Where the number of rows is private, so is whether there are any.
            if graph.neighbours.records_public:
                _check_not_empty(table, "private")
            if spec.privacy.unit is not None:
                table = spec.privacy.unit.build().limit(table, _row_key(graph, context))
            if domain is not None:
                _check_columns(table, domain)
                # What the release does not use, such as names, is not copied.
                table = table[list(domain.names)]
        Ingestion.wanted(graph, partition).mark(table)
        metadata: dict[str, Any] = {"source": source.describe()}
        if graph.neighbours.records_public:
            metadata["dagster/row_count"] = len(table)
        if domain is not None and not domain.restricted:
            metadata |= table_metadata(graph, "private_records", domain)
        context.add_output_metadata(metadata)
        return table

    return private_records


def _private_discretized(graph: ReleaseGraph) -> dg.AssetsDefinition:
    name = "private_discretized"

    @release_asset(graph, name, ins=graph.ins("private_records", "domain"))
    def private_discretized(
        context: dg.AssetExecutionContext, private_records: pd.DataFrame, domain: Domain
    ) -> EncodedTable:
        with private_step("encoding the private table"):
            encoded = encode(private_records, domain, private=True)
        encoded = IngestedTable(encoded.domain, encoded.columns, Ingestion.of(private_records))
        metadata: dict[str, Any] = {}
        if graph.neighbours.records_public:
            metadata["dagster/row_count"] = encoded.records
        if not domain.restricted:
            metadata |= table_metadata(graph, name, domain)
        context.add_output_metadata(metadata)
        return encoded

    return private_discretized


def _public_discretized(graph: ReleaseGraph) -> dg.AssetsDefinition:
    name = "public_discretized"
    follows = graph.spec.previous is not None

    @release_asset(
        graph,
        name,
        ins=graph.ins(*graph.public_records, "domain"),
        deps=graph.previous_deps() if follows else (),
        resources={graph.store(MECHANISM_RUN)} if follows else (),
    )
    def public_discretized(
        context: dg.AssetExecutionContext, domain: Domain, **records: pd.DataFrame
    ) -> MarginalSource:
        frames = _tables(graph, records)
        if domain.restricted:
            with private_step("encoding the public table over a restricted domain"):
                encoded = encode_public(frames, domain, private=True)
        else:
            may_be_named = not follows and takes_named_public(graph.spec.mechanism.build())
            encoded = encode_public(frames, domain, may_be_named=may_be_named)
        metadata: dict[str, Any] = {}
        if isinstance(encoded, PublicTables):
            metadata |= _several(graph, encoded)
        elif follows:
            encoded, metadata = public_table(graph, context, encoded)
        if not follows or graph.tells_data(name) or graph.neighbours.records_public:
            metadata.setdefault("dagster/row_count", encoded.records)
        if not domain.restricted:
            metadata = table_metadata(graph, name, domain) | metadata
        context.add_output_metadata(metadata)
        return encoded

    return public_discretized


def _tables(graph: ReleaseGraph, records: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the public tables by their own names, in the order of preference."""
    return {table: records[name] for name, table in graph.public_records.items()}


def _several(graph: ReleaseGraph, public: PublicTables) -> dict[str, Any]:
    """Tell what several public tables know, and where each column comes from."""
    told: dict[str, Any] = {
        "dagster/row_count": sum(table.records for table in public.tables.values())
    }
    deps: dict[str, list[dg.TableColumnDep]] = {}
    for name, table in graph.public_records.items():
        known = public.tables[table].domain.names
        lacks = [one for one in public.domain.names if one not in known]
        if not public.domain.restricted:
            told[f"{table}_lacks"] = ", ".join(lacks) or "nothing"
        for one in known:
            deps.setdefault(one, []).append(dg.TableColumnDep(graph.key(name), one))
    if not public.domain.restricted:
        told["dagster/column_lineage"] = dg.TableColumnLineage(deps)
    return told


def _row_key(graph: ReleaseGraph, context: dg.AssetExecutionContext) -> bytes:
    """Return the key that decides which of a person's rows stay.

    For a release it is random, and kept in the private store for its edition and partition: when
    the table is read again, the same rows stay, and a release that stopped goes on.
    """
    privacy = graph.spec.privacy
    if privacy.noise != "exact":
        return seeded_key(privacy.seed or 0)
    store: ReleaseStore = getattr(context.resources, PRIVATE_STORE)
    which = json.dumps([str(privacy.edition), graph.partition_of(context)])
    name = f"{hashlib.sha256(which.encode()).hexdigest()[:16]}.key"
    return store.secret(graph.spec.release, "row_limit", name)


def _check_not_empty(table: pd.DataFrame, side: str) -> None:
    if table.empty:
        raise InputError(f"The {side} table has no rows. Nothing was charged.")


def _check_columns(table: pd.DataFrame, domain: Domain) -> None:
    missing = [name for name in domain.names if name not in table.columns]
    if missing:
        raise DomainError(
            f"The private table has no column {missing[0]!r}, which the domain declares. Add it to"
            f" the table or take the attribute out of the domain. Nothing was charged."
        )
