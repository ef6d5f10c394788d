"""`jam-dagster ledger approve`: the officer's part of a release that waits."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger
from tests.cli_bench import NOISY, RELEASE, Run, lines, synthesize

DIGEST = "3f" * 32
APPROVE = ("ledger", "approve", "--ledger", "ledger.db", "--dataset", "people")
PLAN = (
    *("plan", "--public", "pub.csv", "--domain", "domain.json", "--epsilon", "0.4"),
    *("--mechanism", "jam_pgm", "--setting", "rounds=2", "--setting", "iterations=20"),
    *("--degree", "2"),
    *("--records", "200", "--seeds", "1", "--epsilons", "0.4"),
)
ONE = ("--release", "out", "--specification", DIGEST, "--reason", "asked for")


def wait_for_approval(run: Run) -> None:
    budget = ("--dataset", "people", "--epsilon", 1, "--delta", 1e-9)
    shown = run("ledger", "grant", "--ledger", "ledger.db", *budget, "--approval", "required")
    assert shown.exit_code == 0, shown.output
    assert "Releases wait for approval." in shown.stderr


def test_a_release_waits_is_approved_by_the_line_it_shows_and_is_then_made(run: Run) -> None:
    wait_for_approval(run)
    Path("priv.csv").rename("hidden.csv")

    refused = run(*synthesize(*RELEASE, *NOISY))

    # The private table is not even looked for.
    assert refused.exit_code == 3, refused.output
    (line,) = lines(refused)
    assert "is not approved" in line
    assert not Path("out").exists()
    command = shlex.split(line.partition("approves it by: ")[2])
    planned = json.loads(run(*PLAN, "--json").stdout)
    assert planned["specification"] == command[command.index("--specification") + 1]

    approved = run(*command[1:])

    assert approved.exit_code == 0, approved.output
    assert planned["specification"] in approved.stderr
    assert "at most rho" in approved.stderr
    shown = run("ledger", "show", "--ledger", "ledger.db").stdout
    assert "Releases of people wait for approval." in shown
    assert "Approved and not reserved yet: release 'out', edition '1', of people, " in shown
    assert planned["specification"] in shown
    (dataset,) = json.loads(run("ledger", "show", "--ledger", "ledger.db", "--json").stdout)[
        "datasets"
    ]
    assert dataset["approval"] == "required"
    assert [one["release"] for one in dataset["approved"]] == ["out"]
    Path("hidden.csv").rename("priv.csv")
    made = run(*synthesize(*RELEASE, *NOISY))
    assert made.exit_code == 0, made.output
    assert "not reserved yet" not in run("ledger", "show", "--ledger", "ledger.db").stdout
    # It is free once more, and a certificate is as good as any.
    assert run(*synthesize(*RELEASE, *NOISY)).exit_code == 0
    verified = run("certificate", "verify", "out", "--ledger", "ledger.db")
    assert verified.exit_code == 0, verified.output


@pytest.mark.slow
def test_a_plan_says_that_the_release_waits(run: Run) -> None:
    wait_for_approval(run)

    shown = run(*PLAN, "--ledger", "ledger.db", "--dataset", "people")

    assert shown.exit_code == 0, shown.output
    assert "Specification" in shown.stdout
    assert "wait for approval" in shown.stdout


@pytest.mark.slow
def test_an_approval_is_taken_back(run: Run) -> None:
    wait_for_approval(run)
    assert run(*APPROVE, *ONE).exit_code == 0

    shown = run(*APPROVE, *ONE, "--withdraw")

    assert shown.exit_code == 0, shown.output
    assert (
        f"No longer approved: release 'out', edition '1', of people, specification {DIGEST}."
        in (shown.stderr)
    )
    assert Ledger("ledger.db").approved("people") == ()
    assert run(*APPROVE, *ONE, "--withdraw").exit_code == 2


@pytest.mark.slow
def test_all_partitions_are_approved_at_once(run: Run) -> None:
    wait_for_approval(run)

    shown = run(*APPROVE, *ONE, "--all-partitions", "--epsilon", "0.2")

    assert "all partitions, edition '1'" in shown.stderr
    assert "at most rho" in shown.stderr
    assert "all partitions" in run("ledger", "show", "--ledger", "ledger.db").stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--specification", DIGEST[:12]), "64 hexadecimal digits"),
        (("--reason", " "), "--reason must say why"),
        (("--partition", "p", "--all-partitions"), "not both"),
        (("--withdraw", "--epsilon", "1"), "drop --epsilon"),
        (("--epsilon", "-1"), "epsilon must be"),
        (("--dataset", "martians"), "has no budget"),
    ],
)
def test_what_is_not_one_approval_is_refused(run: Run, given: tuple[str, ...], says: str) -> None:
    wait_for_approval(run)
    before = Ledger("ledger.db").events()

    result = run(*APPROVE, *ONE, *given)

    assert result.exit_code == 2
    assert says in lines(result)[-1]
    assert Ledger("ledger.db").events() == before
