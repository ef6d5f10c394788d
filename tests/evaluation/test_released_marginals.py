"""What a transcript says about a marginal, and the tolerance that follows from it."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation import released_marginal
from jam_dagster.evaluation.released_marginals import ReleasedMarginal, one_way_agreement
from jam_dagster.tables import Domain
from tests.evaluation.conftest import RECORDS, SmallRelease, measured_round, transcript_of


@pytest.fixture
def domain() -> Domain:
    return Domain.from_sizes({"a": 2, "b": 3, "c": 4})


def test_projections_are_averaged_by_their_precision(domain: Domain) -> None:
    rng = np.random.default_rng(2)
    ab, bc, public = rng.normal(100, 9, (2, 3)), rng.normal(50, 9, (3, 4)), np.ones((3,))
    rounds = [
        measured_round(0, ("a", "b"), "private", ab, 10.0),
        measured_round(1, ("b",), "public", public, 0.0),
        measured_round(2, ("b", "c"), "private", bc, 5.0),
        measured_round(3, ("c",), "private", np.ones(4), 1.0),
    ]
    transcript = transcript_of(domain, rounds)
    released = released_marginal(transcript, ("b",))
    assert released is not None
    assert released.rounds == (0, 2)
    # Variances 2 x 10^2 = 200 and 4 x 5^2 = 100: weights 1/3 and 2/3.
    first, second = (transcript.rounds[i].measurement for i in (0, 2))
    assert first is not None
    assert second is not None
    expected = first.values.sum(axis=0) / 3 + 2 * second.values.sum(axis=1) / 3
    assert released.counts == pytest.approx(expected)
    assert released.sigma == pytest.approx((1 / (1 / 200 + 1 / 100)) ** 0.5)


def test_a_pair_inside_a_triple_keeps_its_axes(domain: Domain) -> None:
    counts = np.arange(24.0).reshape(2, 3, 4)
    transcript = transcript_of(
        domain, [measured_round(0, ("a", "b", "c"), "private", counts, 1e-9)]
    )
    released = released_marginal(transcript, ("a", "c"))
    assert released is not None
    assert released.counts == pytest.approx(counts.sum(axis=1), abs=1e-6)
    assert released.sigma == pytest.approx(1e-9 * 3**0.5)


def test_public_and_lost_measurements_release_nothing(domain: Domain) -> None:
    from dataclasses import replace

    lost = replace(measured_round(1, ("b",), "private", np.ones(3), 1.0), measurement=None)
    rounds = [measured_round(0, ("b",), "public", np.ones(3), 0.0), lost]
    assert released_marginal(transcript_of(domain, rounds), ("b",)) is None


@pytest.mark.slow
def test_the_estimate_has_the_stated_standard_deviation(domain: Domain) -> None:
    """Over 3,000 noise draws of three cells; 8% is more than 10 standard errors of an SD."""
    drawn = []
    for seed in range(3000):
        rounds = [
            measured_round(0, ("a", "b"), "private", np.zeros((2, 3)), 10.0, seed=seed),
            measured_round(1, ("b",), "private", np.zeros(3), 20.0, seed=seed),
        ]
        released = released_marginal(transcript_of(domain, rounds), ("b",))
        assert released is not None
        drawn.append(released.counts)
    assert np.std(drawn) == pytest.approx(released.sigma, rel=0.08)


def test_tables_drawn_from_the_model_agree_at_the_stated_level() -> None:
    """4,000 multinomial tables at level 0.05: Bernstein's bound keeps alarms below 5%.

    The bound is an upper one, so 200 alarms would need every slack to vanish; more than 290
    (six standard deviations above 200) has probability below 1e-9.
    """
    rng = np.random.default_rng(3)
    model = np.array([1.0, 5.0, 40.0, 400.0, 1554.0])
    alarms = 0
    for _ in range(4000):
        noisy = model + rng.normal(0, 1e-3, model.shape)
        agreement = one_way_agreement(
            ReleasedMarginal(("a",), noisy, 1e-3, (0,)),
            model=model,
            synthetic=rng.multinomial(2000, model / model.sum()).astype(float),
            records=2000,
            level=0.05,
        )
        alarms += bool((agreement.use_of_tolerance > 1).any())
    assert alarms < 290


def test_the_tolerance_counts_noise_or_residual_and_sampling(release: SmallRelease) -> None:
    model = np.array([1000.0, 3000.0])
    released = ReleasedMarginal(("citizen",), model + 50.0, 40.0, (0,))

    def tolerance(released: ReleasedMarginal, rows: int) -> np.ndarray:
        return one_way_agreement(
            released,
            model=model,
            synthetic=model * rows / RECORDS,
            records=RECORDS,
            level=0.001,
        ).tolerance

    # z at 0.001 / 4 is 3.4808, above the residual of 50 / 40 standard deviations.
    sampling = tolerance(released, RECORDS)[0] - 3.4808 * 40
    log_term = np.log(4 / 0.001)
    variance = RECORDS * 0.25 * 0.75
    bernstein = log_term / 3 + np.sqrt(log_term**2 / 9 + 2 * log_term * variance)
    assert sampling == pytest.approx(bernstein + 1, abs=0.01)
    # Where the residual is more than noise explains it takes the noise's place.
    misfit = ReleasedMarginal(("citizen",), model + np.array([500.0, 0.0]), 40.0, (0,))
    assert tolerance(misfit, RECORDS) == pytest.approx(
        [500 + sampling, 3.4808 * 40 + sampling], abs=0.1
    )
    # A table of a quarter of the rows is scaled up, and its sampling error with it.
    assert tolerance(released, RECORDS // 4)[0] > 3.4808 * 40 + 1.9 * bernstein


def test_misfit_is_what_noise_does_not_explain() -> None:
    model = np.array([1000.0, 3000.0])

    def misfit(departure: float, summed: int = 1) -> float:
        return one_way_agreement(
            ReleasedMarginal(("a",), model + np.array([departure, 0.0]), 40.0, (0,)),
            model=model,
            synthetic=model,
            records=4000,
            level=0.001,
            summed=summed,
        ).misfit

    assert misfit(100.0) == 0.0
    # Two cells together have more noise.
    assert misfit(140.0, summed=1) > 0.0
    assert misfit(140.0, summed=2) == 0.0
    assert misfit(539.232) == pytest.approx(0.1, abs=1e-5)


def test_an_empty_table_disagrees() -> None:
    model = np.array([1000.0, 3000.0])
    agreement = one_way_agreement(
        ReleasedMarginal(("a",), model, 40.0, (0,)),
        model=model,
        synthetic=np.zeros(2),
        records=4000,
        level=0.001,
    )
    assert (agreement.use_of_tolerance > 1).all()


@pytest.mark.slow
def test_the_models_own_sampler_stays_within_the_tolerance(release: SmallRelease) -> None:
    """100 tables, 5 attributes, level 1e-9 each: a false failure has probability below 1e-6.

    Without noise and residual the tolerance is that of sampling alone.
    """
    for seed in range(100):
        table = release.model.sample(RECORDS, np.random.default_rng(seed))
        for name in release.domain.names:
            model = release.model.marginal((name,))
            agreement = one_way_agreement(
                ReleasedMarginal((name,), model, 1e-9, (0,)),
                model=model,
                synthetic=table.marginal((name,)).astype(float),
                records=RECORDS,
                level=1e-9,
            )
            assert (agreement.use_of_tolerance <= 1).all()
