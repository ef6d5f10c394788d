"""What tilts a model to the correlations of its own public records, and its verification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel
from jam_dagster.models.tilted import moments
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.moments import WEAKENED, Moments
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support, log_frequencies
from jam_dagster.tables import Domain, EncodedTable

DOMAIN = Domain.from_sizes({"a": 60, "b": 50, "c": 40})
RECORDS = 3_000


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "POOL", 20_000)


def related(spread: int = 40, records: int = RECORDS, seed: int = 0) -> EncodedTable:
    """Return rows whose b and c rise with a."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 60, records)
    b = np.clip(a - 5 + rng.integers(-spread, spread + 1, records), 0, 49)
    c = np.clip(a - 10 + rng.integers(-spread, spread + 1, records), 0, 39)
    return EncodedTable(DOMAIN, (a, b, c))


def shuffled(table: EncodedTable) -> EncodedTable:
    rng = np.random.default_rng(1)
    return EncodedTable(DOMAIN, tuple(rng.permutation(column) for column in table.columns))


def model_of(
    table: EncodedTable, share: float = 0.3, cliques: tuple[tuple[str, ...], ...] = ()
) -> TiltedModel:
    """Return a network of independent attributes, mixed with records."""
    support, counts = Support.of_records(table)
    rows = WeightedTable(support, 1000.0, log_frequencies(counts))
    singles = {(name,): np.log(table.marginal((name,)) + 1e-9) for name in DOMAIN.names}
    return TiltedModel(FittedModel(DOMAIN, 1000.0, singles), rows, share, cliques)


def correlations(table: EncodedTable, weights: np.ndarray | None = None) -> np.ndarray:
    covariances = np.cov(np.stack(table.columns).astype(float), aweights=weights)
    spread = np.sqrt(np.diag(covariances))
    return (covariances / np.outer(spread, spread))[np.triu_indices(3, 1)]


def test_rows_are_tilted_towards_the_records_and_single_attributes_stay() -> None:
    table = related()
    model = model_of(table)
    made = Moments(model, seed=3)
    found = made.solve()

    assert made.fault(found) == ""
    assert found[0] == 0
    rows = model.sample(50_000, np.random.default_rng(4))
    weights = np.exp(made.log_weights(found, rows))
    wanted, before = correlations(table), correlations(rows)
    after = correlations(rows, weights)
    # Two standard errors of the records are no reason to go further.
    assert (np.abs(after - wanted) < 0.07).all()
    assert (np.abs(before - wanted) > 0.15).all()
    for column in rows.columns:
        shares = np.bincount(column, weights=weights) / weights.sum()
        np.testing.assert_allclose(shares, np.bincount(column) / 50_000, atol=0.01)


def test_a_difference_by_chance_tilts_nothing() -> None:
    table = shuffled(related())
    made = Moments(model_of(table), seed=3)
    assert not made.solve().any()
    assert RECORDS / 2 < made.trusted < RECORDS


@pytest.mark.parametrize(
    "model",
    [
        model_of(related(), share=0.0),
        model_of(related(), cliques=(("a",), ("b",))),
        model_of(related(), cliques=(("a", "b", "c"),)),
        TiltedModel(model_of(related()).network, None, 0.0),
    ],
    ids=["left", "single attributes", "all measured", "no records"],
)
def test_nothing_is_tilted_without_trust_or_a_free_pair(model: TiltedModel) -> None:
    made = Moments(model, seed=3)
    found = made.solve()
    assert not found.any()
    assert made.fault(found) == ""
    assert not made.log_weights(found, related()).any()
    forged = found.copy()
    forged[1] = 1
    assert "nothing should" in made.fault(forged)


def test_a_measured_pair_that_is_alike_proves_the_records() -> None:
    """All moments are those of the records as they were, whatever their weights are now."""
    table = related()
    model = model_of(table, cliques=(("a", "b"),))
    assert model.rows is not None
    logs = model.rows.log_weights - 0.02 * model.rows.support.table.column("a")
    tilted = replace(model.rows, log_weights=logs)
    made = Moments(replace(model, rows=tilted, before=model.rows), seed=3)
    recorded = made.scores.moments(table, np.full(RECORDS, 1 / RECORDS))
    np.testing.assert_allclose(made.targets * made._spread, recorded, rtol=1e-12)
    rows = model.sample(50_000, np.random.default_rng(4))
    found = made.solve()
    after = correlations(rows, np.exp(made.log_weights(found, rows)))
    np.testing.assert_allclose(after, correlations(table), atol=0.03)


def test_few_measured_pairs_leave_the_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    table = related()
    monkeypatch.setattr(moments, "PROOF", 0.34)
    made = Moments(model_of(table, cliques=(("a", "b"),)), seed=3)
    recorded = made.scores.moments(table, np.full(RECORDS, 1 / RECORDS)) / made._spread
    error = 0.7 / np.sqrt(made.trusted)
    np.testing.assert_allclose(recorded - made.targets, moments.DOUBT * error, rtol=0.1)


def test_a_measured_pair_that_is_not_alike_tilts_nothing() -> None:
    """The network has b rise with a, and the records have it fall."""
    table = related()
    wrong = EncodedTable(DOMAIN, (table.column("a"), 49 - table.column("b"), table.column("c")))
    pair = {("a", "b"): np.log(table.marginal(("a", "b")) + 1e-3)}
    network = FittedModel(DOMAIN, 1000.0, pair | {("c",): np.log(table.marginal(("c",)) + 1e-9)})
    model = replace(model_of(wrong), network=network)
    assert Moments(model, seed=3).solve().any()
    made = Moments(replace(model, cliques=(("a", "b"),)), seed=3)
    assert made.excess > moments.LEAST_EXCESS
    assert not made.solve().any()


def test_records_that_a_run_had_to_leave_are_worth_less() -> None:
    whole, half = (Moments(model_of(related(), share), seed=3) for share in (0.3, 0.3 / 1.7))
    assert half.trusted == pytest.approx(whole.trusted / 4, rel=1e-6)


def test_a_forged_solution_is_noticed() -> None:
    made = Moments(model_of(related()), seed=3)
    found = made.solve()
    more = found.copy()
    more[1:] = np.rint(0.7 * found[1:])
    far = found.copy()
    far[1] = 2e9
    unheld = found.copy()
    unheld[0] = len(WEAKENED)

    assert "does not reach" in made.fault(more)
    assert "does not reach" in made.fault(np.zeros_like(found))
    assert "out of its bounds" in made.fault(far)
    assert "no strength" in made.fault(unheld)
    assert "another size" in made.fault(found[:-1])
    assert "another size" in made.fault(found.astype(float))


def test_records_that_determine_each_other_keep_the_pool_effective() -> None:
    """Where theta could grow without end it is held by its bounds, or more strongly."""
    made = Moments(model_of(related(spread=0)), seed=3)
    found = made.solve()
    assert found.any()
    assert made.fault(found) == ""
    assert (np.abs(found[1:]) * moments.UNIT <= moments.LARGEST_LEVEL).all()


def test_the_gradient_is_that_of_the_value() -> None:
    made = Moments(model_of(related()), seed=3)
    point = 0.1 * np.random.default_rng(0).normal(size=made.size)
    _, gradient, _ = made._objective(point, 10.0)
    for at in range(0, made.size, 11):
        step = np.zeros(made.size)
        step[at] = 1e-5
        up, down = (made._objective(point + sign * step, 10.0)[0] for sign in (1, -1))
        assert (up - down) / 2e-5 == pytest.approx(gradient[at], abs=1e-6)
