"""`jam-dagster certificate withdraw`: what verifies no longer, and what is not issued quietly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.privacy import Kind, Ledger
from tests.budgets import PUBLIC_N
from tests.cli_bench import NOISY, RELEASE, Run, lines, synthesize

WHY = "the public table was not public"
WITHDRAW = ("certificate", "withdraw", "out", "--ledger", "ledger.db", "--reason", WHY)


def test_a_withdrawn_certificate_fails_with_its_ledger_and_the_reason(released: Run) -> None:
    done = released(*WITHDRAW)

    assert done.exit_code == 0, done.output
    assert WHY in done.stderr
    event = Ledger("ledger.db").events()[-1]
    digest = Certificate.load(Path("out")).digest
    assert (event.kind, event.digest, event.reason) == (Kind.WITHDRAWN, digest, WHY)
    Ledger("ledger.db").verify()
    verified = released("certificate", "verify", "out", "--ledger", "ledger.db")
    assert verified.exit_code == 1
    assert f"FAIL  the withdrawals: It was withdrawn on {event.at[:10]}: {WHY}" in verified.stdout
    assert "not to be relied on" in verified.stdout
    # Whoever has no ledger cannot know.
    assert released("certificate", "verify", "out").exit_code == 0


@pytest.mark.slow
def test_a_release_made_again_says_that_it_was_withdrawn(released: Run) -> None:
    before = Certificate.load(Path("out")).digest
    released(*WITHDRAW)

    again = released(*synthesize(*RELEASE, *NOISY, "--json"))

    assert again.exit_code == 0, again.output
    assert WHY in again.stderr
    assert json.loads(again.stdout)["releasable"] is False
    certificate = Certificate.load(Path("out"))
    assert not certificate.releasable
    assert any(WHY in reason for reason in certificate.reasons)
    assert certificate.withdrawn is not None
    assert WHY in released("certificate", "show", "out").stdout
    assert WHY in Path("out/certificate.html").read_text()
    # It is the same certificate, of the same release: one withdrawal is enough.
    assert certificate.digest == before
    events = Ledger("ledger.db").events()
    assert released(*WITHDRAW).exit_code == 0
    assert Ledger("ledger.db").events() == events
    # Without the ledger it says by itself that it does not hold, and says so truly.
    verified = released("certificate", "verify", "out", "--json")
    assert json.loads(verified.stdout)["passed"] is True
    assert json.loads(verified.stdout)["releasable"] is False


@pytest.mark.slow
def test_a_withdrawal_cannot_be_taken_out_of_the_document(released: Run) -> None:
    released(*WITHDRAW)
    released(*synthesize(*RELEASE, *NOISY))
    document = json.loads(Path("out/certificate.json").read_text())
    del document["withdrawn"]
    Path("out/certificate.json").write_text(json.dumps(document))

    found = {one.name: one for one in verify(Path("out"), ledger=Ledger("ledger.db"))}

    assert not found["the certificate is whole"].passed
    assert not found["the withdrawals"].passed


@pytest.mark.slow
def test_what_cannot_be_withdrawn(released: Run) -> None:
    before = Ledger("ledger.db").events()
    assert "--reason" in lines(released(*WITHDRAW[:-1], " "))[0]
    Ledger("strange.db").grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    strange = released(*WITHDRAW, "--ledger", "strange.db")
    assert strange.exit_code == 2
    assert "name the ledger that was charged" in lines(strange)[0]
    made = released(*synthesize("--noise", "numpy", "--out", "research"))
    assert made.exit_code == 0, made.output
    research = released("certificate", "withdraw", "research", *WITHDRAW[3:])
    assert research.exit_code == 2
    assert "No ledger was charged" in lines(research)[0]
    assert Ledger("ledger.db").events() == before
