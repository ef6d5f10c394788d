"""The release engine: one release, from its reservation to its certificate.

The order of the steps matters: the whole release is reserved before the private table is opened,
each draw is charged before it is made, and a stored draw is never repeated.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, certify
from jam_dagster.certificates.facts import ReleaseTerms, RequestedBudget
from jam_dagster.certificates.issue import earlier_signature
from jam_dagster.common.redaction import private_values, redacted
from jam_dagster.errors import DomainError, InputError, LostDrawError, ReleaseClosedError
from jam_dagster.evaluation import Verdict, WorkloadErrors, workload_error
from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.evaluation.domain_fit import column_fits, misfit_columns
from jam_dagster.evaluation.utility import utility
from jam_dagster.evaluation.workload_error import MEANS_STEP
from jam_dagster.keys import named
from jam_dagster.mechanisms import Round
from jam_dagster.mechanisms.loops.rows import sample_rows, with_chunks, with_search
from jam_dagster.models.tilted.corrected import with_moments
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.privacy.accounting import rho_within, units_down
from jam_dagster.privacy.shares import DOMAIN, EVALUATION, MECHANISM
from jam_dagster.release.documents import MadeRelease, made_rows
from jam_dagster.release.left_out import left_out_remark
from jam_dagster.release.place import ANOTHER_EDITION
from jam_dagster.release.run import ReleaseErrors, ReleaseIdentity, ReleaseRun
from jam_dagster.reports.release_report import ReportFacts, render_report
from jam_dagster.tables import Clique, Domain, EncodedTable, MarginalSource
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.codes.marginals import RecordsOnly
from jam_dagster.tables.codes.privacy_unit import seeded_secret
from jam_dagster.tables.codes.purpose import regressions, targets
from jam_dagster.tables.codes.spreadsheet import check_cells
from jam_dagster.tables.domain.bought import LEVELS, Draw, PaidCounts
from jam_dagster.tables.domain.text_dtype import SYNTHETIC
from jam_dagster.tables.sources.parquet import ParquetTable
from jam_dagster.tables.sources.public import encoded_tables, over_bought
from jam_dagster.tables.sources.public_apart import check_no_copy

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.evaluation import ExpectationResult
    from jam_dagster.privacy import ReleaseId
    from jam_dagster.release.funding import Funding
    from jam_dagster.release.place import Place
    from jam_dagster.release.spec import ReleaseSpec


@dataclass(frozen=True)
class Progress:
    """Callbacks of a release; each does nothing by default.

    Attributes
    ----------
    on_stage
        Receives the name of each stage when it begins.
    seconds
        Wall-clock time of each stage, by its name.
    on_start
        Receives the mechanism with its settings, in a line, and the expected number of rounds,
        None if it is unknown, before the first one.
    on_round
        Receives every round of the mechanism.
    on_rows
        Receives the number of rows made so far and of all rows of a table in chunks, at each tenth.
    notify
        Receives sentences that the user should read.
    """

    on_stage: Callable[[str], None] = lambda name: None
    on_start: Callable[[str, int | None], None] = lambda mechanism, rounds: None
    on_round: Callable[[Round], None] = lambda outcome: None
    on_rows: Callable[[int, int], None] = lambda made, rows: None
    notify: Callable[[str], None] = lambda sentence: None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Say that a stage begins, and time it; a name that comes again adds up."""
        self.on_stage(name)
        begun = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun


def rows_line(made: int, rows: int) -> str:
    """Return how many rows are made, for a log."""
    return f"rows: {made:,} of {rows:,}"


@dataclass(frozen=True)
class Engine:
    """One release: each method is a step, in the order in which a release takes them.

    A repeated step costs nothing: it finds the reservation, the draws and the run, and gives the
    same table, report and certificate.

    Parameters
    ----------
    spec
        The release; with `partition`, the specification of that partition (`ReleaseSpec.at`).
    domain
        Its domain.
    place
        Where its draws are kept.
    funding
        The payment for them.
    partition
        The partition, if the release has any.
    progress
        The callbacks.
    """

    spec: ReleaseSpec
    domain: Domain
    place: Place
    funding: Funding
    partition: str = ""
    progress: Progress = field(default_factory=Progress)

    def check(self, domain: Domain) -> None:
        """Raise if the mechanism cannot start or the release could not be paid for.

        Raises
        ------
        EmptyCandidateSetError, InputError, BudgetError
            Nothing was reserved or charged.
        """
        mechanism, workload = self.spec.mechanism.build(), self.spec.workload.build(domain)
        mechanism.check(domain, workload, self.spec.shares[MECHANISM])
        self.spec.check_classifiers()
        self.check_cells()
        self.funding.check()

    def check_cells(self) -> None:
        """Raise if a table's file would hold formulas, or has no place for its mark."""
        if self.spec.sampling.mark == "column" and SYNTHETIC in self._columns:
            raise DomainError(
                f"The table has a column {SYNTHETIC!r}, and {named('sampling.mark')} adds one of"
                " that name: set it to 'comment', or rename the column. Nothing was charged."
            )
        # A table over a restricted domain never leaves, and the error would quote the domain.
        if self.funding.ledger is not None and not self.domain.restricted:
            check_cells(self.domain, commas=self.spec.dialect.separator != ",")

    @property
    def _columns(self) -> set[str]:
        """The columns of all published tables."""
        children = self.domain.children
        return {*self.domain.roots.columns, *(children.domain.columns if children else ())}

    def reserve(self) -> None:
        """Reserve the whole release, before the private table is opened."""
        self.funding.reserve()

    @contextmanager
    def opened(self, what: str) -> Iterator[None]:
        """Open private data within; a failure is counted, and no error quotes a private value.

        Parameters
        ----------
        what
            The step, in the words of an error.

        Raises
        ------
        AttemptsError
            If too many attempts to open the data did not end well.
        """
        spec = self.spec
        if spec.reads_values or spec.evaluation_mode != "off":
            with private_step(what):
                spec.private.check(self.domain, spec.privacy.protection.unit)
        with self.funding.attempt(), private_step(what):
            yield

    def _check_kept(self) -> None:
        """Raise if the remaining draws may be of other rows than the draws before."""
        place, spec = self.place, self.spec
        lost = ""
        if not place.files:
            return
        if spec.privacy.protection.unit is not None and not place.has_row_secret:
            lost = f"secret that chose which rows of a person release {spec.release} keeps"
        elif self._changes and spec.reads_values and not place.has_contents:
            lost = f"keyed digest of the table that release {spec.release} drew on"
        if lost:
            raise InputError(
                f"The {lost} is not in {place.name} or the private store, and the release has"
                f" draws left to make: restore it from a copy, or {ANOTHER_EDITION}. Nothing was"
                " charged."
            )

    @property
    def _changes(self) -> bool:
        return any(one.changes for one in self.spec.private.parts)

    @contextmanager
    def exclusive(self, again: str) -> Iterator[None]:
        """Keep other runs from drawing for this release; an interrupt says how `again` resumes it.

        Dagster ends a run that is cancelled by an interrupt.
        """
        try:
            with self.funding.exclusive():
                yield
        except BaseException as error:
            if not isinstance(error, Exception):
                self.progress.notify(self.funding.after_interrupt(again))
            raise

    def draw(
        self, public: MarginalSource | None, path: Path
    ) -> tuple[MadeRelease, ReleaseErrors | Exception]:
        """Open the private table once, and make all draws from it.

        It stays closed if nothing is left to draw and no exact error is wanted: whether an opening
        fails is an answer about the data, and nothing would pay for it. At the end the unspent
        budget returns to the dataset.

        Parameters
        ----------
        public
            The encoded public tables, if there are any.
        path
            The Parquet file for a table in chunks.

        Returns
        -------
        MadeRelease
            The release, with its workload errors if they are known.
        ReleaseErrors or Exception
            These, or the failure of measuring them, which leaves a release that is paid for.
        """
        kept: list[MadeRelease] = []
        try:
            errors = self._drawn(public, path, kept)
        except Exception as failure:
            if not kept:
                raise
            return kept[0], failure
        return replace(kept[0], error=errors), errors

    def _drawn(
        self, public: MarginalSource | None, path: Path, kept: list[MadeRelease]
    ) -> ReleaseErrors:
        """Return the errors of the release, which is added to `kept` before they are measured.

        Each stage is run here: its failure is counted, and withheld, while the table is open.
        """
        stage = self.progress.stage

        def finish(
            run: ReleaseRun, private: MarginalSource | None, repeated: bool
        ) -> ReleaseErrors:
            own = over_bought(public, run.model.domain)
            with stage("sample"), self.place.modes():
                rows = made_rows(self.spec, run, path, on_rows=self.progress.on_rows)
                made = replace(rows, public=own, repeated=repeated)
                kept.append(made)
            with stage("evaluate"):
                return self.evaluate(run, private, made.counts, own)

        ended, mode = self._finished(), self.spec.evaluation_mode
        measures = mode == "private" and self.funding.draws(EVALUATION).can_make(MEANS_STEP)
        if ended is not None and not measures and mode != "exact":
            self.begin(None, public)
            self._repeat(ended)
            errors = finish(ended, None, True)
        else:
            if ended is None or measures:
                self._check_kept()
            else:
                # Only exact errors are left, which are not charged, so the shares are closed first.
                self._close()
            with self.opened("making the release"):
                # A guess at the private table gets the answer of a value that does not fit: within
                # the same stage, which logs show.
                with stage("encode"):
                    if self.funding.ledger is not None:
                        with private_values():
                            check_no_copy(self.spec.private, self.spec.public)
                    domain = self.bought(public) if ended is None else ended.model.domain
                    private = self.private_side(domain)
                if remark := self._left_out():
                    self.progress.notify(remark)
                with stage("mechanism"):
                    run, repeated = self.run(private, public)
                errors = finish(run, private, repeated)
        # The private data are closed by now: an unreachable ledger is not a fault of the data.
        self._close()
        return errors

    def _close(self) -> None:
        for share in self.spec.shares:
            self.funding.close(share, f"{share} ended")

    def row_secret(self) -> bytes:
        """Return the secret that decides which rows of a person are kept: the release's own.

        If it is lost and nothing is left to draw, exact errors are of other rows.
        """
        privacy = self.spec.privacy
        return self.place.row_secret() if self.spec.exact else seeded_secret(privacy.seed or 0)

    def encode(self, domain: Domain) -> MarginalSource:
        """Return the private table as marginals, once each of its records is in the domain."""
        return self._not_empty(self._counted(domain, self.spec.marginals(domain)))

    def _counted(self, domain: Domain, marginals: Sequence[Clique]) -> MarginalSource:
        """Return these marginals of the private table, and what else is counted with them."""
        unit = self.spec.privacy.protection.unit
        row_secret = None if unit is None else self.row_secret()
        return self.spec.private.counted(domain, unit, row_secret, marginals)

    def _not_empty(self, private: MarginalSource) -> MarginalSource:
        if self.spec.neighbours.records_public and private.records == 0:
            with private_values():
                raise InputError("The private table has no rows: give a table that has.")
        return private

    def bought(self, public: MarginalSource | None) -> Domain:
        """Return the domain; what it asks for is bought by draws on the private table.

        Each draw counts the bins of one attribute, at an equal part of the share, or selects the
        values of one, at the price of an attribute's bins. The release is claimed before.
        """
        asked = self.domain.asked
        if asked is None:
            return self.domain
        self.begin(None, public)
        draws = self.funding.draws(DOMAIN)
        units = units_down(self.spec.shares[DOMAIN]) // asked.draws
        rho, unit = rho_within(units), self.spec.privacy.protection.unit

        def selected(draw: Draw, counted: Callable[[], dict[str, dict[str, int]]]) -> PaidCounts:
            step, name = draw.step, draw.attribute.name
            price, delta = rho_within(LEVELS * units), asked.delta_of(self.spec.budget.delta)
            names, noisy = None, None
            with suppress(LostDrawError):
                names, noisy = draws.select_values(
                    step, lambda: counted()[name], rho=price, delta=delta, subject=name
                )
            call = next(one for one in draws.calls if one.step == step)
            return PaidCounts(
                *(step, name, call.cells, call.rho, call.sensitivity, call.scale),
                None if noisy is None else tuple(map(int, noisy)),
                names,
                call.delta,
                call.threshold,
            )

        def paid(draw: Draw, counted: Callable[[], MarginalSource]) -> PaidCounts:
            step, name, cells = draw.step, draw.attribute.name, draw.attribute.size
            values = sigma = None
            # A lost draw says nothing, and stays charged.
            with suppress(LostDrawError):
                noisy, sigma = draws.measure(
                    step, lambda: counted().marginal((name,)), size=cells, rho=rho, subject=name
                )
                values = tuple(map(int, noisy))
            call = next(one for one in draws.calls if one.step == step)
            return PaidCounts(step, name, cells, call.rho, call.sensitivity, sigma, values)

        def measure(level: Sequence[Draw]) -> list[PaidCounts]:
            listed = [one.attribute.name for one in level if not one.attribute.binned]
            bins = tuple(one.attribute for one in level if one.attribute.binned)
            counted = cache(lambda: self._counted(Domain(bins), [(one.name,) for one in bins]))
            secret = None if unit is None else self.row_secret()
            texts = cache(lambda: self.spec.private.texts(listed, unit, secret))
            return [
                paid(one, counted) if one.attribute.binned else selected(one, texts)
                for one in level
            ]

        with private_step("buying the domain"), self.place.modes():
            return self.domain.buy(measure)

    def private_side(self, domain: Domain) -> MarginalSource:
        """Return the private table for the mechanism: without values, if it reads none."""
        if self.spec.reads_values:
            return self.encode(domain)
        counted = self.spec.private.count_records(self.spec.privacy.protection.unit)
        return self._not_empty(RecordsOnly(domain, counted))

    def _left_out(self) -> str:
        """Return a remark on private columns that are left out, if values are read; else empty."""
        unit = self.spec.privacy.protection.unit
        return (
            left_out_remark(self.spec.private, self.domain, unit) if self.spec.reads_values else ""
        )

    def run(
        self, private: MarginalSource, public: MarginalSource | None
    ) -> tuple[ReleaseRun, bool]:
        """Run the mechanism, resume it, or return the run that ended before.

        Parameters
        ----------
        private, public
            The tables, encoded over one domain, or the public ones over what that asked for.

        Returns
        -------
        ReleaseRun
            The run.
        bool
            Whether it had ended before, so that nothing was drawn.

        Raises
        ------
        InputError
            If earlier draws of this release were made on other data.
        """
        spec, domain = self.spec, private.domain
        self.begin(private, public)
        found = self._finished()
        draws = self.funding.draws(MECHANISM)
        if found is not None:
            if spec.neighbours.records_public:
                draws.records(private.records)
            self._repeat(found)
        else:
            workload = spec.workload.build(domain)
            with private_step("running the mechanism"), self.place.modes():
                result = spec.mechanism.build().run(
                    *(private, over_bought(public, domain), workload, draws),
                    on_round=self.progress.on_round,
                )
            identity = ReleaseIdentity.of(spec, domain, self.partition)
            parts = {one.name: getattr(result, one.name) for one in fields(result)}
            if spec.sampling.search:
                parts["transcript"] = with_search(result.transcript, spec.workload.to_dict())
            if domain.children is None:
                parts["transcript"] = with_chunks(parts["transcript"])
            made = ReleaseRun(**parts, release=identity)
            self.place.keep(made)
            self.funding.keep_digest(made)
        return found or made, found is not None

    def _finished(self) -> ReleaseRun | None:
        """Return the stored run, if the release ended before and this is the run that it made.

        Everybody who may write to the place can put another run there, or change this one.
        """
        found = self.place.finished()
        if found is None or self._was_made(found):
            return found
        self.progress.notify(
            f"{self.place.name} holds another run than the one that was made, or the ledger never"
            " had its digest: the run is repeated from the stored draws."
        )
        return None

    def _repeat(self, found: ReleaseRun) -> None:
        """Report that a run was drawn before, after checking its number of records."""
        spec = self.spec
        if spec.neighbours.records_public:
            self.funding.draws(MECHANISM).records(found.transcript.records)
        self.progress.notify(
            f"Edition {spec.privacy.edition} of this release was drawn before: it is repeated"
            " from its stored draws, at no cost. If the private table has changed since, raise"
            f" {'privacy.editions of this partition' if self.partition else 'privacy.edition'}"
            " (--edition)."
        )
        if spec.evaluation_mode == "exact" and self.funding.ledger is not None:
            self.progress.notify(
                "Exact errors are measured on the private table again. Nothing pays for that"
                " opening, so it counts as an attempt (`jam-dagster ledger acknowledge`)."
            )
        searched = found.transcript.search is not None
        if found.transcript.chunk_rows is None and searched != spec.sampling.search:
            how = "with" if searched else "without"
            self.progress.notify(
                f"Its rows are sampled {how} a search, as before: sampling.search counts for the"
                " next edition."
            )

    def begin(self, private: MarginalSource | None, public: MarginalSource | None) -> None:
        """Claim the place for this release, if its data are those of earlier draws.

        A private table that stays closed (None) is not compared.

        Raises
        ------
        InputError
            If earlier draws of this release were made on other data.
        """
        tables = {} if public is None or self.domain.restricted else encoded_tables(public)
        self.place.begin(
            tables,
            None if private is None else self._contents(private),
            opened=private is not None,
            drawn=self.funding.has_drawn,
        )

    def _contents(self, private: MarginalSource) -> str | None:
        """Return a digest of the private records; None if only their number is known."""
        if isinstance(private, RecordsOnly):
            return None
        unit = self.spec.privacy.protection.unit
        # The digest is of all rows: a secret that can be lost decides which rows are kept.
        whole = self.spec.private.contents(
            [*private.domain.names, *([] if unit is None else [unit.column])]
        )
        if whole is None and isinstance(private, CountedTable | EncodedTable | ParquetTable):
            return private.contents()
        return whole

    def evaluate(
        self,
        run: ReleaseRun,
        private: MarginalSource | None,
        synthetic: MarginalSource,
        public: MarginalSource | None,
    ) -> ReleaseErrors:
        """Measure the workload errors, as the specification's mode says.

        Parameters
        ----------
        run
            The mechanism's run.
        private
            The result of `private_side`. If no value was read, the table is encoded here, in mode
            ``"private"`` after the evaluation is charged: a table that does not fit the domain then
            makes the evaluation fail. None: the table is closed, since the answer is stored or can
            no longer be drawn.
        synthetic, public
            The tables to evaluate.
        """
        spec, domain = self.spec, run.model.domain
        mode = spec.evaluation_mode
        draws = self.funding.draws(EVALUATION) if mode == "private" else None
        errors: WorkloadErrors
        prior = None if public is None else cache(partial(prior_rows, run, public))
        exact, unread = mode == "exact", private is None or not spec.reads_values
        encode: Callable[[], MarginalSource] = partial(self.encode, domain)
        step: AbstractContextManager[None] = private_step("measuring the workload error")
        if private is None:
            # No value is needed, and none is available.
            private = closed = RecordsOnly(domain, run.transcript.records)
            encode, step = lambda: closed, nullcontext()
        # By released outcomes alone, and before the means are drawn.
        left_out = released_misfits(run, public)
        try:
            with step, self.place.modes():
                if exact and unread:
                    private = encode()
                errors = workload_error(
                    private,
                    synthetic,
                    public,
                    spec.workload.build(domain),
                    mode=mode,
                    draws=draws,
                    records=run.transcript.records,
                    encode=encode if unread and not exact else None,
                    # To know it, the run is written once: only a charge needs it.
                    run=run.known_by if mode == "private" else "",
                    prior=prior,
                    left_out=left_out,
                    targets=self._scored(run),
                    bought=domain.bought.singles(run.transcript.records) if domain.bought else {},
                )
                if exact and spec.purpose:
                    errors = self._with_analyses(errors, private, synthetic, public, prior)
        except (LostDrawError, ReleaseClosedError) as lost:
            # The synthetic table is paid for; an unknown error is no reason to withhold it.
            self.progress.notify(f"The workload error stays unknown: {lost}")
            errors = replace(WorkloadErrors.unknown(draws), left_out=left_out)
        known = {one.name: getattr(errors, one.name) for one in fields(errors)}
        return ReleaseErrors(**known, run=run.digest)

    def _scored(self, run: ReleaseRun) -> tuple[str, ...]:
        """Return the targets for which scores are measured: not of tables in chunks."""
        return self.spec.scored_targets if run.transcript.chunk_rows is None else ()

    def _with_analyses(
        self,
        errors: WorkloadErrors,
        private: MarginalSource,
        synthetic: MarginalSource,
        public: MarginalSource | None,
        prior: Callable[[], MarginalSource] | None,
    ) -> WorkloadErrors:
        """Return exact errors with the analyses of the purpose, made on each table."""
        tables = {"synthetic": synthetic}
        if public is not None and prior is not None:
            tables |= {"public": public, "prior": prior()}
        purpose = self.spec.purpose
        made, fitted, left = utility(private, tables, targets(purpose), regressions(purpose))
        if left:
            self.progress.notify(f"Some analyses of the purpose were not made: {left}.")
        return replace(errors, utility=made, regressions=fitted)

    def _was_made(self, run: ReleaseRun) -> bool:
        """Whether a run is the one that was made for this release, with its budget."""
        partition, domain = run.release.release_id.partition, run.model.domain
        wanted = ReleaseIdentity.of(self.spec, domain, partition)
        return run.release == wanted and self.funding.has_made(run)

    def _check_run(self, run: ReleaseRun) -> None:
        """Raise InputError unless a run is the one that was made."""
        if not self._was_made(run):
            raise InputError(
                f"The run of release {run.release.release_id.release} in {self.place.name} is not "
                "the one that was made. Run the release again, which charges nothing: it repeats "
                "from the stored draws."
            )

    def report(
        self,
        made: MadeRelease,
        verdict: Verdict,
        *,
        checks: Sequence[ExpectationResult] = (),
        restricted: bool = False,
        **more: Any,
    ) -> str:
        """Render the release report.

        Parameters
        ----------
        made
            The release, with the workload errors that the page may show.
        verdict
            The verdict on it.
        checks
            Results of the checks.
        restricted
            Whether to make the restricted edition, with exact errors.
        **more
            Facts that only the place knows: ``public_source``, ``public_released``.
        """
        run, counts, error = made.run, made.counts, made.error
        self._check_run(run)
        workload = self.spec.workload.build(run.model.domain)
        bounds = known_bounds(run.transcript, run.model.domain, workload, released=counts)
        # Rendering a page again reproduces the certified one exactly.
        at, remaining = self.funding.ended() or (datetime.now(UTC), None)
        release_id = run.release.release_id
        public_source = "" if self.spec.public is None else self.spec.public.describe()
        facts = {"public_source": public_source, **more}
        return render_report(
            ReportFacts(
                release=release_id.release,
                dataset=release_id.dataset,
                epsilon=run.release.epsilon,
                delta=run.release.delta,
                selections=run.release.selections,
                reserved=run.release.shares,
                partition=release_id.partition,
                edition=release_id.edition,
                made=at,
                run=run.digest,
                remaining_epsilon=remaining,
                bounds=bounds,
                **facts,
            ),
            transcript=run.transcript,
            synthetic=counts,
            public=made.public,
            checks=checks,
            error=None if error is None or error.synthetic is None else error,
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
        drawn_on: Sequence[ReleaseId] = (),
    ) -> Certificate:
        """Issue the certificate over the files of the release.

        Parameters
        ----------
        run
            The mechanism's run.
        folder
            The folder for the certificate.
        files
            The result of `jam_dagster.certificates.released_files`.
        errors
            The workload errors; None if they were not charged.
        public
            The encoded public tables, if the mechanism learns from any.
        fresh
            Whether this process has fitted the run's model. A model that was read is refitted.
        made
            The SHA-256 of files as they were made, by their roles.
        drawn_on
            The chain of releases that it was drawn on, the latest first.
        """
        self._check_run(run)
        released, funding = run.release, self.funding
        terms = ReleaseTerms(
            release_id=released.release_id,
            specification=self.spec.specified(run.model.domain),
            asked=RequestedBudget(
                released.epsilon, released.delta, released.shares, released.selections
            ),
            source_restriction=self.spec.private.restricted_because,
            dialect=self.spec.dialect,
            drawn_on=drawn_on,
        )
        was_signed = earlier_signature(folder) is not None
        certificate = certify(
            folder,
            files,
            run,
            terms,
            public=public,
            evaluation=None if errors is None else errors.call,
            fresh=fresh,
            made=made,
            ledger=funding.ledger,
            run_id=funding.run_id,
            signer=funding.signer,
        )
        if was_signed and certificate.signature is None:
            self.progress.notify(
                "Warning: the certificate was signed before, and the new one is not, for it says"
                " something else or its key was revoked. Sign it: --signing-key, or"
                " JAM_SIGNING_KEY."
            )
        return certificate


def released_misfits(run: ReleaseRun, public: MarginalSource | None) -> tuple[str, ...]:
    """Return the columns that the domain does not fit, by the released measurements of a run.

    A domain from private data shows no column.
    """
    domain = run.model.domain
    if domain.restricted:
        return ()
    return misfit_columns(column_fits(run.transcript, domain, public))


def prior_rows(run: ReleaseRun, public: MarginalSource) -> MarginalSource:
    """Return the free baseline: the rows that the public prior alone gives, by the run's seed.

    Nothing is drawn: it follows from public data, and from the released number of records and seed.
    They are searched as the run's rows are. A table in chunks is not made: the model answers.
    """
    transcript = run.transcript
    model = with_moments(PublicPrior.of(run.model.domain, public).model(transcript.records))
    return model if transcript.chunk_rows is not None else sample_rows(model, transcript)


@contextmanager
def private_step(what: str) -> Iterator[None]:
    """Keep private values within a step: no message, cause or warning shows one."""
    # Warnings land in logs, and libraries quote values in them.
    with warnings.catch_warnings(), redacted(what):
        warnings.simplefilter("ignore")
        yield
