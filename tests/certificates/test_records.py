"""The number of records of a release is the one that the ledger has, or the outcome of a draw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jam_dagster.certificates.facts import COUNTED, Entry
from jam_dagster.certificates.outcome_faults import compare_outcomes
from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.mechanisms import Transcript
from jam_dagster.mechanisms.loops.transcript import measurements_hash
from jam_dagster.privacy import Neighbours
from tests.certificates.conftest import Released, certified_again, copied, fitted
from tests.certificates.test_verification import ISSUED

WORDS = "the number of records is not the one that the ledger has"


@pytest.fixture
def made(tmp_path: Path, private_folder: Path) -> Released:
    return copied(private_folder, tmp_path)


def with_records(made: Released, records: int) -> Transcript:
    """Say that the private table had another number of records, and make all else follow."""
    transcript = replace(Transcript.load(made.folder / "transcript"), records=records)
    transcript.save(made.folder / "transcript")
    made.sample_from(fitted(made, transcript), transcript)
    return transcript


def test_another_number_of_records_is_not_certified(made: Released) -> None:
    with_records(made, 20)
    with pytest.raises(LedgerIntegrityError, match=WORDS):
        certified_again(made)


def test_another_number_of_records_does_not_verify(made: Released) -> None:
    transcript = with_records(made, 20)
    measured = measurements_hash(transcript).hexdigest()
    made.forge(
        lambda it: replace(
            it,
            records=20,
            sampling=replace(it.sampling, rows=20, measurements=measured, seed=measured[:32]),
        )
    )
    assert {"the outcomes", ISSUED} <= made.failed()
    assert "the outcomes" in made.failed(ledger=False)


def test_a_count_that_was_invented_too_is_not_the_ledgers(made: Released) -> None:
    certificate = made.certificate
    entries = tuple(
        replace(one, records="20") if one.kind == COUNTED else one for one in certificate.entries
    )
    made.forge(lambda it: replace(it, entries=entries))
    assert {"the ledger", "the outcomes"} <= made.failed()


def test_a_private_number_of_records_is_the_outcome_of_a_draw(made: Released) -> None:
    certificate = made.certificate
    transcript = Transcript.load(made.folder / "transcript")
    entries = certificate.entries
    assert [one.records for one in entries if one.kind == COUNTED] == [str(transcript.records)]

    def faults(of: Transcript, listed: tuple[Entry, ...] = entries) -> list[str]:
        return list(compare_outcomes(certificate.draws, listed, of, None, "").faults)

    hidden = replace(transcript, neighbours=Neighbours("add_remove"))
    uncounted = tuple(one for one in entries if one.kind != COUNTED)
    assert "the ledger has a public number of records, and the release protects it" in faults(
        hidden
    )
    assert "the number of records is the outcome of no draw" in faults(hidden, uncounted)
    assert any(WORDS in one for one in faults(transcript, uncounted))
