"""Values are selected by one draw: charged first, with a delta of its own, stored and confirmed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jam_dagster.errors import (
    BudgetExceededError,
    LedgerIntegrityError,
    LostDrawError,
    PrivateValuesError,
)
from jam_dagster.privacy import (
    Budget,
    DirectoryStore,
    Draws,
    ExactNoise,
    Ledger,
    Neighbours,
    ReleaseId,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.shares import DOMAIN

COUNTS = {"a": 900, "b": 1, "c": 700}
DELTA = 1e-10


def draws(folder: Path, *, delta: float = 3 * DELTA) -> Draws:
    ledger = Ledger(folder / "ledger.db")
    if not ledger.exists:
        ledger.grant("people", epsilon=3.0, delta=1e-9, selections=delta)
    release = ReleaseId("people", "yearly", "3f9a")
    shares = Budget(1.0, 1e-9).shares(domain=0.5)
    opened = ledger.open_release(release, shares, selections={DOMAIN: delta})
    return Draws(ExactNoise(), opened.account(DOMAIN), DirectoryStore(folder / "draws"))


def select(made: Draws, step: str = "domain/1", counts=lambda: COUNTS):
    return made.select_values(step, counts, rho=1e-3, delta=DELTA, subject="sex")


def test_a_selection_is_drawn_once(tmp_path: Path) -> None:
    made = draws(tmp_path)
    names, noisy = select(made)
    assert names == ("a", "c")
    (call,) = made.calls
    assert (call.delta, call.cells, call.lost) == (DELTA, 2, False)
    assert call.subject == '["sex",["a","c"]]'
    assert call.threshold <= noisy.min()

    def unread() -> dict[str, int]:
        raise AssertionError("a stored outcome does without the table")

    again = draws(tmp_path)
    repeated = select(again, counts=unread)
    assert repeated[0] == names
    assert np.array_equal(repeated[1], noisy)
    assert again.calls == made.calls


def test_names_that_were_changed_are_refused(tmp_path: Path) -> None:
    select(draws(tmp_path))
    store = DirectoryStore(tmp_path / "draws")
    stored = store.get("domain/1")
    assert stored is not None
    for changed in ({"names": ["a", "z"]}, {"threshold": 1}, {"sigma": 1.0}):
        store.put("domain/1", {**stored, **changed})
        with pytest.raises(LedgerIntegrityError, match="does not match its digest"):
            select(draws(tmp_path))


def test_selections_take_no_more_delta_than_was_reserved(tmp_path: Path) -> None:
    made = draws(tmp_path)
    for number in (1, 2, 3):
        select(made, f"domain/{number}")
    with pytest.raises(BudgetExceededError, match="less left for it"):
        select(made, "domain/4")
    research = Draws(SeededNoise(0), UnledgeredAccount(1.0, DOMAIN))
    with pytest.raises(BudgetExceededError, match="less left for it"):
        select(research)


def test_a_lost_selection_stays_charged(tmp_path: Path) -> None:
    draws(tmp_path)._account.charge("domain/1", 1e-3)
    with pytest.raises(LostDrawError):
        select(draws(tmp_path))


def test_a_table_that_fails_names_nothing(tmp_path: Path) -> None:
    def failing() -> dict[str, int]:
        raise ValueError("alice")

    made = draws(tmp_path)
    with pytest.raises(PrivateValuesError) as refused:
        select(made, counts=failing)
    assert "alice" not in str(refused.value)
    assert made._account.spent == 0.0


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("rows", [1, 3])
def test_no_person_moves_more_counts_than_that(relation, rows) -> None:
    """All pairs of at most `rows` values before and after, over four values."""
    neighbours = Neighbours(relation, rows)
    rng = np.random.default_rng(0)
    most_values = most_rows = 0
    for _ in range(2_000):
        before = np.bincount(
            rng.integers(0, 2 * rows, rng.integers(0, rows + 1)), minlength=2 * rows
        )
        after = np.bincount(
            rng.integers(0, 2 * rows, rng.integers(0, rows + 1)), minlength=2 * rows
        )
        moved = np.abs(after - (before if relation == "replace_one" else 0))
        most_values = max(most_values, int((moved > 0).sum()))
        most_rows = max(most_rows, int(moved.max()))
        assert np.linalg.norm(moved) <= neighbours.marginal_l2
    assert (most_values, most_rows) == (neighbours.values_of_one, neighbours.max_rows)
