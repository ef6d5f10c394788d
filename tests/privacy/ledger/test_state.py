"""The state of a release, continued by new entries: as if read anew, at a fixed cost."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from jam_dagster.errors import (
    BudgetError,
    ChargedBeforeError,
    LedgerIntegrityError,
    ReleaseClosedError,
)
from jam_dagster.privacy import Ledger, ReleaseId, Reservation
from jam_dagster.privacy.ledger.journal import Event
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from jam_dagster.privacy.ledger.state import ReleaseView, release_state
from tests.tiers import slow

DIGEST = "ab" * 32


class Work:
    """What a ledger does: the steps of SQLite's machine, and the events that Python makes."""

    def __init__(self) -> None:
        self.steps = self.events = 0

    @contextmanager
    def counting(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        connect, prepare = sqlite3.connect, Event.__init__

        def step() -> int:
            self.steps += 1
            return 0

        def opened(*args: object, **options: object) -> sqlite3.Connection:
            connection = connect(*args, **options)
            connection.set_progress_handler(step, 1)
            return connection

        def made(event: Event, *args: object, **fields: object) -> None:
            self.events += 1
            prepare(event, *args, **fields)

        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", opened)
            patched.setattr(Event, "__init__", made)
            yield


def draw(account: LedgerAccount, number: int) -> None:
    step = f"round-{number:05d}/measure"
    account.charge(step, 1e-6)
    account.confirm(step, DIGEST)


def repeat(account: LedgerAccount, number: int) -> None:
    step = f"round-{number:05d}/measure"
    assert account.confirmed(step)
    assert account.charged(step) is not None
    account.confirm(step, DIGEST)


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that do not wait for the disk."""
    connect = sqlite3.connect

    class Careless(sqlite3.Connection):
        def execute(self, statement: str, *args: object) -> sqlite3.Cursor:
            return super().execute(statement.replace("= FULL", "= OFF"), *args)

    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **given: connect(*args, **given, factory=Careless)
    )


@pytest.mark.usefixtures("unsafe")
@pytest.mark.parametrize("one", [draw, *slow(repeat)])
def test_a_draw_costs_the_same_whatever_was_drawn_before(
    ledger: Ledger,
    release_id: ReleaseId,
    monkeypatch: pytest.MonkeyPatch,
    one: Callable[[LedgerAccount, int], None],
) -> None:
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    works = {}
    for number in range(40):
        if one is repeat:
            draw(account, number)
        if number in (9, 39):
            works[number] = work = Work()
            with work.counting(monkeypatch):
                one(account, number)
        elif one is draw:
            draw(account, number)
    assert works[9].events == works[39].events
    # A tree that is deeper by a page takes no step more.
    assert works[9].steps == works[39].steps > 0


@pytest.mark.usefixtures("unsafe")
def test_the_state_that_is_kept_is_the_one_that_is_read_anew(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    """Another process draws, closes, reopens; other releases write; older copies are put back.

    A run ends once an older copy has forgotten what it had read; another one begins.
    """
    assert ledger.file is not None
    random, names = Random(0), ("mechanism", "evaluation")
    shares = dict.fromkeys(names, 0.001)
    kept, copies, number = ledger.open_release(release_id, shares), [ledger.file.read_bytes()], 0
    ended = 0

    def act(release: Reservation) -> None:
        nonlocal number
        number += 1
        account = release.account(random.choice(names))
        match random.choice(("draw", "draw", "draw", "other", "close", "copy", "restore")):
            case "draw":
                draw(account, number)
            case "other":
                other = ReleaseId("people", f"other {number}", "d1gest")
                ledger.open_release(other, {"mechanism": 1e-5}).close()
            case "close" if random.random() < 0.3:
                account.close()
            case "copy":
                copies.append(ledger.file.read_bytes())
            case "restore":
                ledger.file.write_bytes(random.choice(copies))

    for _ in range(50):
        try:
            act(random.choice((kept, Ledger(ledger.place).open_release(release_id, shares))))
        except ReleaseClosedError:
            ledger.file.write_bytes(copies[0])
        except LedgerIntegrityError:
            (read,) = kept._kept._views
            with kept.backend.reading() as connection:
                now = ReleaseView(connection, release_id)
            assert not now.includes(read)
            kept, ended = ledger.open_release(release_id, shares), ended + 1
        with kept._reading() as view, kept.backend.reading() as connection:
            assert view.shares == release_state(connection, release_id).shares
    assert ended > 2
    ledger.verify()


def test_an_older_copy_that_is_put_back_in_place_ends_the_run(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    assert ledger.file is not None
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    draw(account, 1)
    older = ledger.file.read_bytes()
    draw(account, 2)
    newest = ledger.file.read_bytes()
    # What the process wrote is what it has read, too: it remembers an own entry in another way.
    assert account.charged("round-00002/measure") is not None
    with ledger.claim(release_id):
        ledger.file.write_bytes(older)
        # As many entries as before, but for their content.
        again = Ledger(ledger.place).reservation(release_id)
        assert again is not None
        draw(again.account("mechanism"), 3)
        assert account.charged("round-00002/measure") is None
        with pytest.raises(LedgerIntegrityError, match="has forgotten entries"):
            account.confirm("round-00002/measure", DIGEST)
        with pytest.raises(LedgerIntegrityError, match="has forgotten entries"):
            account.charge("round-00004/measure", 1e-6)
        # The newest copy is restored, as the message says.
        ledger.file.write_bytes(newest)
        with pytest.raises(LedgerIntegrityError, match="run the release again, which resumes it"):
            account.charge("round-00004/measure", 1e-6)
        resumed = Ledger(ledger.place).reservation(release_id)
        assert resumed is not None
        draw(resumed.account("mechanism"), 4)
    ledger.verify()


def test_a_move_between_two_draws_is_noticed(
    ledger: Ledger, release_id: ReleaseId, tmp_path: Path
) -> None:
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    draw(account, 1)
    Ledger(ledger.place).move(tmp_path / "moved.db")
    with pytest.raises(BudgetError, match="has moved to"):
        draw(account, 2)
    with pytest.raises(BudgetError, match="has moved to"):
        account.charge("round-00003/measure", 1e-6)
    Ledger(tmp_path / "moved.db").move(ledger.place)
    draw(account, 2)


@pytest.mark.usefixtures("unsafe")
def test_threads_that_share_an_account_pay_for_each_draw_once(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    release = ledger.open_release(release_id, {"mechanism": 60e-6})
    account = release.account("mechanism")

    def pay(number: int) -> bool:
        # Each draw is asked for twice, and read by another thread meanwhile.
        try:
            draw(account, number // 2)
        except ChargedBeforeError:
            return False
        return account.charged(f"round-{number // 2:05d}/measure") is not None

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(pay, range(40))) == 20
    assert account.spent == pytest.approx(20e-6)
    ledger.verify()


def test_a_pickle_holds_no_state(ledger: Ledger, release_id: ReleaseId) -> None:
    release = ledger.open_release(release_id, {"mechanism": 0.01})
    before = pickle.dumps(release)
    for number in range(3):
        draw(release.account("mechanism"), number)
    assert pickle.dumps(release) == before
    assert pickle.loads(before).spent == release.spent > 0
