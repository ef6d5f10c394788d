"""What follows from outcomes, decisions and records of solvers, is as firm as the outcomes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DamagedOutcomeError, LedgerIntegrityError
from jam_dagster.privacy import (
    DirectoryStore,
    Draws,
    ExactNoise,
    Kind,
    Ledger,
    ReleaseId,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from jam_dagster.privacy.outcome_store import derived_digest
from tests.privacy.conftest import audit_finds
from tests.tiers import slow

RECORDS = np.array([[0, 1], [1, 1]])
OTHERS = np.array([[1, 0], [0, 0]])

ANOTHER = "was changed or lost after the ledger had its digest"

DECISION, SOLUTION = "decision-001", "solution-round-001/solve"


@pytest.fixture
def account(ledger: Ledger, release_id: ReleaseId) -> LedgerAccount:
    return ledger.open_release(release_id, {"mechanism": 0.01}, run_id="run").account("mechanism")


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "draws")


def derived(ledger: Ledger) -> list[tuple[str, str, int]]:
    events = (event for event in ledger.events() if event.kind == Kind.DERIVED)
    return [(event.step, event.digest, event.units) for event in events]


def decide(draws: Draws, holds: bool) -> bool:
    return draws.decided(1, holds)


def solve(draws: Draws, found: np.ndarray) -> list[Any]:
    return draws.solved("round-001/solve", lambda: found).tolist()  # type: ignore[no-any-return]


CASES = [
    pytest.param(decide, DECISION, "holds", True, False, id="decision"),
    pytest.param(solve, SOLUTION, "records", RECORDS, OTHERS, id="solution"),
]


def same(one: Any, other: Any) -> bool:
    return np.array_equal(one, other)


@pytest.mark.parametrize(("ask", "step", "name", "found", "other"), CASES)
def test_it_is_journalled_before_the_next_charge_and_found_again(
    ledger: Ledger,
    account: LedgerAccount,
    store: DirectoryStore,
    ask: Callable[[Draws, Any], Any],
    step: str,
    name: str,
    found: Any,
    other: Any,
) -> None:
    draws = Draws(ExactNoise(), account, store)
    assert same(ask(draws, found), found)
    draws.measure("s", lambda: np.array([1, 2]), size=2, rho=0.001)
    kinds = [event.kind for event in ledger.events()][-3:]
    assert kinds == [Kind.DERIVED, Kind.CHARGED, Kind.STORED]
    assert derived(ledger) == [(step, derived_digest(found), 0)]

    # A machine that finds another one goes on with what the ledger has.
    again = Draws(ExactNoise(), account, store)
    assert same(ask(again, other), found)
    assert len(derived(ledger)) == 1
    assert account.spent == pytest.approx(0.001)
    ledger.verify()


@pytest.mark.parametrize(("ask", "step", "name", "found", "other"), CASES)
def test_a_record_without_a_digest_is_made_again(
    ledger: Ledger,
    account: LedgerAccount,
    store: DirectoryStore,
    ask: Callable[[Draws, Any], Any],
    step: str,
    name: str,
    found: Any,
    other: Any,
) -> None:
    store.put(step, {name: other})
    assert same(ask(Draws(ExactNoise(), account, store), found), found)
    assert derived(ledger) == [(step, derived_digest(found), 0)]


def changed(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    store.put(step, {name: other})


def lost(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    (path,) = (one for one in store._directory.iterdir() if one.stem == step.replace("/", "-"))
    path.unlink()  # type: ignore[union-attr]


def damaged(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    (path,) = (one for one in store._directory.iterdir() if one.stem == step.replace("/", "-"))
    path.write_bytes(path.read_bytes()[:40])


def emptied(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    (path,) = (one for one in store._directory.iterdir() if one.stem == step.replace("/", "-"))
    path.write_bytes(b"")


def of_another_width(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    """The same numbers in another type make another run."""
    store.put(step, {name: "True" if name == "holds" else RECORDS.astype(np.int32)})


def of_another_type(store: DirectoryStore, step: str, name: str, other: Any) -> None:
    """What is equal once it is cast has another type here, and is another value elsewhere."""
    store.put(step, {name: "False" if name == "holds" else RECORDS + 0.5})


@pytest.mark.parametrize(
    "harm", [changed, *slow(lost, damaged), emptied, *slow(of_another_type, of_another_width)]
)
@pytest.mark.parametrize(("ask", "step", "name", "found", "other"), CASES)
def test_a_changed_or_lost_record_is_made_again_only_as_it_was(
    ledger: Ledger,
    account: LedgerAccount,
    store: DirectoryStore,
    harm: Callable[[DirectoryStore, str, str, Any], None],
    ask: Callable[[Draws, Any], Any],
    step: str,
    name: str,
    found: Any,
    other: Any,
) -> None:
    ask(Draws(ExactNoise(), account, store), found)
    events = ledger.events()

    harm(store, step, name, other)
    with pytest.raises(LedgerIntegrityError, match=ANOTHER) as refused:
        ask(Draws(ExactNoise(), account, store), other)
    remedies = ("from a copy", "the machine that drew", "another edition")
    assert all(remedy in str(refused.value) for remedy in remedies)

    harm(store, step, name, other)
    assert same(ask(Draws(ExactNoise(), account, store), found), found)
    assert ledger.events() == events


def test_a_damaged_outcome_is_named_with_its_remedy(
    account: LedgerAccount, store: DirectoryStore
) -> None:
    def measured() -> tuple[np.ndarray, float]:
        draws = Draws(ExactNoise(), account, store)
        return draws.measure("s", lambda: np.array([1, 2]), size=2, rho=0.001)

    measured()
    (path,) = store._directory.iterdir()
    for content in (b"", path.read_bytes()[:60], b"PK\x03\x04" + bytes(80)):
        path.write_bytes(content)
        with pytest.raises(DamagedOutcomeError, match=r"s\.npz is damaged .* from a copy"):
            measured()


def test_a_share_that_has_ended_takes_its_records(ledger: Ledger, account: LedgerAccount) -> None:
    account.charge("s", 0.001)
    account.close("an operator")
    account.derive("decision-001", derived_digest(True))
    assert account.derived("decision-001", derived_digest(True))
    assert not account.derived("decision-001", derived_digest(False))
    ledger.verify()


def test_a_release_that_is_opened_again_has_no_records(
    ledger: Ledger, release_id: ReleaseId, account: LedgerAccount
) -> None:
    account.derive("decision-001", derived_digest(True))
    account.close("nothing was charged")
    again = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    again.derive("decision-001", derived_digest(False))
    assert again.derived("decision-001", derived_digest(False))
    ledger.verify()


def test_an_audit_finds_records_that_no_run_wrote(ledger: Ledger, account: LedgerAccount) -> None:
    account.derive("decision-001", derived_digest(True))
    wrote = ledger.events()[-1]
    fields = {"release": wrote.release, "specification": wrote.specification}
    forged = {
        "kind": Kind.DERIVED,
        "dataset": wrote.dataset,
        "share": wrote.share,
        "step": "decision-002",
        "digest": derived_digest(True),
        **{name: getattr(wrote, name) for name in ("partition", "edition", "opening")},
        **fields,
    }
    audit_finds(ledger, "names no digest of what follows", forged | {"digest": "no digest"})


def test_research_takes_what_its_own_process_stored(store: DirectoryStore) -> None:
    account = UnledgeredAccount(1.0)
    assert decide(Draws(SeededNoise(0), account, store), True)
    assert decide(Draws(SeededNoise(0), account, store), False)
