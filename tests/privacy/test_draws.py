"""Charge, draw, store: in this order, once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from jam_dagster.errors import (
    BudgetExceededError,
    LedgerIntegrityError,
    LostDrawError,
    PrivateValuesError,
)
from jam_dagster.privacy import (
    DirectoryStore,
    Draws,
    ExactNoise,
    Ledger,
    MemoryStore,
    ReleaseId,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.outcome_store import uncharged
from tests.tiers import first_quick, slow

COUNTS = np.array([[3, 0], [5, 7]])


class Recorder:
    """Noise, account and store in one, keeping the order in which it was called."""

    name = "recorder"
    releasable = True
    repeatable = False
    reserved = 1.0

    def __init__(self):
        self.calls = []

    def charged(self, step):
        return next((rho for call, s, rho in self.calls if call == "charge" and s == step), None)

    def charge(self, step, rho):
        self.calls.append(("charge", step, rho))

    def confirmed(self, step):
        return False

    def confirm(self, step, digest):
        assert len(digest) == 64
        self.calls.append(("confirm", step, 0.1))

    def gaussian_counts(self, counts, l2_sensitivity, rho, step):
        self.calls.append(("draw", step, rho))
        return counts, 1.0

    def select(self, scores, rho, sensitivity, step):
        self.calls.append(("draw", step, rho))
        return 1

    def gaussian_values(self, values, l2_sensitivity, rho, step):
        self.calls.append(("draw", step, rho))
        return values, 1.0

    def get(self, step):
        return None

    def put(self, step, outcome):
        self.calls.append(("store", step, outcome["rho"]))


def each_draw(draws, step):
    yield lambda: draws.measure(step, lambda: COUNTS, size=COUNTS.size, rho=0.1)
    # So many candidates that two draws do not agree by chance.
    yield lambda: draws.select(
        step, lambda: np.linspace(1.0, 2.0, 10_000), size=10000, rho=0.1, sensitivity=4
    )
    yield lambda: draws.values(step, lambda: np.array([0.1]), size=1, sensitivity=0.01, rho=0.1)
    yield lambda: draws.values(
        *(step, COUNTS.ravel), size=COUNTS.size, sensitivity=9.0, rho=0.1, integers=True
    )


@pytest.mark.parametrize("kind", range(4))
def test_a_draw_is_charged_before_it_is_made_and_stored_after(kind):
    recorder = Recorder()
    draws = Draws(recorder, recorder, recorder)
    list(each_draw(draws, "s"))[kind]()
    assert [(call, step) for call, step, _ in recorder.calls] == [
        ("charge", "s"),
        ("draw", "s"),
        ("store", "s"),
        ("confirm", "s"),
    ]
    assert {rho for *_, rho in recorder.calls} == {0.1}


@pytest.mark.parametrize("kind", range(4))
def test_a_refused_charge_draws_nothing(kind):
    class Broke(Recorder):
        def charge(self, step, rho):
            raise BudgetExceededError("nothing left")

    broke = Broke()
    draws = Draws(broke, broke, broke)
    with pytest.raises(BudgetExceededError):
        list(each_draw(draws, "s"))[kind]()
    assert broke.calls == []
    assert draws.calls == ()


@pytest.mark.parametrize("kind", range(4))
def test_a_charged_draw_without_an_outcome_is_lost_and_still_counts(kind):
    """At the price that was paid, too: exact noise would draw something else."""
    for charged in (0.1, 0.25):
        account, recorder = UnledgeredAccount(1.0), Recorder()
        account.charge("s", charged)
        draws = Draws(recorder, account, MemoryStore())
        with pytest.raises(LostDrawError, match="s was charged"):
            list(each_draw(draws, "s"))[kind]()
        assert recorder.calls == []
        assert account.spent == pytest.approx(charged)
        assert draws.spent == pytest.approx(charged)


@pytest.mark.parametrize("puts", [True, False], ids=["stored", "not stored"])
def test_an_outcome_that_the_ledger_never_confirmed_is_nobodys(tmp_path, puts):
    """A process was killed before the ledger had its digest; anybody may have stored one since."""

    class Killed(Exception):  # noqa: N818
        pass

    class Store(MemoryStore):
        def put(self, step, outcome):
            if puts:
                super().put(step, outcome)
            raise Killed

    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    release_id = ReleaseId("people", "yearly", "d1gest")
    account = ledger.open_release(release_id, {"mechanism": 0.01}).account("mechanism")
    store = Store()
    with pytest.raises(Killed):
        Draws(ExactNoise(), account, store).measure("a", lambda: COUNTS, size=COUNTS.size, rho=1e-3)
    MemoryStore.put(store, "a", {"values": COUNTS * 0.0, "sigma": 1.0, "rho": 1e-3})

    draws = Draws(ExactNoise(), account, store)
    with pytest.raises(LostDrawError):
        draws.measure("a", lambda: COUNTS, size=COUNTS.size, rho=1e-3)
    assert draws.spent == pytest.approx(account.spent) == pytest.approx(1e-3)
    assert [call.lost for call in draws.calls] == [True]
    assert not account.confirmed("a")
    # What the ledger has a digest of is handed out.
    kept = MemoryStore()
    values, _ = Draws(ExactNoise(), account, kept).measure(
        "b", lambda: COUNTS, size=COUNTS.size, rho=1e-3
    )
    assert account.confirmed("b")
    again, _ = Draws(ExactNoise(), account, kept).measure(
        "b", lambda: COUNTS, size=COUNTS.size, rho=1e-3
    )
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize("wrong", [[0.0, -np.inf, np.nan], [0, 1], ["a"] * 3])
@pytest.mark.parametrize("kind", range(4))
def test_what_is_wrong_with_an_input_is_not_told(kind, wrong):
    """How many cells are empty, or how many values there are, is a statistic of private data."""
    account, given = UnledgeredAccount(1.0), np.array(wrong)
    draws = Draws(ExactNoise(), account, store := MemoryStore())
    options = {"size": 3, "rho": 0.1}
    with pytest.raises(PrivateValuesError) as told:
        (
            lambda: draws.measure("s", lambda: given, **options),
            lambda: draws.select("s", lambda: given, sensitivity=1.0, **options),
            lambda: draws.values("s", lambda: given, sensitivity=1.0, **options),
            lambda: draws.values("s", lambda: given, sensitivity=1.0, integers=True, **options),
        )[kind]()
    assert str(told.value) == str(PrivateValuesError())
    assert told.value.__cause__ is told.value.__context__ is None
    # No outcome says either how long the input was.
    assert store.get("s") is None


def test_only_seeded_noise_repeats():
    assert SeededNoise(0).repeatable
    assert not ExactNoise().repeatable


@pytest.fixture(params=["memory", "ledger"])
def account(request, tmp_path):
    if request.param == "memory":
        return UnledgeredAccount(1.0)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=10.0, delta=1e-9)
    return ledger.open_release(ReleaseId("people", "x", "s"), {"all": 1.0}).account("all")


@pytest.mark.parametrize("kind", first_quick(range(4)))
def test_seeded_noise_repeats_what_was_charged_without_a_charge(kind, account):
    uninterrupted = Draws(SeededNoise(3), UnledgeredAccount(1.0))
    expected = list(each_draw(uninterrupted, "s"))[kind]()
    account.charge("s", 0.1)
    store = MemoryStore()
    for _ in range(2):  # repeated once, and then found in the store
        draws = Draws(SeededNoise(3), account, store)
        given = list(each_draw(draws, "s"))[kind]()
        pairs = (
            zip(given, expected, strict=True) if isinstance(given, tuple) else [(given, expected)]
        )
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
        assert store.get("s") is not None
        assert draws.remaining == uninterrupted.remaining
        assert account.charged("s") == pytest.approx(0.1)
        assert account.spent == account.charged("s")


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("charged", [*slow(0.1 - 1e-14), 0.1 + 1e-14, *slow(0.025, 0.4)])
def test_seeded_noise_repeats_nothing_at_another_price(kind, account, charged):
    """Two answers with one noise at two scales would tell the counts."""
    account.charge("s", charged)
    draws = Draws(SeededNoise(3), account, MemoryStore())
    with pytest.raises(LostDrawError):
        list(each_draw(draws, "s"))[kind]()
    assert draws.spent == pytest.approx(charged)


@pytest.mark.parametrize("rho", [1e-12, 0.1, 0.0149730577 / 7, 7.9, 8.1, 41.0 / 3, 2500.0])
def test_the_price_is_recognised_at_any_size(rho):
    """Amounts come back from the ledger through floats, further apart than its units from 8 on."""
    account = UnledgeredAccount(3 * rho)
    account.charge("s", rho)
    draws = Draws(SeededNoise(0), account)
    draws.select("s", lambda: np.zeros(2), size=2, rho=rho, sensitivity=1)
    assert draws.spent == pytest.approx(rho, abs=1e-14)


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else DirectoryStore(tmp_path / "outcomes")


@pytest.mark.parametrize("kind", range(4))
def test_a_stored_outcome_is_handed_out_again_free(kind, store):
    account = UnledgeredAccount(1.0)
    first = list(each_draw(Draws(SeededNoise(0), account, store), "a/b"))[kind]()
    again_draws = Draws(SeededNoise(99), account, store)
    again = list(each_draw(again_draws, "a/b"))[kind]()
    pairs = zip(first, again, strict=True) if isinstance(first, tuple) else [(first, again)]
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)
    assert account.spent == pytest.approx(0.1)
    assert again_draws.spent == pytest.approx(0.1)


@pytest.mark.parametrize("rho", [1e-9, *slow(0.0149730577), 1.0907857, *slow(7.9, 41.0, 2500.0)])
def test_all_that_remains_can_always_be_charged(rho):
    """Hundreds of charges round up, and large amounts lie further apart than the units."""
    rng = np.random.default_rng(0)
    account = UnledgeredAccount(rho)
    draws = Draws(SeededNoise(0), account)
    for i in range(300):
        share = draws.remaining * rng.uniform(0.001, 0.05)
        draws.select(f"s{i}", lambda: np.zeros(2), size=2, rho=share, sensitivity=1)
    draws.select("last", lambda: np.zeros(2), size=2, rho=draws.remaining, sensitivity=1)
    assert 0 <= account.remaining <= 1e-14 * max(1, rho)
    assert draws.remaining <= 1e-14 * max(1, rho)


@pytest.mark.parametrize("rho", [0.0149730577, 41.0])
def test_a_repeat_divides_what_remains_as_the_first_run_did(rho):
    account, store = UnledgeredAccount(rho), MemoryStore()
    remaining = []
    for _ in range(2):
        draws = Draws(SeededNoise(0), account, store)
        seen = []
        for i in range(20):
            seen.append(draws.remaining)
            draws.select(
                f"s{i}", lambda: np.zeros(2), size=2, rho=draws.remaining / 7, sensitivity=1
            )
        remaining.append(seen)
    assert remaining[0] == remaining[1]


def test_directory_store_leaves_no_partial_file(tmp_path):
    store = DirectoryStore(tmp_path)
    store.put("round-001/measure", {"values": COUNTS, "sigma": 2.5, "rho": 0.1})
    assert [p.name for p in tmp_path.iterdir()] == ["round-001-measure.npz"]
    outcome = store.get("round-001/measure")
    np.testing.assert_array_equal(outcome["values"], COUNTS)
    assert (outcome["sigma"], outcome["rho"]) == (2.5, 0.1)
    assert store.get("round-002/measure") is None


def test_a_decision_is_stored_and_needs_no_charge(tmp_path) -> None:
    store = DirectoryStore(tmp_path / "draws")
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), store)
    assert draws.decided(1, holds=True)
    assert draws.decided(1, holds=False)
    assert not draws.decided(2, holds=False)
    draws.measure("round-001/measure", lambda: np.array([1]), size=1, rho=0.5)
    assert len(store.files) == 3
    assert uncharged(store.files, ["round-001/measure"]) == frozenset()
    assert uncharged(store.files, []) == {"round-001-measure.npz"}


@pytest.mark.parametrize("choices", [1, 3, 7, 49, 50])
def test_several_choices_cost_no_more_than_was_charged(choices: int) -> None:
    class Listening(SeededNoise):
        def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
            costs.append(Fraction(rho))
            return super().select(scores, rho, sensitivity, step)

    rng = np.random.default_rng(choices)
    for rho in rng.uniform(0.001, 0.01, 50).tolist():
        costs: list[Fraction] = []
        draws = Draws(Listening(0), UnledgeredAccount(1.0))
        draws.select("s", lambda: np.zeros(2), size=2, choices=choices, rho=rho, sensitivity=1.0)
        assert len(costs) == choices
        assert Fraction(rho) * (1 - Fraction(1, 2**50)) <= sum(costs) <= Fraction(rho)


def test_distinct_choices_are_among_those_that_are_left() -> None:
    scores, store = np.array([50.0, 90.0, 70.0, 10.0]), MemoryStore()

    def chosen(distinct: bool) -> list[int]:
        draws = Draws(SeededNoise(0), UnledgeredAccount(1e3), store)
        return draws.select(
            "s",
            lambda: scores,
            size=4,
            choices=3,
            rho=900.0,
            sensitivity=1.0,
            distinct=distinct,
        )

    # With so much budget the largest one is chosen: any other has odds below e^-400.
    assert chosen(True) == [1, 2, 0]
    assert scores.tolist() == [50.0, 90.0, 70.0, 10.0]
    assert chosen(True) == [1, 2, 0]
    store.put("s", {"index": [1, 2, 1], "rho": 900.0})
    with pytest.raises(LedgerIntegrityError, match="changed after it was drawn"):
        chosen(True)
    store = MemoryStore()
    assert chosen(False) == [1, 1, 1]
