"""The assets of the public side: tables, domain, codes."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError
from jam_dagster.pipeline.assets.asset_options import release_asset, table_metadata
from jam_dagster.pipeline.assets.metadata import (
    column_lineage,
    domain_table,
    listed,
    observed_schema,
    preview,
)
from jam_dagster.pipeline.assets.previous_release import (
    domain_after,
    public_table,
    without_rows,
)
from jam_dagster.pipeline.assets.step import STORES, ReleaseStep
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.release.engine import private_step
from jam_dagster.release.public_side import (
    domain_of,
    draft_of,
    identified,
    public_remarks,
    with_related,
)
from jam_dagster.tables import Domain, EncodedTable, MarginalSource, PublicTables
from jam_dagster.tables.sources.public import encode_public
from jam_dagster.tables.sources.public_apart import check_no_people


def public_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the public tables, the domain and the encoded public tables."""
    return [
        *(_public_records(graph, name) for name in graph.public_records),
        _domain_asset(graph),
        *(_public_discretized(graph) for _ in graph.public_codes),
    ]


def _public_records(graph: ReleaseGraph, name: str) -> dg.AssetsDefinition:
    deps = graph.source_deps(name)
    called = graph.public_records[name]

    @release_asset(graph, name, deps=deps, resources=STORES)
    def public_records(context: dg.AssetExecutionContext) -> pd.DataFrame:
        source = ReleaseStep(graph, context).checked_source(name)
        table = source.read(private=False)
        check_no_people(table.columns, graph.spec.person_column, called)
        if table.empty:
            side = f"public {called}".rstrip()
            raise InputError(f"The {side} table has no rows. Nothing was charged.")
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
                {
                    "dagster/column_lineage": column_lineage(
                        {str(one): [str(one)] for one in table.columns}, deps
                    )
                }
                if deps
                else {}
            )
        )
        return table

    return public_records


def _domain_asset(graph: ReleaseGraph) -> dg.AssetsDefinition:
    spec = graph.spec.domain

    def describe(context: dg.AssetExecutionContext, domain: Domain) -> Domain:
        if graph.spec.privacy.unit is not None:
            graph.spec.privacy.unit.build().check(domain)
        context.add_output_metadata(_domain_metadata(domain, shown=graph.tells_domain(domain)))
        return domain

    if spec.declared is not None and not (graph.spec.asks_by_tables or graph.spec.relates):
        declared = spec.declared

        @release_asset(graph, "domain")
        def domain(context: dg.AssetExecutionContext) -> Domain:
            return describe(context, declared)

        return domain

    deps = graph.previous_deps() if graph.buys_on else ()
    stores = STORES if graph.buys_on else ()

    def lacking(context: dg.AssetExecutionContext, asking: Domain) -> Domain:
        """Return what is asked for beyond the release before, if partitions buy on."""
        if not graph.buys_on:
            return describe(context, asking)
        domain, metadata = domain_after(ReleaseStep(graph, context), asking)
        context.add_output_metadata(metadata)
        return describe(context, domain)

    if graph.spec.public is None and graph.spec.asks_by_tables:

        @release_asset(graph, "domain", deps=deps, resources=STORES)
        def domain_to_buy(context: dg.AssetExecutionContext) -> Domain:
            # Names and declared types are no secret, and no row is read.
            source = ReleaseStep(graph, context).checked_source("private_records")
            asked = identified(graph.spec, source).domain.declared
            assert asked is not None  # noqa: S101  # what it returns declares it
            return lacking(context, asked)

        return domain_to_buy

    @release_asset(
        graph, "domain", ins=graph.ins(*graph.public_records), deps=deps, resources=stores
    )
    def domain_from_public(context: dg.AssetExecutionContext, **records: pd.DataFrame) -> Domain:
        if spec.declared is not None:
            return lacking(context, domain_of(graph.spec, _tables(graph, records)))
        draft = draft_of(graph.spec, _tables(graph, records))
        for name, said in (("left_out", draft.said_left_out), ("to_look_at", draft.said_notes)):
            if said:
                context.add_output_metadata({name: listed(said)})
        return lacking(context, with_related(graph.spec, _tables(graph, records), draft.domain))

    return domain_from_public


def _domain_metadata(domain: Domain, *, shown: bool) -> dict[str, Any]:
    """Return what the UI shows of a domain: of one from private data, its origin alone."""
    metadata: dict[str, Any] = {
        "attributes": len(domain.names),
        "origin": _ORIGINS[domain.identified_from if domain.asked is None else "paid"],
    }
    if shown:
        metadata |= {
            "table": domain_table(domain),
            "cells": domain.cells_text,
            "digest": domain.digest,
        }
        if domain.forbidden:
            metadata["impossible"] = listed(one.describe(domain) for one in domain.forbidden)
        if domain.related:
            metadata["related"] = listed(" x ".join(pair) for pair in domain.related)
    return metadata


_ORIGINS = {
    "declared": "declared",
    "public": "identified from the public table",
    "paid": "asks for what the budget buys; the certificate has what was bought",
    "private": "identified from private data: restricted, for research",
}


def _public_discretized(graph: ReleaseGraph) -> dg.AssetsDefinition:
    name = "public_discretized"
    follows = graph.spec.previous is not None

    @release_asset(
        graph,
        name,
        ins=graph.ins(*graph.public_records, "domain"),
        deps=graph.previous_deps() if follows else (),
        resources=STORES,
    )
    def public_discretized(
        context: dg.AssetExecutionContext, domain: Domain, **records: pd.DataFrame
    ) -> MarginalSource:
        frames, step = _tables(graph, records), ReleaseStep(graph, context)
        for table, frame in frames.items():
            # The stored table may be older than the setting.
            check_no_people(frame.columns, graph.spec.person_column, table)
        if not frames:
            encoded: MarginalSource = without_rows(domain)
        elif domain.restricted:
            with private_step("encoding the public table over a restricted domain"):
                encoded = encode_public(frames, domain, private=True)
        else:
            may_be_named = not follows and graph.spec.mechanism.build().takes_named_public
            encoded = encode_public(frames, domain, may_be_named=may_be_named)
        metadata: dict[str, Any] = {}
        # Later partitions are drawn on releases.
        first = graph.before(graph.partition_of(context)) is None
        if first and (remarks := public_remarks(frames, domain)):
            for remark in remarks:
                context.log.warning(remark)
            metadata["look_twice"] = listed(remarks)
        if isinstance(encoded, PublicTables):
            metadata |= _several(graph, encoded)
        elif follows and isinstance(encoded, EncodedTable):
            encoded, metadata = public_table(step, encoded)
        if not follows or graph.tells_data(name) or graph.spec.neighbours.records_public:
            metadata.setdefault("dagster/row_count", encoded.records)
        if graph.tells_domain(domain):
            metadata = table_metadata(graph, name, domain) | metadata
        context.add_output_metadata(metadata)
        return encoded

    return public_discretized


def _tables(
    graph: ReleaseGraph, records: "Mapping[str, pd.DataFrame]"
) -> "dict[str, pd.DataFrame]":
    """Return the public tables by their own names, in the order of preference."""
    return {table: records[name] for name, table in graph.public_records.items()}


def _several(graph: ReleaseGraph, public: PublicTables) -> dict[str, Any]:
    """Report what several public tables know, and where each column comes from."""
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
