"""Counts, checks and verdict of a synthetic table, whose private table is closed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.choices import recommended
from jam_dagster.common.redaction import keep_details
from jam_dagster.evaluation import Verdict, WorkloadErrors, verdict_of
from jam_dagster.evaluation.bounds.error_bounds import has_bounds
from jam_dagster.evaluation.domain_fit import ColumnFit, column_fits
from jam_dagster.evaluation.quality import columns_and_pairs, measured_quality
from jam_dagster.evaluation.workload_error import uniform_distance
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.release.run import ReleaseRun
from jam_dagster.tables import Clique, EncodedTable, MarginalSource
from jam_dagster.tables.codes.block_counts import can_be_counted
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.marginals import PackedCounts
from jam_dagster.tables.codes.roots import encode_two
from jam_dagster.tables.codes.table import counts_or_codes
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation import ExpectationResult
    from jam_dagster.evaluation.expectations.validation import TableChecks
    from jam_dagster.release.spec import ReleaseSpec


def reported_marginals(spec: ReleaseSpec, run: ReleaseRun, *, evaluated: bool) -> list[Clique]:
    """Return the marginals that report and checks need; empty if the codes are kept instead.

    The workload is among them if it is `evaluated`, or bounds need it. Codes are kept if
    classifiers learn from rows, or the marginals are too many to count.
    """
    domain = run.model.domain
    reported = [*columns_and_pairs(domain), *map(domain.canonical, run.model.cliques)]
    if evaluated or has_bounds(run.transcript):
        reported += spec.workload.build(domain).downward_closure()
    learned = evaluated and spec.evaluation.target is not None
    return reported if not learned and can_be_counted(domain, reported) else []


def counts_in(
    spec: ReleaseSpec,
    run: ReleaseRun,
    chunks: Iterable[EncodedTable | PackedCounts],
    *,
    evaluated: bool,
) -> MarginalSource:
    """Count the `reported_marginals` in the chunks of a synthetic table, or keep their codes."""
    reported = reported_marginals(spec, run, evaluated=evaluated)
    return counts_or_codes(chunks, run.model.domain, reported, records=run.transcript.records)


def counts_of(
    spec: ReleaseSpec,
    run: ReleaseRun,
    table: TableFile,
    children: pd.DataFrame | None = None,
    *,
    evaluated: bool,
) -> MarginalSource:
    """Return the counts of a stored synthetic table (`counts_in`), from memory if there.

    If it has children, they are of both tables.
    """
    if children is not None:
        return encode_two(table.read(), children, run.model.domain)
    key = run.digest, sha256_of(table.path)
    if key not in _LAST_COUNTS:
        codes = each_encoded(table.chunks(), run.model.domain, private=False)
        return counts_in(spec, run, codes, evaluated=evaluated)
    return _LAST_COUNTS[key]


def judged(
    spec: ReleaseSpec,
    run: ReleaseRun,
    synthetic: MarginalSource,
    public: MarginalSource | None,
    error: WorkloadErrors | None,
    *,
    checks: Sequence[ExpectationResult] = (),
    restricted: bool = False,
) -> Verdict:
    """Return the verdict on a release; see `jam_dagster.evaluation.verdict_of`.

    Only a `restricted` verdict may follow from exact errors.
    """
    domain = run.model.domain
    mode = "off" if restricted and spec.evaluation_mode == "exact" else spec.evaluation_mode
    unmeasured = {"off": "unmeasured", "exact": "unreleased", "private": "lost"}[mode]
    measured = error is not None and error.synthetic is not None
    uniform = None
    if measured and error is not None and error.public is None and error.uniform is None:
        uniform = uniform_distance(synthetic, spec.workload.build(domain))
    return verdict_of(
        error,
        checks=checks,
        fits=fits_of(run, public),
        clipped=_clipped(public),
        uniform=uniform,
        domain=None if domain.restricted else domain,
        quality=measured_quality(run.transcript, synthetic),
        unmeasured=unmeasured,
        recommended=_recommended(run.transcript.mechanism, public=spec.public is not None),
    )


def _clipped(public: MarginalSource | None) -> dict[str, float]:
    """Return the share of public cells that the domain clips, by column, if it is large."""
    tables = {} if public is None else encoded_tables(public)
    found: dict[str, float] = {}
    for table in tables.values():
        # The first table that has a column answers for it.
        for name in table.domain.names:
            found.setdefault(name, table.clipped.get(name, 0.0))
    return {name: share for name, share in found.items() if share}


def _recommended(mechanism: str, *, public: bool) -> str:
    """Return the title of the recommended mechanism if another one ran; else empty."""
    best = recommended(public=public)
    return "" if best == mechanism else title_of(best)


def fits_of(run: ReleaseRun, public: MarginalSource | None) -> list[ColumnFit]:
    """Return how well the domain of a run fits the private columns, by released counts.

    It is empty for a domain from private data, whose labels may not be shown.
    """
    domain = run.model.domain
    if domain.restricted:
        return []
    return column_fits(run.transcript, domain, public)


def checks_of(
    run: ReleaseRun,
    table: pd.DataFrame | TableFile,
    public: MarginalSource | None,
    children: pd.DataFrame | None = None,
) -> TableChecks:
    """Check a run's synthetic table against its domain, the measurements and the public tables.

    The last results are kept, so that all pages of a release show the same ones.
    """
    key: tuple[str, bytes | None]
    # Great Expectations takes seconds to import, and a code location should load in less.
    from jam_dagster.evaluation.expectations.validation import (
        contents_of,
        contents_of_two,
        not_checked,
        validate,
    )

    if children is not None:
        table = table.read() if isinstance(table, TableFile) else table
        key = run.digest, contents_of_two(table, children)
    elif isinstance(table, TableFile):
        key = run.digest, sha256_of(table.path).encode()
    else:
        key = run.digest, contents_of(table)
    if None in key or key not in _LAST_CHECKS:
        try:
            made = validate(
                table,
                run.model.domain,
                records=run.transcript.records,
                transcript=run.transcript,
                model=run.model,
                public=public,
                children=children,
            )
        except Exception as error:  # The release is paid for, and is valid without its checks.
            keep_details("checking the synthetic table", error)
            return not_checked(run.model.domain, type(error).__name__)
        _LAST_CHECKS.clear()
        _LAST_CHECKS[key] = made
    return _LAST_CHECKS[key]


def keep_counts(run: ReleaseRun, table: TableFile, counts: MarginalSource) -> None:
    """Keep the counts of the last table, for later steps of this process."""
    _LAST_COUNTS.clear()
    _LAST_COUNTS[run.digest, sha256_of(table.path)] = counts


_LAST_COUNTS: dict[tuple[str, str], MarginalSource] = {}

_LAST_CHECKS: dict[tuple[str, bytes | None], TableChecks] = {}
