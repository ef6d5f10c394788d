"""`jam-dagster ledger`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from jam_dagster.privacy import Budget, Ledger, ReleaseId, Reservation
from tests.cli_bench import QUICK, Run, definition, lines, synthesize
from tests.tiers import slow

BUDGET = ("--epsilon", 1, "--delta", 1e-9)

# --- ledger


def test_a_ledger_is_granted_and_shown(run: Run) -> None:
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "a", "--epsilon", 2, "--delta", 1e-6)
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "b", "--epsilon", 1, "--delta", 1e-9)

    shown = json.loads(run("ledger", "show", "--ledger", "l.db", "--json").stdout)

    assert [d["dataset"] for d in shown["datasets"]] == ["a", "b"]
    (one,) = json.loads(
        run("ledger", "show", "--ledger", "l.db", "--dataset", "b", "--json").stdout
    )["datasets"]
    assert one["rho"]["granted"] == pytest.approx(0.0149730577, abs=1e-9)
    assert one["epsilon_at_delta"]["remaining"] == pytest.approx(1)
    table = run("ledger", "show", "--ledger", "l.db").stdout
    assert "0.01497" in table
    assert "granted" in table


def test_a_ledger_shows_what_a_release_spent(released: Run) -> None:
    result = released("ledger", "show", "--ledger", "ledger.db", "--last", "3")

    spent = Ledger("ledger.db").balance("people").spent
    assert f"{spent:.4g}" in result.stdout
    assert "The last 3 of" in result.stdout


@pytest.mark.parametrize("more", [*slow([]), ["other"]])
@pytest.mark.parametrize(
    "name", [*slow("a"), "a_dataset_of_fifty_five_letters_as_departments_name_them"]
)
def test_no_name_takes_a_column_away_and_draws_stay_in_one_piece(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, more: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ledger = Ledger("l.db")
    for dataset in (name, *more):
        ledger.grant(dataset, epsilon=1, delta=1e-9, reason="what the board allowed " * 2)
    release_id = ReleaseId(name, "a_release_with_a_name_that_takes_room", "x", "2026-01")
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    account.charge("round-012/measure-again", 0.001234)
    shown = run("ledger", "show", "--ledger", "l.db").stdout
    assert "0.001234" in shown
    assert "round-012/measure-again" in shown or len(name) > 1
    assert "…" not in shown
    tables = [line for line in shown.splitlines() if not line.startswith(name + " ")]
    assert max(map(len, tables)) <= 80


def test_grants_by_hand_are_ordered_and_shown(run: Run) -> None:
    granted = ("--ledger", "l.db", "--dataset", "people")
    run("ledger", "grant", *granted, *BUDGET)
    show = ("ledger", "show", "--ledger", "l.db")
    assert "no new dataset" not in run(*show).stdout
    without_reason = run("ledger", "by-hand", "--ledger", "l.db", "--reason", " ")
    assert "--reason must say why" in without_reason.stderr
    output = run("ledger", "by-hand", "--ledger", "l.db", "--reason", "all are granted").stderr
    assert "Definitions grant no new dataset in " in output
    assert "Definitions grant no new dataset: the officer does, by hand." in run(*show).stdout
    assert json.loads(run(*show, "--json").stdout)["by_hand"]
    Ledger("l.db").verify()


def test_a_release_is_refused_another_ledger_than_the_one_next_to_it(run: Run) -> None:
    file = definition()
    synthesize_it = ("synthesize", file, "--out", "out", *QUICK, "--no-report", "--ledger")
    adopted = run("ledger", "adopt", "--ledger", "ledger.db", "--reason", "ours", file)
    assert adopted.exit_code == 0, adopted.output
    assert "ledger.id names this ledger: commit it." in adopted.stderr
    # The same project on another machine: its ledger would be a new one, with a whole budget.
    refused = run(*synthesize_it, "fresh.db", "--dataset", "people")
    assert refused.exit_code == 2
    assert "which ledger.id next to its definition names" in refused.stderr
    assert "is not there, or empty. Only the former knows" in refused.stderr
    assert "jam-dagster ledger adopt --ledger" in refused.stderr
    assert not Path("fresh.db").exists()
    planned = run("plan", file, "--records", "200", "--quick", "--json", "--ledger", "fresh.db")
    outlook = json.loads(planned.stdout)["ledger"]
    assert not outlook["fits"]
    assert outlook["note"].startswith("The release is paid from the ledger")
    # Nor does a grant write over it.
    grant = ("ledger", "grant", "--ledger", "fresh.db", "--dataset", "people", *BUDGET)
    assert "names" in run(*grant, "--definition", file).stderr
    assert not Path("fresh.db").exists()
    run(*grant)
    before = Path("ledger.id").read_text()
    assert "is another one (" in run(*synthesize_it, "fresh.db").stderr
    assert Path("ledger.id").read_text() == before
    # Where it moves it is the same ledger.
    run("ledger", "move", "--ledger", "ledger.db", "--to", "moved.db", "--reason", "a new disk")
    assert run(*synthesize_it, "moved.db").exit_code == 0
    # The officer has the last word.
    why = ("--reason", "the old one burned")
    assert run("ledger", "adopt", "--ledger", "fresh.db", *why, file).exit_code == 0
    assert Path("ledger.id").read_text() != before
    assert "the old one burned" in run("ledger", "show", "--ledger", "fresh.db").stdout
    Ledger("fresh.db").verify()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("adopt", "--reason", "ours", "elsewhere"), "elsewhere is not there: name a release's"),
        (("adopt", "--reason", " ", "defs.yaml"), "--reason must say why"),
        (("grant", "--dataset", "a", *BUDGET, "--definition", "no.yaml"), "no.yaml is not there"),
    ],
)
def test_a_ledger_that_cannot_be_named_is_not_made(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    definition()
    refused = run("ledger", *arguments, "--ledger", "new.db")
    assert said in refused.stderr
    assert not Path("new.db").exists()


def test_a_grant_names_the_ledger_next_to_a_release(run: Run) -> None:
    file = definition()
    grant = ("ledger", "grant", "--ledger", "new.db", "--dataset", "people", *BUDGET)
    said = run(*grant, "--definition", file).stderr
    assert "ledger.id names this ledger: commit it." in said
    assert Path("ledger.id").read_text().splitlines()[-1] == Ledger("new.db").identity
    assert run(*grant, "--definition", file.parent).exit_code == 0


def test_a_renewing_budget_is_granted_and_shown(run: Run) -> None:
    budget = ("--ledger", "l.db", "--dataset", "a", "--epsilon", 1, "--delta", 1e-9)
    disjoint = ("--partitions", "disjoint", "--ground", "membership public and fixed")
    output = run("ledger", "grant", *budget, "--period", "month", *disjoint).stderr
    assert "each month, of which only the largest partition counts" in output
    release_id = ReleaseId("a", "first", "x", "east")
    share = 0.6 * Ledger("l.db").balance("a").granted
    Ledger("l.db").open_release(release_id, {"mechanism": share})

    (one,) = json.loads(run("ledger", "show", "--ledger", "l.db", "--json").stdout)["datasets"]

    assert one["policy"]["period"] == "month"
    assert one["period"] == Ledger("l.db").balance("a").period != "lifetime"
    # Another partition would be no larger than this one.
    assert one["rho_after_another_release"] == pytest.approx(2 / 3 * share)
    table = run("ledger", "show", "--ledger", "l.db").stdout
    assert "each month, of which only the largest partition counts" in table
    assert "was spent over its lifetime" in table
    # What is not named stays as it was granted.
    added = ("--epsilon", 1.5, "--reason", "a second year")
    assert run("ledger", "grant", *budget[:4], *added).exit_code == 0
    assert Ledger("l.db").balance("a").policy.partitions == "disjoint"
    assert run("ledger", "grant", *budget, "--partitions", "add", "--ground", "").exit_code == 0
    (one,) = json.loads(run("ledger", "show", "--ledger", "l.db", "--json").stdout)["datasets"]
    assert one["rho_after_another_release"] is None
    assert "too little" in run("ledger", "show", "--ledger", "l.db").stdout


def test_a_budget_is_raised_for_a_reason_alone(run: Run) -> None:
    people = ("ledger", "grant", "--ledger", "l.db", "--dataset", "people")
    assert "state --epsilon and --delta" in run(*people, "--epsilon", 2).stderr
    run(*people, "--epsilon", 2, "--delta", 1e-9, "--reason", "policy of 2026")
    before = Ledger("l.db").balance("people")
    for more in (("--epsilon", 3), ("--delta", 1e-8), ("--epsilon", 3, "--reason", " ")):
        refused = run(*people, *more)
        assert refused.exit_code == 2
        assert "say why it is raised by --reason" in refused.stderr
    assert Ledger("l.db").balance("people") == before
    # Parts that are not named stay, and less needs no reason.
    assert run(*people, "--approval", "required").exit_code == 0
    assert run(*people, "--epsilon", 3, "--reason", "board of 12 May").exit_code == 0
    assert run(*people, "--epsilon", 2.5).exit_code == 0
    refused = run(*people, "--approval", "none")
    assert refused.exit_code == 2
    assert "say why they need none from now on by --reason" in refused.stderr
    balance = Ledger("l.db").balance("people")
    assert (balance.epsilon, balance.granted_delta, balance.approval) == (2.5, 1e-9, "required")


def test_who_decided_what_when_and_why_is_shown(run: Run) -> None:
    people = ("ledger", "grant", "--ledger", "l.db", "--dataset", "people")
    run(*people, "--epsilon", 2, "--delta", 1e-9, "--reason", "policy of 2026")
    run(*people, "--epsilon", 3, "--reason", "board of 12 May")
    run(*people, "--approval", "required")
    ledger, first = Ledger("l.db"), ReleaseId("people", "first", "x")
    ledger.approve(first, reason="looked at it")
    reserved = ledger.open_release(first, {"mechanism": 0.001, "evaluation": 0.001}, run_id="run")
    with ledger.attempt(first):
        pass
    ledger.acknowledge("people", reason="a town was lacking")
    reserved.account("mechanism").close("mechanism ended")
    run(*CLOSE[:3], "l.db", *CLOSE[4:], "--release", "first", "--reason", "given up")
    shown = " ".join(run("ledger", "show", "--ledger", "l.db").stdout.split())
    (by,) = {event.by for event in Ledger("l.db").events()}
    decisions = shown[shown.index("Decisions") : shown.index("The last")]
    assert decisions.count(f" {by} ") == 6  # The run's own end is no decision.
    for part in ("granted epsilon 2", "raised to", "other terms", "approved", "no reason given"):
        assert part in decisions
    for part in ("approval required, before none", "attempts acknowledged", "people first: closed"):
        assert part in decisions
    for reason in ("policy of 2026", "board of 12 May", "looked at it", "a town was", "given up"):
        assert reason in decisions
    # They are shown without other events, too.
    assert "Decisions" in run("ledger", "show", "--ledger", "l.db", "--last", 0).stdout


def test_an_up_to_date_ledger_is_upgraded_for_nothing(run: Run) -> None:
    before = Ledger("ledger.db").events()
    result = run("ledger", "upgrade", "--ledger", "ledger.db")

    assert result.exit_code == 0
    assert "up to date" in result.stderr
    assert Ledger("ledger.db").events() == before


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_ledger_that_is_not_there_is_not_made(run: Run, command: str) -> None:
    result = run("ledger", command, "--ledger", "absent.db")

    assert result.exit_code == 2
    assert "jam-dagster ledger grant" in result.stderr
    assert not Path("absent.db").exists()


def test_a_ledger_is_verified(run: Run) -> None:
    result = run("ledger", "verify", "--ledger", "ledger.db")

    assert result.exit_code == 0
    assert result.stdout.strip() == Ledger("ledger.db").events()[-1].hash


def _opened(shares: Mapping[str, float] | None = None, **release_id: str) -> Reservation:
    given = {"release": "yearly", "specification": "3f9a", **release_id}
    shares = shares or Budget(0.3, 1e-9).shares(evaluation=0.05)
    return Ledger("ledger.db").open_release(ReleaseId("people", **given), shares)


def test_a_rebinding_of_no_partition_names_those_that_there_are(run: Run) -> None:
    rebind = (
        "ledger",
        "rebind",
        "--ledger",
        "ledger.db",
        "--dataset",
        "people",
        "--reason",
        "lost",
    )
    assert run(*rebind).stderr.rstrip().endswith("nothing is written.")
    for partition in ("2026-02", "2026-01"):
        _opened(partition=partition)
    assert "Name one of its partitions by --partition: 2026-01, 2026-02." in run(*rebind).stderr


CLOSE = ("ledger", "close", "--ledger", "ledger.db", "--dataset", "people")


def test_a_release_that_will_not_go_on_is_closed(run: Run) -> None:
    release = _opened(partition="2026", edition="2")
    release.account("mechanism").charge("round-000/select", 1e-4)
    before = Ledger("ledger.db").balance("people")

    result = run(
        *(*CLOSE, "--release", "yearly", "--partition", "2026", "--edition", "2"),
        *("--reason", "wrong public table"),
    )

    assert result.exit_code == 0, result.output
    assert release.closed
    after = Ledger("ledger.db").balance("people")
    assert (after.spent, after.reserved) == (pytest.approx(1e-4), 0)
    assert after.remaining_units == before.remaining_units + before.reserved_units
    assert Ledger("ledger.db").events()[-1].reason == "wrong public table"
    assert "returns to people" in result.stderr


@pytest.mark.slow
def test_closing_twice_returns_nothing(run: Run) -> None:
    _opened()
    run(*CLOSE, "--release", "yearly", "--reason", "no need")
    events = Ledger("ledger.db").events()

    result = run(*CLOSE, "--release", "yearly", "--reason", "no need")

    assert result.exit_code == 0
    assert "ended before" in result.stderr
    assert Ledger("ledger.db").events() == events


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--release", "monthly"), ["no such release", "'yearly', edition '1'", "Open:"]),
        (("--release", "yearly", "--edition", "2"), ["no such release", "edition '1'"]),
        (("--release", "yearly", "--partition", "2026"), ["no such release"]),
        (("--release", "yearly", "--specification", "b"), ["no such release"]),
        (("--release", "yearly"), ["--specification", "3f9a", "51c0"]),
        (("--release", "yearly", "--specification", "51", "--reason", " "), ["--reason"]),
        (("--release", "yearly", "--dataset", "martians"), ["martians", "ledger grant"]),
    ],
)
def test_what_is_not_one_open_release_is_not_closed(
    run: Run, given: tuple[str, ...], says: list[str]
) -> None:
    _opened().account("mechanism").charge("a", 1e-6)
    _opened(specification="51c0")
    _opened(release="finished").close("done")
    events = Ledger("ledger.db").events()

    result = run(*CLOSE, "--reason", "no need", *given)

    assert result.exit_code == 2
    (line,) = lines(result)
    assert all(part in line for part in says), line
    assert "finished" not in line
    assert Ledger("ledger.db").events() == events


def test_partitions_add_up_again_without_the_ground_of_disjoint_ones(run: Run) -> None:
    grant = ("ledger", "grant", "--ledger", "l.db", "--dataset", "a", *BUDGET)
    ground = ("--partitions", "disjoint", "--ground", "add/remove neighbours")
    assert run(*grant, *ground).exit_code == 0
    assert run(*grant, "--partitions", "add").exit_code == 0
    assert Ledger("l.db").balance("a").policy.ground == ""


def test_a_ledger_that_is_granted_by_hand_is_new_to_no_release(run: Run) -> None:
    """As it is where the first grant died before it was written."""
    ledger = Ledger("l.db")
    ledger._backend.create()
    ledger.grant_by_hand(reason="all are granted")
    refused = run(*synthesize("--ledger", "l.db", "--dataset", "new", "--epsilon", 1))
    assert refused.exit_code != 0
    assert "does not know the dataset 'new'" in refused.stderr
    assert ledger.datasets() == ()
