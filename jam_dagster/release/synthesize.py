"""A whole release without Dagster: from two tables to a synthetic one, in a folder of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from jam_dagster.certificates.signing import configured_signer
from jam_dagster.common.files import owner_only
from jam_dagster.common.operating_system import peak_memory_mb
from jam_dagster.common.redaction import keeping_details, redacted
from jam_dagster.errors import BudgetError, InputError, JamError, SpecificationError
from jam_dagster.evaluation import WorkloadErrors
from jam_dagster.evaluation.domain_fit import misfit_sentence, remedy_sentence
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.privacy.ledger.identity import check_ledger
from jam_dagster.privacy.ledger.release_id import command_line_run
from jam_dagster.privacy.private_store import CONTENTS_FOLDER, default_private_store
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.engine import Engine, Progress
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.release.folder import ReleaseFolder
from jam_dagster.release.funding import Funding, LedgerFunding, ResearchFunding
from jam_dagster.release.options import check_may_leave, check_partition_named, release_spec
from jam_dagster.release.place import FolderPlace
from jam_dagster.release.public_side import (
    Public,
    domain_of,
    identified,
    public_codes,
    public_records,
    public_remarks,
)
from jam_dagster.release.run import errors_json
from jam_dagster.reports.checks_page import render_checks
from jam_dagster.tables.codes.table import digest_of
from jam_dagster.tables.sources.identity import place_of
from jam_dagster.tables.sources.partition_template import linked_file, table_of, template_of
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.public_apart import check_apart, check_outside, restricted_folders
from jam_dagster.tables.sources.sniffing import dialect_remark
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation import ExpectationResult, Verdict
    from jam_dagster.release.run import ReleaseErrors
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain


@dataclass(frozen=True, kw_only=True)
class SynthesisRequest:
    """A release for `synthesize`, and its folder.

    Parameters
    ----------
    spec
        The release.
    out
        The folder for its files.
    partition
        The partition to make; empty if it has none.
    ledger
        The ledger that is charged, a file or a SQLAlchemy URL; None in research.
    private_store
        The folder of the secret that binds sources, for its owner alone. None: next to the ledger's
        file, or in the user's own data folder if the ledger is on a server.
    checks
        Whether to check the synthetic table against its domain and the measurements; None: with
        exact noise only.
    report
        Whether to write the report; None: with exact noise only.
    signing_key
        The file of the private key that signs the certificate, or the key as PEM text. None takes
        the environment's ``JAM_SIGNING_KEY``, if there is one.
    siblings
        A folder of other releases of the same ledger, as ``RELEASE/EDITION``, whose draws the
        ledger must know; None: there is none.
    records_public
        Whether the first grant of a new ledger says that the number of records of the dataset is
        public; see `jam_dagster.privacy.Policy`. It changes no budget that was granted before.
    """

    spec: ReleaseSpec
    out: Path
    partition: str = ""
    ledger: str | None = None
    private_store: Path | None = None
    checks: bool | None = None
    report: bool | None = None
    signing_key: str | None = field(default=None, repr=False)
    siblings: Path | None = None
    records_public: bool = False

    @classmethod
    def of(cls, definition: Path | None = None, /, *, out: Path, **options: Any) -> Self:
        """Gather a request from a release's file and options, which override the file.

        Parameters
        ----------
        definition
            A release's ``defs.yaml``, or its folder; None: the options describe it all.
        out
            As for the class.
        **options
            The other parameters of the class, and those of `release_spec`. Without a name, the
            release has that of `out`.

        Raises
        ------
        InputError
            If something is missing, unknown or out of range; the message names it.
        """
        if definition is None and options.get("release") is None:
            options["release"] = out.resolve().name
        own = {one.name for one in fields(cls)} & options.keys()
        given = {name: options.pop(name) for name in own}
        return cls(spec=release_spec(definition, **options), out=out, **given)

    def validate(self) -> None:
        """Check everything that can be checked before a table is read.

        Raises
        ------
        InputError
            The message names what is wrong, and the remedy.
        """
        spec = self.spec
        check_partition_named(spec.partitions, self.partition)
        if spec.partitions is not None and not spec.partitions.is_over(self.partition):
            raise InputError(
                f"Partition {self.partition} is not over yet: release it when its time is over."
            )
        if spec.previous is not None and self.partition != "":
            before = None if spec.partitions is None else spec.partitions.before(self.partition)
            if before is not None:
                raise InputError(
                    f"Partition {self.partition} is drawn on the release of {before}, which only "
                    "Dagster finds: materialize it there, or name a public table (--public)."
                )
        if spec.private.asset_key is not None:
            raise InputError(
                f"private is {spec.private.describe()}, which only a Dagster run can load: name "
                "the table itself with --private."
            )
        check_may_leave(spec)
        # Names of files and variables are known at the partition only.
        at = spec.at(self.partition)
        check_apart(at.private, at.public)
        restricted = place_of(str(self.out / "restricted"))
        folders = [restricted, *restricted_folders(at.public)]
        check_outside(at.public, folders, "a release's folder for what may not leave")
        if self.ledger and not spec.mechanism.own:
            raise SpecificationError(
                f"A ledger pays for no mechanism of your own, {spec.mechanism.name}: drop the "
                "ledger."
            )
        if spec.exact and not (self.ledger and spec.dataset):
            raise SpecificationError(
                "Exact noise makes a release, and a release is charged: give a ledger and the "
                "dataset that pays (--ledger FILE, --dataset ID), or experiment for free with "
                "seeded noise (--noise numpy)."
            )

    @property
    def with_checks(self) -> bool:
        """Whether the synthetic table is checked."""
        return self.spec.exact if self.checks is None else self.checks

    @property
    def with_report(self) -> bool:
        """Whether the report is written."""
        return self.spec.exact if self.report is None else self.report


@dataclass(frozen=True)
class Synthesis:
    """Result of `synthesize`: the release, with its times and costs.

    Parameters
    ----------
    made
        The release. Its specification is without the private table.
    verdict
        Whether the table is better than the public or a uniform one, by errors that may be exact.
    checks
        Results of the checks of the synthetic table; empty if none were wanted.
    seconds
        Wall-clock time of every stage and, as ``mechanism.fit``, of the parts of a stage.
    peak_memory_mb
        The most memory that the process ever held, in 2^20 bytes.
    rho_spent
        The charges of all draws of the release.
    releasable
        Whether the synthetic table may leave.
    output
        The folder.
    report
        The report that may leave, if one was written.
    checks_page
        The page of the checks; Great Expectations' own results are next to it in JSON.
    """

    made: MadeRelease = field(repr=False)
    verdict: Verdict
    checks: Sequence[ExpectationResult]
    seconds: dict[str, float]
    peak_memory_mb: float
    rho_spent: float
    releasable: bool
    output: Path
    report: Path | None
    checks_page: Path | None

    @property
    def errors(self) -> WorkloadErrors:
        """The workload errors."""
        return self.made.error or WorkloadErrors("off")

    @property
    def rows(self) -> int:
        """Rows of the synthetic table."""
        return len(self.made.table)

    @cached_property
    def sampling_error(self) -> float:
        """Distance of the synthetic table from the model, since rows are whole.

        It is the mean L1 error of the marginals that the model was fitted to, as a fraction of the
        rows.
        """
        return sampling_distance(self.made.run.model, self.made.counts)[0]

    @property
    def certificate(self) -> Path:
        """The certificate, for verification; the page next to it is for reading."""
        return self.output / "certificate.json"

    @property
    def restricted_report(self) -> Path | None:
        """The report with exact errors, if one was written."""
        if self.report is None or not self.errors.restricted:
            return None
        return self.output / "restricted" / "report.html"

    @property
    def table(self) -> pd.DataFrame:
        """The synthetic table, with the dtypes that the domain states."""
        table = self.made.table
        return table.read() if isinstance(table, TableFile) else table

    @property
    def table_path(self) -> Path:
        """The file of the synthetic table."""
        if isinstance(self.made.table, TableFile):
            return Path(str(self.made.table.path))
        return self.output / "synthetic.csv"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``synthesize --json`` prints them.

        If ``restricted`` is true, the errors are exact statistics of private data, and so are the
        verdict and all else that follows from them.
        """
        return {
            "restricted": self.errors.restricted,
            "verdict": asdict(self.verdict),
            "workload_error": self.errors.to_dict(),
            "sample_equivalent": self.errors.sample_equivalent,
            "equivalent_within": self.errors.equivalent_within,
            "utility": [asdict(one) for one in self.errors.utility],
            "regressions": [asdict(one) for one in self.errors.regressions],
            "sampling_error": self.sampling_error,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
            "peak_memory_mb": round(self.peak_memory_mb, 1),
            "rho": {"budget": self.made.spec.budget.rho, "spent": self.rho_spent},
            "picks": self.made.run.transcript.picks,
            "rows": self.rows,
            "releasable": self.releasable,
            "output": str(self.output),
        }


def synthesize(request: SynthesisRequest, progress: Progress | None = None) -> Synthesis:
    """Make a synthetic table, and write it and its documents to a folder.

    Parameters
    ----------
    request
        The release, and its folder.
    progress
        The callbacks; None: nothing is called.

    Returns
    -------
    Synthesis
        The table, its errors and its cost.

    Raises
    ------
    InputError
        If an input is wrong; nothing was charged, except the evaluation of a mechanism that reads
        no value. If the private table is wrong, the release stays reserved: the same request uses
        its reservation, and a corrected one supersedes it.
    BudgetExceededError
        If the release asks for more than its dataset has left; the private table was not opened.
    SourceBindingError
        If the release was reserved for another source; the private table was not opened.
    AttemptsError
        If too many attempts to open the private data did not end well.
    PrivateStepError
        If a step that holds private values failed. The reservation stays: the same request resumes
        where this one stopped.
    """
    request.validate()
    with ExitStack() as until_done:
        if not request.spec.exact:
            # Matplotlib, Great Expectations and pandas write files too, each with its own modes.
            until_done.enter_context(owner_only())
        return _Steps(request, progress or Progress()).make()


class _Steps:
    """All steps of a release, in their order."""

    def __init__(self, request: SynthesisRequest, progress: Progress) -> None:
        self.request = request
        self.spec = identified(request.spec.at(request.partition))
        self.folder = ReleaseFolder(request.out)
        self.progress = replace(progress, seconds={})
        self.started = time.monotonic()
        self.warned: set[str] = set()

    def make(self) -> Synthesis:
        """Reserve, open, encode, run or resume, sample, evaluate, check, report, certify."""
        self.folder.check_writable()
        domain, public = self._public_side()
        engine = self._engine(domain, public)
        engine.check(domain)
        workload = self.spec.workload.build(domain)
        mechanism = self.spec.mechanism.build()
        self.progress.on_start(mechanism.described, mechanism.expected_rounds(domain, workload))
        self._warn(1)
        if isinstance(engine.funding, LedgerFunding):
            for sentence in engine.funding.history(self.request.spec)[0]:
                self.progress.notify(sentence)
        engine.reserve()
        try:
            with engine.exclusive("the same command"):
                return self._drawn(engine, public)
        except Exception:
            # An error of the ledger must not hide the original one.
            with suppress(BudgetError):
                if kept := engine.funding.kept_reservation():
                    self.progress.notify(kept)
            raise

    def _public_side(self) -> tuple[Domain, Public | None]:
        """Return the domain and the encoded public tables."""
        with self.progress.stage("read"):
            given = self.spec.public_tables.get("")
            if given and (said := dialect_remark(self.spec.private.parts[0], given.parts[0])):
                self.progress.notify(said)
            records = public_records(self.spec, self.progress.notify)
            domain = domain_of(self.spec, records, self.progress.notify)
            self.spec = self.spec.over(domain)
        with self.progress.stage("encode"):
            codes = public_codes(self.spec, records, domain)
            for remark in public_remarks(records, domain):
                self.progress.notify(f"Warning: {remark}.")
            return domain, codes

    def _drawn(self, engine: Engine, public: Public | None) -> Synthesis:
        """Open the private table, and make the release of it."""
        stage, folder = self.progress.stage, self.folder
        made, errors = engine.draw(public, folder.path / "synthetic.parquet")
        # The private table is closed. The paid results stay, even if the evaluation failed.
        domain = made.run.model.domain
        self._warn(made.run.transcript.records)
        if domain.bought is not None:
            folder.write_domain(domain)
            self.progress.notify(made.bought)
        with keeping_details(partial(engine.place.keep_failure, uuid4().hex)):
            with redacted("writing the synthetic table"):
                folder.write_table(made.table, domain, self.spec.dialect)
                folder.write_children(made.children, domain, self.spec.dialect)
            if isinstance(errors, Exception):
                raise errors
            if errors.synthetic is not None:
                folder.write("errors.json", errors_json(errors), restricted=errors.restricted)
            with stage("checks"), redacted("the checks"):
                checks = self._check(made)
            with stage("report"), redacted("the report"):
                verdict = made.verdict(checks, restricted=True)
                if verdict.misfits:
                    fits = made.fits
                    self.progress.notify(
                        f"Warning: {misfit_sentence(fits)} {remedy_sentence(fits)}"
                    )
                self._report(engine, made, checks, verdict)
        parts = {f"mechanism.{part}": taken for part, taken in made.run.seconds.items()}
        with stage("certificate"):
            releasable = self._certify(engine, made, errors)
        return Synthesis(
            made=replace(made, spec=self.spec.closed),
            verdict=verdict,
            checks=checks,
            seconds={"total": time.monotonic() - self.started, **self.progress.seconds, **parts},
            peak_memory_mb=peak_memory_mb(),
            rho_spent=engine.funding.spent,
            releasable=releasable,
            output=folder.path,
            report=folder.report if self.request.with_report else None,
            checks_page=folder.checks if self.request.with_checks else None,
        )

    def _engine(self, domain: Domain, public: Public | None) -> Engine:
        """Return the engine of the release, over its folder and its ledger."""
        request, spec = self.request, self.spec
        if spec.exact and domain.restricted:
            raise InputError(
                "The domain was identified from private data, so nothing made with it may leave, "
                "whatever is paid: experiment for free with seeded noise (--noise numpy), or give "
                "a domain that was declared or drafted from public data."
            )
        release_id = spec.release_id(domain, request.partition)
        ledger = None
        if spec.exact:
            # Importing SQLAlchemy takes time, and research does not need it.
            from jam_dagster.privacy import Ledger

            ledger = Ledger(str(request.ledger))
            check_ledger(ledger, spec.ledger_id)
        private = None
        if ledger is not None:
            from upath import UPath

            store = request.private_store or default_private_store(ledger.file, ledger.place)
            private = ReleaseFiles(UPath(store.absolute()), private=True)
            kept = private.below(CONTENTS_FOLDER, release_id.digest)
            self.folder = ReleaseFolder(request.out, kept)
        files, restricted = self.folder.files, self.folder.restricted
        place = FolderPlace(
            store=files,
            release_id=release_id,
            root=files.root,
            run=files.root,
            run_files=files,
            spec=spec,
            domain=domain,
            # Research has no private store, and asks for none.
            private=private or restricted,
            restricted=restricted,
            folder=self.folder,
            siblings=request.siblings,
        )
        place.check_free(None if public is None else digest_of(encoded_tables(public)))
        protection = spec.privacy.protection
        funding: Funding
        if ledger is None:
            funding = ResearchFunding(
                spec.shares, protection, spec.privacy.seed or 0, place, selections=spec.selections
            )
        else:
            funding = LedgerFunding(
                ledger,
                release_id,
                spec.shares,
                protection,
                place,
                command_line_run(),
                identity=spec.private.identity(),
                template=template_of(
                    request.spec.private,
                    request.partition,
                    counted=protection.neighbours.records_public,
                ),
                table=table_of(request.spec.private, request.partition),
                linked=linked_file(spec.private),
                signer=configured_signer(request.signing_key),
                grants=spec.budget,
                records_public=request.records_public,
                selections=spec.selections,
                notify=self.progress.notify,
            )
        return Engine(spec, domain, place, funding, request.partition, self.progress)

    def _warn(self, records: int) -> None:
        """Warn of the settings, once each; before the draws the number of records is not known."""
        privacy = self.spec.privacy
        for warning in configuration_warnings(privacy.epsilon, privacy.delta, records):
            if warning not in self.warned:
                self.warned.add(warning)
                self.progress.notify(f"Warning: {warning}")

    def _check(self, made: MadeRelease) -> list[ExpectationResult]:
        if not self.request.with_checks:
            return []
        found = made.checks
        research = not self.spec.exact
        page = render_checks(
            found,
            release=self.spec.release,
            domain=made.run.model.domain,
            not_releasable_because=["The noise is seeded, for research"] if research else [],
        )
        self.folder.write("checks.html", page.encode())
        self.folder.write("checks.json", found.to_json().encode())
        return found.results

    def _report(
        self,
        engine: Engine,
        made: MadeRelease,
        checks: list[ExpectationResult],
        verdict: Verdict,
    ) -> None:
        if not self.request.with_report:
            return
        editions = [(made, verdict)]
        if made.error is not None and made.error.restricted:
            shown = replace(made, error=None)
            editions.append((shown, shown.verdict(checks)))
        for one, said in editions:
            restricted = one.error is not None and one.error.restricted
            page = engine.report(one, said, checks=checks, restricted=restricted)
            self.folder.write("report.html", page.encode(), restricted=restricted)

    def _certify(self, engine: Engine, made: MadeRelease, errors: ReleaseErrors) -> bool:
        files = self.folder.released_files(
            made, report=self.request.with_report, checks=self.request.with_checks
        )
        try:
            certificate = engine.certify(
                made.run,
                self.folder.path,
                files,
                errors,
                made.public,
                fresh=not made.repeated,
                made=self.folder.made(files),
            )
        except JamError:
            self.folder.discard_restricted()
            raise
        if certificate.withdrawn is not None:
            self.progress.notify(
                "Warning: the certificate of this release is no longer valid. "
                f"{certificate.withdrawn.sentence}"
            )
        # Importing jinja2 takes time, and research does not need it.
        page = self.spec.exact or self.request.with_report
        self.folder.write_certificate(certificate, page=page)
        return certificate.releasable
