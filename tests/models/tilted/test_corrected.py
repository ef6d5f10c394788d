"""A model that is tilted to its public records' correlations: answers, rows and storage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import load_model
from jam_dagster.models.tilted import moments
from jam_dagster.models.tilted.corrected import CorrectedModel
from jam_dagster.models.tilted.moments import Moments
from tests.models.tilted.test_moments import correlations, model_of, related


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "POOL", 20_000)


def corrected(share: float = 0.3) -> CorrectedModel:
    model = model_of(related(), share)
    return CorrectedModel(model, 3, Moments(model, 3).solve())


def test_answers_and_rows_have_the_correlations() -> None:
    made = corrected()
    rows = made.sample(20_000, np.random.default_rng(5))
    assert rows.records == 20_000
    wanted = correlations(related())
    assert (np.abs(correlations(rows) - wanted) < 0.08).all()
    pair = made.marginal(("a", "b"))
    assert pair.min() >= 0.0
    assert pair.sum() == pytest.approx(made.total)
    np.testing.assert_allclose(made.marginal(("b", "a")), pair.T, rtol=1e-12)
    a, b = np.indices(pair.shape)
    answered = np.cov(a.ravel(), b.ravel(), aweights=pair.ravel())
    of_pair = answered[0, 1] / np.sqrt(answered[0, 0] * answered[1, 1])
    assert of_pair == pytest.approx(wanted[0], abs=0.08)
    for name in made.domain.names:
        before = made.base.marginal((name,))
        np.testing.assert_allclose(made.marginal((name,)), before, atol=0.002 * made.total)


def test_it_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    made = corrected()
    made.save(tmp_path)
    read = load_model(tmp_path)
    assert isinstance(read, CorrectedModel)
    assert read.distance(made) == made.distance(read) == 0.0
    np.testing.assert_array_equal(read.marginal(("a", "c")), made.marginal(("a", "c")))


def test_another_solution_is_infinitely_far() -> None:
    made = corrected()
    nearly = made.solution.copy()
    nearly[1] += 1
    assert made.distance(CorrectedModel(made.base, 3, nearly)) == np.inf
    assert made.distance(made.base) == np.inf
    assert 0.0 < made.distance(replace(made, base=replace(made.base, share=0.2999))) < 0.01


def test_a_solution_that_does_not_follow_is_refused() -> None:
    made = corrected()
    with pytest.raises(InputError, match="does not reach the moments"):
        CorrectedModel(made.base, 3, made.solution // 2)
    left = model_of(related(), share=0.0)
    with pytest.raises(InputError, match="tilts nothing"):
        CorrectedModel(left, 3, np.zeros_like(made.solution))
