"""PMW^Pub and MWEM by hand: the update, the reuse of answers, the average."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import MultiplicativeWeights
from jam_dagster.models.weighted.support import Support
from tests.mechanisms.conftest import histogram_run as run


def logistic(x):
    return 1 / (1 + math.exp(-x))


def test_one_update_of_a_marginal(private, public):
    """Half of the public records have a = 0, and 8 of 12 private ones: (8/12 - 1/2) / 2 = 1/12."""
    made, noise = run("pmw_pub", private, public, [0], iterate="last")
    weights = made.model.probabilities
    up, down = math.exp(1 / 12), math.exp(-1 / 12)
    expected = np.array([up, up, down, down]) / (2 * up + 2 * down)
    np.testing.assert_allclose(weights, expected, rtol=1e-12)
    assert noise.measurements[0]["counts"].tolist() == [8, 4]
    assert made.model.marginal(("a",))[0] == pytest.approx(12 * logistic(1 / 6), rel=1e-12)


def test_mwem_begins_with_the_even_distribution(private):
    made, _ = run("mwem", private, None, [0], passes=1)
    assert made.model.support.size == 12
    assert made.model.marginal(("a",))[0] == pytest.approx(12 * logistic(1 / 6), rel=1e-12)
    np.testing.assert_allclose(made.model.marginal(("b",)), 4.0, rtol=1e-12)


def measured(clique, values):
    return Measurement(clique, "private", np.array(values, dtype=float), 1.0, 0)


def test_past_answers_are_used_again_where_they_are_at_least_half_as_wrong(domain):
    support = Support.of_domain(domain)

    def fitted(*measurements, passes=1):
        fit = MultiplicativeWeights(support, np.zeros(12), 10, passes=passes, average=False)
        steps = [fit.add(measured(*one)).iterations for one in measurements]
        return fit.model.marginal(("a",))[0] / 10, steps

    a0, steps = fitted((("a",), [10, 0]))
    assert (a0, steps) == (pytest.approx(logistic(0.5)), [1])
    # c is right already, so that a is the more wrong, and is pulled once more from where it is.
    again, steps = fitted((("a",), [10, 0]), (("c",), [5, 5]))
    assert steps == [1, 2]
    assert again == pytest.approx(logistic(0.5 + (1 - a0)))
    # c is wrong by 1/2, and a by less than half of what is left of it.
    _, steps = fitted((("a",), [7, 3]), (("c",), [10, 0]))
    assert steps == [1, 1]
    # Twice through one answer is twice the update.
    twice, steps = fitted((("a",), [10, 0]), passes=2)
    assert steps == [2]
    assert twice == pytest.approx(again)


def test_no_past_answer_is_left_out_for_a_cell_that_no_weights_can_change(domain):
    """a is wrong by 0.15 where b is by 0.2, and by 0.4 in a cell without records."""
    every = Support.of_domain(domain).table
    support, _ = Support.of_records(every.take(every.column("b") < 2))
    fit = MultiplicativeWeights(support, np.zeros(8), 10, passes=1, average=False)
    assert fit.add(measured(("a",), [7, 3])).iterations == 1
    assert fit.add(measured(("b",), [3, 3, 4])).iterations == 2


def test_the_average_is_that_of_the_weights_after_each_round(private, public):
    last, average = (
        run("pmw_pub", private, public, [0, 1], iterate=iterate)[0].model
        for iterate in ("last", "average")
    )
    first = run("pmw_pub", private, public, [0], iterate="last")[0].model
    np.testing.assert_allclose(
        average.probabilities, (first.probabilities + last.probabilities) / 2, rtol=1e-12
    )


@pytest.mark.slow
def test_weights_that_vanish_come_back(domain):
    """In linear space e^-1000 would be nothing for ever."""
    support = Support.of_domain(domain)
    start = np.where(support.codes(("a",)) == 0, 0.0, -1000.0)
    fit = MultiplicativeWeights(support, start, 10, passes=100, average=False)
    for _ in range(40):
        fit.add(measured(("a",), [3, 7]))
    np.testing.assert_allclose(fit.model.marginal(("a",)), [3, 7], rtol=1e-6)
