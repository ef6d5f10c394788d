"""A run again, from its transcript: the same model, and every draw compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import PrivateStepError
from jam_dagster.mechanisms import MechanismResult, Transcript
from jam_dagster.mechanisms import replay as module
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.live import Live
from jam_dagster.mechanisms.loops.transcript import subject_of
from jam_dagster.mechanisms.mwem_pgm import MwemPgm
from jam_dagster.mechanisms.replay import Replay, ReplayError, refit
from jam_dagster.models.base import Model
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS, SELECTION, NoiseCall
from jam_dagster.tables import Workload
from tests.battery.mechanisms import (
    CASES,
    Case,
    aim,
    every_relation,
    marked,
    mwem_pgm,
    of_each_kind,
    rap,
    tilt,
)
from tests.battery.runs import (
    Closing,
    closed,
    run,
    some_or_every_draw,
    whole,
    without_one,
)
from tests.battery.test_replay import DOMAIN, pairs
from tests.privacy.neighbours import RELATIONS
from tests.tiers import by_jax, first_quick

WORKLOAD = Workload.all_k_way(DOMAIN, 2)
RHO = 2.0
NO_TABLES = "jam_pgm-two-tables"
"""The case that is run again without its public tables, which its transcript may lack."""


def again(case: Case, transcript: Transcript) -> Model:
    ((_, _, public),) = pairs(1, 5, transcript.neighbours)
    given = case.learns(public) if case.make().uses_public and case.name != NO_TABLES else None
    return refit(transcript, DOMAIN, WORKLOAD, given)


def check_same(case: Case, result: MechanismResult) -> None:
    model = again(case, result.transcript)
    assert type(model) is type(result.model)
    assert model.total == result.model.total
    cliques = WORKLOAD.cliques if case.make().samples else result.model.cliques
    for clique in cliques:
        np.testing.assert_array_equal(model.marginal(clique), result.model.marginal(clique))


@of_each_kind
@every_relation
def test_a_replay_ends_with_the_same_model(case: Case, relation: Neighbours) -> None:
    check_same(case, whole(case, relation).result)


@of_each_kind
def test_a_stored_transcript_is_enough(case: Case, tmp_path: Path) -> None:
    result = whole(case, RELATIONS[3]).result
    result.transcript.save(tmp_path)
    check_same(case, replace(result, transcript=Transcript.load(tmp_path)))


@of_each_kind
@pytest.mark.parametrize("relation", first_quick(RELATIONS[:2]), ids=Neighbours.describe)
def test_lost_draws_are_draws(case: Case, relation: Neighbours) -> None:
    for made in without_one(case, relation).values():
        check_same(case, made.result)


@pytest.mark.slow
@some_or_every_draw
@of_each_kind
def test_a_release_that_was_closed_ends_there(case: Case, every: bool) -> None:
    relation = RELATIONS[0]
    # Before a round has measured something there is no release.
    charging = {step: made for step, made in closed(case, relation).items() if made}
    for made in charging.values():
        assert made.result.transcript.ended == "closed"
        check_same(case, made.result)
    for step in charging if every else list(charging)[-1:]:
        result = run(case, relation, MemoryStore(), Closing(case.rho, confirming=step))
        assert result.transcript.ended == "closed"
        check_same(case, result)


def forged(result: MechanismResult, place: int, **changes: Any) -> Transcript:
    """Return a transcript one of whose draws is another."""
    calls = list(result.transcript.calls)
    calls[place] = replace(calls[place], **changes)
    return replace(result.transcript, calls=tuple(calls))


FORGERIES: dict[str, Callable[[MechanismResult, int], Transcript]] = {
    "sensitivity": lambda it, at: forged(
        it, at, sensitivity=it.transcript.calls[at].sensitivity / 2
    ),
    "cost": lambda it, at: forged(it, at, rho=it.transcript.calls[at].rho * 1.001),
    "drawn": lambda it, at: forged(it, at, step="round-077/measure"),
    "size": lambda it, at: forged(it, at, cells=it.transcript.calls[at].cells + 1),
    "kind": lambda it, at: forged(
        it, at, kind="Gaussian" if it.transcript.calls[at].kind == COUNTS else COUNTS
    ),
    "lost": lambda it, at: forged(it, at, lost=True),
    "subject": lambda it, at: forged(it, at, subject="what nobody asked for"),
}


FOUND = {
    "sensitivity": "has the sensitivity",
    "cost": "cost rho",
    "drawn": "round-077/measure was",
    "size": "has the size",
    "kind": "has the kind",
    "subject": "has the subject|no candidate",
}
"""What is found first; that a draw was not lost may be found anywhere."""


def last_of_each_kind(calls: Sequence[NoiseCall]) -> list[int]:
    """Return the places of the last draws of each kind of step."""
    kinds = {(call.kind, call.step.rpartition("/")[2]): at for at, call in enumerate(calls)}
    return sorted(kinds.values())


@some_or_every_draw
@of_each_kind
@pytest.mark.parametrize("what", FORGERIES)
def test_a_draw_that_the_mechanism_does_not_make_is_found(
    case: Case, what: str, every: bool
) -> None:
    result = whole(case, RELATIONS[1]).result
    calls = result.transcript.calls
    for place in range(len(calls)) if every else last_of_each_kind(calls):
        call = calls[place]
        if what == "cost" and call.step == "records":
            # What a private number of records may cost is the release's to say.
            continue
        if what == "size" and call.kind == SELECTION and case.name == NO_TABLES:
            # How many public candidates there were, only their tables can say.
            continue
        with pytest.raises(ReplayError, match=FOUND.get(what, "")):
            again(case, FORGERIES[what](result, place))


@of_each_kind
def test_rounds_that_the_mechanism_does_not_make_are_found(case: Case) -> None:
    transcript = whole(case, RELATIONS[0]).result.transcript
    if not transcript.rounds:
        return
    *others, last = transcript.rounds
    more = replace(last, index=len(transcript.rounds))
    for rounds in (others, [*others, last, more], [*others, replace(last, candidates=99)]):
        with pytest.raises(ReplayError):
            again(case, replace(transcript, rounds=tuple(rounds)))
    for ended in {"closed", "budget exhausted"} - {transcript.ended}:
        with pytest.raises(ReplayError):
            again(case, replace(transcript, ended=ended))
    with pytest.raises(ReplayError, match="does not make"):
        again(case, replace(transcript, calls=(*transcript.calls, transcript.calls[-1])))


@pytest.mark.parametrize("case", marked([aim(), tilt()]))
def test_a_replay_follows_what_was_decided(case: Case) -> None:
    """A fit on another processor may come to another decision, and the run went on by its own."""
    transcript = whole(case, RELATIONS[0]).result.transcript
    assert transcript.decisions
    for decisions in (transcript.decisions[:-1], (*transcript.decisions, True)):
        with pytest.raises(ReplayError):
            again(case, replace(transcript, decisions=decisions))
    ((_, _, public),) = pairs(1, 5, transcript.neighbours)
    last = (*transcript.decisions[:-1], not transcript.decisions[-1])
    replayed = Replay(replace(transcript, decisions=last), DOMAIN, WORKLOAD, public)
    with suppress(ReplayError):
        replayed.run()
    assert replayed.differing == 1
    assert replayed.decisions[-1] is last[-1]


@pytest.mark.parametrize("case", marked([aim(), tilt()]))
def test_a_resumed_run_keeps_what_was_decided(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stored draws have the prices that follow, whatever the fit of another processor."""
    store, account = MemoryStore(), UnledgeredAccount(case.rho)
    whole = run(case, RELATIONS[0], store, account).transcript
    decide = Live.decide
    monkeypatch.setattr(Live, "decide", lambda ctx, holds: decide(ctx, not holds))
    resumed = run(case, RELATIONS[0], store, account).transcript
    assert (resumed.calls, resumed.decisions) == (whole.calls, whole.decisions)
    other = run(case, RELATIONS[0], MemoryStore(), UnledgeredAccount(case.rho)).transcript
    assert other.decisions[0] is not whole.decisions[0]


@pytest.mark.parametrize("case", marked([mwem_pgm(), aim(), rap()]))
def test_outcomes_that_no_draw_gives_are_found(case: Case) -> None:
    """A run gives finite floats; a fit would take others, or fail."""
    result = whole(case, RELATIONS[1]).result
    transcript = result.transcript
    for change in (
        lambda it: it * math.nan,
        lambda it: it + math.inf,
        lambda it: it.astype(int),
        lambda it: it.astype(np.float32),
        lambda it: it.astype(complex),
        lambda it: it.astype(object),
        lambda it: it.astype(str),
    ):
        values = {step: change(noisy) for step, noisy in transcript.values.items()}
        rounds = tuple(
            replace(
                one, measurement=replace(one.measurement, values=change(one.measurement.values))
            )
            if one.measurement
            else one
            for one in transcript.rounds
        )
        with pytest.raises(ReplayError, match="no draw gives"):
            again(case, replace(transcript, rounds=rounds, values=values))


PAYING = [mwem_pgm(), aim(), rap()]


@pytest.mark.parametrize("case", marked(PAYING, PAYING[1:]))
def test_noise_that_was_not_paid_for_is_found(case: Case) -> None:
    result = whole(case, RELATIONS[1]).result
    for place, call in enumerate(result.transcript.calls):
        assert call.scale is not None
        # The smaller epsilon, the more noise.
        less = call.scale * (1.01 if call.kind == SELECTION else 0.99)
        for scale in (less, 0.0, -call.scale, math.nan, math.inf):
            with pytest.raises(ReplayError, match="other noise than was paid for"):
                again(case, forged(result, place, scale=scale))
        with pytest.raises(ReplayError, match="does not say whether it was lost"):
            again(case, forged(result, place, scale=None))


@pytest.mark.parametrize("records", [0, -5])
def test_a_run_has_records(records: int) -> None:
    case = mwem_pgm()
    transcript = whole(case, RELATIONS[0]).result.transcript
    with pytest.raises(ReplayError, match=f"no run has {records} records"):
        again(case, replace(transcript, records=records))


@by_jax
def test_choices_are_written_as_a_run_writes_them() -> None:
    """The ledger has the digest of one spelling."""
    case = rap()
    result = whole(case, RELATIONS[0]).result
    subject = result.transcript.calls[0].subject
    for other in (f"{subject} ", subject.replace(",", ", "), subject.replace("a", "\\u0061")):
        assert other != subject
        with pytest.raises(ReplayError, match="no candidate"):
            again(case, forged(result, 0, subject=other))


def test_a_choice_of_no_candidate_is_found() -> None:
    case = mwem_pgm()
    transcript = whole(case, RELATIONS[0]).result.transcript
    first, *others = transcript.calls
    single = replace(first, subject=subject_of(transcript.rounds[0].clique[:1]))
    with pytest.raises(ReplayError, match="no candidate"):
        again(case, replace(transcript, calls=(single, *others)))


def test_tables_without_end_are_not_believed() -> None:
    """Each name of a public table brings as many candidates as there are marginals."""
    (case,) = (one for one in CASES if one.name == NO_TABLES)
    transcript = whole(case, RELATIONS[0]).result.transcript
    more = [
        replace(transcript.rounds[0], index=at, source="public", table=f"t{at}", measurement=None)
        for at in range(101)
    ]
    with pytest.raises(ReplayError, match=r"names 10[0-9] public tables"):
        again(case, replace(transcript, rounds=(*transcript.rounds, *more)))


@pytest.mark.parametrize("kind", ["select", "values"])
@pytest.mark.parametrize("draws_on", [False, True])
def test_a_run_does_not_go_on_after_a_draw_that_failed(kind: str, draws_on: bool) -> None:
    """Whether private values let a draw be made is an answer, and what follows would tell it."""

    def failing() -> Any:
        raise ZeroDivisionError

    class Forgiving(MwemPgm):
        def draw(self, ctx: Context) -> Model:
            clique, price = ctx.workload.cliques[0], {"rho": RHO / 10, "sensitivity": 1.0}
            for _ in ctx.rounds(1):
                with suppress(ZeroDivisionError):
                    if kind == "select":
                        ctx.select([clique], failing, **price)
                    else:
                        ctx.values("mean", failing, size=1, **price)
                if draws_on:
                    ctx.measure(clique, RHO / 10)
                break
            return None  # type: ignore[return-value]

    ((one, _, _),) = pairs(1, 5, RELATIONS[0])
    account = UnledgeredAccount(RHO)
    with pytest.raises(PrivateStepError, match="after a draw that failed"):
        Forgiving(rounds=2).run(one, None, WORKLOAD, Draws(SeededNoise(1), account))
    # A vector is computed after its charge, which pays for the answer.
    assert account.spent == pytest.approx(RHO / 10 if kind == "values" else 0.0)


def test_nothing_is_decided_within_a_draw() -> None:
    """A decision leaves with the transcript, and is stored, for nothing."""

    class Deciding(MwemPgm):
        name = "deciding"

        def draw(self, ctx: Context) -> Model:
            (clique, *_) = ctx.workload.cliques

            def scores() -> np.ndarray:
                (block,) = ctx.counts([clique])
                return np.array([float(ctx.decide(block[clique].ravel()[0] > 3))])

            for _ in ctx.rounds(1):
                ctx.select([clique], scores, rho=RHO / 10, sensitivity=1.0)
            return None  # type: ignore[return-value]

    ((one, _, _),) = pairs(1, 5, RELATIONS[0])
    account, store = UnledgeredAccount(RHO), MemoryStore()
    with pytest.raises(PrivateStepError, match="within a draw"):
        Deciding(rounds=1).run(one, None, WORKLOAD, Draws(SeededNoise(1), account, store))
    assert store.get("decision-001") is None
    assert account.spent == 0.0


def test_private_data_are_reached_only_within_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    class Peeking(MwemPgm):
        name = "peeking"

        def draw(self, ctx: Context) -> Model:
            ctx.hold(ctx.workload.cliques)
            next(iter(ctx.counts(ctx.workload.cliques[:1])))
            return super().draw(ctx)

    ((one, _, _),) = pairs(1, 5, RELATIONS[0])
    draws = Draws(SeededNoise(1), UnledgeredAccount(RHO))
    with pytest.raises(PrivateStepError, match="outside a draw"):
        Peeking(rounds=2).run(one, None, WORKLOAD, draws)
    assert draws.calls == ()
    result = MwemPgm(rounds=2).run(one, None, WORKLOAD, draws)
    monkeypatch.setattr(module, "mechanism_class", lambda name: Peeking)
    with pytest.raises(ReplayError, match="outside a draw"):
        refit(result.transcript, DOMAIN, WORKLOAD)


@of_each_kind
@pytest.mark.parametrize("relation", first_quick(RELATIONS[:2]), ids=Neighbours.describe)
def test_private_data_are_looked_at_once_a_draw(
    case: Case, relation: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on from what is stored looks at none."""
    looked: list[str] = []
    compute = Live._on_private

    def counted(self: Live, thunk: Callable[[], Any]) -> Any:
        looked.append(case.name)
        return compute(self, thunk)

    monkeypatch.setattr(Live, "_on_private", counted)
    store = MemoryStore()
    calls = run(case, relation, store, UnledgeredAccount(case.rho)).transcript.calls
    assert len(looked) == len([call for call in calls if call.subject != RECORDS])
    looked.clear()
    run(case, relation, store, UnledgeredAccount(case.rho))
    assert looked == []
