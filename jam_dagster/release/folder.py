"""The files of a release that is made without Dagster."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import released_files, render_certificate, table_csv
from jam_dagster.common.files import check_folder, check_plain
from jam_dagster.errors import InputError
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

    from jam_dagster.certificates import Certificate
    from jam_dagster.evaluation import WorkloadErrors
    from jam_dagster.tables import Domain
    from jam_dagster.tables.sources.dialect import Dialect


class ReleaseFolder:
    """The files in the folder of one release.

    ===================  =========================================================================
    ``synthetic.csv``    the synthetic table; more than a million rows are ``synthetic.parquet``
    ``children.csv``     the synthetic children, if a release has two tables
    ``domain.yaml``      the attributes and their values
    ``release.json``     which release this is: its name, its parameters, its specification
    ``draws/``           every charged outcome, so that no draw is ever paid twice
    ``transcript/``      the selections and measurements of every round
    ``model/``           the fitted model
    ``run.json``         the release of transcript and model, and a digest of their files
    ``errors.json``      the workload errors, if they were measured with noise
    ``checks.html``      the checks of the synthetic table, for reading
    ``checks.json``      the same, as Great Expectations reports them
    ``report.html``      the report
    ``certificate.json`` the promises of the release and its cost, for verification
    ``certificate.html`` the same, for reading
    ``restricted/``      files that may not leave: errors measured without noise, in ``row_limit/``
                         the secret that chose which rows of a person are kept, and in ``failures/``
                         why attempts to open the private table failed
    ===================  =========================================================================

    Results of seeded noise may not leave either: a reader who guesses the seed can remove the noise
    from a transcript, and has exact marginals. Then only the owner may read the folder.
    """

    OUTPUTS = (
        "synthetic.csv",
        "synthetic.parquet",
        "children.csv",
        "domain.yaml",
        "draws",
        "transcript",
        "model",
        "run.json",
        "errors.json",
        "checks.html",
        "checks.json",
        "report.html",
        "certificate.json",
        "certificate.html",
        "restricted/errors.json",
        "restricted/report.html",
    )

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.csv = self.path / "synthetic.csv"
        self.parquet = self.path / "synthetic.parquet"
        self.children = self.path / "children.csv"
        self.domain = self.path / "domain.yaml"
        self.release = self.path / "release.json"
        from upath import UPath

        self.transcript = UPath(self.path / "transcript")
        self.model = UPath(self.path / "model")
        self.checks = self.path / "checks.html"
        self.validations = self.path / "checks.json"
        self.report = self.path / "report.html"
        self.errors = self.path / "errors.json"
        self.certificate = self.path / "certificate.json"
        self.restricted = self.path / "restricted"
        self._made: dict[Path | UPath, str] = {}

    @property
    def table(self) -> Path:
        """The synthetic table, in the file that this process wrote."""
        return self.parquet if self.parquet in self._made else self.csv

    def write_table(
        self, table: pd.DataFrame | TableFile, domain: Domain, dialect: Dialect
    ) -> None:
        """Write the synthetic table, unless its file is here already, and remove any other."""
        if isinstance(table, TableFile):
            self.csv.unlink(missing_ok=True)
            self._made[self.parquet] = table.sha256
        else:
            self.parquet.unlink(missing_ok=True)
            self._write(self.csv, table_csv(table, domain.roots, dialect), False)

    def write_children(self, table: pd.DataFrame | None, domain: Domain, dialect: Dialect) -> None:
        """Write the children of a release of two tables; remove those of another one."""
        if table is None or domain.children is None:
            self.children.unlink(missing_ok=True)
        else:
            self._write(self.children, table_csv(table, domain.children.domain, dialect), False)

    @property
    def name(self) -> str:
        """How messages name the folder."""
        return f"the release's folder {self.path} (--out)"

    def check_writable(self) -> None:
        """Check, leaving no trace, that the folder can be made and written to."""
        try:
            check_folder(self.path)
            for name in (*self.OUTPUTS, "release.json", "restricted"):
                check_plain(self.path, self.path / name)
        except NotADirectoryError as error:
            raise InputError(
                f"The release's folder {self.path} (--out): {error.filename} is a file; name "
                "another folder."
            ) from None
        except OSError as error:
            raise InputError(
                f"The release's folder {self.path} (--out): {error.filename} cannot be written to "
                f"({error.strerror}); name another folder, or change its permissions."
            ) from None

    def described(self) -> dict[str, Any]:
        """Return the content of ``release.json``."""
        try:
            described = json.loads(self.release.read_text())
            _ = [described[name] for name in ("noise", "key")]
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.release} cannot be read: name an empty or a new folder."
            ) from None
        return dict(described)

    def discard(self) -> None:
        """Remove the results of earlier research, which could be mistaken for this run's."""
        for name in self.OUTPUTS:
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):
            # The folder stays if it holds the reasons of earlier failures.
            self.restricted.rmdir()

    def discard_restricted(self) -> None:
        """Remove the exact errors and their page, since the release is not certified."""
        for name in ("errors.json", "report.html"):
            (self.restricted / name).unlink(missing_ok=True)

    def holds_output(self) -> str | None:
        """Return the name of an output in the folder, None if there is none."""
        return next((name for name in self.OUTPUTS if (self.path / name).exists()), None)

    def write_errors(self, errors: WorkloadErrors) -> None:
        """Write the workload errors, if they were measured.

        The file also has the mode, the standard deviation of the noise in each mean, and the
        charge: without its noise, a noisy mean would be mistaken for the truth.
        """
        if errors.synthetic is None:
            return
        folder = self.path
        if errors.restricted:
            folder = self.restricted
            folder.mkdir(mode=0o700, exist_ok=True)
        described: dict[str, Any] = {
            "mode": errors.mode,
            "sigma": errors.sigma,
            "rho": errors.rho,
            "sample_equivalent": errors.sample_equivalent,
            "equivalent_within": errors.equivalent_within,
        }
        if errors.left_out:
            described["left_out"] = errors.left_out
        if errors.restricted:
            described["utility"] = [asdict(one) for one in errors.utility]
            described["regressions"] = [asdict(one) for one in errors.regressions]
        text = json.dumps({**described, **errors.to_dict()}, indent=2) + "\n"
        self._write(folder / "errors.json", text.encode(), errors.restricted)

    def write_checks(self, page: str, validations: str, *, restricted: bool) -> None:
        """Write the page of the checks, and Great Expectations' results in JSON."""
        self._write(self.checks, page.encode(), restricted)
        self._write(self.validations, validations.encode(), restricted)

    def write_report(self, page: str, *, restricted: bool) -> None:
        """Write the report, or its edition with exact errors."""
        if restricted:
            self.restricted.mkdir(mode=0o700, exist_ok=True)
        path = self.restricted / "report.html" if restricted else self.report
        self._write(path, page.encode(), restricted)

    def write_certificate(self, certificate: Certificate, *, page: bool) -> None:
        """Write the certificate and, if `page`, its page."""
        certificate.save(self.path)
        path = self.certificate.with_suffix(".html")
        if page:
            self._write(path, render_certificate(certificate).encode(), False)
        else:
            # The page of an earlier run says something else.
            path.unlink(missing_ok=True)

    def released_files(
        self, *, errors: WorkloadErrors, report: bool, checks: bool
    ) -> dict[str, Path | UPath]:
        """Return the files that the certificate vouches for: only those of this run."""
        noisy = errors.synthetic is not None and not errors.restricted
        return released_files(
            table=self.table,
            children=self.children if self.children in self._made else None,
            domain=self.domain,
            transcript=self.transcript,
            model=self.model,
            errors=self.errors if noisy else None,
            report=self.report if report else None,
            checks=self.checks if checks else None,
            validations=self.validations if checks else None,
        )

    def made(self, files: Mapping[str, Path | UPath]) -> dict[str, str]:
        """Return the SHA-256 of those of some files that this process wrote, as it wrote them."""
        return {name: self._made[path] for name, path in files.items() if path in self._made}

    def _write(self, path: Path, content: bytes, restricted: bool) -> None:
        mode = 0o600 if restricted else 0o666
        # Somebody may have put a link there since the folder was checked.
        check_plain(self.path, path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            file.write(content)
        self._made[path] = hashlib.sha256(content).hexdigest()
