"""To which release a thing in the store belongs, so that nothing is combined with another's.

A store keeps what earlier runs made, and the configuration may have changed since. Every asset
from the ingested tables on therefore carries what it was made for; a step that finds something
made for another release refuses it, with what to materialize, before anything is charged.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from jam_dagster.errors import DomainError, InputError
from jam_dagster.evaluation import WorkloadErrors
from jam_dagster.privacy.private_copies import INGESTION_ATTRIBUTE
from jam_dagster.release.run import ReleaseErrors, ReleaseRun
from jam_dagster.reports.release_report import run_of_page
from jam_dagster.tables import EncodedTable, MarginalSource

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

    from jam_dagster.pipeline.graph import ReleaseGraph
    from jam_dagster.tables import Domain

# Attributes of data frames stay with a table in its Parquet file.
RUN_ATTRIBUTE = "jam_dagster.run"


@dataclass(frozen=True)
class Ingestion:
    """For which edition and partition a private table was read, and how its rows were limited.

    Nothing in it but `fits` follows from the table's values.

    Parameters
    ----------
    edition, partition
        Of the release.
    limit
        The rows of one person that were kept, in words; empty where every record is a person.
    dataset, release, noise, retention_days
        Whose copy it is and how long it is kept, for `private_copies`.
    source
        What it was read from, as a keyed digest (see `source_binding`); empty in research.
    fits
        Whether its values are such as the release allows. Where they are not, the table is stored
        without rows: that it fits is an answer as well, so only the mechanism's run, which pays
        for going on, says so.
    handle
        Whether the rows are read where the source has them, and no copy of them is kept.
    """

    edition: str = ""
    partition: str = ""
    limit: str = ""
    dataset: str = field(default="", compare=False)
    release: str = field(default="", compare=False)
    noise: str = field(default="", compare=False)
    retention_days: int | None = field(default=None, compare=False)
    # The ledger knows which one a release is bound to.
    source: str = field(default="", compare=False)
    fits: bool = field(default=True, compare=False)
    handle: bool = field(default=False, compare=False)

    @classmethod
    def wanted(cls, graph: ReleaseGraph, partition: str, *, source: str = "") -> Ingestion:
        """Return what a release asks for now."""
        privacy = graph.spec.privacy
        unit = privacy.unit
        limit = "" if unit is None else f"at most {unit.max_rows} rows for each {unit.column}"
        return cls(
            str(privacy.edition),
            partition,
            limit,
            dataset=graph.spec.dataset,
            release=graph.spec.release,
            noise=privacy.noise,
            retention_days=privacy.retention_days,
            source=source,
        )

    def mark(self, table: pd.DataFrame) -> None:
        """Write it on a table."""
        table.attrs[INGESTION_ATTRIBUTE] = asdict(self)

    @classmethod
    def of(cls, table: pd.DataFrame) -> Ingestion:
        """Read it from a table; one that was never marked belongs to no edition."""
        return cls(**table.attrs.get(INGESTION_ATTRIBUTE, {}))


@dataclass(frozen=True, eq=False, repr=False)
class IngestedTable(EncodedTable):
    """A private table of codes, with the edition and partition that it was read for."""

    ingestion: Ingestion = Ingestion()

    def __repr__(self) -> str:
        # Not even its number of rows, which may be private.
        return f"IngestedTable({len(self.columns)} attributes)"


def mark(run: ReleaseRun, table: pd.DataFrame) -> None:
    """Write on a synthetic table that a run made it."""
    table.attrs[RUN_ATTRIBUTE] = run.digest


def check_domains(
    graph: ReleaseGraph, public: MarginalSource | None, private: EncodedTable
) -> Domain:
    """Return the domain of the encoded tables, once it is the one of the release.

    Raises
    ------
    DomainError
        If a table was encoded over another domain than the declared one, or than the other table.
    """
    wanted = graph.spec.domain.declared or (public or private).domain
    tables = {"public_discretized": public, "private_discretized": private}
    stale = [
        name
        for name, table in tables.items()
        if table is not None and _domain_of(table.domain) != _domain_of(wanted)
    ]
    if stale:
        raise DomainError(
            f"{' and '.join(stale)} of release {graph.spec.release} and the release's domain"
            f" differ: the domain changed since a table was encoded. Materialize domain,"
            f" {' and '.join(name for name, table in tables.items() if table is not None)}."
            " Nothing was charged."
        )
    return wanted


def _domain_of(domain: Domain) -> tuple[str, bool]:
    return domain.digest, domain.restricted


def check_ingestion(graph: ReleaseGraph, private: EncodedTable, partition: str) -> None:
    """Make sure that private codes were read for this step: its edition, partition and limit.

    Raises
    ------
    InputError
        If they were read for another: a new edition pays for new data, not for those left over,
        and noise for k rows a person hides no more than k.
    """
    found = private.ingestion if isinstance(private, IngestedTable) else Ingestion()
    check_wanted(graph, found, partition)
    check_bound(graph, found)


def check_wanted(graph: ReleaseGraph, found: Ingestion, partition: str) -> None:
    """Make sure that a stored table was made for this edition, partition and limit of rows.

    Raises
    ------
    InputError
        As for `check_ingestion`.
    """
    wanted = Ingestion.wanted(graph, partition)
    if found != wanted:
        raise InputError(
            f"private_discretized of release {graph.spec.release} was read for"
            f" {_named(found)}, not for {_named(wanted)}. Materialize private_records and"
            f" private_discretized. Nothing was charged."
        )


def check_bound(graph: ReleaseGraph, found: Ingestion) -> None:
    """Make sure that a table which pays was read from a source that a reservation can be bound to.

    Raises
    ------
    InputError
        If it was read for research, which binds no source.
    """
    if graph.spec.privacy.noise == "exact" and not found.source:
        raise InputError(
            f"The private table of release {graph.spec.release} was read for research, with seeded"
            " noise. Materialize private_records and private_discretized for exact noise. Nothing"
            " was charged."
        )


def _named(ingestion: Ingestion) -> str:
    edition = f"edition {ingestion.edition}" if ingestion.edition else "no edition"
    edition += f" of partition {ingestion.partition}" if ingestion.partition else ""
    return edition + (f" with {ingestion.limit}" if ingestion.limit else "")


def check_run(graph: ReleaseGraph, run: ReleaseRun, partition: str) -> None:
    """Make sure that a run made the release that is configured now.

    Raises
    ------
    InputError
        If privacy, mechanism, workload, domain or anything else that makes the release another
        one has changed since.
    """
    domain = graph.spec.domain.declared or run.model.domain
    name = graph.spec.mechanism.name
    if run.release.key != graph.spec.key(domain, partition):
        raise InputError(
            f"{name} of release {graph.spec.release} was made for edition"
            f" {run.release.key.edition} with epsilon {run.release.epsilon:g} at delta"
            f" {run.release.delta:g}, and the configuration has changed since. Materialize {name}"
            f" first, or set the configuration back. Nothing was charged."
        )


def check_report(graph: ReleaseGraph, run: ReleaseRun, path: UPath) -> None:
    """Raise InputError unless the report at `path`, if there is one, tells of the run."""
    if path.exists() and run_of_page(path.read_text(encoding="utf-8")) != run.digest:
        raise InputError(
            f"release_report of release {graph.spec.release} belongs to another run than"
            f" {graph.spec.mechanism.name}. Materialize release_report first. Nothing was charged."
        )


def check_tables(
    graph: ReleaseGraph,
    run: ReleaseRun,
    partition: str,
    *,
    synthetic: pd.DataFrame | None = None,
    public: MarginalSource | None = None,
    error: WorkloadErrors | None = None,
) -> None:
    """Make sure that a run is of the release that is configured now, and the rest is of the run.

    Parameters
    ----------
    graph
        The release.
    run
        The mechanism's run.
    partition
        The partition of this step.
    synthetic, public, error
        What else the step combines with it.

    Raises
    ------
    DomainError
        If the public table is over another domain than the run.
    InputError
        If anything else belongs to another run.
    """
    check_run(graph, run, partition)
    name = graph.spec.mechanism.name
    if public is not None and _domain_of(public.domain) != _domain_of(run.model.domain):
        raise DomainError(
            f"public_discretized of release {graph.spec.release} and {name} have different domains."
            f" Materialize public_discretized, or {name} and what follows from it."
        )
    stale = []
    if synthetic is not None and synthetic.attrs.get(RUN_ATTRIBUTE) != run.digest:
        stale.append("synthetic_records")
    if isinstance(error, ReleaseErrors) and error.run != run.digest:
        stale.append("workload_error")
    if stale:
        raise InputError(
            f"{' and '.join(stale)} of release {graph.spec.release} belong to another run than"
            f" {name}. Materialize {' and '.join(stale)} first. Nothing was charged."
        )
