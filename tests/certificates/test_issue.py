"""Certificates of files as they lie there: which models are fitted again before one is issued."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jam_dagster.certificates import issue
from jam_dagster.certificates.refitting import Nearness, Refit
from jam_dagster.errors import InputError, LedgerIntegrityError
from jam_dagster.mechanisms import Model, load_model
from jam_dagster.privacy import Kind, Ledger
from tests.certificates.conftest import Released, bend, certified_again, copied
from tests.privacy.ledger.test_forgetting import edit_journal
from tests.tiers import slow


@pytest.fixture
def made(tmp_path: Path, private_folder: Path) -> Released:
    return copied(private_folder, tmp_path)


@pytest.mark.parametrize("planted", [False, True])
def test_a_model_that_is_almost_the_transcripts_is_not_certified(
    made: Released, planted: bool
) -> None:
    """Another machine could only tell that it is as close as rounding may bring it."""
    bend(made, 0.04)
    if planted:
        # As if another kernel had fitted it.
        other = {**made.certificate.made_with, "kernels": "of another machine"}
        made.forge(lambda it: replace(it, made_with=other))
        assert "the model, refitted" not in made.failed()
    made.ran()
    before = made.ledger.events()
    with pytest.raises(LedgerIntegrityError, match="stored model is not the one"):
        certified_again(made)
    assert made.ledger.events() == before
    if not planted:
        made.forge()
        # The errors follow from the table, which such a model rarely gives other rows.
        assert made.failed(ledger=False) - {"the errors"} == {"the model, refitted"}


def test_a_planted_certificate_over_a_domain_from_private_data_is_not_known(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger keeps no certificate of such a domain, so it cannot tell one from another."""
    bend(made, 0.04)
    made.ran()
    made.forge(lambda it: replace(it, domain=replace(it.domain, identified_from="private")))
    events = [one for one in made.ledger.events() if one.kind != Kind.CERTIFIED]
    monkeypatch.setattr(Ledger, "events", lambda *_: events)
    with pytest.raises(LedgerIntegrityError, match="stored model is not the one"):
        certified_again(made)


def test_a_model_that_was_fitted_here_is_certified_without_another_fit(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = load_model(made.folder / "model")
    was = made.certificate
    (made.folder / "certificate.json").unlink()
    monkeypatch.setattr(issue, "Refit", lambda *_: pytest.fail("it was fitted again"))
    assert certified_again(made, was, fitted=fitted).to_dict() == was.to_dict()
    bend(made, 0.04)
    with pytest.raises(LedgerIntegrityError, match="stored model is not the one"):
        certified_again(made, was, fitted=fitted)


def test_a_model_of_a_known_certificate_is_not_fitted_again(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issue, "Refit", lambda *_: pytest.fail("it was fitted again"))
    assert certified_again(made).to_dict() == made.certificate.to_dict()


def test_a_model_of_another_processor_is_certified_as_its_own(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of a release may run on several machines."""
    was = made.certificate
    (made.folder / "certificate.json").unlink()

    class Elsewhere(Refit):
        def closest(self, model: Model) -> Nearness:
            return Nearness(0.0, 0, "Nehalem")

    monkeypatch.setattr(issue, "Refit", Elsewhere)
    assert certified_again(made, was).made_with == {**was.made_with, "blas": "Nehalem"}


@pytest.mark.parametrize("name", ["synthetic.csv", "errors.json", "transcript", "model/model.json"])
def test_no_file_is_certified_through_a_link(made: Released, name: str) -> None:
    path = made.folder / name
    elsewhere = path.rename(made.home / "elsewhere")
    path.symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a link or a device"):
        certified_again(made)


def test_a_file_that_was_changed_since_it_was_made_is_not_certified(made: Released) -> None:
    before = made.ledger.events()
    hashes = {name: one.sha256 for name, one in made.certificate.files.items()}
    assert certified_again(made, hashes=hashes) == made.certificate
    made.rewrite("errors.json", lambda it: it.update(sample_equivalent=2_999_999))
    with pytest.raises(LedgerIntegrityError, match=r"errors\.json is not the file that was made"):
        certified_again(made, hashes=hashes)
    assert made.ledger.events() == before


@pytest.mark.parametrize(
    ("where", "missing"),
    [
        pytest.param("seq > 2", "the outcome of .*", id="an older copy"),
        pytest.param("kind = 'ran'", "the run", id="the end of the run"),
    ],
)
def test_a_ledger_that_was_restored_is_not_taken_for_a_changed_file(
    made: Released, where: str, missing: str
) -> None:
    was = made.certificate
    edit_journal(str(made.home / "ledger.db"), f"DELETE FROM events WHERE {where}")
    with pytest.raises(LedgerIntegrityError, match=f"no digest of {missing}: it is an older copy"):
        certified_again(made, was, ran=False)


@pytest.mark.parametrize("role", ["table", *slow("domain", "errors", "report.npz", "notes.txt")])
def test_no_file_of_the_models_folder_takes_the_place_of_another(made: Released, role: str) -> None:
    """A true copy there would be certified, and the file that readers open could be any."""
    copied = made.certificate.files.get(role, made.certificate.files["table"]).path
    planted = made.folder / "model" / role
    shutil.copy(made.folder / copied, planted)
    with pytest.raises(InputError, match="is no file of a model"):
        made.ran()
    assert "file: model" in made.failed()


def test_a_certificate_that_names_a_copy_in_the_models_folder_fails(made: Released) -> None:
    shutil.copy(made.folder / "synthetic.csv", made.folder / "model" / ".table")
    files = dict(made.certificate.files)
    files["table"] = replace(files["table"], path="model/.table")
    made.put(replace(made.certificate, files=files))
    assert "file: table" in made.failed(ledger=False)
