"""Whatever the noise says, a fit ends with a model that is a distribution and gives rows."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.mechanisms import make_mechanism
from jam_dagster.mechanisms.loops.mixture import Training
from jam_dagster.mechanisms.mst import RareValues
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import EntropyProjection, MultiplicativeWeights
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Domain, Workload
from tests.examples import examples
from tests.mechanisms.extremes import (
    DOMAINS,
    PLAIN,
    SIGMAS,
    TOTALS,
    check_model,
    check_rows,
    marginals,
)

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

CLOSURE = Workload.all_k_way(PLAIN, 4).downward_closure()
PAIRS = [clique for clique in CLOSURE if len(clique) == 2]

domains = st.sampled_from(DOMAINS)


def measured(
    cliques: Iterable[tuple[str, ...]] = CLOSURE,
) -> st.SearchStrategy[list[Measurement]]:
    """Return measurements in a row."""

    @st.composite
    def one(draw: st.DrawFn) -> Measurement:
        clique = draw(st.sampled_from(list(cliques)))
        values = np.array(draw(marginals(PLAIN.size(clique))), dtype=np.float64)
        shape = [PLAIN.sizes[name] for name in clique]
        return Measurement(clique, "private", values.reshape(shape), draw(SIGMAS), 0)

    return st.lists(one(), min_size=1, max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("weighting", ["alike", "noise"])
@examples(25)
@given(
    domain=domains,
    said=measured(),
    total=TOTALS,
    iterations=st.sampled_from([1, 20, 60]),
    merge=st.booleans(),
)
def test_a_graphical_model(
    weighting: Weighting,
    domain: Domain,
    said: list[Measurement],
    total: int,
    iterations: int,
    merge: bool,
) -> None:
    check_graphical(
        "accelerated", weighting, domain, said, total, iterations=iterations, merge=merge
    )


@pytest.mark.gate
@examples(6)
@given(
    weighting=st.sampled_from(["alike", "noise"]),
    domain=domains,
    # It compiles a program for each set of cliques.
    said=measured(PAIRS[:2]),
    total=TOTALS,
)
def test_private_pgms_own_fit(
    weighting: Weighting, domain: Domain, said: list[Measurement], total: int
) -> None:
    check_graphical("mbi", weighting, domain, said, total, iterations=50)


def check_graphical(
    name: str,
    weighting: Weighting,
    domain: Domain,
    said: list[Measurement],
    total: int,
    *,
    iterations: int,
    merge: bool = False,
) -> None:
    estimator = make_estimator(
        name, domain, total, iterations=iterations, tolerance=0.1, weighting=weighting
    )
    rare = RareValues(domain)
    for one in said:
        assert math.isfinite(estimator.add(rare.merged(one) if merge else one).loss)
    for model in (estimator.model, estimator.model.recalibrated()):
        check_model(model, domain, total, CLOSURE)
        check_rows(model, domain, 17)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["projection", "weights", "average"])
@examples(30)
@given(
    domain=domains,
    said=measured(),
    total=TOTALS,
    gamma=st.sampled_from([0.0, 1.0, 3.0]),
    logs=st.lists(
        st.sampled_from([0.0, -1.0, -474.0, -720.0, -1e4, -np.inf]), min_size=12, max_size=12
    ),
)
def test_weights_of_records(
    kind: str,
    domain: Domain,
    said: list[Measurement],
    total: int,
    gamma: float,
    logs: list[float],
) -> None:
    support = Support.of_domain(domain)
    start = np.array([0.0, *logs[: support.size - 1]])
    fit = (
        EntropyProjection(support, start, total, gamma=gamma, iterations=20)
        if kind == "projection"
        else MultiplicativeWeights(support, start, total, passes=2, average=kind == "average")
    )
    for one in said:
        assert math.isfinite(fit.add(one).loss)
        np.testing.assert_array_equal(np.isfinite(fit.logs), np.isfinite(start))
    for model in (fit.model, fit.released):
        check_model(model, domain, total, CLOSURE)
        check_rows(model, domain, 17)
        assert not model.probabilities[np.isneginf(start)].any()


@pytest.mark.slow
@examples(20)
@given(domains, measured([("a", "b", "c", "d")]), measured(), TOTALS)
def test_measured_answers(
    domain: Domain, first: list[Measurement], others: list[Measurement], total: int
) -> None:
    # One that holds all attributes, so that all are answered.
    check_model(MeasuredAnswers(domain, total, [*first, *others]), domain, total, CLOSURE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gem", "rap_softmax", "mwem_rp"])
@pytest.mark.parametrize("loss", ["l1", "l2"])
@examples(5)
@given(said=measured(), total=TOTALS, rate=st.sampled_from([3e-4, 1.0, 1e30]))
def test_a_mixture_of_products(
    name: str, loss: str, said: list[Measurement], total: int, rate: float
) -> None:
    """A learning rate that single precision cannot follow leaves a model, too."""
    settings = {"components": 5, "iterations": 3, "loss": loss, "learning_rate": rate}
    width = {"width": 4} if name == "gem" else {}
    training = Training(make_mechanism(name, **settings, **width), PLAIN, None, total)
    for one in said:
        assert math.isfinite(training.add(one).loss)
    for model in (training.model, training.released):
        check_model(model, PLAIN, total, CLOSURE)
        check_rows(model, PLAIN, 17)
