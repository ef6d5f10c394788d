"""The assets up to the mechanism: tables, domain, codes."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd

from jam_dagster.errors import DomainError, InputError
from jam_dagster.pipeline.assets.asset_options import release_asset, table_metadata
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.assets.engine import (
    STORES,
    check_places,
    check_public,
    ledger_funding,
    release_engine,
    unit_column,
)
from jam_dagster.pipeline.assets.metadata import (
    column_lineage,
    domain_table,
    observed_schema,
    preview,
)
from jam_dagster.pipeline.assets.opening import (
    check_fits,
    made_if_it_fits,
    stored_records,
)
from jam_dagster.pipeline.assets.previous_release import check_release_before, public_table
from jam_dagster.pipeline.assets.source_assets import resolve_source
from jam_dagster.pipeline.budget.outlook import add_outlook_to_refusal
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.markdown import literal
from jam_dagster.pipeline.storage.identity import (
    IngestedTable,
    Ingestion,
    check_bound,
    check_wanted,
)
from jam_dagster.release.engine import Engine, private_step
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    MarginalSource,
    PublicTables,
    Source,
    draft_domain,
    encode,
    private_values,
)
from jam_dagster.tables.sources.public import encode_public
from jam_dagster.tables.sources.public_apart import check_no_people


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

    @release_asset(graph, name, deps=deps, resources=STORES)
    def public_records(context: dg.AssetExecutionContext) -> pd.DataFrame:
        check_places(context)
        source = resolve_source(graph, name, context)
        check_public(graph, context)
        table = source.read(private=False)
        check_no_people(table.columns, unit_column(graph), called)
        _check_not_empty(table, f"public {called}".rstrip())
        declared = graph.spec.domain.declared
        # A public table may hold more than is asked of it, such as names.
        wanted = table.columns if declared is None else declared.names
        shown = [column for column in table.columns if column in wanted]
        context.add_output_metadata(
            {
                "dagster/row_count": len(table),
                "dagster/column_schema": observed_schema(table),
                "source": source.describe(),
                "preview": preview(table[shown]),
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

    def describe(context: dg.AssetExecutionContext, domain: Domain) -> Domain:
        if graph.spec.privacy.unit is not None:
            graph.spec.privacy.unit.build().check(domain)
        context.add_output_metadata(_domain_metadata(domain))
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
            draft = spec.drafted(_tables(graph, records))
            if draft.left_out:
                listed = "\n".join(f"- {literal(str(one))}" for one in draft.left_out)
                context.add_output_metadata({"left_out": dg.MetadataValue.md(listed)})
            return describe(context, draft.domain)

        return domain_from_public, graph.ins("domain")

    @release_asset(
        graph,
        "domain",
        ins=graph.ins("public_records"),
        deps=[graph.key("private_records")],
        resources={*graph.spending_resources, *STORES},
    )
    def domain_from_both(context: dg.AssetExecutionContext, public_records: pd.DataFrame) -> Domain:
        check_places(context)
        stored = Ingestion.of(stored_records(graph, context, rows=False))
        check_bound(graph, stored)
        engine = release_engine(graph, context, None, stored=stored)
        engine.funding.check_source()
        with engine.opened("identifying the domain from both tables"):
            private_records = stored_records(graph, context, rows=True)
            check_fits(private_records)
            drafted = draft_domain(
                public_records, private=private_records, columns=spec.columns, bins=spec.bins
            )
        return describe(context, drafted)

    return domain_from_both, {}


def _domain_metadata(domain: Domain) -> dict[str, Any]:
    """Return what the UI shows of a domain: of one from private data, its origin alone."""
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
                "\n".join(f"- {literal(one.describe(domain))}" for one in domain.impossible)
            )
    return metadata


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
        check_public(graph, context)
        partition = graph.partition_of(context)
        source = resolve_source(graph, "private_records", context)
        domain = inputs.get("domain", declared)
        engine = release_engine(graph, context, domain, reads=source)
        funding = ledger_funding(engine)
        if funding is not None:
            # Once more, for a run that was launched without the asset above: a table that is not
            # paid for is not opened.
            check_release_before(graph, context, domain, funding.ledger)
            engine.check_cells()
            with add_outlook_to_refusal(graph, context, funding):
                engine.reserve()

        bound = "" if funding is None else funding.binding
        made_for = Ingestion.wanted(graph, partition, source=bound)
        if domain is not None and not graph.copies_records:
            # The next step reads the table where it lies.
            handle = pd.DataFrame(columns=list(domain.names))
            replace(made_for, handle=True).mark(handle)
            context.add_output_metadata(_records_metadata(graph, source, domain))
            return handle

        with engine.opened("reading the private table"):
            read = partial(_copied_records, graph, engine, domain)
            # A domain that is identified from the table needs one.
            found = read() if domain is None else made_if_it_fits(graph, read)
        fits, table = found is not None, found
        if table is None:
            table = pd.DataFrame(columns=[] if domain is None else list(domain.names))
        replace(made_for, fits=fits).mark(table)
        context.add_output_metadata(_records_metadata(graph, source, domain))
        return table

    return private_records


def _copied_records(graph: ReleaseGraph, engine: Engine, domain: Domain | None) -> pd.DataFrame:
    """Read what the private store keeps: the domain's columns, all of them where there is none."""
    table = engine.read()
    # Where the number of rows is private, so is whether there are any.
    if graph.neighbours.records_public:
        with private_values():
            _check_not_empty(table, "private")
    if domain is not None:
        _check_columns(table, domain)
        # What the release does not use, such as names, is not copied.
        table = table[list(domain.names)]
    return table


def _records_metadata(graph: ReleaseGraph, source: Source, domain: Domain | None) -> dict[str, Any]:
    """Return what the UI shows of the private table, which is never how many rows it has.

    The number of rows is shown once a draw is paid, and not before.
    """
    kept = "a copy in the private store" if graph.copies_records else "read where it lies"
    metadata: dict[str, Any] = {"source": source.describe(), "kept": kept}
    if domain is not None and not domain.restricted:
        metadata |= table_metadata(graph, "private_records", domain)
    return metadata


def _private_discretized(graph: ReleaseGraph) -> dg.AssetsDefinition:
    name = "private_discretized"

    @release_asset(
        graph,
        name,
        ins=graph.ins("domain"),
        deps=[graph.key("private_records")],
        resources={*graph.spending_resources, *STORES},
    )
    def private_discretized(context: dg.AssetExecutionContext, domain: Domain) -> EncodedTable:
        check_places(context)
        stored = Ingestion.of(stored_records(graph, context, rows=False))
        check_bound(graph, stored)
        if stored.handle:
            # The rows are read and limited now, so the reference must be of this very release.
            check_wanted(graph, stored, graph.partition_of(context))
        engine = release_engine(graph, context, domain, stored=stored)
        if stored.handle:
            engine.reserve()
        engine.funding.check_source()

        def read() -> MarginalSource:
            if stored.handle:
                return engine.encode(domain)
            return encode(stored_records(graph, context, rows=True), domain, private=True)

        found: MarginalSource | None = None
        by_reference = not graph.spec.reads_values
        if not by_reference:
            with engine.opened("encoding the private table"):
                found = made_if_it_fits(graph, read) if stored.fits else None
            # A table that is counted in its file is kept by reference as well.
            by_reference = found is not None and not isinstance(found, EncodedTable)
        made_for = replace(stored, fits=by_reference or found is not None, handle=by_reference)
        if isinstance(found, EncodedTable):
            encoded = IngestedTable(domain, found.columns, made_for)
        else:
            # A table that does not fit is kept without its rows.
            none = (np.empty(0, np.uint8),) * len(domain.names)
            encoded = IngestedTable(domain, none, made_for)
        metadata: dict[str, Any] = {}
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
        resources={graph.store(MECHANISM_RUN), graph.archive_store} if follows else (),
    )
    def public_discretized(
        context: dg.AssetExecutionContext, domain: Domain, **records: pd.DataFrame
    ) -> MarginalSource:
        frames = _tables(graph, records)
        for table, frame in frames.items():
            # The stored table may be older than the setting.
            check_no_people(frame.columns, unit_column(graph), table)
        if domain.restricted:
            with private_step("encoding the public table over a restricted domain"):
                encoded = encode_public(frames, domain, private=True)
        else:
            may_be_named = not follows and graph.spec.mechanism.build().takes_named_public
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
    metadata: dict[str, Any] = {
        "dagster/row_count": sum(table.records for table in public.tables.values())
    }
    deps: dict[str, list[dg.TableColumnDep]] = {}
    for name, table in graph.public_records.items():
        known = public.tables[table].domain.names
        lacks = [one for one in public.domain.names if one not in known]
        if not public.domain.restricted:
            metadata[f"{table}_lacks"] = ", ".join(lacks) or "nothing"
        for one in known:
            deps.setdefault(one, []).append(dg.TableColumnDep(graph.key(name), one))
    if not public.domain.restricted:
        metadata["dagster/column_lineage"] = dg.TableColumnLineage(deps)
    return metadata


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
