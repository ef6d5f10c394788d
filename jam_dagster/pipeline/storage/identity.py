"""Marks on stored assets; a step refuses inputs of another release.

A store keeps what earlier runs made, and the configuration may have changed since.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.table import RUN_ATTRIBUTE
from jam_dagster.errors import DomainError, InputError
from jam_dagster.pipeline.assets.descriptions import CHILDREN, PUBLIC_CODES
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.run import ReleaseErrors, ReleaseIdentity, ReleaseRun
from jam_dagster.reports.release_report import run_of_page
from jam_dagster.tables import MarginalSource
from jam_dagster.tables.sources.public import over_bought

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.pipeline.graph import ReleaseGraph
    from jam_dagster.tables import Domain
    from jam_dagster.tables.sources.table_file import TableFile


def check_domains(graph: ReleaseGraph, domain: Domain, public: MarginalSource | None) -> None:
    """Raise unless a step's inputs are over the domain of the release."""
    wanted = graph.spec.domain.declared or domain
    tables = {"domain": domain, "public_discretized": None if public is None else public.domain}
    stale = [
        name
        for name, found in tables.items()
        if found is not None and _domain_of(found) != _domain_of(wanted)
    ]
    if stale:
        raise DomainError(
            f"{' and '.join(stale)} of release {graph.spec.release} and the release's domain"
            f" differ: the domain changed since. Materialize {' and '.join(stale)} first. Nothing"
            " was charged."
        )


def _domain_of(domain: Domain) -> tuple[str, bool]:
    return domain.digest, domain.restricted


def check_report(graph: ReleaseGraph, run: ReleaseRun, path: UPath) -> None:
    """Raise InputError unless the report at `path`, if there is one, is about the run."""
    if path.exists() and run_of_page(path.read_text(encoding="utf-8")) != run.digest:
        raise InputError(
            f"release_report of release {graph.spec.release} belongs to another run than"
            f" {graph.spec.mechanism.name}. Materialize release_report first. Nothing was charged."
        )


def held(public: MarginalSource | None) -> MarginalSource | None:
    """Return the public table; None for an empty one, which a first partition without one has."""
    return None if public is not None and public.records == 0 else public


def made_release(
    graph: ReleaseGraph,
    partition: str,
    run: ReleaseRun,
    table: TableFile,
    inputs: Mapping[str, Any],
) -> MadeRelease:
    """Return what a step is given of a release, by the roles of its assets, once it is one."""
    graph = graph.over(run.model.domain)
    made = MadeRelease(
        *(graph.spec, run, table),
        children=inputs.get(CHILDREN),
        public=over_bought(held(inputs.get(PUBLIC_CODES)), run.model.domain),
        error=inputs.get("workload_error"),
    )
    check_made(graph, made, partition)
    return made


def check_made(
    graph: ReleaseGraph, made: MadeRelease, partition: str, *, table: str = "synthetic_records"
) -> None:
    """Raise unless a run is of the release that is configured, and all else is of the run."""
    run, name = made.run, graph.spec.mechanism.name
    graph = graph.over(run.model.domain)
    domain = graph.spec.domain.declared or run.model.domain
    if run.release != ReleaseIdentity.of(graph.spec, domain, partition):
        raise InputError(
            f"{name} of release {graph.spec.release} was made for edition"
            f" {run.release.release_id.edition} with epsilon {run.release.epsilon:g} at delta"
            f" {run.release.delta:g}, and the configuration has changed since. Materialize {name}"
            f" first, or set the configuration back. Nothing was charged."
        )
    if made.public is not None and _domain_of(made.public.domain) != _domain_of(run.model.domain):
        raise DomainError(
            f"public_discretized of release {graph.spec.release} and {name} have different domains."
            f" Materialize public_discretized, or {name} and what follows from it."
        )
    stale = []
    if made.table.attrs.get(RUN_ATTRIBUTE) != run.digest:
        stale.append(table)
    if made.children is not None and made.children.attrs.get(RUN_ATTRIBUTE) != run.digest:
        stale.append(graph.key(CHILDREN).path[-1])
    if isinstance(made.error, ReleaseErrors) and made.error.run != run.digest:
        stale.append("workload_error")
    if stale:
        raise InputError(
            f"{' and '.join(stale)} of release {graph.spec.release} belong to another run than"
            f" {name}. Materialize {' and '.join(stale)} first. Nothing was charged."
        )
