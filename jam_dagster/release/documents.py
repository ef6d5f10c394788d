"""The documents of a release whose private table is closed: report, verdict, certificate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, Issuer, ReleaseTerms, RequestedBudget, certify
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.choices import recommended
from jam_dagster.common.redaction import keep_details
from jam_dagster.errors import InputError
from jam_dagster.evaluation import Verdict, WorkloadErrors, verdict_of
from jam_dagster.evaluation.bounds.error_bounds import has_bounds, known_bounds
from jam_dagster.evaluation.domain_fit import ColumnFit, column_fits
from jam_dagster.evaluation.quality import columns_and_pairs, measured_quality
from jam_dagster.evaluation.workload_error import uniform_distance
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.release.run import ReleaseIdentity, ReleaseRun
from jam_dagster.reports.release_report import ReportFacts, render_report
from jam_dagster.tables import Clique, EncodedTable, MarginalSource, SqlSource
from jam_dagster.tables.codes.block_counts import can_be_counted
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.marginals import PackedCounts
from jam_dagster.tables.codes.table import counts_or_codes
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

    from jam_dagster.evaluation import ExpectationResult
    from jam_dagster.evaluation.expectations.validation import TableChecks
    from jam_dagster.privacy import ReleaseKey
    from jam_dagster.release.funding import Funding
    from jam_dagster.release.place import Place
    from jam_dagster.release.spec import ReleaseSpec


ROWS = "rows"
"""What counts a private table that no database counts."""


class Documents:
    """The steps of an `Engine` that open no private data."""

    spec: ReleaseSpec
    place: Place
    funding: Funding

    @property
    def counted_by(self) -> str | None:
        """What counts the private table of an SQL source: a database, or ``rows``, read here.

        A release goes on as it began; None where that is not known, and of other sources.
        """
        source = self.spec.private
        if not isinstance(source, SqlSource):
            return None
        return self.place.counted_by if self.place.has_begun else source.engine or ROWS

    def _was_made(self, run: ReleaseRun) -> bool:
        """Whether a run is the one that was made for this release, with its budget."""
        partition, domain = run.release.key.partition, run.model.domain
        wanted = ReleaseIdentity.of(self.spec, domain, partition)
        return run.release == wanted and self.funding.has_made(run)

    def _check_run(self, run: ReleaseRun) -> None:
        """Raise InputError unless a run is the one that was made."""
        if not self._was_made(run):
            raise InputError(
                f"The run of release {run.release.key.release} in {self.place.name} is not the one"
                " that was made. Run the release again, which charges nothing: it repeats from the"
                " stored draws."
            )

    def report(
        self,
        run: ReleaseRun,
        synthetic: MarginalSource,
        public: MarginalSource | None,
        *,
        verdict: Verdict,
        checks: Sequence[ExpectationResult] = (),
        error: WorkloadErrors | None = None,
        restricted: bool = False,
        **more: Any,
    ) -> str:
        """Render the release report.

        Parameters
        ----------
        run
            The mechanism's run.
        synthetic, public
            The tables to compare.
        verdict
            What `judged` returned.
        checks
            Results of the checks.
        error
            The workload errors that the page may show.
        restricted
            Whether to make the restricted edition, with exact errors.
        **more
            Facts that only the place knows: ``public_source``, ``public_released``, ``history``.
        """
        self._check_run(run)
        workload = self.spec.workload.build(run.model.domain)
        bounds = known_bounds(run.transcript, run.model.domain, workload, released=synthetic)
        # A page that is made again says what it said, and is the one that was certified.
        made, remaining = self.funding.ended() or (datetime.now(UTC), None)
        key = run.release.key
        if error is not None and error.synthetic is None:
            error = None
        public_source = "" if self.spec.public is None else self.spec.public.describe()
        facts = {"public_source": public_source, **more}
        return render_report(
            ReportFacts(
                release=key.release,
                dataset=key.dataset,
                epsilon=run.release.epsilon,
                delta=run.release.delta,
                reserved=run.release.shares,
                partition=key.partition,
                edition=key.edition,
                made=made,
                run=run.digest,
                remaining_epsilon=remaining,
                bounds=bounds,
                **facts,
            ),
            transcript=run.transcript,
            synthetic=synthetic,
            public=public,
            checks=checks,
            error=error,
            verdict=verdict,
            restricted=restricted,
        )

    def certify(
        self,
        run: ReleaseRun,
        folder: Path | UPath,
        files: Mapping[str, Path | UPath],
        errors: WorkloadErrors | None,
        public: MarginalSource | None,
        *,
        fresh: bool = False,
        made: Mapping[str, str] | None = None,
        drawn_on: Sequence[ReleaseKey] = (),
    ) -> Certificate:
        """Issue the certificate over the files of the release.

        Parameters
        ----------
        run
            The mechanism's run.
        folder
            The folder that the certificate will lie in.
        files
            What `jam_dagster.certificates.released_files` returned.
        errors
            The workload errors; None where they were not charged for.
        public
            The encoded public tables, if the mechanism learns from any.
        fresh
            Whether this process has fitted the run's model. One that was read is fitted again.
        made
            The SHA-256 of files as they were made, by their roles.
        drawn_on
            The releases that it was drawn on, one on the other, the latest first.
        """
        self._check_run(run)
        released, funding = run.release, self.funding
        terms = ReleaseTerms(
            key=released.key,
            specification=self.spec.specified(run.model.domain),
            asked=RequestedBudget(released.epsilon, released.delta, released.shares),
            source_restriction=self.spec.private.restricted_because,
            counted_by=self.counted_by,
            trusted_mechanisms=self.spec.trusted_mechanisms,
            dialect=self.spec.dialect,
            drawn_on=drawn_on,
        )
        return certify(
            folder,
            files,
            run,
            terms,
            public=public,
            evaluation=None if errors is None else errors.call,
            fresh=fresh,
            made=made,
            issuer=Issuer(funding.ledger, funding.run_id, funding.signer),
        )


def told_marginals(spec: ReleaseSpec, run: ReleaseRun, *, evaluated: bool) -> list[Clique]:
    """Return all marginals by which a release is told, to be counted; none where codes are kept.

    The workload is counted where it is `evaluated`, or bounds need it. Codes are kept where
    classifiers learn from rows, or the marginals are too many.
    """
    domain = run.model.domain
    told = [*columns_and_pairs(domain), *map(domain.canonical, run.model.cliques)]
    if evaluated or has_bounds(run.transcript):
        told += spec.workload.build(domain).downward_closure()
    learned = evaluated and spec.evaluation.target is not None
    return told if not learned and can_be_counted(domain, told) else []


def counts_in(
    spec: ReleaseSpec,
    run: ReleaseRun,
    chunks: Iterable[EncodedTable | PackedCounts],
    *,
    evaluated: bool,
) -> MarginalSource:
    """Count the chunks of a synthetic table: all `told_marginals`, or keep their codes."""
    told = told_marginals(spec, run, evaluated=evaluated)
    return counts_or_codes(chunks, run.model.domain, told, records=run.transcript.records)


def counts_of(
    spec: ReleaseSpec, run: ReleaseRun, table: TableFile, *, evaluated: bool
) -> MarginalSource:
    """Return the counts of a stored synthetic table, kept or counted again; see `counts_in`."""
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
    """Judge a release by what may be shown of it; see `jam_dagster.evaluation.verdict_of`.

    Exact errors may be shown where it is `restricted`.
    """
    domain = run.model.domain
    unmeasured = "The error was not measured."
    if spec.evaluation_mode == "exact" and not restricted:
        unmeasured = (
            "No error was released: it was measured exactly, for readers who may see the"
            " private table."
        )
    elif spec.evaluation_mode == "private":
        unmeasured = (
            "The error is unknown: its only draw was lost, or its share of the budget was closed"
            " before it."
        )
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
    """Return the title of the mechanism that is recommended, where another one ran."""
    best = recommended(public=public)
    return "" if best == mechanism else title_of(best)


def fits_of(run: ReleaseRun, public: MarginalSource | None) -> list[ColumnFit]:
    """Return how the domain of a run fits the private columns, by what was released.

    A domain from private data holds their values, and its labels may not be shown.
    """
    domain = run.model.domain
    if domain.restricted:
        return []
    return column_fits(run.transcript, domain, public)


def checks_of(
    run: ReleaseRun, table: pd.DataFrame | TableFile, public: MarginalSource | None
) -> TableChecks:
    """Check a run's synthetic table against its domain, the measurements and the public tables.

    The checks that were made last are kept: the pages of a release tell the same ones.
    """
    key: tuple[str, bytes | None]
    # Great Expectations takes seconds to import, and a code location should load in less.
    from jam_dagster.evaluation.expectations.validation import contents_of, not_checked, validate

    if isinstance(table, TableFile):
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
            )
        except Exception as error:  # The release is paid for, and holds without its checks.
            keep_details("checking the synthetic table", error)
            return not_checked(run.model.domain, type(error).__name__)
        _LAST_CHECKS.clear()
        _LAST_CHECKS[key] = made
    return _LAST_CHECKS[key]


def keep_counts(run: ReleaseRun, table: TableFile, counts: MarginalSource) -> None:
    """Keep the counts of the table that was made last: a later step of this process tells them."""
    _LAST_COUNTS.clear()
    _LAST_COUNTS[run.digest, sha256_of(table.path)] = counts


_LAST_COUNTS: dict[tuple[str, str], MarginalSource] = {}

_LAST_CHECKS: dict[tuple[str, bytes | None], TableChecks] = {}
