"""The folder that a release without Dagster leaves behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upath import UPath

from jam_dagster.certificates import released_files, render_certificate
from jam_dagster.common.files import OWNER_ONLY, check_folder, write_whole
from jam_dagster.errors import InputError
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy.private_copies import FAILURES, failure_of
from jam_dagster.reports.checks_page import remove_data_docs
from jam_dagster.tables.codes.privacy_unit import KEY_BYTES

if TYPE_CHECKING:
    from jam_dagster.certificates import Certificate
    from jam_dagster.evaluation import WorkloadErrors
    from jam_dagster.privacy import Neighbours
    from jam_dagster.tables import Domain

_ANEW = "another edition (--edition), with a folder of its own"


class ReleaseFolder:
    """What lies where in the folder of one release.

    ===================  =========================================================================
    ``synthetic.csv``    the synthetic table
    ``domain.yaml``      the attributes and their values
    ``release.json``     which release this is: its name, its parameters, its specification
    ``draws/``           every charged outcome, so that no draw is ever paid twice
    ``transcript/``      what was selected and measured, round by round
    ``model/``           the fitted model
    ``errors.json``      the workload errors, where they were measured with noise
    ``checks.html``      the checks of the synthetic table, to be read
    ``checks.json``      the same, as Great Expectations reports them
    ``report.html``      the report
    ``certificate.json`` what the release promises and what it cost, to be verified
    ``certificate.html`` the same, to be read
    ``restricted/``      what may not leave: errors measured without noise, the key that chose
                         which rows of a person were kept, and in ``failures/`` why attempts to open
                         the private table failed
    ===================  =========================================================================

    What seeded noise made may not leave either: whoever guesses the seed takes the noise off a
    transcript and has exact marginals. The whole folder is its owner's alone then.

    Parameters
    ----------
    path
        The folder; it need not exist.
    """

    _OUTPUTS = (
        "synthetic.csv",
        "domain.yaml",
        "draws",
        "transcript",
        "model",
        "errors.json",
        "checks.html",
        "checks.json",
        "data_docs",  # of earlier versions
        "report.html",
        "certificate.json",
        "certificate.html",
        "restricted/errors.json",
        "restricted/report.html",
        "restricted/row_limit.key",
    )

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.table = self.path / "synthetic.csv"
        self.domain = self.path / "domain.yaml"
        self.release = self.path / "release.json"
        self.draws = self.path / "draws"
        self.transcript = UPath(self.path / "transcript")
        self.model = UPath(self.path / "model")
        self.checks = self.path / "checks.html"
        self.report = self.path / "report.html"
        self.errors = self.path / "errors.json"
        self.certificate = self.path / "certificate.json"
        self.restricted = self.path / "restricted"
        self._row_key = self.restricted / "row_limit.key"

    @property
    def _called(self) -> str:
        return f"The release's folder {self.path} (--out)"

    def check_writable(self) -> None:
        """Check, leaving no trace, that the folder can be made and written to.

        Raises
        ------
        InputError
            If it cannot.
        """
        try:
            check_folder(self.path)
        except NotADirectoryError as error:
            raise InputError(
                f"{self._called}: {error.filename} is a file; name another folder."
            ) from None
        except OSError as error:
            raise InputError(
                f"{self._called}: {error.filename} cannot be written to ({error.strerror}); "
                "name another folder, or change its permissions."
            ) from None

    def check_free_for(self, release: dict[str, Any]) -> None:
        """Check that nothing of another release would be overwritten.

        A folder of research may be used again: what lies there can be made again. The folder of
        a charged release holds draws that were paid for, and belongs to that release alone.

        Parameters
        ----------
        release
            What `claim` will write.

        Raises
        ------
        InputError
            If the folder holds another release, or files that no release left.
        """
        if not self.release.exists():
            for name in self._OUTPUTS:
                if (self.path / name).exists():
                    raise InputError(
                        f"{self._called} already holds {name}, which is not of a release: "
                        "name an empty or a new folder."
                    )
            return
        there = self._described()
        if there["noise"] == "exact" and there["key"] != release["key"]:
            key = there["key"]
            raise InputError(
                f"{self._called} holds the charged release {key['release']!r}, edition "
                f"{key['edition']}, of {key['dataset']!r}, made with other parameters, another "
                "domain or under another name: name a new folder or, where none was named, another "
                "release."
            )
        if (
            self.has_draws
            and there["noise"] == "exact"
            and there.get("public") != release["public"]
        ):
            raise InputError(
                f"{self._called} holds draws with another public table: restore it, or give "
                f"{_ANEW}, which is drawn and paid anew."
            )

    def check_contents(self, *, same: bool) -> None:
        """Check that the draws, if there are any, were made on the same private records.

        Parameters
        ----------
        same
            What `Funding.began_with` says.

        Raises
        ------
        InputError
            If they were made on other records.
        """
        if self.has_draws and not same:
            raise InputError(
                f"{self._called} holds draws on another private table: new data are a new release, "
                f"give {_ANEW}, which is drawn and paid anew."
            )

    def check_records(self, records: int | None, before: int | None) -> None:
        """Check that the draws, if there are any, were made on as many private records.

        Parameters
        ----------
        records
            n, where it is public; None where the number of private records is private itself.
        before
            The number when they were made, as `Funding.records` has it; None where that is not
            known.

        Raises
        ------
        InputError
            If they were made on other data.
        """
        if not self.has_draws:
            return
        # Earlier versions wrote it beside the rest.
        before = self._described()["records"] if before is None else before
        if before is not None and before != records:
            raise InputError(
                f"{self._called} holds draws on another private table, of another number of "
                f"records: new data are a new release, give {_ANEW}."
            )

    def _described(self) -> dict[str, Any]:
        try:
            described = json.loads(self.release.read_text())
            _ = [described[name] for name in ("noise", "key", "records")]
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.release} cannot be read: name an empty or a new folder."
            ) from None
        return dict(described)

    def claim(self, release: dict[str, Any]) -> None:
        """Make the folder and write down which release it belongs to.

        Only what this very release has drawn stays; everything else that lies there is research,
        and must not be taken for what was paid for.

        Parameters
        ----------
        release
            Which release, as `check_free_for` was told it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        may_leave = release["noise"] == "exact"
        # A folder of other things that somebody named as --out stays as open as it is.
        if not may_leave and (self.release.exists() or not any(self.path.iterdir())):
            self.path.chmod(0o700)
        if not self._belongs_to(release):
            self._discard()
        # Whole or not at all: a release that cannot be told from another could not go on.
        write_whole(self.release, (json.dumps(release, indent=2) + "\n").encode())
        if may_leave:
            self.draws.mkdir(exist_ok=True)

    @contextmanager
    def closed_to_others(self) -> Iterator[None]:
        """Let files and folders that are made meanwhile be their owner's only."""
        before = os.umask(0o077)
        try:
            yield
        finally:
            os.umask(before)

    def _belongs_to(self, release: dict[str, Any]) -> bool:
        if release["noise"] != "exact" or not self.release.exists():
            return False
        there = self._described()
        return there["noise"] == "exact" and bool(there["key"] == release["key"])

    def _discard(self) -> None:
        """Remove what earlier research left, lest its report be taken for that of this run."""
        for name in self._OUTPUTS:
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            # Unless it tells why earlier attempts failed.
            self.restricted.rmdir()

    def keep_failure(self, described: Mapping[str, Any], name: str, text: str) -> None:
        """Keep why an attempt to open the private table failed, closed to others.

        Parameters
        ----------
        described
            The release, as ``release.json`` has it.
        name
            Of the attempt.
        text
            What the errors withhold; what is kept under the name before stays.
        """
        folder = self.restricted / FAILURES
        self.restricted.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path, flags = folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(path, flags, OWNER_ONLY), "ab") as file:
            if file.tell() == 0:
                key = described["key"] or {"release": self.path.name}
                days = described.get("retention_days")
                file.write(failure_of(key, days, research=described["key"] is None))
            file.write(text.encode("utf-8", "backslashreplace"))

    def row_key(self, release: dict[str, Any]) -> bytes | None:
        """Return the key that chose a person's rows for this very release, if there is one."""
        if not (self._belongs_to(release) and self._row_key.exists()):
            return None
        key = self._row_key.read_bytes()
        # What is left of a damaged key is none: an empty one could be guessed.
        return key if len(key) == KEY_BYTES else None

    def keep_row_key(self, key: bytes) -> None:
        """Keep the key that chooses a person's rows, closed to others.

        The release is claimed by this run, so nobody else brings another key meanwhile.
        """
        self.restricted.mkdir(mode=0o700, exist_ok=True)
        write_whole(self._row_key, key, mode=OWNER_ONLY)

    @property
    def keeps_draws(self) -> bool:
        """Whether charged draws are kept here, be it that none was stored yet.

        A run that was killed after its first charge and before its first outcome leaves an empty
        folder, and goes on there. A folder that someone removed is another matter.
        """
        return self.draws.is_dir()

    @property
    def has_draws(self) -> bool:
        """Whether the outcome of any charged draw is here."""
        return self.draws.is_dir() and any(self.draws.iterdir())

    def finished(
        self,
        *,
        noise: str,
        mechanism: str,
        parameters: Mapping[str, Any],
        domain: Domain,
        neighbours: Neighbours,
    ) -> Transcript | None:
        """Return the transcript if the mechanism has ended, None if it must still run.

        Parameters
        ----------
        noise
            Which noise was asked for.
        mechanism, parameters
            The mechanism and its settings.
        domain
            The domain of the tables.
        neighbours
            Which tables nobody may tell apart.

        Returns
        -------
        Transcript or None
            None also where the transcript is of something else than was asked for, or lacks the
            draws that it was made from: running the mechanism again takes what was paid for from
            the draws, and pays for the rest.
        """
        # The description is the last file that the mechanism's run writes.
        if not (self.has_draws and (self.transcript / "transcript.json").exists()):
            return None
        transcript = Transcript.load(self.transcript)
        wanted = (noise, mechanism, dict(parameters), domain.digest, neighbours)
        found = (
            transcript.noise,
            transcript.mechanism,
            dict(transcript.parameters),
            transcript.domain_digest,
            transcript.neighbours,
        )
        return transcript if found == wanted else None

    def write_errors(self, errors: WorkloadErrors) -> None:
        """Write the workload errors, if they were measured, to where their readers are.

        Beside them stand the mode, the standard deviation of the noise in each mean, and the
        charge: a noisy mean without its noise would be taken for the truth.
        """
        if errors.synthetic is None:
            return
        folder = self.path
        if errors.restricted:
            folder = self.restricted
            folder.mkdir(mode=0o700, exist_ok=True)
        described = {
            "mode": errors.mode,
            "sigma": errors.sigma,
            "rho": errors.rho,
            "sample_equivalent": errors.sample_equivalent,
        }
        text = json.dumps({**described, **errors.to_dict()}, indent=2) + "\n"
        self._write(folder / "errors.json", text, errors.restricted)

    def write_checks(self, page: str, validations: str, *, restricted: bool) -> None:
        """Write the checks: the page, and what Great Expectations reports in JSON."""
        remove_data_docs(self.path / "data_docs")
        self._write(self.checks, page, restricted)
        self._write(self.checks.with_suffix(".json"), validations, restricted)

    def write_report(self, page: str, *, restricted: bool) -> None:
        """Write the report, or its edition with exact errors."""
        if restricted:
            self.restricted.mkdir(mode=0o700, exist_ok=True)
        path = self.restricted / "report.html" if restricted else self.report
        self._write(path, page, restricted)

    def write_certificate(self, certificate: Certificate, *, page: bool) -> None:
        """Write the certificate, and its page where that is wanted."""
        certificate.save(self.path)
        if page:
            shown = render_certificate(certificate)
            self._write(self.certificate.with_suffix(".html"), shown, False)

    def released_files(self, *, errors: WorkloadErrors, report: bool) -> dict[str, Path | UPath]:
        """Return what the certificate vouches for: only what this run has written.

        Parameters
        ----------
        errors
            The workload errors; exact ones lie in `restricted` and are none of its business.
        report
            Whether the report was written.
        """
        noisy = errors.synthetic is not None and not errors.restricted
        return released_files(
            table=self.table,
            domain=self.domain,
            transcript=self.transcript,
            model=self.model,
            errors=self.errors if noisy else None,
            report=self.report if report else None,
        )

    @staticmethod
    def _write(path: Path, text: str, restricted: bool) -> None:
        mode = 0o600 if restricted else 0o666
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
