"""The digest that names a certificate: it stays while the ledger goes on, and covers the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jam_dagster.certificates import Certificate, issue
from jam_dagster.certificates.certificate import digest_of
from jam_dagster.certificates.facts import FileHash, Standing
from jam_dagster.privacy import Policy
from tests.budgets import FIXED
from tests.certificates.conftest import Released
from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize


@pytest.mark.slow
def test_a_certificate_made_again_after_others_have_spent_is_the_same(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's head and balance in it are those of the time when it was issued."""
    before = (made.folder / "certificate.json").read_bytes()
    made.move_in(monkeypatch)
    made.ledger.grant("people", epsilon=9.0, delta=1e-9, policy=Policy(period="year", **FIXED))
    for options in (("--out", "other"), ()):
        again = run_cli(*synthesize(*RELEASE, *NOISY, *options))
        assert again.exit_code == 0, again.output
    assert (made.folder / "certificate.json").read_bytes() == before
    assert made.failed() == set()


def test_the_digest_does_not_depend_on_where_the_ledger_stands(made: Released) -> None:
    honest = made.certificate
    assert honest.standing is not None
    # A budget that renews puts the lifetime's spending into the guarantee's words.
    policy = {"period": "year", "partitions": "add", "ground": "", "records": "private"}
    totals = {**honest.standing.totals, "policy": policy, "lifetime_spent_units": 10**12}
    later = replace(honest, standing=Standing(99, "0" * 64, totals))
    assert later.to_dict()["privacy"]["guarantee"] != honest.to_dict()["privacy"]["guarantee"]
    assert later.digest == honest.digest == digest_of(made.document())


def test_the_digest_covers_what_is_said_of_the_release(made: Released) -> None:
    honest = made.certificate
    changed = [
        replace(honest, made_with={**honest.made_with, "numpy": "0"}),
        replace(honest, made="2020-01-01T00:00:00+00:00"),
        replace(honest, records=honest.records + 1),
        replace(honest, source_restriction="it may not leave"),
        replace(honest, draws=honest.draws[:-1]),
        replace(honest, files={**honest.files, "table": FileHash("table.csv", "0" * 64)}),
    ]
    assert len({one.digest for one in (honest, *changed)}) == len(changed) + 1


def test_a_digest_is_of_the_document_as_it_is_read_again(made: Released) -> None:
    assert Certificate.from_dict(made.document()).digest == made.certificate.digest


@pytest.mark.slow
def test_a_repeat_says_what_made_the_model_that_it_keeps(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a model of another processor fails where it is repeated here."""
    made.move_in(monkeypatch)
    first = made.certificate
    elsewhere = {**first.made_with, "blas": "Other", "jam_dagster": "0.0.1"}
    monkeypatch.setattr(issue, "environment", lambda: elsewhere)
    again = run_cli(*synthesize(*RELEASE, *NOISY))
    assert again.exit_code == 0, again.output
    assert made.certificate.made_with == first.made_with
    assert made.certificate.digest == first.digest


def test_a_repeat_believes_no_certificate_that_the_ledger_does_not_know(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a forged one could have a changed model compared with the wider tolerance."""
    made.move_in(monkeypatch)
    here = made.certificate.made_with
    made.forge(lambda it: replace(it, made_with={**it.made_with, "blas": "Other"}))
    assert run_cli(*synthesize(*RELEASE, *NOISY)).exit_code == 0
    assert made.certificate.made_with == here
