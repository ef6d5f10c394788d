"""Attempts to open private data: counted until they end well, refused after a few."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jam_dagster.errors import AttemptsError, BudgetError, LedgerIntegrityError, SpecificationError
from jam_dagster.privacy import Budget, Ledger, Policy, ReleaseId
from jam_dagster.privacy.ledger.journal import Access, AccessKind, append_access, user
from tests.budgets import PUBLIC_N
from tests.examples import examples
from tests.privacy.conftest import Clock, slice_of
from tests.tiers import slow_rows


class BadEndingError(Exception):
    pass


def fail(ledger: Ledger, release_id: ReleaseId, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(BadEndingError), ledger.attempt(release_id, run_id="run"):
            raise BadEndingError


@contextmanager
def paid(ledger: Ledger, release_id: ReleaseId, *, run_id: str = "") -> Iterator[str]:
    """Open the private data of a release and pay, so that it ends well."""
    with ledger.attempt(release_id, run_id=run_id) as name:
        yield name
        account = ledger.open_release(release_id, {"mechanism": 1e-3}).account("mechanism")
        account.charge(name, 1e-6)


def test_an_attempt_is_there_before_the_data_are_opened_and_ends_with_them(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    with paid(ledger, release_id, run_id="run-1") as name:
        (one,) = ledger.open_attempts("people")
        assert (one.kind, one.attempt, one.run_id, one.by) == ("attempted", name, "run-1", user())
        assert (one.release, one.partition, one.edition) == ("yearly", "", "1")
    assert ledger.open_attempts("people") == []
    with paid(ledger, release_id) as other:
        assert other != name
    verified = ledger.verify().accesses
    assert verified is not None
    assert (verified.lines, verified.attempts, verified.not_ended) == (4, 2, 0)


def test_an_opening_that_pays_nothing_counts(either: Ledger, release_id: ReleaseId) -> None:
    """That the table could be opened is an answer."""
    either.grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    release = either.open_release(
        release_id, Budget(0.5, 1e-9).shares(evaluation=0.05), source=slice_of("people", "")
    )
    account = release.account("mechanism")
    with either.attempt(release_id):
        pass
    assert len(either.open_attempts("people")) == 1
    either.acknowledge("people", reason="nobody asked anything")
    for step in ("first", "second"):
        with either.attempt(release_id):
            account.charge(step, 1e-4)
    assert either.open_attempts("people") == []
    with either.attempt(release_id):
        # Neither a digest nor an end pays for anything.
        account.confirm("first", "ab" * 32)
        release.close("done")
    assert len(either.open_attempts("people")) == 1
    other = ReleaseId("people", "counted", "d1gest")
    either.open_release(other, {"mechanism": 1e-3}, source=slice_of("people", ""))
    for counts in (1, 2):
        with either.attempt(other):
            counting = either.reservation(other)
            assert counting is not None
            counting.account("mechanism").publish_records(500)
        assert len(either.open_attempts("people")) == counts
    either.verify()


def test_failures_close_the_dataset_until_they_are_acknowledged(
    either: Ledger, release_id: ReleaseId
) -> None:
    ledger = either
    for _ in range(4):
        with paid(ledger, release_id):
            pass
    before = ledger.events(), ledger.verify().head
    fail(ledger, release_id, times=3)
    other = ReleaseId("people", "another", "f00", partition="2026", edition="7")
    with pytest.raises(AttemptsError) as refused, ledger.attempt(other):
        raise AssertionError
    said = str(refused.value)
    assert "'people'" in said
    assert f"ledger acknowledge --ledger {quote(ledger.location)} --dataset people --reason" in said
    assert "running attempt counts" in said
    # Refused attempts are none.
    assert len(ledger.open_attempts("people")) == 3
    assert ledger.acknowledge("people", reason="a typo in the domain") == 3
    assert ledger.acknowledge("people", reason="once more") == 0
    with ledger.attempt(other):
        pass
    # Nothing of it moves what leaves with certificates.
    assert (ledger.events(), ledger.verify().head) == before


def test_attempts_that_run_count(ledger: Ledger, release_id: ReleaseId) -> None:
    with ExitStack() as running:
        for _ in range(3):
            running.enter_context(paid(ledger, release_id))
        with pytest.raises(AttemptsError), ledger.attempt(release_id):
            raise AssertionError
    with ledger.attempt(release_id):
        pass


def test_what_runs_while_it_is_acknowledged_ends_as_it_would_have(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    fail(ledger, release_id, times=2)
    with paid(ledger, release_id):
        assert ledger.acknowledge("people", reason="looked") == 3
    verified = ledger.verify().accesses
    assert verified is not None
    assert verified.not_ended == 2


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_leave_it_open(
    ledger: Ledger, release_id: ReleaseId, ending: type[BaseException]
) -> None:
    with pytest.raises(ending), ledger.attempt(release_id):
        raise ending
    assert len(ledger.open_attempts("people")) == 1


def test_the_officer_says_how_many(ledger: Ledger, release_id: ReleaseId) -> None:
    same = {"epsilon": 1.0, "delta": 1e-9}
    events = ledger.events()
    assert ledger.grant("people", **same, attempts=3).attempts == 3
    assert ledger.events() == events
    assert ledger.grant("people", **same, attempts=1).attempts == 1
    fail(ledger, release_id)
    with (
        pytest.raises(AttemptsError, match="the granted number of attempts to open"),
        ledger.attempt(release_id),
    ):
        raise AssertionError
    ledger.grant("people", **same, attempts=5)
    fail(ledger, release_id, times=4)
    with (
        pytest.raises(AttemptsError, match="the granted number of attempts to open"),
        ledger.attempt(release_id),
    ):
        raise AssertionError
    ledger.verify()
    for wrong in (0, -1, 2.5, True, "3"):
        with pytest.raises(SpecificationError, match="whole number"):
            ledger.grant("people", **same, attempts=wrong)  # type: ignore[arg-type]


def test_a_dataset_without_a_budget_is_not_opened(ledger: Ledger, tmp_path: Path) -> None:
    stranger = ReleaseId("strangers", "yearly", "d1gest")
    with pytest.raises(BudgetError, match="'strangers' has no budget"), ledger.attempt(stranger):
        raise AssertionError
    with pytest.raises(BudgetError, match="'strangers' has no budget"):
        ledger.acknowledge("strangers", reason="looked")
    with pytest.raises(BudgetError, match="there is no ledger"):
        Ledger(tmp_path / "nowhere.db").open_attempts("people")
    for reason in ("", "  "):
        with pytest.raises(SpecificationError, match="the reason must not be blank"):
            ledger.acknowledge("people", reason=reason)


def test_a_renewing_budget_counts_its_period(path: Path, release_id: ReleaseId) -> None:
    clock = Clock(2026, 3, 31, 23, 59)
    ledger = Ledger(path, clock=clock)
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy(period="month"))
    fail(ledger, release_id, times=3)
    with pytest.raises(AttemptsError, match="in 2026-03"), ledger.attempt(release_id):
        raise AssertionError
    clock.set(2026, 4, 1)
    fail(ledger, release_id, times=2)
    # A clock that was set back lends no further attempts.
    clock.set(2026, 3, 1)
    with pytest.raises(AttemptsError), ledger.attempt(release_id):
        raise AssertionError
    # Under a longer period all of them count.
    clock.set(2026, 4, 2)
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy(period="year"))
    with pytest.raises(AttemptsError, match="in 2026"), ledger.attempt(release_id):
        raise AssertionError


def hold(url: str, opened: Any, done: Any) -> None:
    with Ledger(url).attempt(ReleaseId("people", "yearly", "d1gest")):
        opened.set()
        done.wait(60)


@pytest.mark.slow
def test_a_killed_process_leaves_its_attempt_open(
    either: Ledger, each_url: str, release_id: ReleaseId
) -> None:
    ledger, url = either, each_url
    context = multiprocessing.get_context("spawn")
    fail(ledger, release_id, times=2)
    opened, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(url, opened, done))
    process.start()
    assert opened.wait(60)
    # While it runs, and once it is killed.
    with pytest.raises(AttemptsError), ledger.attempt(release_id):
        raise AssertionError
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with pytest.raises(AttemptsError), ledger.attempt(release_id):
        raise AssertionError
    ledger.acknowledge("people", reason="the machine was restarted")
    with ledger.attempt(release_id):
        pass


def open_at_once(url: str, number: int, start: Any, held: Any) -> bool:
    """Try to open; hold what was opened until all have tried."""
    ledger = Ledger(url)
    start.wait(60)
    try:
        with paid(ledger, ReleaseId("people", f"release-{number}", "d1gest")):
            held.wait(60)
            return True
    except AttemptsError:
        held.wait(60)
        return False


@pytest.mark.slow
def test_parallel_attempts_are_no_more_than_granted(either: Ledger, each_url: str) -> None:
    ledger, url = either, each_url
    ledger.grant("people", epsilon=1.0, delta=1e-9, attempts=2)
    context = multiprocessing.get_context("spawn")
    number = 4
    with context.Manager() as manager, context.Pool(number) as pool:
        start, held = manager.Barrier(number), manager.Barrier(number)
        tasks = [(url, one, start, held) for one in range(number)]
        opened = pool.starmap(open_at_once, tasks, chunksize=1)
        pool.close()
        pool.join()
    assert sum(opened) == 2
    assert ledger.open_attempts("people") == []
    ledger.verify()


class Attempts(RuleBasedStateMachine):
    """A model of two datasets: what is open, and how many of it are allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.ledger = Ledger(f"{self.folder.name}/ledger.db")
        self.allowed = {"people": 3, "places": 2}
        for name, attempts in self.allowed.items():
            self.ledger.grant(name, epsilon=1.0, delta=1e-9, attempts=attempts)
        self.counted: dict[str, set[str]] = {name: set() for name in self.allowed}
        self.running: list[tuple[str, str, Any]] = []

    def teardown(self) -> None:
        self.ledger.verify()
        self.folder.cleanup()

    datasets = st.sampled_from(["people", "places"])

    @rule(dataset=datasets)
    def begin(self, dataset: str) -> None:
        opening = paid(self.ledger, ReleaseId(dataset, "yearly", "d1gest"))
        if len(self.counted[dataset]) >= self.allowed[dataset]:
            with pytest.raises(AttemptsError):
                opening.__enter__()
            return
        name = opening.__enter__()
        self.counted[dataset].add(name)
        self.running.append((dataset, name, opening))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), well=st.booleans())
    def end(self, data: st.DataObject, well: bool) -> None:
        place = data.draw(st.integers(0, len(self.running) - 1))
        dataset, name, opening = self.running.pop(place)
        if well:
            opening.__exit__(None, None, None)
            self.counted[dataset].discard(name)
        else:
            assert not opening.__exit__(BadEndingError, BadEndingError(), None)

    @rule(dataset=datasets)
    def acknowledge(self, dataset: str) -> None:
        assert self.ledger.acknowledge(dataset, reason="looked") == len(self.counted[dataset])
        self.counted[dataset].clear()

    @rule(dataset=datasets, attempts=st.integers(1, 4))
    def grant(self, dataset: str, attempts: int) -> None:
        self.ledger.grant(dataset, epsilon=1.0, delta=1e-9, attempts=attempts)
        self.allowed[dataset] = attempts

    @invariant()
    def what_counts_is_what_did_not_end_well(self) -> None:
        for name, counted in self.counted.items():
            assert {one.attempt for one in self.ledger.open_attempts(name)} == counted


TestAttempts = pytest.mark.slow(Attempts.TestCase)
TestAttempts.settings = settings(examples(8), stateful_step_count=20)


# The audit, on journals that somebody else has written.


def written(ledger: Ledger, *lines: dict[str, Any]) -> None:
    """Append lines to the journal of attempts, each sealed to the one before."""
    for line in lines:
        kind, dataset = AccessKind(line.pop("kind")), line.pop("dataset", "people")
        with ledger._backend.writing() as connection:
            append_access(connection, kind, dataset, **line)


ATTEMPT = {"kind": "attempted", "release": "yearly", "edition": "1", "attempt": "a1"}
BROKEN: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an end without an attempt": ([ATTEMPT | {"kind": "ended"}], "never began"),
    "two ends": (
        [ATTEMPT, ATTEMPT | {"kind": "ended"}, ATTEMPT | {"kind": "ended"}],
        "ends an attempt again",
    ),
    "an attempt of the same name": ([ATTEMPT, ATTEMPT], "name of another"),
    "an end of another release": (
        [ATTEMPT, ATTEMPT | {"kind": "ended", "release": "monthly"}],
        "of another release",
    ),
    "an end of another dataset": (
        [ATTEMPT, ATTEMPT | {"kind": "ended", "dataset": "places"}],
        "granted nothing|of another release",
    ),
    "an attempt without a name": ([ATTEMPT | {"attempt": ""}], "without a name"),
    "an attempt without a release": ([ATTEMPT | {"release": ""}], "without a name or a release"),
    "an acknowledgement without a reason": ([{"kind": "acknowledged"}], "with a reason"),
    "an acknowledgement of one attempt": (
        [ATTEMPT, {"kind": "acknowledged", "attempt": "a1", "reason": "x"}],
        "no acknowledgement of all",
    ),
    "a dataset without a budget": ([ATTEMPT | {"dataset": "strangers"}], "granted nothing"),
}


@pytest.mark.parametrize(("lines", "words"), BROKEN.values(), ids=list(BROKEN))
def test_lines_against_the_rules_are_found(
    ledger: Ledger, lines: list[dict[str, Any]], words: str
) -> None:
    written(ledger, *(dict(line) for line in lines))
    with pytest.raises(LedgerIntegrityError, match=f"journal of attempts.*({words})"):
        ledger.verify()


@pytest.fixture
def altered(path: Path, release_id: ReleaseId) -> Any:
    """Change the journal of attempts of a SQLite ledger behind its back."""
    ledger = Ledger(path)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    with paid(ledger, release_id):
        pass
    fail(ledger, release_id)

    def alter(statement: str) -> Ledger:
        with sqlite3.connect(path) as raw:
            raw.execute("DROP TRIGGER accesses_no_update")
            raw.execute("DROP TRIGGER accesses_no_delete")
            raw.execute(statement)
        return ledger

    return alter


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM accesses WHERE seq = 1", "line 2 .* should be line 1"),
        *slow_rows(
            ("UPDATE accesses SET run_id = 'other' WHERE seq = 2", "line 2 .* was altered"),
            (
                "UPDATE accesses SET previous = 'x' WHERE seq = 3",
                "line 3 .* hash of the line before",
            ),
            ("UPDATE accesses SET kind = 'forgiven' WHERE seq = 3", "unknown kind 'forgiven'"),
        ),
    ],
)
def test_an_altered_journal_is_found(altered: Any, statement: str, words: str) -> None:
    with pytest.raises(LedgerIntegrityError, match=words):
        altered(statement).verify()


def test_a_line_holds_no_cause(ledger: Ledger, release_id: ReleaseId) -> None:
    with pytest.raises(BadEndingError), ledger.attempt(release_id):
        raise BadEndingError("sentinel-4a1c")
    (line,) = ledger.open_attempts("people")
    assert isinstance(line, Access)
    assert "sentinel" not in repr(line)


def test_opening_needs_no_reservation_and_makes_none(ledger: Ledger, release_id: ReleaseId) -> None:
    with ledger.attempt(release_id):
        pass
    assert ledger.reservation(release_id) is None
    ledger.open_release(release_id, Budget(0.5, 1e-9).shares(evaluation=0.05))
    with ledger.attempt(release_id):
        pass
    ledger.verify()
