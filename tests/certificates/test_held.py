"""The files of a certificate: those that it names are read, wherever they lie, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jam_dagster.certificates import verify
from jam_dagster.certificates.facts import FileHash
from jam_dagster.certificates.issue import sha256_of
from tests.certificates.conftest import Released


def test_a_missing_file_is_named(made: Released) -> None:
    (made.folder / "model" / "potentials.npz").unlink()
    found = {one.name: one for one in verify(made.folder)}
    assert "restore it, or give its new place" in found["file: potentials"].message
    assert not found["the model, refitted"].passed
    assert found["the draws"].passed


def test_a_file_is_no_device(made: Released) -> None:
    """Else a certificate by a stranger could keep its reader busy for ever."""
    endless = FileHash("/".join([".."] * 50 + ["dev", "zero"]), "0" * 64)
    certificate = made.certificate
    made.put(replace(certificate, files={**certificate.files, "table": endless}))
    assert "file: table" in made.failed()


@pytest.mark.parametrize("name", ["measurements", "potentials"])
def test_what_is_vouched_for_is_what_is_refitted(made: Released, name: str) -> None:
    """A decoy in the place that the certificate names, the true file where it is looked for."""
    (made.folder / "decoy.npz").write_bytes(b"something else")
    certificate = made.certificate
    decoy = FileHash("decoy.npz", sha256_of(made.folder / "decoy.npz"))
    made.put(replace(certificate, files={**certificate.files, name: decoy}))
    assert f"file: {name}" in made.failed(ledger=False)

    rest = {other: file for other, file in certificate.files.items() if other != name}
    made.put(replace(certificate, files=rest))
    assert f"file: {name}" in made.failed(ledger=False)


def test_files_above_the_working_directory_are_found(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        name: replace(file, path=f"../{file.path}") for name, file in made.certificate.files.items()
    }
    replace(made.certificate, files=files).save(made.folder / "release_certificate")
    monkeypatch.chdir(made.folder / "release_certificate")
    found = verify(Path("."))
    assert all(one.passed for one in found if one.name.startswith("file: "))


def test_a_file_that_lies_elsewhere_can_be_shown(made: Released, tmp_path: Path) -> None:
    table = (made.folder / "synthetic.csv").rename(tmp_path / "published.csv")
    assert "file: table" in made.failed()
    assert all(one.passed for one in verify(made.folder, files={"table": table}))
