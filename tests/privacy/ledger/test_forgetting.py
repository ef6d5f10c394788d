"""A run that the ledger has forgotten, and entries that jam-dagster did not write."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest
import sqlalchemy as sa

from jam_dagster.errors import BudgetExceededError, LedgerIntegrityError, ReleaseClosedError
from jam_dagster.privacy import Kind, Ledger, ReleaseId, Reservation
from jam_dagster.privacy.ledger.journal import Event, _row, append, events, last_lines
from jam_dagster.privacy.ledger.release_id import id_fields
from jam_dagster.privacy.ledger.state import ReleaseState
from tests.privacy.ledger.test_state import DIGEST, Work, draw
from tests.tiers import slow

FORGOTTEN = "the ledger has forgotten"


@pytest.fixture
def release(either: Ledger, release_id: ReleaseId) -> Reservation:
    """A release of two draws of the three that it has reserved."""
    release = either.open_release(release_id, {"mechanism": 3e-6})
    for number in (1, 2):
        draw(release.account("mechanism"), number)
    return release


def edit_journal(url: str, statement: str) -> None:
    """Run a statement on the journal as its owner, whom no trigger stops for long."""
    if url.startswith("postgresql"):
        with psycopg.connect(url) as server:
            server.execute("ALTER TABLE jam_ledger.events DISABLE TRIGGER USER")
            server.execute("SET search_path TO jam_ledger")
            server.execute(statement.encode())
        return
    with closing(sqlite3.connect(url, isolation_level=None)) as file:
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in file.execute(triggers).fetchall():
            file.execute(f'DROP TRIGGER "{name}"')
        file.execute(statement)


def cut_off(url: str, after: int) -> None:
    edit_journal(url, f"DELETE FROM events WHERE seq > {after}")


def insert(ledger: Ledger, *drafts: Callable[[Event], Event]) -> None:
    """Append rows by hand, each made from the last one; no hash is a seal unless it is empty."""
    with ledger._backend.writing() as connection:
        *_, last = last_lines(connection)
        for draft in drafts:
            made = draft(replace(last, seq=last.seq + 1, previous=last.hash))
            last = made if made.hash else replace(made, hash=made.seal())
            connection.execute(sa.insert(events), _row(last))


# --- entries that were removed


def test_no_draw_is_paid_by_a_ledger_that_has_forgotten_one(
    each_url: str, release: Reservation, release_id: ReleaseId
) -> None:
    account = release.account("mechanism")
    # The second draw: its charge and its digest.
    cut_off(each_url, after=4)
    for write in (
        lambda: draw(account, 3),
        lambda: account.confirm("round-00002/measure", DIGEST),
        account.close,
        release.close,
        # What is there is shown, and the run goes on knowing what was there.
        lambda: account.spent == pytest.approx(1e-6) and draw(account, 3),
    ):
        with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
            write()
    ledger = Ledger(each_url)
    assert ledger.verify().events == 4
    # A run that begins knows of no other draw: what is stored is compared before it opens.
    draw(ledger.open_release(release_id, release.shares).account("mechanism"), 3)


def test_an_own_entry_is_remembered_before_it_is_read_again(
    each_url: str, release: Reservation, release_id: ReleaseId
) -> None:
    """An older copy that is put in place right after a charge lacks that one alone."""
    account = release.account("mechanism")
    account.charge("round-00003/measure", 1e-7)
    last = len(Ledger(each_url).events())
    for cut in (last - 1, last - 2):
        cut_off(each_url, after=cut)
        for write in (lambda: account.charge("round-00004/measure", 1e-7), account.close):
            with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
                write()
    assert len(Ledger(each_url).events()) == last - 2


def test_a_copy_without_the_last_digest_is_missed(each_url: str, release: Reservation) -> None:
    last = len(Ledger(each_url).events())
    cut_off(each_url, after=last - 1)
    with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
        release.account("mechanism").charge("round-00003/measure", 1e-7)


def test_a_digest_that_was_removed_is_missed(each_url: str, release: Reservation) -> None:
    account = release.account("mechanism")
    assert account.confirmed("round-00002/measure")
    edit_journal(each_url, "DELETE FROM events WHERE kind = 'stored' AND seq > 4")
    with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
        account.charge("round-00003/measure", 1e-7)


def test_a_process_whose_outcome_was_refused_draws_nothing_more(
    each_url: str, release: Reservation, release_id: ReleaseId
) -> None:
    account = release.account("mechanism")
    account.charge("round-00003/measure", 1e-7)
    with pytest.raises(LedgerIntegrityError, match="changed after it was drawn"):
        account.confirm("round-00002/measure", "0" * 64)
    with pytest.raises(LedgerIntegrityError, match="draws nothing more"):
        account.charge("round-00004/measure", 1e-7)
    again = Ledger(each_url).open_release(release_id, release.shares).account("mechanism")
    again.charge("round-00004/measure", 1e-7)


def test_an_end_that_was_removed_is_missed_too(each_url: str, release: Reservation) -> None:
    release.close()
    assert release.closed
    cut_off(each_url, after=6)
    with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
        release.account("mechanism").charge("a", 1e-7)


def test_a_run_goes_on_that_has_lost_nothing(
    each_url: str, release: Reservation, release_id: ReleaseId
) -> None:
    other = Ledger(each_url).open_release(replace(release_id, release="other"), {"mechanism": 1e-6})
    assert release.spent == pytest.approx(2e-6)
    cut_off(each_url, after=6)
    assert other.shares
    draw(release.account("mechanism"), 3)
    assert release.spent == pytest.approx(3e-6)
    Ledger(each_url).verify()


def test_a_reader_may_see_less_than_another_thread(
    release: Reservation, release_id: ReleaseId
) -> None:
    account = release.account("mechanism")
    with release.backend.reading() as connection:
        # The snapshot begins with the first statement.
        connection.execute(sa.select(sa.func.count()).select_from(events))
        other = threading.Thread(target=draw, args=(account, 3))
        other.start()
        other.join()
        with release._kept.through(connection, release_id) as view:
            assert len(view.share("mechanism").charges) == 2
    (kept,) = release._kept._views
    assert len(kept.share("mechanism").charges) == 2 + (kept.tail[-1].seq > 6)
    assert account.spent == pytest.approx(3e-6)
    with pytest.raises(BudgetExceededError):
        draw(account, 4)


@pytest.mark.parametrize("kept", [True, False])
def test_a_reservation_that_was_removed(each_url: str, release: Reservation, kept: bool) -> None:
    # Another process has a pickle, and read nothing before.
    release = release if kept else pickle.loads(pickle.dumps(release))
    account = release.account("mechanism")
    cut_off(each_url, after=1)
    for attempt in (
        lambda: draw(account, 3),
        lambda: account.confirm("round-00001/measure", DIGEST),
        lambda: account.charged("round-00001/measure"),
        lambda: account.spent,
        lambda: account.remaining,
        lambda: account.closed,
        account.close,
        lambda: release.spent,
        lambda: release.closed,
        release.close,
        lambda: account.publish_records(5),
    ):
        with pytest.raises(LedgerIntegrityError, match=FORGOTTEN):
            attempt()


# --- entries that were changed or added


@pytest.mark.parametrize("kept", [*slow(True), False])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param("units = 1 WHERE seq = 5", id="a charge made small"),
        pytest.param("kind = 'granted', units = 900000000 WHERE seq = 5", id="a grant"),
        pytest.param("step = 'other' WHERE seq = 6", id="the last one"),
    ],
)
def test_an_entry_that_was_changed_is_noticed_though_another_follows(
    each_url: str, release: Reservation, change: str, kept: bool
) -> None:
    release = release if kept else pickle.loads(pickle.dumps(release))
    edit_journal(each_url, f"UPDATE events SET {change}")
    for attempt in (
        lambda: draw(release.account("mechanism"), 3),
        lambda: Ledger(each_url).grant("others", epsilon=1.0, delta=1e-9),
    ):
        with pytest.raises(
            LedgerIntegrityError, match=r"line [56] of the table events was altered"
        ):
            attempt()
    assert len(Ledger(each_url).events()) == 6


def test_a_reservation_that_was_raised_pays_for_nothing(
    either: Ledger, each_url: str, release_id: ReleaseId
) -> None:
    account = either.open_release(release_id, {"mechanism": 1e-6}).account("mechanism")
    account.charge("a", 5e-7)
    edit_journal(each_url, "UPDATE events SET units = 900000000000000 WHERE kind = 'reserved'")
    with pytest.raises(LedgerIntegrityError, match="line 2 of the table events was altered"):
        account.charge("b", 0.5)


def test_a_row_without_a_seal_is_noticed_behind_rows_with_one(
    either: Ledger, release: Reservation
) -> None:
    account = release.account("mechanism")
    insert(
        either,
        lambda last: replace(last, kind=Kind.CHARGED, step="x", units=1, hash="e" * 64),
        lambda last: replace(last, kind=Kind.RAN, share="", step="", hash=""),
        lambda last: replace(last, kind=Kind.RAN, digest="cd" * 32, hash=""),
    )
    with pytest.raises(LedgerIntegrityError, match="line 7 of the table events was altered"):
        draw(account, 3)


def test_a_row_that_follows_no_other_is_noticed(either: Ledger, release: Reservation) -> None:
    account = release.account("mechanism")
    insert(
        either,
        lambda last: replace(last, seq=9, kind=Kind.RAN, share="", step="", hash=""),
        lambda last: replace(last, kind=Kind.RAN, digest="cd" * 32, hash=""),
    )
    with pytest.raises(LedgerIntegrityError, match=r"line 9 .* should be line 7: one is missing"):
        draw(account, 3)


def test_no_row_opens_a_charged_release_again(either: Ledger, release: Reservation) -> None:
    """Its seal is right: whoever may insert can compute it."""
    release_id = release.release_id
    with either._backend.writing() as connection:
        fields = {**id_fields(release_id), "share": "mechanism", "units": 2 * 10**9}
        append(connection, Kind.RESERVED, **fields, opening="2")
    for attempt in (
        lambda: draw(release.account("mechanism"), 3),
        lambda: either.reservation(release_id),
    ):
        with pytest.raises(LedgerIntegrityError, match=r"event 7 .* reopens a release"):
            attempt()


def event(kind: Kind, units: int = 0, *, opening: str = "", share: str = "mechanism") -> Event:
    return Event(1, "", kind, "people", share=share, units=units, opening=opening, step="a")


RESERVED = event(Kind.RESERVED, 5)
CLOSED = event(Kind.CLOSED)
AGAIN = event(Kind.RESERVED, 7, opening="2")


@pytest.mark.parametrize(
    ("journal", "fault"),
    [
        ([event(Kind.CHARGED, 5)], "about a share that was never reserved"),
        ([CLOSED, RESERVED], "about a share that was never reserved"),
        ([RESERVED, event(Kind.CHARGED, 1, share="x")], "about a share that was never reserved"),
        ([RESERVED, event(Kind.CHARGED, 1, opening="2")], "about a share that was never reserved"),
        ([RESERVED, CLOSED, AGAIN, CLOSED], "about a share that was never reserved"),
        ([RESERVED, AGAIN], "reopens a release that had not ended"),
        ([RESERVED, event(Kind.CHARGED, 1), CLOSED, AGAIN], "reopens .* had been charged"),
        ([RESERVED, RESERVED], "reserves the same share again"),
    ],
)
def test_events_that_the_ledger_never_writes(journal: list[Event], fault: str) -> None:
    with pytest.raises(LedgerIntegrityError, match=fault):
        ReleaseState(journal)


def test_a_release_that_ended_unspent_is_opened_again() -> None:
    state = ReleaseState([RESERVED, CLOSED, AGAIN])
    assert state.shares["mechanism"].left == 7
    assert not state.shares["mechanism"].closed


# --- releases that were opened again


def test_a_share_that_is_not_opened_again_has_ended(either: Ledger, release_id: ReleaseId) -> None:
    release = either.open_release(release_id, {"mechanism": 2e-6, "evaluation": 1e-6})
    account = release.account("evaluation")
    assert account.spent == 0.0
    either.open_release(release_id, release.shares).close()
    either.open_release(release_id, {"mechanism": 2e-6})
    for attempt in (
        lambda: draw(account, 1),
        lambda: account.confirm("round-00001/measure", DIGEST),
        lambda: account.spent,
        lambda: account.remaining,
        account.close,
    ):
        with pytest.raises(ReleaseClosedError, match="opened again without it"):
            attempt()
    draw(release.account("mechanism"), 1)
    either.verify()


def test_a_run_divides_one_amount_though_less_was_reserved_since(
    either: Ledger, release_id: ReleaseId
) -> None:
    account = either.open_release(release_id, {"mechanism": 3e-6}).account("mechanism")
    whole = account.reserved
    either.open_release(release_id, {"mechanism": 3e-6}).close()
    either.open_release(release_id, {"mechanism": 1e-6})
    with pytest.raises(BudgetExceededError):
        account.charge("a", 2e-6)
    account.charge("b", 5e-7)
    assert account.reserved == whole > 2e-6
    assert account.remaining == pytest.approx(5e-7)


def test_a_public_number_costs_the_same_whatever_was_drawn_before(
    ledger: Ledger, release_id: ReleaseId, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {}
    for draws in (2, 8):
        one = replace(release_id, release=f"{draws}")
        account = ledger.open_release(one, {"mechanism": 1e-4}).account("mechanism")
        for number in range(draws):
            draw(account, number)
        work = Work()
        with work.counting(monkeypatch):
            account.publish_records(500)
        made[draws] = work.events
    # The second one also reads the number of the first.
    assert made[8] <= made[2] + 1
