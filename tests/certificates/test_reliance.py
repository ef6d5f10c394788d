"""Whether a later release may rely on a release: its model and what it measured of public data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.certificates import released_files, reliance
from jam_dagster.certificates.issue import run_files_digest, sha256_of
from jam_dagster.certificates.refitting import Refit
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import Measurement, Transcript, load_model, replay
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.tables import Domain, EncodedTable
from tests.budgets import PUBLIC_N
from tests.certificates.conftest import Released, copied, fitted

ANOTHER_MODEL = "its model is not the one that its transcript gives on this machine"


@pytest.fixture
def made(tmp_path: Path, public_folder: Path) -> Released:
    return copied(public_folder, tmp_path)


def faults(made: Released, specification: Mapping[str, Any] | None = None) -> list[str]:
    transcript, model = made.folder / "transcript", made.folder / "model"
    domain = Domain.load(made.folder / "domain.yaml")
    release, *_ = made.ledger.reservations()
    made.ran()
    return list(
        reliance.reliance_faults(
            made.ledger,
            release.release_id,
            Transcript.load(transcript),
            load_model(model),
            EncodedTable.from_frame(domain, pd.read_csv(made.home / "same.csv")),
            specification=specified(made) if specification is None else specification,
            content=run_files_digest(
                {
                    name: sha256_of(path)
                    for name, path in released_files(transcript=transcript, model=model).items()
                }
            ),
            certificate=made.folder,
        )
    )


def specified(made: Released) -> dict[str, Any]:
    """The specification, as it is kept with the draws."""
    described: dict[str, Any] = json.loads((made.folder / "release.json").read_text())
    return dict(described["specification"])


def put(made: Released, source: str, *, transcript: bool) -> None:
    """Change what was measured of one side, and the model with it."""

    def more(measured: Measurement) -> Measurement:
        values = measured.values.copy()
        # In one cell: the same in all of them would leave the model as it is.
        values.flat[0] += 25 * (measured.source == source)
        return replace(measured, values=values)

    genuine = Transcript.load(made.folder / "transcript")
    rounds = tuple(
        one if one.measurement is None else replace(one, measurement=more(one.measurement))
        for one in genuine.rounds
    )
    forged = replace(genuine, rounds=rounds)
    fitted(made, forged).save(made.folder / "model")
    if transcript:
        forged.save(made.folder / "transcript")


def test_a_model_is_fitted_again_unless_the_ledger_has_its_certificate(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted: list[Transcript] = []

    def counted(transcript: Transcript, *rest: object) -> Refit:
        fitted.append(transcript)
        return Refit(transcript, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(reliance, "Refit", counted)
    assert (faults(made), fitted) == ([], [])
    made.put(replace(made.certificate, records=made.certificate.records + 1))
    assert (faults(made), len(fitted)) == ([], 1)
    (made.folder / "certificate.json").unlink()
    assert (faults(made), len(fitted)) == ([], 2)


def test_another_model_beside_a_genuine_transcript(made: Released) -> None:
    put(made, "public", transcript=False)
    assert faults(made) == [ANOTHER_MODEL]
    # Nor does a certificate help that somebody made to fit.
    made.forge()
    assert faults(made) == [ANOTHER_MODEL]


def test_an_older_edition_than_the_last_that_ended(made: Released) -> None:
    """Whoever can write among the releases can put it back in place of the last one."""
    (release,) = made.ledger.reservations()
    # The release may have spent all that was granted.
    made.ledger.grant("people", epsilon=30.0, delta=1e-9, policy=PUBLIC_N)
    second = replace(release.release_id, edition="2")
    made.ledger.open_release(second, {"mechanism": 0.001})
    # It was reserved, and nothing of it is anywhere.
    assert faults(made) == []
    made.ledger.ran(second, "0" * 64)
    assert faults(made) == ["it is edition 1, and edition 2 was drawn later"]
    elsewhere = replace(second, partition="2026-01", edition="3")
    made.ledger.open_release(elsewhere, {"mechanism": 0.001})
    made.ledger.ran(elsewhere, "0" * 64)
    assert faults(made) == ["it is edition 1, and edition 2 was drawn later"]
    # The older one stands alone again.
    made.ledger.withdraw(second, "0" * 64, reason="a wrong public table")
    assert faults(made) == []


def test_public_measurements_that_the_public_table_does_not_have(made: Released) -> None:
    put(made, "public", transcript=True)
    (fault,) = faults(made)
    assert fault.endswith("/take records other counts than the public table has")


def test_a_model_whose_mechanism_is_gone(made: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(name: str) -> None:
        raise SpecificationError(f"no mechanism {name}")

    monkeypatch.setattr(replay, "mechanism_class", gone)
    (made.folder / "certificate.json").unlink()
    assert faults(made) == ["its model cannot be fitted again (no mechanism jam_pgm)"]


def test_settings_that_the_release_was_not_reserved_with(made: Released) -> None:
    """The fit follows from them, and the ledger has no digest of the transcript."""
    made.rewrite("transcript/transcript.json", lambda it: it["parameters"].update(iterations=7))
    transcript = Transcript.load(made.folder / "transcript")
    fitted(made, transcript).save(made.folder / "model")
    assert faults(made) == ["it has other settings than its specification"]
    said = specified(made)
    invented = {**said, "mechanism": {**said["mechanism"], "iterations": 7}}
    assert faults(made, invented) == ["the specification stored with its draws is another"]
    assert faults(made, {}) == ["the specification stored with its draws is another"]


def test_rounds_of_a_release_that_no_draw_was_made_for(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that reads a public number alone is never charged, and measures nothing."""
    made.rewrite("transcript/transcript.json", lambda it: it.update(calls=[]))
    events = [one for one in made.ledger.events() if one.kind is not Kind.CHARGED]
    monkeypatch.setattr(Ledger, "events", lambda *_: events)
    assert any(fault.startswith("round 1 records ") for fault in faults(made))
