"""The files of a release that is made without Dagster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import released_files, render_certificate, table_csv
from jam_dagster.common.files import check_folder, check_plain, read_plain
from jam_dagster.errors import InputError
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.tables.domain.domain_file import domain_yaml
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

    from jam_dagster.certificates import Certificate
    from jam_dagster.release.documents import MadeRelease
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

    def __init__(self, path: Path, hashes_in: ReleaseFiles | None = None) -> None:
        from upath import UPath

        self.path = path.resolve()
        self.files = ReleaseFiles(UPath(self.path), private=False, hashes_in=hashes_in)
        self.restricted = self.files.below("restricted", private=True)
        self.release = self.path / "release.json"
        self.checks = self.path / "checks.html"
        self.report = self.path / "report.html"

    def write_table(
        self, table: pd.DataFrame | TableFile, domain: Domain, dialect: Dialect
    ) -> None:
        """Write the synthetic table, unless its file is here already, and remove any other."""
        if isinstance(table, TableFile):
            self._remove("synthetic.csv")
            self.files.vouch(self._at("synthetic.parquet"), {"synthetic.parquet": table.sha256})
        else:
            self._remove("synthetic.parquet")
            self.write("synthetic.csv", table_csv(table, domain.roots, dialect))

    def write_children(self, table: pd.DataFrame | None, domain: Domain, dialect: Dialect) -> None:
        """Write the children of a release of two tables; remove those of another one."""
        if table is None or domain.children is None:
            self._remove("children.csv")
        else:
            self.write("children.csv", table_csv(table, domain.children.domain, dialect))

    def write_domain(self, domain: Domain) -> None:
        """Write the domain."""
        self.write("domain.yaml", domain_yaml(domain.to_dict()).encode())

    def write(self, name: str, content: bytes, *, restricted: bool = False) -> None:
        """Write a file, or its edition with exact errors."""
        files = self.restricted if restricted else self.files
        files.write(files.path_of(name), content)

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
            # Another release may own the folder, and its hash is kept elsewhere.
            described = json.loads(read_plain(self.path, self.release))
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
            (self.path / "restricted").rmdir()

    def discard_restricted(self) -> None:
        """Remove the exact errors and their page, since the release is not certified."""
        for name in ("errors.json", "report.html"):
            self._remove(f"restricted/{name}")

    def holds_output(self) -> str | None:
        """Return the name of an output in the folder, None if there is none."""
        return next((name for name in self.OUTPUTS if (self.path / name).exists()), None)

    def write_certificate(self, certificate: Certificate, *, page: bool) -> None:
        """Write the certificate and, if `page`, its page."""
        with self.files.modes():
            certificate.save(self.path)
        if page:
            self.write("certificate.html", render_certificate(certificate).encode())
        else:
            # The page of an earlier run says something else.
            self._remove("certificate.html")

    def released_files(
        self, made: MadeRelease, *, report: bool, checks: bool
    ) -> dict[str, Path | UPath]:
        """Return the files that the certificate vouches for: only those of this run."""
        noisy = made.error is not None and not made.error.restricted and made.error.synthetic
        whole = not isinstance(made.table, TableFile)
        return released_files(
            table=self._at("synthetic.csv" if whole else "synthetic.parquet"),
            children=None if made.children is None else self._at("children.csv"),
            domain=self._at("domain.yaml"),
            transcript=self._at("transcript"),
            model=self._at("model"),
            errors=self._at("errors.json") if noisy else None,
            report=self._at("report.html") if report else None,
            checks=self._at("checks.html") if checks else None,
            validations=self._at("checks.json") if checks else None,
        )

    def made(self, files: Mapping[str, Path | UPath]) -> dict[str, str]:
        """Return the SHA-256 of those of some files that this process wrote, as it wrote them."""
        kept = {name: self.files.hashes_of(path) for name, path in files.items()}
        return {name: one[files[name].name] for name, one in kept.items() if one}

    def _at(self, name: str) -> UPath:
        return self.files.path_of(name)

    def _remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)
