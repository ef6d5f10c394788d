"""A release from tables in memory: `jam_dagster.synthesize` and its result."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

from jam_dagster.certificates import Certificate, Finding
from jam_dagster.certificates import verify as verify_certificate
from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.common.notebook import card
from jam_dagster.errors import (
    InputError,
    JamError,
    PrivateStepError,
    PrivateValuesError,
    SpecificationError,
)
from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.evaluation.independence import independence_test
from jam_dagster.evaluation.intervals import answer
from jam_dagster.keys import ReleaseOptions
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import describe_rho
from jam_dagster.release.engine import Progress, rows_line
from jam_dagster.release.options import release_spec
from jam_dagster.release.synthesize import Synthesis, SynthesisRequest
from jam_dagster.release.synthesize import synthesize as run_release
from jam_dagster.tables import Domain, FrameSource
from jam_dagster.tables.sources.base import source_of
from jam_dagster.tables.sources.frame import polars_of
from jam_dagster.tables.sources.public import public_of
from jam_dagster.tables.sources.table_file import first_rows

if TYPE_CHECKING:
    from jam_dagster.evaluation import Verdict, WorkloadErrors
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.evaluation.independence import IndependenceTest
    from jam_dagster.evaluation.intervals import Answer
    from jam_dagster.mechanisms import Model
    from jam_dagster.models.graphical.model import Where
    from jam_dagster.privacy import Ledger

__all__ = ["FrameRelease", "FrameSource", "ReleaseOptions", "synthesize"]

_SHOWN_ROWS = 5


class FrameRelease:
    """A synthetic table and all that belongs to it; `synthesize` makes one.

    The object does not hold the private table.

    Parameters
    ----------
    request
        The request.
    made
        Its result.
    messages
        Messages to the user about the run.
    temporary
        Whether the folder is deleted with this object.
    """

    def __init__(
        self,
        request: SynthesisRequest,
        made: Synthesis,
        messages: tuple[str, ...],
        *,
        temporary: bool,
    ) -> None:
        # The request holds the private table, so it is not kept.
        spec = request.spec
        self._ledger = request.ledger if spec.exact else None
        given = (spec.private, *spec.public_tables.values())
        self._polars = any(one.is_polars for one in given)
        self._made = made
        self._spec, self._run = made.made.spec, made.made.run
        self.messages = messages
        self._temporary = temporary
        if temporary:
            weakref.finalize(self, shutil.rmtree, made.output, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """The folder with all files of the release, as `jam-dagster synthesize` leaves it."""
        return self._made.output

    @property
    def table(self) -> Any:
        """The synthetic table as a DataFrame, with the dtypes that the domain states.

        It is of polars if a given table is, else of pandas. A table of more than a million rows is
        read from its file each time.
        """
        return polars_of(self._made.table) if self._polars else self._made.table.copy(deep=False)

    @property
    def children(self) -> Any:
        """The synthetic table of children, as `table` is; None if the release has one table."""
        children = self._made.made.children
        if children is None:
            return None
        return polars_of(children) if self._polars else children.copy(deep=False)

    @property
    def errors(self) -> WorkloadErrors:
        """The workload errors; in mode ``"exact"`` they are restricted."""
        return self._made.errors

    @property
    def verdict(self) -> Verdict:
        """Whether the table is better than the public one, by errors that may be exact."""
        return self._made.verdict

    @property
    def releasable(self) -> bool:
        """Whether the synthetic table may leave."""
        return self._made.releasable

    @property
    def model(self) -> Model:
        """The fitted model, which answers more than the table, at no cost."""
        return self._run.model

    @property
    def transcript(self) -> Transcript:
        """The selections and measurements of every round."""
        return self._run.transcript

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self.model.domain

    @cached_property
    def certificate(self) -> Certificate:
        """The promises of the release, with every draw and charge."""
        return Certificate.load(self.folder)

    @cached_property
    def _bounds(self) -> ErrorBounds | None:
        workload = self._spec.workload.build(self.domain)
        return known_bounds(self.transcript, self.domain, workload, released=self.model)

    def answer(self, where: Where, *, population: bool = False) -> Answer:
        """Estimate how many records meet a condition, with a 95% interval if there is one.

        It costs no privacy. An interval follows from private measurements that cover the condition,
        or from the error bounds of AIM; any other condition has the model's estimate alone.

        Parameters
        ----------
        where
            The condition, such as ``{"sex": "female", "age": {"from": 30, "below": 40}}``; a bound
            must be an edge of a bin. None is a missing value, and a list names several values.
        population
            Whether the interval is of the expected number among so many records of the population
            of which the private table is a random sample. By default it is of the private table's
            own number, as encoded.

        Returns
        -------
        Answer
            In records.

        Raises
        ------
        InputError
            If the release may not leave, or the condition names an unknown attribute or value, or
            cuts through a bin.
        """
        self._check_leaving()
        return answer(
            *(where, self.transcript, self.domain, self.model, lambda: self._bounds),
            population=population,
        )

    def test(self, first: str, second: str) -> IndependenceTest:
        """Test whether two attributes are independent in the population of the private table.

        It costs no privacy. The p-value accounts for noise and for sampling, and there is one if
        private measurements cover both attributes. Name the pair before the release: mechanisms
        prefer to measure pairs that are dependent, be it by chance.

        Parameters
        ----------
        first, second
            Two attributes. Bins and missing values are values like others.

        Returns
        -------
        IndependenceTest

        Raises
        ------
        InputError
            If the release may not leave, an attribute is unknown, or both are the same.
        """
        self._check_leaving()
        return independence_test(self.transcript, self.domain, first, second)

    def _check_leaving(self) -> None:
        if not self.certificate.releasable:
            raise InputError(f"the run may not leave: {'; '.join(self.certificate.reasons)}")

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, one page in HTML, to a file.

        Parameters
        ----------
        path
            The file; an existing one is overwritten. Only its owner may read a report that may not
            leave.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            If no report was made.
        """
        if self._made.report is None:
            raise InputError(
                "No report was made: synthesize with report=True, which takes some seconds more."
            )
        target = Path(path)
        mode = 0o666 if self.releasable else OWNER_ONLY
        write_whole(target, self._made.report.read_bytes(), mode=mode)
        return target

    def verify(self, public: Any = None) -> list[Finding]:
        """Check the certificate from the files, against the ledger that was charged.

        Parameters
        ----------
        public
            The public table; None takes the one that the release was made with.

        Returns
        -------
        list of Finding
            One for each check. An error that prevents a check is a finding too.
        """
        try:
            return verify_certificate(
                self.folder,
                ledger=None if self._ledger is None else _ledger(self._ledger),
                public=self._spec.public if public is None else public_of(public),
            )
        except (JamError, OSError) as error:
            return [Finding("the certificate", passed=False, message=str(error))]

    def __repr__(self) -> str:
        rows = f"{self._made.rows} synthetic records"
        return f"FrameRelease({self._name}: {rows}, {self._leaving}. {self._headline})"

    @property
    def _name(self) -> str:
        return f"{self._spec.release!r}, edition {self._spec.privacy.edition!r}"

    @property
    def _headline(self) -> str:
        # A notebook is saved with its output.
        exact = "Verdict restricted: exact statistics of private data."
        return exact if self.errors.restricted else self._made.verdict.headline

    @property
    def _leaving(self) -> str:
        return "releasable" if self.releasable else "not releasable"

    def _repr_html_(self) -> str:
        made, spec, spent = self._made, self._spec, self._made.rho_spent
        facts = {
            "verdict": self._headline,
            "release": self._name,
            "dataset": spec.dataset,
            "records": f"{made.rows:,}",
            "asked": f"epsilon {spec.privacy.epsilon:g} at delta {spec.privacy.delta:g}",
            "spent": describe_rho(spent, spec.budget.converts_at),
            "folder": "temporary, deleted with this object" if self._temporary else made.output,
            "messages": " ".join(self.messages),
        }
        # A notebook is saved with its output, so rows that may not leave are not shown.
        shown = first_rows(made.made.table)
        shown = shown.head(_SHOWN_ROWS) if self.releasable else shown.iloc[:0, :0]
        return card(
            "Synthetic table",
            facts,
            label="" if self.releasable else self._leaving,
            columns=[str(name) for name in shown.columns],
            rows=shown.astype(object).itertuples(index=False, name=None),
        )


def synthesize(
    private: Any,
    public: Any = None,
    *,
    ledger: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    private_store: str | os.PathLike[str] | None = None,
    checks: bool | None = None,
    report: bool | None = None,
    signing_key: str | None = None,
    records_public: bool = False,
    progress: bool = False,
    **options: Unpack[ReleaseOptions],
) -> FrameRelease:
    """Make a differentially private synthetic table of two tables.

    Parameters
    ----------
    private, public
        Each a DataFrame of pandas or polars, a table of pyarrow, the path of a CSV or Parquet file,
        or a `Source`. The release protects a record of the given table: if a function such as
        ``pandas.read_csv`` chose types by whole columns, one record of the file can change all
        others. Give the path of a private CSV file, or read it with ``dtype=str``. There may be
        several public tables (`PublicSources`), or none if the mechanism needs none.
    ledger
        The ledger, a file or a SQLAlchemy URL. Exact noise needs it, and the option ``dataset``. A
        new ledger grants the dataset what this release asks for.
    folder
        The folder for the files of the release. None: with exact noise
        ``LEDGER-releases/RELEASE/EDITION`` next to the ledger's file; with seeded noise a temporary
        folder, which is deleted with the result.
    private_store
        The folder of the secret that binds tables to reservations. None: next to the ledger's file,
        or in the user's own data folder.
    checks, report
        Whether to check the synthetic table, and to make the report. None: with exact noise only.
    signing_key
        The file of the private key that signs the certificate, or the key as PEM text.
    records_public
        Whether the first grant of a new ledger says that the number of records of the dataset is
        public, as the default neighbours need it: they do not hide that number. Say so only of one
        fixed set of people; else choose ``neighbours="add_remove"``.
    progress
        Whether to write a line for each round, and every message, to standard error.
    **options
        The release, by `ReleaseOptions`, which the reference describes; ``epsilon`` or
        ``advantage`` is required. ``mechanism`` is a name, a mapping of name and settings or, with
        seeded noise and no ledger, a `Mechanism` of your own. Repeating a release is free, opens no
        private table, and gives the same synthetic table.

    Returns
    -------
    FrameRelease
        The table and its documents.

    Raises
    ------
    InputError
        If something given is wrong; nothing was charged.
    BudgetExceededError
        If the release asks for more than its dataset has left; the private table was not opened.
    BudgetError, PrivateStepError, EmptyCandidateSetError
        As for `jam_dagster.release.synthesize`.

    Examples
    --------
    >>> import jam_dagster as jam
    >>> release = jam.synthesize(
    ...     private,
    ...     public,
    ...     epsilon=1.0,
    ...     ledger="ledger.db",
    ...     dataset="people",
    ...     records_public=True,
    ... )
    >>> release.table
    >>> release.report("report.html")
    >>> all(finding.passed for finding in release.verify())
    """
    dataset = options.get("dataset")
    release = options.get("release") or dataset or "research"
    asked: dict[str, Any] = {
        **options,
        "release": release,
        "private": source_of(private, dataset or release),
        "public": public_of(public),
        "domain": _domain(options.get("domain")),
    }
    spec = release_spec(**asked)
    if spec.exact and not (ledger and dataset):
        raise SpecificationError(
            "Exact noise makes a release, and a release is charged: give ledger='ledger.db' and, "
            "as dataset='...', the name of the protected people, or experiment for free with "
            "noise='numpy'."
        )
    output = _OutputFolder.of(
        folder, ledger if spec.exact else None, spec.release, str(spec.privacy.edition)
    )
    request = SynthesisRequest(
        spec=spec,
        out=output.path,
        ledger=None if ledger is None else os.fspath(ledger),
        private_store=None if private_store is None else Path(private_store),
        checks=checks,
        report=report,
        signing_key=signing_key,
        siblings=output.root,
        records_public=records_public,
    )
    messages: list[str] = []
    rounds: list[int | None] = [None]

    def notify(sentence: str) -> None:
        messages.append(sentence)
        show(sentence)

    def show(line: str) -> None:
        if progress:
            sys.stderr.write(f"{line}\n")

    def start(mechanism: str, expected: int | None) -> None:
        rounds.append(expected)
        show(mechanism)

    with output.ready(request):
        callbacks = Progress(
            on_start=start,
            on_round=lambda outcome: show(outcome.line(rounds[-1])),
            on_rows=lambda made, all_: show(rows_line(made, all_)),
            notify=notify,
        )
        made = run_release(request, callbacks)
    return FrameRelease(request, made, tuple(messages), temporary=output.temporary)


@dataclass(frozen=True)
class _OutputFolder:
    """The folder for the files of a release.

    `root` has all releases that are charged to the same ledger file, for its owner alone; None if
    the folder was named or is temporary. A temporary folder is deleted with the result.
    """

    path: Path
    root: Path | None = None
    temporary: bool = False

    @classmethod
    def of(
        cls,
        folder: str | os.PathLike[str] | None,
        ledger: str | os.PathLike[str] | None,
        release: str,
        edition: str,
    ) -> _OutputFolder:
        """Return the named folder, one next to the ledger, or a temporary one."""
        if folder is not None:
            return cls(Path(folder))
        if ledger is None:
            return cls(Path(tempfile.mkdtemp(prefix="jam-")), temporary=True)
        file = _ledger(ledger).file
        if file is None:
            raise SpecificationError(
                "The ledger is on a server: name a folder for the release with folder='...', and "
                "keep it. It stores the draws, so that none is paid for twice."
            )
        # Links to the ledger are resolved, so that all of them lead to the same draws.
        real = file.resolve()
        root = real.with_name(f"{real.name}-releases")
        return cls(root / _file_name(release) / _file_name(edition), root)

    @contextmanager
    def ready(self, request: SynthesisRequest) -> Iterator[None]:
        """Validate the request, and make the folder for the releases of the ledger."""
        try:
            request.validate()
            if self.root is not None:
                try:
                    self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                except OSError as error:
                    raise InputError(
                        f"The folder {self.root} next to the ledger cannot be made"
                        f" ({error.strerror}): name a ledger in a folder that you may write to."
                        " Nothing was charged."
                    ) from None
            yield
        except BaseException as error:
            if self.temporary:
                shutil.rmtree(self.path, ignore_errors=True)
                if isinstance(error, PrivateValuesError | PrivateStepError):
                    error.add_note("The folder was temporary: give folder='...' to keep details.")
            raise


def _file_name(name: str) -> str:
    """Return a name with the characters that a folder's name cannot have escaped."""
    quoted = quote(name, safe=" ")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _ledger(given: str | os.PathLike[str]) -> Ledger:
    # Importing SQLAlchemy takes time, and research does not need it.
    from jam_dagster.privacy import Ledger

    return Ledger(os.fspath(given))


def _domain(
    given: Domain | Mapping[str, Any] | str | os.PathLike[str] | None,
) -> Domain | Mapping[str, Any] | Path | None:
    if isinstance(given, str | os.PathLike):
        return Path(given)
    if isinstance(given, Mapping) and "identify" not in given:
        return Domain.from_dict(given)
    return given
