"""Counts, checks and verdict of a synthetic table, whose private table is closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.certificates.issue import sha256_of
from jam_dagster.certificates.table import marks_of
from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.common.redaction import keep_details
from jam_dagster.evaluation import Verdict, WorkloadErrors, verdict_of
from jam_dagster.evaluation.bounds.error_bounds import has_bounds
from jam_dagster.evaluation.coarse_pairs import CoarsePairs, PairErrors
from jam_dagster.evaluation.columns_and_pairs import columns_and_pairs
from jam_dagster.evaluation.domain_fit import ColumnFit, column_fits
from jam_dagster.evaluation.utility import Classifier, can_classify
from jam_dagster.evaluation.workload_error import judged_workload, uniform_distance
from jam_dagster.mechanisms.loops.rows import release_rows
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.release.run import ReleaseRun
from jam_dagster.tables import Clique, EncodedTable, MarginalSource, encode
from jam_dagster.tables.codes.block_counts import can_be_counted
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.purpose import targets
from jam_dagster.tables.codes.roots import encode_two
from jam_dagster.tables.codes.table import counts_or_codes
from jam_dagster.tables.domain.bought import OTHER, bought_text
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.table_file import ChunkFormat, TableFile

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from jam_dagster.evaluation import ExpectationResult
    from jam_dagster.evaluation.expectations.validation import TableChecks
    from jam_dagster.mechanisms.loops.rows import SampledRows
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
    learned = evaluated and spec.evaluation_mode == "exact" and bool(spec.purpose)
    return reported if not learned and can_be_counted(domain, reported) else []


def counts_in(
    spec: ReleaseSpec,
    run: ReleaseRun,
    chunks: Iterable[EncodedTable],
    *,
    evaluated: bool,
) -> MarginalSource:
    """Count the `reported_marginals` in the chunks of a synthetic table, or keep their codes."""
    reported = reported_marginals(spec, run, evaluated=evaluated)
    return counts_or_codes(chunks, run.model.domain, reported, records=run.transcript.records)


@dataclass(frozen=True)
class MadeRelease:
    """A run and its tables, of which report, checks, verdict and certificate are made.

    Parameters
    ----------
    spec, run
        The release, and the run of its mechanism.
    table, children
        The synthetic table, or that of the roots, and the other one if the release has two.
    public
        The encoded public tables, if there are any.
    error
        The workload errors, if the readers of the documents may know any.
    codes
        The rows as they were sampled, or their counts; None: they are read from the stored table.
    repeated
        Whether the run had ended before, so that nothing was drawn.
    """

    spec: ReleaseSpec
    run: ReleaseRun
    table: pd.DataFrame | TableFile
    children: pd.DataFrame | None = None
    public: MarginalSource | None = None
    error: WorkloadErrors | None = None
    codes: MarginalSource | None = None
    repeated: bool = False

    @property
    def counts(self) -> MarginalSource:
        """The `reported_marginals` of both tables, or their codes, from memory if there."""
        if self.codes is not None:
            return self.codes
        domain = self.run.model.domain
        if self.children is not None:
            return encode_two(_whole(self.table), self.children, domain)
        if not isinstance(self.table, TableFile):
            return encode(self.table, domain, private=False)
        key = self.run.digest, sha256_of(self.table.path)
        if key not in _LAST_COUNTS:
            codes = each_encoded(self.table.chunks(), domain, private=False)
            # Without a public table, the error is compared with a uniform one's.
            return counts_in(self.spec, self.run, codes, evaluated=self.public is None)
        return _LAST_COUNTS[key]

    @property
    def bought(self) -> str:
        """The bought values and edges in a sentence, with the share of `other`; empty if none."""
        domain = self.run.model.domain
        if domain.bought is None:
            return ""
        other = {}
        asked = domain.bought.asked.asked
        if asked is None:
            return ""
        for name in asked.values:
            cells, at = self.counts.marginal((name,)), domain.attribute(name).listed.index(OTHER)
            other[name] = float(cells[at] / max(1.0, cells.sum()))
        return bought_text(asked, domain.bought.counts, domain.attributes, other)

    def check(self) -> TableChecks:
        """Check the tables against domain, measurements and public tables."""
        # Great Expectations takes seconds to import, and a code location should load in less.
        from jam_dagster.evaluation.expectations.validation import validate

        return validate(
            self.table if self.children is None else _whole(self.table),
            self.run.model.domain,
            records=self.run.transcript.records,
            transcript=self.run.transcript,
            model=self.run.model,
            public=self.public,
            children=self.children,
        )

    @property
    def checks(self) -> TableChecks:
        """The results of `check`, of which the last are kept: a release's pages show the same."""
        from jam_dagster.evaluation.expectations.validation import (
            contents_of,
            contents_of_two,
            not_checked,
        )

        run, table = self.run, self.table
        contents: bytes | None
        if self.children is not None:
            table = _whole(table)
            contents = contents_of_two(table, self.children)
        elif isinstance(table, TableFile):
            contents = sha256_of(table.path).encode()
        else:
            contents = contents_of(table)
        key = run.digest, contents
        if contents is None or key not in _LAST_CHECKS:
            try:
                made = replace(self, table=table).check()
            except Exception as error:  # The release is paid for, and is valid without its checks.
                keep_details("checking the synthetic table", error)
                return not_checked(run.model.domain, type(error).__name__)
            _LAST_CHECKS.clear()
            _LAST_CHECKS[key] = made
        return _LAST_CHECKS[key]

    @property
    def fits(self) -> list[ColumnFit]:
        """How well the domain fits the private columns, by released counts.

        It is empty for a domain from private data, whose labels may not be shown.
        """
        domain = self.run.model.domain
        if domain.restricted:
            return []
        return column_fits(self.run.transcript, domain, self.public)

    def verdict(
        self, checks: Sequence[ExpectationResult] = (), *, restricted: bool = False
    ) -> Verdict:
        """Return the verdict; see `jam_dagster.evaluation.verdict_of`.

        Only a `restricted` verdict may follow from exact errors.
        """
        spec, transcript, error = self.spec, self.run.transcript, self.error
        domain, counts = self.run.model.domain, self.counts
        exact = restricted and spec.evaluation_mode == "exact"
        mode = "off" if exact else spec.evaluation_mode
        uniform, measured = None, error is not None and error.synthetic is not None
        left_out = () if error is None else error.left_out
        workload = spec.workload.build(domain)
        judged = judged_workload(workload, domain, left_out)
        bare = error is not None and error.public is None and error.uniform is None
        if measured and bare and judged is not None:
            uniform = uniform_distance(counts, judged)
        singles = self._singles if measured and self.public is None and judged is not None else {}
        apart, lost = self._beside_public(left_out) if measured else (None, [])
        unmeasured = {"off": "unmeasured", "exact": "unreleased", "private": "lost"}[mode]
        return verdict_of(
            error,
            checks=checks,
            fits=self.fits,
            clipped=_clipped(self.public),
            uniform=uniform,
            singles=uniform_distance(counts, judged, singles) if judged and singles else None,
            domain=None if domain.restricted else domain,
            unmeasured="none_left" if judged is None else unmeasured,
            recommended="" if transcript.mechanism == RECOMMENDED else title_of(RECOMMENDED),
            compared="drawn_on" if spec.previous is not None else _named(self.public),
            learned=spec.mechanism.build().uses_public,
            apart=apart,
            lost=lost,
            related=[] if domain.restricted else [" x ".join(one) for one in workload.related],
            measured=self._measured(left_out) if measured else None,
            held_out=None if exact else self._held_out(),
        )

    @property
    def _singles(self) -> dict[str, list[float]]:
        """The weights of the cells of bought attributes, as they were counted."""
        bought = self.run.model.domain.bought
        return {} if bought is None else bought.singles(self.run.transcript.records)

    def _held_out(self) -> dict[str, tuple[float, float]]:
        """Return how well each target is predicted on public rows, if no private record tested it.

        Half of the public rows is held out, by a fixed seed. Nothing private is read.
        """
        counts, public, domain = self.counts, self.public, self.run.model.domain
        ours = None if self.error is None else self.error.synthetic
        wanted = [one for one in targets(self.spec.purpose) if not ours or one not in ours.scores]
        if not isinstance(counts, EncodedTable) or not isinstance(public, EncodedTable):
            return {}
        if not wanted or domain.restricted or not can_classify():
            return {}
        order = np.random.default_rng(0).permutation(public.records)
        learnt, tested = (public.take(half) for half in np.array_split(order, 2))
        return {
            target: (
                Classifier.of(counts, target).area(tested),
                Classifier.of(learnt, target).area(tested),
            )
            for target in (wanted if tested.records else ())
        }

    def _measured(self, left_out: Sequence[str]) -> list[str] | None:
        """Return the measured marginals; None if they serve a purpose or may not be shown.

        It is None too if all have a column that is left out: these say nothing of the others.
        """
        domain = self.run.model.domain
        if domain.restricted or self.spec.workload.build(domain).purpose:
            return None
        measurements = self.run.transcript.measurements
        names = {one.name for one in domain.attributes if one.column in left_out}
        private = (one.clique for one in measurements if one.source == "private")
        cliques = [one for one in dict.fromkeys(private) if len(one) > 1]
        kept = [" x ".join(one) for one in cliques if names.isdisjoint(one)]
        return kept if kept or not cliques else None

    def _beside_public(self, left_out: Sequence[str]) -> tuple[PairErrors | None, list[str]]:
        """Return how far the table is from the public one, and the relations that it has lost.

        Both follow from public and released tables alone.
        """
        domain, public, counts = self.run.model.domain, self.public, self.counts
        if public is None or domain.restricted:
            return None, []
        pairs = CoarsePairs.of(domain, counts, left_out)
        (apart,) = pairs.apart(counts, [public], raked=True)
        return apart, pairs.lost(counts, public)


def _named(public: MarginalSource | None) -> str:
    """Return the key of the name of what is public."""
    several = public is not None and len(encoded_tables(public)) > 1
    return "several" if several else "public"


def _clipped(public: MarginalSource | None) -> dict[str, float]:
    """Return the share of public cells that the domain clips, by column, if it is large."""
    tables = {} if public is None else encoded_tables(public)
    found: dict[str, float] = {}
    for table in tables.values():
        # The first table that has a column answers for it.
        for name in table.domain.names:
            found.setdefault(name, table.clipped.get(name, 0.0))
    return {name: share for name, share in found.items() if share}


def _whole(table: pd.DataFrame | TableFile) -> pd.DataFrame:
    return table.read() if isinstance(table, TableFile) else table


def made_rows(
    spec: ReleaseSpec,
    run: ReleaseRun,
    path: Path,
    *,
    on_rows: Callable[[int, int], None] = lambda made, rows: None,
) -> MadeRelease:
    """Sample the synthetic table of a run from its measurements alone, always the same one.

    Parameters
    ----------
    spec, run
        The release, and the run of its mechanism.
    path
        The Parquet file for a table in chunks.
    on_rows
        See `Progress`.
    """
    if run.transcript.chunk_rows is None:
        (whole,) = release_rows(run.model, run.transcript)
        for one in (whole.table, whole.children):
            if one is not None:
                one.attrs |= marks_of(run.digest)
        return MadeRelease(spec, run, whole.table, whole.children, codes=whole.codes)
    form = ChunkFormat(run.model.domain, marks_of(run.digest))

    def written(chunks: Iterable[SampledRows]) -> Iterator[EncodedTable]:
        made, rows = 0, run.transcript.records
        for chunk in chunks:
            write(chunk.table)
            tenth = 10 * made // rows
            made += chunk.codes.records
            if 10 * made // rows > tenth:
                on_rows(made, rows)
            yield chunk.codes

    sampled = release_rows(run.model, run.transcript, form=form)
    with form.writing(path) as write, closing(sampled) as chunks:
        counts = counts_in(spec, run, written(chunks), evaluated=True)
    table = TableFile(path, write.sha256)
    keep_counts(run, table, counts)
    return MadeRelease(spec, run, table, codes=counts)


def keep_counts(run: ReleaseRun, table: TableFile, counts: MarginalSource) -> None:
    """Keep the counts of the last table, for later steps of this process."""
    _LAST_COUNTS.clear()
    _LAST_COUNTS[run.digest, sha256_of(table.path)] = counts


_LAST_COUNTS: dict[tuple[str, str], MarginalSource] = {}

_LAST_CHECKS: dict[tuple[str, bytes | None], TableChecks] = {}
