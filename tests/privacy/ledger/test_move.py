"""A ledger that moves: all of it arrives, and at no instant can two places be written."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from jam_dagster.errors import BudgetError, LedgerIntegrityError
from jam_dagster.privacy import Budget, Kind, Ledger, Policy, ReleaseId
from jam_dagster.privacy.ledger import journal as ledger_journal
from jam_dagster.privacy.ledger import move as ledger_move
from jam_dagster.privacy.ledger.journal import (
    AccessKind,
    append,
    append_access,
    read_accesses,
    user,
)
from jam_dagster.privacy.ledger.release_id import id_fields
from tests.postgres import PostgresServer
from tests.privacy.conftest import audit_finds
from tests.tiers import gate, slow, slow_rows

SHARES = Budget(0.3, 1e-9).shares(evaluation=0.05)
RELEASE_ID = ReleaseId("people", "yearly", "d1gest", "2026")


@pytest.fixture
def places(request, tmp_path) -> tuple[str, str]:
    def place(name: str, backend: str) -> str:
        if backend == "file":
            return str(tmp_path / f"{name}.db")
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.create_database()

    origin, destination = getattr(request, "param", ("file", "file"))
    return place("origin", origin), place("destination", destination)


every_way = pytest.mark.parametrize(
    "places",
    [("file", "file"), *slow(("file", "server"), ("server", "file"), ("server", "server"))],
    indirect=True,
    ids="-".join,
)


@pytest.fixture
def ledger(places) -> Ledger:
    """A ledger with a release that goes on, another dataset, and attempts to open private data."""
    ledger = Ledger(places[0])
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy(period="month"), reason="policy")
    ledger.grant("firms", epsilon=0.1234567890123, delta=1e-7)
    release = ledger.open_release(RELEASE_ID, SHARES, run_id="run")
    release.account("mechanism").charge("round-000/select", 1e-4)
    with ledger._backend.writing() as connection:
        append_access(connection, AccessKind.ATTEMPTED, "people", release="yearly", attempt="a1")
    return ledger


def attempts(ledger: Ledger):
    with ledger._backend.reading() as connection:
        return read_accesses(connection)


def refuses_all_writing(ledger: Ledger, place: str) -> None:
    before = ledger.events(), attempts(ledger)
    release = ledger.reservation(RELEASE_ID)
    assert release is not None

    def attempt_access():
        with ledger._backend.writing() as connection:
            append_access(connection, AccessKind.ATTEMPTED, "people", attempt="a2")

    for write in (
        lambda: ledger.grant("people", epsilon=2.0, delta=1e-9),
        lambda: ledger.open_release(RELEASE_ID, SHARES),
        lambda: ledger.check(RELEASE_ID, SHARES),
        lambda: ledger.open_release(ReleaseId("people", "next", "x"), SHARES),
        ledger.check_writable,
        lambda: release.account("mechanism").charge("round-009/select", 1e-5),
        release.close,
        attempt_access,
    ):
        with pytest.raises(BudgetError, match="has moved to") as refused:
            write()
        assert place in str(refused.value)
    assert (ledger.events(), attempts(ledger)) == before


@every_way
def test_everything_arrives_and_the_origin_is_closed(ledger, places):
    there = Ledger(places[1])
    journal, tries = ledger.events(), attempts(ledger)
    balances = [ledger.balance(name) for name in ledger.datasets()]
    assert (ledger.moved_to, there.moved_to) == ("", "")

    proof = ledger.move(places[1], reason="a server for the team")

    moved = ledger.events()
    assert moved[:-1] == journal
    assert (moved[-1].kind, moved[-1].step) == (Kind.MOVED, there.location)
    assert (moved[-1].by, moved[-1].reason) == (user(), "a server for the team")
    arrived = there.events()
    assert arrived[:-1] == moved
    assert (arrived[-1].kind, arrived[-1].step) == (Kind.ARRIVED, there.location)
    assert attempts(there) == tries
    assert [there.balance(name) for name in there.datasets()] == balances
    assert proof == there.verify()
    assert proof.head == arrived[-1].hash
    assert ledger.verify().head == moved[-1].hash
    assert (ledger.moved_to, there.moved_to) == (there.location, "")
    refuses_all_writing(ledger, there.location)
    # What was reserved and charged goes on there.
    release = there.open_release(RELEASE_ID, SHARES)
    assert release.account("mechanism").charged("round-000/select") == pytest.approx(1e-4)
    release.account("mechanism").charge("round-000/measure", 1e-4)
    release.close("done")
    there.verify()


@pytest.mark.slow
def test_a_line_that_was_added_by_hand_does_not_open_it_again(ledger, places, monkeypatch):
    ledger.move(places[1], reason="a server for the team")
    with monkeypatch.context() as patched, ledger._backend.writing() as connection:
        patched.setattr(ledger_journal, "check_not_moved", lambda connection: None)
        append(connection, Kind.CERTIFIED, **id_fields(RELEASE_ID), digest="ab" * 32)
    refuses_all_writing(ledger, Ledger(places[1]).location)
    with pytest.raises(LedgerIntegrityError, match="was written after the ledger moved"):
        ledger.verify()


@every_way
def test_it_moves_back_into_what_it_left(ledger, places):
    ledger.move(places[1], reason="there")
    there = Ledger(places[1])
    release = there.open_release(RELEASE_ID, SHARES)
    release.account("mechanism").charge("round-000/measure", 1e-4)

    there.move(places[0], reason="and back")

    assert there.moved_to == ledger.location
    kinds = [event.kind.value for event in ledger.events()]
    assert [kinds.count(kind) for kind in ("moved", "arrived")] == [2, 2]
    refuses_all_writing(there, ledger.location)
    ledger.open_release(RELEASE_ID, SHARES).close("done")
    ledger.verify()
    # And once more, into what it left there.
    ledger.move(places[1], reason="there again")
    Ledger(places[1]).verify()


class Killed(BaseException):
    pass


@pytest.mark.slow
@every_way
@pytest.mark.parametrize("instant", [*gate("begun"), "copied", "closed", *gate("arrived", "done")])
def test_a_move_that_was_interrupted_goes_on(ledger, places, monkeypatch, instant):
    there = Ledger(places[1])

    def die(*_arguments, **_said):
        raise Killed

    def dying_append(connection, kind, *arguments, **said):
        if kind == Kind.ARRIVED and instant == "closed":
            raise Killed
        event = append(connection, kind, *arguments, **said)
        if kind == Kind.ARRIVED:
            raise Killed
        return event

    if instant == "begun":
        monkeypatch.setattr(ledger_move, "copy_rows", die)
    elif instant == "copied":
        monkeypatch.setattr(ledger._backend, "writing", _dying_at_its_end(ledger._backend.writing))
    elif instant == "done":
        monkeypatch.setattr(Ledger, "verify", _verify_dying_at(places[1], die))
    else:
        monkeypatch.setattr(ledger_move, "append", dying_append)
    with pytest.raises(Killed):
        ledger.move(places[1], reason="first")
    monkeypatch.undo()

    if instant == "begun":
        assert not there.datasets()
    elif instant == "copied":
        # The destination is closed before the origin is.
        refuses_all_writing(there, there.location)
    if instant in ("begun", "copied"):
        assert ledger.moved_to == ""
        journal = None
    else:
        assert ledger.moved_to == there.location
        refuses_all_writing(ledger, ledger.moved_to)
        if instant != "done":
            refuses_all_writing(there, there.location)
            third = Path(places[0] if "://" not in places[0] else "/tmp").parent / "third.db"
            with pytest.raises(BudgetError, match=r"has moved to .* already\. If that move was"):
                ledger.move(third)
        journal = ledger.events()
    ledger.move(places[1], reason="second")
    ledger.move(places[1], reason="third")
    assert journal in (None, ledger.events())
    journal = ledger.events()
    arrived = there.events()
    assert arrived[: len(journal)] == journal
    assert [event.kind for event in arrived[len(journal) :]] == [Kind.ARRIVED]
    assert [event.kind for event in journal].count(Kind.MOVED) == 1


def _dying_at_its_end(writing):
    @contextmanager
    def dying():
        with writing() as connection:
            yield connection
            raise Killed

    return dying


def _verify_dying_at(place, die):
    verify = Ledger.verify

    def dying(self):
        return die() if self.location == Ledger(place).location else verify(self)

    return dying


def test_another_destination_is_refused_and_not_made(ledger, places, tmp_path):
    ledger.move(places[1])
    third = tmp_path / "third.db"
    with pytest.raises(BudgetError, match=f"has moved to {places[1]} already"):
        ledger.move(third)
    assert not third.exists()


def test_a_variable_that_changes_is_another_destination(ledger, places, tmp_path, monkeypatch):
    """By its name alone an interrupted move could be finished elsewhere, and two would be live."""
    monkeypatch.setenv("NEW_LEDGER", places[1])
    ledger.move("${NEW_LEDGER}")
    assert ledger.moved_to == places[1]
    monkeypatch.setenv("NEW_LEDGER", str(tmp_path / "third.db"))
    with pytest.raises(BudgetError, match="already"):
        ledger.move("${NEW_LEDGER}")
    assert not (tmp_path / "third.db").exists()


def test_a_destination_that_holds_another_ledger(ledger, places):
    Ledger(places[1]).grant("martians", epsilon=1.0, delta=1e-9)
    before = ledger.events(), Ledger(places[1]).events()
    with pytest.raises(BudgetError, match="holds another ledger"):
        ledger.move(places[1])
    assert (ledger.events(), Ledger(places[1]).events()) == before
    ledger.open_release(RELEASE_ID, SHARES)


def test_attempts_of_another_ledger_are_not_overwritten(ledger, places):
    Ledger(places[1])._backend.create()
    with Ledger(places[1])._backend.writing() as connection:
        append_access(connection, AccessKind.ATTEMPTED, "martians", attempt="m1")
    with pytest.raises(BudgetError, match="holds another ledger"):
        ledger.move(places[1])
    assert ledger.moved_to == ""


@every_way
def test_a_place_by_another_name_is_the_same_ledger(ledger, places, monkeypatch, tmp_path):
    monkeypatch.setattr("jam_dagster.privacy.ledger.sqlite.CLAIM_SECONDS", 0.1)
    monkeypatch.setattr("jam_dagster.privacy.ledger.postgres.CLAIM_SECONDS", 0.1)
    other = f"{places[0]}&connect_timeout=5"
    if "://" not in places[0]:
        other = str(tmp_path / "link.db")
        Path(other).symlink_to(places[0])
    before = ledger.events()
    for name in (places[0], other):
        with pytest.raises(BudgetError, match="by another name"):
            ledger.move(name)
    assert ledger.events() == before
    ledger.open_release(RELEASE_ID, SHARES)


def test_an_older_copy_does_not_move_over_the_newer_one(ledger, places):
    shutil.copy(places[0], f"{places[0]}.backup")
    ledger.move(places[1])
    older = Ledger(f"{places[0]}.backup")
    before = older.events()
    with pytest.raises(BudgetError, match=r"has continued since .*older copy"):
        older.move(places[1])
    assert older.events() == before


def test_a_ledger_that_was_altered_does_not_move(ledger, places):
    with ledger._backend.writing() as connection:
        append(connection, Kind.GRANTED, "people", units=1, epsilon=1.0, delta=1e-9)
    with pytest.raises(LedgerIntegrityError, match="grants less"):
        ledger.move(places[1])
    assert ledger.moved_to == ""
    assert not Path(places[1]).exists()


def test_a_ledger_that_is_not_there(places):
    with pytest.raises(BudgetError, match="no ledger"):
        Ledger(places[0]).move(places[1])
    assert not Path(places[0]).exists()
    assert not Path(places[1]).exists()


def test_what_would_arrive_damaged_does_not(ledger, places, monkeypatch):
    honest = ledger_move.copy_rows
    monkeypatch.setattr(
        ledger_move, "copy_rows", lambda there, journal, tries: honest(there, journal, [])
    )
    with pytest.raises(LedgerIntegrityError, match="differs from the origin"):
        ledger.move(places[1])
    assert not Ledger(places[1]).datasets()
    monkeypatch.undo()
    ledger.move(places[1])
    assert len(attempts(Ledger(places[1]))) == 1


@pytest.mark.slow
def test_only_the_destination_writes_the_password(postgres, tmp_path):
    url = postgres.create_database().replace("tester@", "tester:hushhush@")
    ledger = Ledger(tmp_path / "l.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    ledger.move(url)
    assert "hushhush" not in f"{ledger.events()} {Ledger(url).events()} {ledger.moved_to}"
    with pytest.raises(BudgetError) as refused:
        ledger.open_release(RELEASE_ID, SHARES)
    assert "hushhush" not in str(refused.value)


@pytest.mark.parametrize(
    ("forged", "fault"),
    [
        ([(Kind.MOVED, {"dataset": ""})], "names a dataset, an amount or no place"),
        *slow_rows(
            ([(Kind.MOVED, {"dataset": "people", "step": "/b"})], "names a dataset, an amount")
        ),
        ([(Kind.ARRIVED, {"dataset": "", "step": "/b"})], "arrives without having moved there"),
        *slow_rows(
            (
                [
                    (Kind.MOVED, {"dataset": "", "step": "/b"}),
                    (Kind.ARRIVED, {"dataset": "", "step": "/c"}),
                ],
                "arrives without having moved there",
            ),
            (
                [
                    (Kind.MOVED, {"dataset": "", "step": "/b"}),
                    (Kind.GRANTED, {"dataset": "people", "units": 10**15}),
                ],
                "was written after the ledger moved to /b",
            ),
        ),
    ],
)
def test_the_audit_knows_the_rules(ledger, monkeypatch, forged, fault):
    # What writes refuses most of these by itself.
    monkeypatch.setattr("jam_dagster.privacy.ledger.journal.check_not_moved", lambda _: None)
    audit_finds(ledger, fault, *({"kind": kind, **said} for kind, said in forged))
