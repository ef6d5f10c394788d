"""Options, metadata and code version of each asset of a release."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from jam_dagster.pipeline.assets.descriptions import (
    CHILDREN,
    MECHANISM_RUN,
    about_asset,
    describe_asset,
    described,
)
from jam_dagster.pipeline.assets.failures import failing_by_a_sentence
from jam_dagster.pipeline.assets.metadata import column_lineage, column_schema
from jam_dagster.pipeline.budget.automation import DUE, freshness_of, pool_of
from jam_dagster.pipeline.budget.labels import (
    BUILT_METADATA,
    CHARGES_LEDGER,
    CHARGES_TAG,
    DATASET,
    LABEL_TAG,
    PRIVATE_SOURCE,
    RESERVES_TAG,
    built,
)
from jam_dagster.pipeline.graph import PREVIOUS, ReleaseGraph
from jam_dagster.pipeline.launch import NO_CONFIG
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.children import SLOTS

# Raise it when a step computes something else from the same inputs.
CODE_VERSION = "1"

PRIVATE_STEP = (
    "private_records",
    "private_discretized",
    MECHANISM_RUN,
    "synthetic_records",
    CHILDREN,
    "workload_error",
)
"""The assets of the one step that opens the private table."""

# The release is reserved if somebody asks for any of these.
_RESERVING = ("privacy_budget", *PRIVATE_STEP)


def release_asset(
    graph: ReleaseGraph,
    name: str,
    *,
    ins: Mapping[str, dg.AssetIn] | None = None,
    deps: Sequence[dg.AssetKey | dg.AssetDep] = (),
    resources: Iterable[str] = (),
    check_specs: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return the decorator that makes an asset of this release of a function."""
    decorate: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.asset(
        **_options(graph, name),
        ins=dict(ins or {}),
        deps=list(deps),
        required_resource_keys=set(resources),
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        check_specs=list(check_specs),
    )
    return lambda compute: decorate(failing_by_a_sentence(compute))


def private_step(
    graph: ReleaseGraph,
    deps: Mapping[str, Iterable[dg.AssetKey]],
    *,
    ins: Mapping[str, dg.AssetIn],
    resources: Iterable[str],
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """Return the decorator that makes the step of a function which opens the private table."""
    specs = []
    for name, upstream in deps.items():
        options = _options(graph, name)
        store = options.pop("io_manager_key")
        spec = dg.AssetSpec(**options, deps=list(upstream))
        specs.append(spec.with_io_manager_key(store))
    decorate: Callable[[Callable[..., Any]], dg.AssetsDefinition] = dg.multi_asset(
        name=f"{graph.spec.release}__release",
        specs=specs,
        # A part that charges nothing would open the table by itself.
        can_subset=False,
        ins=dict(ins),
        required_resource_keys=set(resources),
        config_schema=NO_CONFIG,
        # A job's retry policy would run the step again, and a step that spends must decide by
        # itself what it does again.
        retry_policy=dg.RetryPolicy(max_retries=0),
        op_tags=dict(graph.options.op.tags),
        pool=graph.options.op.pool or pool_of(graph.spec.dataset),
    )
    return lambda compute: decorate(failing_by_a_sentence(compute))


def _options(graph: ReleaseGraph, name: str) -> dict[str, Any]:
    asset = described(name)
    label = graph.label(name)
    tags = {**graph.options.tags, LABEL_TAG: label.value}
    if graph.charges(name):
        tags[CHARGES_TAG] = CHARGES_LEDGER
    if name in _RESERVING and graph.spec.privacy.noise == "exact":
        tags[RESERVES_TAG] = CHARGES_LEDGER
    options: dict[str, Any] = {
        "key": graph.key(name),
        "description": describe_asset(name, graph.spec),
        "group_name": graph.options.group or graph.spec.release,
        "owners": list(graph.options.owners),
        "tags": tags,
        # The label is a kind, so that it is seen on the asset's card in the graph.
        "kinds": {label.value, *asset.kinds},
        "metadata": _metadata(graph, name),
        "code_version": code_version(graph, name),
    }
    if graph.partitions_def is not None:
        options["partitions_def"] = graph.partitions_def
        # No backfill policy: without one a backfill launches a run for each partition. With
        # BackfillPolicy.multi_run(1) it would too, but name a range of partitions, and checks
        # would not know theirs.
    if name != "privacy_budget":
        options["io_manager_key"] = graph.store(name)
    freshness = freshness_of(graph.spec.partitions, graph.tick)
    if freshness is not None and name in DUE:
        options["freshness_policy"] = freshness
    return options


def _metadata(graph: ReleaseGraph, name: str) -> dict[str, Any]:
    domain = graph.spec.domain.declared
    label = graph.label(name)
    mark = about_asset(name, graph.spec, label, graph.price_of_partitions)
    mark[BUILT_METADATA] = built(label, charges=graph.charges(name))
    if name == "privacy_budget" and graph.spec.exact:
        mark[DATASET] = graph.spec.dataset
    if name == "private_records":
        # The label check goes by these, and a translation must leave them.
        for source in graph.source_deps("private_records"):
            mark[PRIVATE_SOURCE] = source.to_user_string()
    if domain is None or graph.spec.domain.restricted:
        return mark
    return mark | table_metadata(graph, name, domain)


def table_metadata(graph: ReleaseGraph, name: str, domain: Domain) -> dict[str, Any]:
    """Return column schema and lineage of a table, as far as they follow from the domain.

    Lineage crosses the mechanism: a synthetic column comes from the private column of the same
    name where the mechanism reads values, and from the public one where it learns from that table.
    """
    coded = name.endswith("_discretized")
    sampled = name in ("synthetic_records", CHILDREN)
    of_sampled = [
        *([graph.key("private_discretized")] if graph.spec.reads_values else []),
        *([graph.key("public_discretized")] if graph.learns_from_public else []),
    ]
    upstream = {
        "private_records": graph.source_deps("private_records"),
        "private_discretized": [graph.key("private_records")],
        # The columns of each of several tables are known once they are read.
        "public_discretized": [
            graph.key(name) for name, table in graph.public_records.items() if not table
        ],
        "synthetic_records": of_sampled,
        CHILDREN: of_sampled,
    }.get(name, [])
    if name != "private_records" and not sampled and not coded:
        return {}
    sources, linked_by = {column: [column] for column in domain.names}, ""
    if sampled and domain.children is not None:
        link, child = domain.children.link, domain.children.domain
        linked_by, domain = link.column, child if name == CHILDREN else domain.roots
        sources = {
            one: [link.name(slot, one) for slot in SLOTS] if name == CHILDREN else [one]
            for one in domain.names
        }
    schema = column_schema(domain, coded=coded, derived=sampled, linked_by=linked_by)
    metadata: dict[str, Any] = {"dagster/column_schema": schema}
    if name == "public_discretized" and graph.spec.previous is not None:
        upstream = [*upstream, graph.key(PREVIOUS)]
    if upstream:
        metadata["dagster/column_lineage"] = column_lineage(sources, upstream)
    return metadata


def code_version(graph: ReleaseGraph, name: str) -> str:
    """Return a version that changes with the configuration that the asset depends on."""
    spec = graph.spec
    source = graph.sources.get(name)
    parts: list[Any] = [CODE_VERSION]
    if source is not None:
        parts.append(source.to_dict())
    if name == "private_records" and spec.privacy.unit is not None:
        parts.append(spec.privacy.unit.build().to_dict())
    if name == "domain":
        declared = spec.domain.declared
        drafted: list[Any] = [spec.domain.identify, spec.domain.bins, spec.domain.columns]
        if spec.domain.identify == "paid":
            drafted += [spec.domain.types, spec.domain.share, spec.domain.delta_share]
        parts.append(declared.digest if declared else drafted)
        if spec.relates:
            parts.append(spec.workload.to_dict())
    if name == "public_discretized" and spec.previous is not None:
        parts.append(spec.previous.to_dict())
    if name in ("privacy_budget", MECHANISM_RUN):
        parts += [spec.dataset, spec.privacy.edition, spec.configured]
    if name == "workload_error":
        parts += [spec.evaluation_mode, spec.evaluation.share, spec.workload.to_dict()]
    text = json.dumps(parts, sort_keys=True, default=str)
    return f"{CODE_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def previous_asset(graph: ReleaseGraph) -> dg.AssetSpec:
    """Return the releases of the partitions as what the next ones are drawn on.

    It stands for ``synthetic_records`` one partition ago, and the run that makes that table
    reports it: the table itself depends on what depends on this, and Dagster knows no
    dependency of an earlier partition that would not be a cycle.
    """
    label = graph.label(PREVIOUS)
    return dg.AssetSpec(
        graph.key(PREVIOUS),
        description="The partition before.",
        group_name=graph.options.group or graph.spec.release,
        owners=list(graph.options.owners),
        tags={**graph.options.tags, LABEL_TAG: label.value},
        kinds={label.value},
        metadata={
            "about": "The synthetic table of each partition is the public table of the next one."
            " No step materializes this asset: it represents `synthetic_records` one partition"
            " ago, and the run that makes that table reports it.",
            "who_may_see_it": "Everyone who may see `synthetic_records`.",
            BUILT_METADATA: built(label, charges=False),
        },
        partitions_def=graph.partitions_def,
    )
