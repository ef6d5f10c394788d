"""A small release with its certificate, to be read and to be tampered with."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.certificates import (
    Certificate,
    certify,
    refitting,
    render_certificate,
    table_csv,
    verify,
)
from jam_dagster.certificates.facts import RAN, STORED, FileHash, ReleaseTerms
from jam_dagster.certificates.issue import (
    content_of,
    released_files,
    run_files_digest,
    sha256_of,
)
from jam_dagster.certificates.outcome_faults import means_in, outcome_digest
from jam_dagster.mechanisms import FittedModel, MechanismResult, Model, Transcript, load_model
from jam_dagster.mechanisms.loops.rows import sample_rows
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.privacy.private_store import BINDING_FILE
from jam_dagster.privacy.shares import EVALUATION
from jam_dagster.tables import Domain, MarginalSource, decode
from jam_dagster.tables.sources.dialect import Dialect
from tests.budgets import PUBLIC_N
from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize, write_tables
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
        bind_again(self.ledger, Path("priv.csv"), Path("ledger.db-private") / BINDING_FILE)

    def forge(self, change: Callable[[Certificate], Certificate] = lambda it: it) -> None:
        """Change the certificate as somebody would who makes it fit itself and the files again."""
        forged = change(self.certificate)
        # Who makes it up can make up the digest of the run too; the ledger has another.
        ran = content_of(self._hashed(forged), restricted=forged.domain.restricted)
        entries = tuple(
            replace(one, digest=ran) if one.kind == RAN else one for one in forged.entries
        )
        forged = self._measured_on(ran, replace(forged, entries=entries))
        self.put(replace(forged, files=self._hashed(forged)))

    def _hashed(self, certificate: Certificate) -> dict[str, FileHash]:
        return {
            name: FileHash(file.path, sha256_of(self.folder / file.path))
            for name, file in certificate.files.items()
        }

    def _measured_on(self, run: str, forged: Certificate) -> Certificate:
        """Say that the errors were measured on a run, and make up their digest."""
        draws = list(forged.draws)
        at = next((n for n, one in enumerate(draws) if one.share == EVALUATION), None)
        if at is None or draws[at].call.lost or draws[at].call.subject == run:
            return forged
        call = replace(draws[at].call, subject=run)
        draws[at] = replace(draws[at], call=call)
        self.rewrite("errors.json", lambda errors: errors.update(call=call.to_dict()))
        means = means_in(json.loads((self.folder / "errors.json").read_text()))
        digest = outcome_digest(call, np.array(means))
        entries = tuple(
            replace(one, digest=digest or "")
            if (one.kind, one.share) == (STORED, EVALUATION)
            else one
            for one in forged.entries
        )
        return replace(forged, draws=tuple(draws), entries=entries)

    def ran(self) -> str:
        """Journal the run as its files have it, as the process that makes a run does."""
        files = released_files(transcript=self.folder / "transcript", model=self.folder / "model")
        release, *_ = self.ledger.reservations()
        hashes = {name: sha256_of(path) for name, path in files.items()}
        domain = Domain.load(self.folder / "domain.yaml")
        digest = "" if domain.restricted else run_files_digest(hashes)
        self.ledger.ran(release.release_id, digest)
        return digest

    def put(self, certificate: Certificate) -> None:
        """Put another certificate in place, with its page."""
        certificate.save(self.folder)
        page = self.folder / "certificate.html"
        # A certificate that no page can show keeps the page that is there.
        with suppress(Exception):
            if page.is_file():
                page.write_text(render_certificate(certificate))

    def sample_from(self, model: Model, transcript: Transcript) -> None:
        """Put the model in place, and the table that is sampled from it."""
        model.save(self.folder / "model")
        rng = sampling_generator(transcript)
        table = decode(sample_rows(model, transcript, rng), rng)
        (self.folder / "synthetic.csv").write_bytes(table_csv(table, model.domain, Dialect()))

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


def copied(folder: Path, tmp_path: Path) -> Released:
    """Copy a release, to be tampered with."""
    shutil.copytree(folder, tmp_path / "copy")
    return Released(tmp_path / "copy")


def fitted(made: Released, transcript: Transcript) -> FittedModel:
    """Fit a model to what a forged transcript says was measured, whatever its draws say."""
    given, domain = transcript.parameters, Domain.load(made.folder / "domain.yaml")
    settings = {name: given[name] for name in ("iterations", "tolerance")}
    estimator = make_estimator(given["estimator"], domain, transcript.records, **settings)
    for measurement in transcript.measurements:
        estimator.add(measurement)
    return estimator.model.recalibrated()


@pytest.fixture
def made(tmp_path: Path, release_folder: Path) -> Released:
    return copied(release_folder, tmp_path)


MWEM = ("--mechanism", "mwem_pgm")


def released(folder: Path, *options: str, granted: float = 1.0, **tables: str) -> Path:
    """Make a release in a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_tables()
        Ledger("ledger.db").grant("people", epsilon=granted, delta=1e-9, policy=PUBLIC_N)
        # A copy of the same bytes would be refused.
        pd.read_csv("priv.csv").to_csv("same.csv", index=False, quoting=csv.QUOTE_ALL)
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


@pytest.fixture(scope="session")
def private_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release all of whose rounds measured the private table."""
    for _ in range(9):
        folder = released(tmp_path_factory.mktemp("private"), *NOISY, *MWEM)
        rounds = Transcript.load(folder / "out" / "transcript").rounds
        # A test gives what was measured of one of these the name of the other.
        if any({"sex", "income"} & set(one.clique) for one in rounds):
            return folder
    raise AssertionError("no round of nine releases measured sex or income")


def certified_again(
    made: Released,
    was: Certificate | None = None,
    fitted: Model | None = None,
    public: MarginalSource | None = None,
    hashes: Mapping[str, str] | None = None,
    *,
    ran: bool = True,
) -> Certificate:
    """Issue the certificate of the files as they are, as a repeat of the release does."""
    was = was or made.certificate
    places = {name: made.folder / file.path for name, file in was.files.items()}
    evaluation = next((one.call for one in was.draws if one.share == EVALUATION), None)
    digest = made.ran() if ran else ""
    last = {(event.kind, event.share): event.seq for event in made.ledger.events()}
    measured = last.get((Kind.STORED, EVALUATION), 0)
    if evaluation is not None and last.get((Kind.RAN, ""), 0) > measured > 0:
        # The errors are of the run before, so a repeat does not know them.
        evaluation = replace(evaluation, subject=digest, scale=None, lost=True)
        for name in ("errors", "report"):
            places.pop(name, None)
    return certify(
        made.folder,
        places,
        MechanismResult(
            fitted or load_model(made.folder / "model"),
            Transcript.load(made.folder / "transcript"),
        ),
        ReleaseTerms(release_id=was.release_id, specification=was.specification, asked=was.asked),
        public=public,
        evaluation=evaluation,
        fresh=fitted is not None,
        made=hashes,
        ledger=made.ledger,
    )


def bend(made: Released, by: float) -> None:
    """Store a model that lies that far from the transcript's, and sample the table from it."""
    model = load_model(made.folder / "model")
    assert isinstance(model, FittedModel)
    uniform = FittedModel(
        model.domain, model.total, {q: np.zeros_like(one) for q, one in model.potentials.items()}
    )
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        bent = replace(
            model, potentials={q: (1 - middle) * one for q, one in model.potentials.items()}
        ).recalibrated()
        low, high = (middle, high) if bent.distance(model) < by else (low, middle)
    assert uniform.distance(model) > by
    made.sample_from(bent, Transcript.load(made.folder / "transcript"))
