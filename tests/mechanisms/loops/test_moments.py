"""Moments as a step of a run: settled once, free, taken from what is stored, and verified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jam_dagster.mechanisms import MechanismResult, make_mechanism, refit
from jam_dagster.mechanisms.loops.moments import STEP
from jam_dagster.mechanisms.loops.rows import sample_rows
from jam_dagster.mechanisms.replay import ReplayError
from jam_dagster.models.tilted import moments
from jam_dagster.models.tilted.corrected import CorrectedModel, with_moments
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.moments import Moments
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.privacy import Draws, MemoryStore, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.accounting import units_up
from jam_dagster.release.engine import prior_rows
from jam_dagster.tables import Domain, EncodedTable, MarginalSource, PublicTables, Workload
from jam_dagster.tables.codes.privacy_unit import seeded_secret
from jam_dagster.tables.codes.roots import encode_roots
from jam_dagster.tables.domain.children import Link
from jam_dagster.trials.runs import PRIOR_ROWS, Run
from jam_dagster.trials.splits import Split
from jam_dagster.trials.trial import _prior_rows
from tests.models.tilted.test_moments import DOMAIN, correlations, related

WORKLOAD = Workload.all_k_way(DOMAIN, 2)
PRIVATE = related(records=1_000, seed=1)
PUBLIC = related(records=300, seed=2)


@pytest.fixture(autouse=True)
def small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "POOL", 20_000)


def run(
    mechanism: str = "tilt",
    public: MarginalSource = PUBLIC,
    *,
    rho: float = 0.05,
    store: MemoryStore | None = None,
) -> MechanismResult:
    draws = Draws(SeededNoise(0), UnledgeredAccount(rho), store)
    return make_mechanism(mechanism).run(PRIVATE, public, WORKLOAD, draws)


def in_parts(table: EncodedTable, *parts: tuple[str, ...]) -> PublicTables:
    """Return the table's columns as several tables."""
    made = {}
    for part in parts:
        columns = tuple(table.column(name) for name in part)
        made["".join(part)] = EncodedTable(DOMAIN.project(part), columns)
    return PublicTables(DOMAIN, made)


@pytest.mark.parametrize("mechanism", ["tilt", "public_prior"])
def test_a_run_has_its_records_correlations_for_nothing(mechanism: str) -> None:
    made = run(mechanism)
    assert isinstance(made.model, CorrectedModel)
    ours, theirs = (
        correlations(one.sample(50_000, np.random.default_rng(0)))
        for one in (made.model, made.model.base)
    )
    wanted = correlations(PUBLIC)
    assert np.abs(ours - wanted).mean() < 0.8 * np.abs(theirs - wanted).mean()

    transcript = made.transcript
    assert list(transcript.solutions) == [STEP]
    assert STEP not in {call.step for call in transcript.calls}
    assert sum(units_up(call.rho) for call in transcript.calls) == units_up(transcript.rho_spent)
    again = refit(transcript, DOMAIN, WORKLOAD, PUBLIC)
    assert again.distance(made.model) == 0.0


FORGED: dict[str, tuple[Callable[[np.ndarray], dict[str, np.ndarray]], str]] = {
    "less": (lambda found: {STEP: found * 7 // 10}, "moments does not reach the moments"),
    "nothing": (lambda found: {STEP: np.zeros_like(found)}, "moments does not reach the moments"),
    "far": (lambda found: {STEP: found * 1_000}, "moments is out of its bounds"),
    "none": (lambda _: {}, "lacks the solution of moments"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_solution_is_found(forgery: str) -> None:
    made = run("public_prior")
    forge, said = FORGED[forgery]
    forged = replace(made.transcript, solutions=forge(made.transcript.solutions[STEP]))
    with pytest.raises(ReplayError, match=said):
        refit(forged, DOMAIN, WORKLOAD, PUBLIC)


def test_a_run_that_tilts_nothing_says_so_and_a_forged_tilt_is_found() -> None:
    """The private table proves the public one wrong."""
    b = 49 - PUBLIC.column("b").astype(int)
    wrong = EncodedTable(DOMAIN, (PUBLIC.column("a"), b, PUBLIC.column("c")))
    made = run(public=wrong, rho=5.0)
    assert isinstance(made.model, TiltedModel)
    found = made.transcript.solutions[STEP]
    assert not found.any()
    refit(made.transcript, DOMAIN, WORKLOAD, wrong)
    forged = found.copy()
    forged[1] = 1
    with pytest.raises(ReplayError, match="tilts a model that nothing should"):
        refit(replace(made.transcript, solutions={STEP: forged}), DOMAIN, WORKLOAD, wrong)


def test_a_resumed_run_takes_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    made = run(store=store)
    monkeypatch.setattr(Moments, "solve", None)
    assert run(store=store).model.distance(made.model) == 0.0


@pytest.mark.parametrize("mechanism", ["tilt", "public_prior"])
def test_public_tables_of_parts_tilt_nothing(mechanism: str) -> None:
    made = run(mechanism, in_parts(PUBLIC, ("a", "b"), ("b", "c")))
    assert isinstance(made.model, TiltedModel)
    assert not made.transcript.solutions


def test_of_several_public_tables_the_whole_ones_tilt() -> None:
    whole, part = DOMAIN.names, ("a", "b")
    made = run("public_prior", in_parts(PUBLIC, whole, part))
    assert isinstance(made.model, CorrectedModel)
    one = run("public_prior").model
    assert isinstance(one, CorrectedModel)
    assert made.model.moments.trusted == pytest.approx(one.moments.trusted)
    wanted = correlations(PUBLIC)
    rows = made.model.sample(50_000, np.random.default_rng(0))
    assert (np.abs(correlations(rows) - wanted) < 0.12).all()


def test_roots_tilt_with_their_children_and_one_that_is_not_there_has_no_place() -> None:
    """A household's own number and those of its first and second person rise together."""
    rng = np.random.default_rng(0)
    link = Link("persons", "household", 2)
    domain = Domain.from_sizes({"income": 40}).with_children(link, Domain.from_sizes({"age": 40}))
    income = rng.integers(0, 40, 300)
    sizes = rng.integers(0, 3, 300)
    ages = np.clip(np.repeat(income, sizes) + rng.integers(-30, 31, sizes.sum()), 0, 39)
    households = pd.DataFrame({"household": range(300), "income": income})
    persons = pd.DataFrame({"household": np.repeat(range(300), sizes), "age": ages})
    public = encode_roots([households], [persons], domain, seeded_secret(1))
    model = PublicPrior.of(domain, public).model(1_000.0)
    made = Moments(model, 0)
    for position, scores in made.scores.columns:
        absent = domain.attributes[position].absent_code
        assert absent is None or scores[absent] == 0.0
    found = with_moments(model)
    rows = found.sample(5_000, np.random.default_rng(0))
    assert rows.records == 5_000
    assert found.distance(with_moments(model)) == 0.0


def test_a_root_without_whole_records_tilts_nothing() -> None:
    link = Link("persons", "household", 2)
    domain = Domain.from_sizes({"income": 40}).with_children(link, Domain.from_sizes({"age": 40}))
    roots = domain.project(("income",))
    public = PublicTables(domain, {"roots": EncodedTable(roots, (np.arange(200) % 40,))})
    model = PublicPrior.of(domain, public).model(1_000.0)
    assert with_moments(model) is model


def test_the_free_baseline_has_the_same_correlations() -> None:
    """What costs nothing counts on both sides of what a budget bought."""
    made = run("public_prior")
    free = prior_rows(made, PUBLIC)
    wanted = sample_rows(made.model, made.transcript)
    np.testing.assert_array_equal(free.columns, wanted.columns)

    split = Split("made", PRIVATE, PUBLIC)
    benched = _prior_rows(Run("made", PRIOR_ROWS, seed=0), split, PUBLIC, WORKLOAD)
    own, theirs = (
        correlations(one.sample(1_000, np.random.default_rng(0)))
        for one in (made.model, made.model.base)
    )
    apart = [np.abs(correlations(benched) - one).mean() for one in (own, theirs)]
    assert apart[0] < apart[1] / 2
