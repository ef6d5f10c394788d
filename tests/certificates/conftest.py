"""A small release with its certificate, to be read and to be tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.certificates import (
    Certificate,
    FileHash,
    refitting,
    render_certificate,
    verify,
)
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import Ledger
from jam_dagster.privacy.private_store import SOURCE_KEY_FILE
from tests.cli_bench import RELEASE, run_cli, synthesize, write_tables
from tests.moved import bind_again


@dataclass
class Released:
    """A copy of a release's folder, and the ledger that it was charged to."""

    home: Path

    @property
    def folder(self) -> Path:
        return self.home / "out"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home / "ledger.db")

    @property
    def certificate(self) -> Certificate:
        return Certificate.load(self.folder)

    def document(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "certificate.json").read_text())
        return content

    def failed(self, *, ledger: bool = True) -> set[str]:
        """The names of the checks that fail."""
        found = verify(self.folder, ledger=self.ledger if ledger else None)
        return {one.name for one in found if not one.passed}

    def move_in(self, patch: pytest.MonkeyPatch) -> None:
        """Work in its folder; the tables have moved with it, which the ledger is told."""
        patch.chdir(self.home)
        bind_again(self.ledger, Path("priv.csv"), Path("ledger.db-private") / SOURCE_KEY_FILE)

    def forge(self, change: Callable[[Certificate], Certificate] = lambda it: it) -> None:
        """Change the certificate as somebody would who makes it fit itself and the files again."""
        forged = change(self.certificate)
        hashed = {
            name: FileHash(file.path, sha256_of(self.folder / file.path))
            for name, file in forged.files.items()
        }
        self.put(replace(forged, files=hashed))

    def put(self, certificate: Certificate) -> None:
        """Put another certificate in place, with its page."""
        certificate.save(self.folder)
        page = self.folder / "certificate.html"
        # A certificate that no page can show keeps the page that is there.
        with suppress(Exception):
            if page.is_file():
                page.write_text(render_certificate(certificate))

    def rewrite(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change a JSON file of the release."""
        path = self.folder / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))


@pytest.fixture(autouse=True)
def no_other_processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that were tampered with are fitted here alone: all that is tried takes seconds."""
    if request.module.__name__ != "tests.certificates.test_refitting":
        monkeypatch.setattr(refitting, "PROCESSORS", ())


@pytest.fixture
def made(tmp_path: Path, release_folder: Path) -> Released:
    shutil.copytree(release_folder, tmp_path / "copy")
    return Released(tmp_path / "copy")


def released(folder: Path, *options: str, granted: float = 1.0, **tables: str) -> Path:
    """Make a release in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_tables()
        Ledger("ledger.db").grant("people", epsilon=granted, delta=1e-9)
        pd.read_csv("priv.csv").to_csv("same.csv", index=False)
        made = run_cli(*synthesize(*RELEASE, *options, **tables))
        assert made.exit_code == 0, made.output
    return folder


@pytest.fixture(scope="session")
def public_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose public table is as good as can be, so that rounds measure it."""
    for _ in range(9):
        folder = released(
            tmp_path_factory.mktemp("public"), "--epsilon", "20", public="same.csv", granted=20.0
        )
        rounds = Transcript.load(folder / "out" / "transcript").rounds
        if any(one.source == "public" for one in rounds):
            return folder
    raise AssertionError("no round of nine releases chose the public table")
