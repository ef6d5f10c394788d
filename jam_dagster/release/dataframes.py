"""A release from tables in memory: `jam_dagster.synthesize`, and what it returns."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack
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
from jam_dagster.mechanisms import Transcript, load_model
from jam_dagster.privacy import describe_rho
from jam_dagster.release.engine import Progress, rows_line
from jam_dagster.release.folder import ReleaseFolder
from jam_dagster.release.options import release_spec
from jam_dagster.release.synthesize import SynthesisRequest
from jam_dagster.release.synthesize import synthesize as run_release
from jam_dagster.tables import Domain, FrameSource
from jam_dagster.tables.sources.base import source_of
from jam_dagster.tables.sources.frame import polars_of
from jam_dagster.tables.sources.public import public_of
from jam_dagster.tables.sources.table_file import first_rows

if TYPE_CHECKING:
    from jam_dagster.common.choices import EvaluationMode, NoiseName, Relation
    from jam_dagster.evaluation import Verdict, WorkloadErrors
    from jam_dagster.mechanisms import Model
    from jam_dagster.privacy import Ledger
    from jam_dagster.release.result import Synthesis

__all__ = ["FrameRelease", "FrameSource", "ReleaseOptions", "synthesize"]

_SHOWN_ROWS = 5


class FrameRelease:
    """A synthetic table and all that belongs to it; `synthesize` makes one.

    What lies in files is read when it is first asked for. Nothing here holds the private table.

    Parameters
    ----------
    request
        What was asked.
    made
        What came of it.
    messages
        What the user should know of how it was made.
    temporary
        Whether the folder goes when this object does.
    """

    def __init__(
        self,
        request: SynthesisRequest,
        made: Synthesis,
        messages: tuple[str, ...],
        *,
        temporary: bool,
    ) -> None:
        # Of the request, only what is shown and verified with: it holds the private table.
        spec = request.spec
        self._name = f"{spec.release!r}, edition {spec.privacy.edition!r}"
        self._dataset = spec.dataset
        self._asked = f"epsilon {spec.privacy.epsilon:g} at delta {spec.privacy.delta:g}"
        self._spent = describe_rho(made.rho_spent, spec.privacy.delta)
        self._ledger = request.ledger if spec.exact else None
        self._public = spec.public
        given = (spec.private, *spec.public_tables.values())
        self._polars = any(one.is_polars for one in given)
        self._made = made
        self._files = ReleaseFolder(made.output)
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

        It is of polars if a given table is, else of pandas. More than a million rows are read from
        their file each time.
        """
        return polars_of(self._made.table) if self._polars else self._made.table.copy(deep=False)

    @property
    def children(self) -> Any:
        """The synthetic table of children, as `table` is; None if the release has one table."""
        children = self._made.children
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

    @cached_property
    def model(self) -> Model:
        """The fitted model, which answers more than the table, at no cost."""
        return load_model(self._files.model)

    @cached_property
    def transcript(self) -> Transcript:
        """What was selected and measured, round by round."""
        return Transcript.load(self._files.transcript)

    @cached_property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return Domain.load(self._files.domain)

    @cached_property
    def certificate(self) -> Certificate:
        """What the release promises, and every draw and charge."""
        return Certificate.load(self._files.certificate)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the report, one page in HTML, to a file.

        Parameters
        ----------
        path
            The file; one that is there is written over. Of what may not leave, it is its owner's.

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
            One of every check. Whatever stands in the way of a check is a finding too.
        """
        try:
            return verify_certificate(
                self.folder,
                ledger=None if self._ledger is None else _ledger(self._ledger),
                public=self._public if public is None else public_of(public),
            )
        except (JamError, OSError) as error:
            return [Finding("the certificate", passed=False, message=str(error))]

    def __repr__(self) -> str:
        rows = f"{self._made.rows} synthetic records"
        return f"FrameRelease({self._name}: {rows}, {self._leaving}. {self._headline})"

    @property
    def _headline(self) -> str:
        # A notebook is saved with what it shows.
        exact = "Verdict restricted: exact statistics of private data."
        return exact if self.errors.restricted else self._made.verdict.headline

    @property
    def _leaving(self) -> str:
        return "releasable" if self.releasable else "not releasable"

    def _repr_html_(self) -> str:
        made = self._made
        facts = {
            "verdict": self._headline,
            "release": self._name,
            "dataset": self._dataset,
            "records": f"{made.rows:,}",
            "asked": self._asked,
            "spent": self._spent,
            "folder": "temporary, goes with this object" if self._temporary else made.output,
            "messages": " ".join(self.messages),
        }
        # What may not leave is not shown: a notebook is saved with what it shows.
        shown = first_rows(made.sampled)
        shown = shown.head(_SHOWN_ROWS) if self.releasable else shown.iloc[:0, :0]
        return card(
            "Synthetic table",
            facts,
            label="" if self.releasable else self._leaving,
            columns=[str(name) for name in shown.columns],
            rows=shown.astype(object).itertuples(index=False, name=None),
        )


class ReleaseOptions(TypedDict, total=False):
    """The options of a release, by type; `jam_dagster.keys` says what each means."""

    epsilon: float
    advantage: float | None
    delta: float
    domain: Domain | Mapping[str, Any] | str | os.PathLike[str] | None
    children: Mapping[str, Any] | str | None
    dataset: str | None
    release: str | None
    edition: str | int
    mechanism: str | None
    settings: Mapping[str, Any] | None
    trusted_mechanisms: Sequence[str]
    degree: int | None
    cliques: Sequence[Sequence[str]] | None
    weights: Sequence[float] | None
    noise: NoiseName
    seed: int | None
    evaluate: EvaluationMode | None
    evaluation_share: float | None
    evaluation_target: str | None
    neighbours: Relation
    privacy_unit: str | None
    max_rows: int | None
    records_share: float | None
    search: bool


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
        Each a DataFrame of pandas or polars, a table of pyarrow, the path of a CSV or Parquet
        file, or a `Source`. What is protected is a record of the table as it is given: where a
        function such as ``pandas.read_csv`` chooses types by whole columns, one record of a file
        can change all others. Give the path of a private CSV file, or read it with ``dtype=str``.
        There may be several public tables (`PublicSources`), or none where the mechanism does
        without.
    ledger
        The ledger, a file or a SQLAlchemy URL; with exact noise it is needed, and so is the option
        ``dataset``. A new ledger grants the dataset what this release asks for.
    folder
        Where the files of the release lie. None: with exact noise beside the ledger's file, in
        ``LEDGER-releases/RELEASE/EDITION``; with seeded noise in a temporary folder, which lives
        as long as the result.
    private_store
        The folder of the secret by which tables are bound to reservations. None: beside the
        ledger's file, or in the user's own data folder.
    checks, report
        Whether to check the synthetic table, and to make the report. None: with exact noise only.
    signing_key
        The file of the private key that signs the certificate, or the key as PEM text.
    records_public
        Whether the first grant of a new ledger says that the number of records of the dataset is
        public, as the default neighbours need it: they do not hide that number. Say so only of one
        fixed set of people; else choose ``neighbours="add_remove"``.
    progress
        Whether to write a line a round, and every message, to standard error.
    **options
        What the release is: ``epsilon`` or ``advantage``, which is needed, and the others of
        `ReleaseOptions`, which the reference describes. The same release again is free, opens no
        private table, and gives the same synthetic table.

    Returns
    -------
    FrameRelease
        The table, and what belongs to it.

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
    asked = _asked(options, ledger)
    exact = asked.get("noise", "exact") == "exact"
    dataset = asked.get("dataset")
    asked.setdefault("release", dataset or "research")
    spec = release_spec(
        **asked
        | {
            "private": source_of(private, dataset or asked["release"]),
            "public": public_of(public),
            "domain": _domain(asked.get("domain")),
        }
    )
    place = _Place.of(folder, ledger if exact else None, spec.release, str(spec.privacy.edition))
    request = SynthesisRequest(
        spec=spec,
        out=place.path,
        ledger=None if ledger is None else os.fspath(ledger),
        private_store=None if private_store is None else Path(private_store),
        checks=checks,
        report=report,
        signing_key=signing_key,
        siblings=place.root,
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

    with place.ready(request):
        told = Progress(
            on_start=lambda expected: rounds.append(expected),
            on_round=lambda outcome: show(outcome.line(rounds[-1])),
            on_rows=lambda made, all_: show(rows_line(made, all_)),
            notify=notify,
        )
        made = run_release(request, told)
    return FrameRelease(request, made, tuple(messages), temporary=place.temporary)


def _asked(options: Mapping[str, Any], ledger: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return the options that are given; Python's error for what is no option, or lacks."""
    unknown = [name for name in options if name not in ReleaseOptions.__annotations__]
    if unknown:
        raise TypeError(f"synthesize() got an unexpected keyword argument {unknown[0]!r}")
    if "epsilon" not in options and options.get("advantage") is None:
        raise TypeError("synthesize() needs the keyword argument 'epsilon'")
    asked = {name: one for name, one in options.items() if one is not None}
    if asked.get("noise", "exact") == "exact" and not (ledger and asked.get("dataset")):
        raise SpecificationError(
            "Exact noise makes a release, and a release is charged: give ledger='ledger.db' and, "
            "as dataset='...', the name of the protected people, or experiment for free with "
            "noise='numpy'."
        )
    return asked


@dataclass(frozen=True)
class _Place:
    """Where the files of a release lie.

    `root` is the folder of all releases that are charged to the same ledger file, its owner's
    alone; None where the folder was named, or is temporary. A temporary folder goes with the
    result.
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
    ) -> _Place:
        """Return the place that was named, one beside a ledger, or a temporary one."""
        if folder is not None:
            return cls(Path(folder))
        if ledger is None:
            return cls(Path(tempfile.mkdtemp(prefix="jam-")), temporary=True)
        file = _ledger(ledger).file
        if file is None:
            raise SpecificationError(
                "The ledger is on a server, so there is no place beside it: name a folder that "
                "lasts for the release with folder='...'. What was drawn lies there, and is never "
                "paid twice."
            )
        # Beside the file itself: whoever comes by a link must find the same draws.
        real = file.resolve()
        root = real.with_name(f"{real.name}-releases")
        return cls(root / _file_name(release) / _file_name(edition), root)

    @contextmanager
    def ready(self, request: SynthesisRequest) -> Iterator[None]:
        """Have the folder within, once the request is known to be sound."""
        try:
            request.validate()
            if self.root is not None:
                try:
                    self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                except OSError as error:
                    raise InputError(
                        f"The folder {self.root} beside the ledger cannot be made"
                        f" ({error.strerror}): name a ledger in a folder that you may write."
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
    """Return a name as that of a folder, whatever stands in it."""
    quoted = quote(name, safe=" ")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _ledger(given: str | os.PathLike[str]) -> Ledger:
    # It brings SQLAlchemy, for which research need not wait.
    from jam_dagster.privacy import Ledger

    return Ledger(os.fspath(given))


def _domain(
    given: Domain | Mapping[str, Any] | str | os.PathLike[str] | None,
) -> Domain | Path | None:
    if given is None or isinstance(given, Domain):
        return given
    return Domain.from_dict(given) if isinstance(given, Mapping) else Path(given)
