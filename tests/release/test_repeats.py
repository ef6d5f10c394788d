"""A repeat that costs nothing opens nothing: what it makes follows from what is stored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError, LedgerIntegrityError, SourceBindingError
from jam_dagster.evaluation.workload_error import MEANS_STEP
from jam_dagster.mechanisms.live import Live, MechanismResult
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.weighted.oracle import BestRecords
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.privacy.shares import EVALUATION
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.engine import Engine, Progress
from jam_dagster.release.run import RUN_FILE, ReleaseErrors, write_run
from jam_dagster.tables import FrameSource, source_from_config
from tests.budgets import PUBLIC_N
from tests.release.test_engine import ledger, never, public_of, table
from tests.release.test_place import engine as unbound
from tests.tiers import slow

__all__ = ["ledger"]

PRIOR = {"mechanism": "public_prior", "settings": {}}
OUTSIDE = table(200, 1).assign(town="Paris")


def engine(home: Path, ledger: Ledger, **options: Any) -> Engine:
    made = unbound(home, ledger, **options)
    bound = replace(made.funding, identity=made.spec.private.identity())  # type: ignore[type-var]
    return replace(made, funding=bound)


def draw(release: Engine, home: Path) -> tuple[MadeRelease, ReleaseErrors]:
    release.reserve()
    public = public_of(release.spec)
    with release.funding.exclusive():
        made, errors = release.draw(public, home / "table.parquet")
    if isinstance(errors, Exception):
        raise errors
    return made, errors


def attempts(ledger: Ledger) -> tuple[int, int]:
    """Return how many attempts there were, and how many count."""
    verified = ledger.verify().accesses
    return 0 if verified is None else verified.attempts, len(ledger.open_attempts("people"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        *slow(
            {"evaluation_mode": "off"},
            {"neighbours": "add_remove"},
            {"privacy_unit": "who", "max_rows": 2},
        ),
        PRIOR,
    ],
    ids=["noisy errors", "no errors", "private number", "persons", "reads no value"],
)
def test_a_repeat_opens_nothing_and_makes_the_same(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    private = table(200, 1).assign(who=[f"{n // 2}" for n in range(200)])
    first, errors = draw(engine(tmp_path, ledger, private=private, **options), tmp_path)
    events, before = ledger.events(), attempts(ledger)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    again = engine(tmp_path, ledger, private=OUTSIDE, **options)
    said: list[str] = []
    again = replace(again, progress=Progress(notify=said.append))
    public = public_of(again.spec)
    again.reserve()
    for name in ("read", "counted", "count_records", "contents"):
        monkeypatch.setattr(FrameSource, name, never)
    repeated, _ = again.draw(public, tmp_path / "table.parquet")

    assert repeated.repeated
    pd.testing.assert_frame_equal(repeated.table, first.table)
    assert repeated.error == errors
    assert (ledger.events(), attempts(ledger)) == (events, before)
    assert before == (1, 0)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == files
    assert "If the private table has changed since, raise privacy.edition" in said[0]


def lost(release: Engine) -> None:
    """Lose the answer of the evaluation, which was charged."""
    (stored,) = release.place.root.rglob("evaluation-means.npz")  # type: ignore[attr-defined]
    stored.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("closed", [False, *slow(True)], ids=["lost", "closed by an operator"])
def test_an_answer_that_can_never_come_opens_nothing(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    begun = engine(tmp_path, ledger)
    if closed:
        stopped_before_its_evaluation(begun, tmp_path, monkeypatch)
        begun.funding.close(EVALUATION, "an operator")
    else:
        draw(begun, tmp_path)
        lost(begun)
    before = attempts(ledger)
    for _ in range(4):
        drawn, errors = draw(engine(tmp_path, ledger, private=OUTSIDE), tmp_path)
        assert drawn.repeated
        assert errors.synthetic is None
    assert attempts(ledger) == before


def stopped_before_its_evaluation(
    release: Engine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            draw(release, home)


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_an_evaluation_that_is_left_opens_the_same_table_alone(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = engine(tmp_path, ledger)
    stopped_before_its_evaluation(begun, tmp_path, monkeypatch)
    with pytest.raises(InputError, match="with another private table"):
        draw(engine(tmp_path, ledger, private=table(200, 3)), tmp_path)
    assert attempts(ledger) == (2, 2)
    drawn, errors = draw(engine(tmp_path, ledger), tmp_path)
    assert drawn.repeated
    assert errors.synthetic is not None
    assert begun.place.outcomes.get(MEANS_STEP) is not None
    assert attempts(ledger) == (3, 2)


def test_draws_that_somebody_removed_let_no_other_table_in(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger says what was drawn, and the private store on which table."""
    begun = engine(tmp_path, ledger)
    stopped_before_its_evaluation(begun, tmp_path, monkeypatch)
    for path in (begun.place.root / "draws").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="with another private table"):
        draw(engine(tmp_path, ledger, private=table(200, 3)), tmp_path)


def drop_the_run(home: Path) -> None:
    (home / "asset.run" / RUN_FILE).unlink()


@pytest.mark.parametrize(
    ("evaluate", "between"),
    [("exact", lambda home: None), ("off", drop_the_run)],
    ids=["exact errors", "a run that somebody removed"],
)
def test_an_opening_that_pays_nothing_counts_even_if_it_ends_well(
    tmp_path: Path, ledger: Ledger, evaluate: str, between: Callable[[Path], None]
) -> None:
    first, _ = draw(engine(tmp_path, ledger, evaluation_mode=evaluate), tmp_path)
    assert attempts(ledger) == (1, 0)
    between(tmp_path)
    again, _ = draw(engine(tmp_path, ledger, evaluation_mode=evaluate), tmp_path)
    assert again.run.digest == first.run.digest
    assert attempts(ledger) == (2, 1)


@pytest.mark.parametrize("killed", [False, True], ids=["whole", "killed before its end"])
def test_a_repeat_that_is_refused_for_its_number_of_records_binds_nothing(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    """Exact errors open the table that the officer's rebinding lets in."""

    def reading(name: str, rows: int) -> Engine:
        path = tmp_path / name
        table(rows, 1).to_csv(path, index=False)
        made = engine(tmp_path, ledger, evaluation_mode="exact")
        spec = made.spec.model_copy(update={"private": source_from_config(str(path))})
        funding = replace(made.funding, identity=spec.private.identity())  # type: ignore[type-var]
        return replace(made, spec=spec, funding=funding)

    begun = reading("people.csv", 200)
    if killed:
        stopped_before_its_evaluation(begun, tmp_path, monkeypatch)
    else:
        draw(begun, tmp_path)
    ledger.rebind("people", reason="the table moved")
    # The ledger knows the number, even if the digest of the table is lost.
    (digest,) = tmp_path.rglob("contents/*.json")
    kept = digest.read_bytes()
    digest.unlink()
    with pytest.raises(SourceBindingError, match="reads another number of records"):
        draw(reading("others.csv", 201), tmp_path)
    assert [one.source for one in ledger.events() if one.kind is Kind.BOUND] == [""]
    digest.write_bytes(kept)
    drawn, _ = draw(reading("moved.csv", 200), tmp_path)
    assert drawn.repeated
    assert ledger.events()[-1].source


@pytest.mark.parametrize("name", ["epsilon", *slow("rho_spent", "model")])
def test_a_run_that_somebody_changed_is_made_again(
    tmp_path: Path, ledger: Ledger, name: str
) -> None:
    """The ledger has the digest of the run that was made; who writes releases has not."""
    told: list[str] = []
    first, _ = draw(engine(tmp_path, ledger, evaluation_mode="off"), tmp_path)
    run, events = first.run, ledger.events()
    forged = {
        "epsilon": replace(run, release=replace(run.release, epsilon=0.001)),
        "rho_spent": replace(run, transcript=replace(run.transcript, rho_spent=0.0)),
        "model": replace(run, model=FittedModel.uniform(run.model.domain, 200.0)),
    }[name]
    write_run(forged, tmp_path / "asset.run")
    release = engine(tmp_path, ledger, evaluation_mode="off")
    release = replace(release, progress=Progress(notify=told.append))

    again, _ = draw(release, tmp_path)

    assert "holds another run than the one that was made" in told[0]
    assert not again.repeated
    assert (again.run.release, again.run.content) == (run.release, run.content)
    assert ledger.events() == events
    third, _ = draw(engine(tmp_path, ledger, evaluation_mode="off"), tmp_path)
    assert third.repeated


def test_a_run_that_somebody_put_there_is_none(tmp_path: Path, ledger: Ledger) -> None:
    """A release that never paid has no run, whatever lies in its place: it would publish its n."""
    others = Ledger(tmp_path / "others.db")
    others.grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    asked = {**PRIOR, "evaluation_mode": "off"}
    draw(engine(tmp_path / "there", others, private=table(100, 9), **asked), tmp_path)
    shutil.copytree(tmp_path / "there", tmp_path / "here")
    victim = engine(tmp_path / "here", ledger, **asked)
    assert victim.place.finished() is not None

    drawn, _ = draw(victim, tmp_path)

    assert not drawn.repeated
    assert drawn.run.transcript.records == 200
    assert [one.records for one in ledger.events() if one.kind == Kind.COUNTED] == ["200"]


SOLVER = {
    "mechanism": "dualquery",
    "settings": {"s": 3},
    "epsilon": 3.0,
    "evaluation_mode": "off",
    "public": None,
}


def forgotten(home: Path) -> None:
    """Remove the run, its transcript and its model, and keep the draws."""
    for path in (*home.rglob("asset.run"), *home.rglob("transcript"), *home.rglob("model")):
        shutil.rmtree(path, ignore_errors=True)


def invented(home: Path) -> int:
    """Put records of somebody else in the place of a solver's; return in how many files."""
    stored = sorted(home.rglob("solution-*.npz"))
    for path in stored:
        with np.load(path) as found:
            parts = {name: found[name] for name in found.files}
        parts["records"] = np.zeros_like(parts["records"])
        np.savez_compressed(path, **parts)
    return len(stored)


def none_found(programs: BestRecords) -> np.ndarray:
    return np.zeros((len(programs.bonuses), len(programs.shape)), dtype=np.int64)


@pytest.fixture
def generous(tmp_path: Path) -> Ledger:
    granted = Ledger(tmp_path / "generous.db")
    granted.grant("people", epsilon=10.0, delta=1e-9, policy=PUBLIC_N)
    return granted


@pytest.mark.slow
def test_invented_records_of_a_solver_are_never_the_table(
    tmp_path: Path, generous: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = draw(engine(tmp_path, generous, **SOLVER), tmp_path)
    forgotten(tmp_path)
    assert invented(tmp_path) > 1
    events = generous.events()

    again, _ = draw(engine(tmp_path, generous, **SOLVER), tmp_path)
    pd.testing.assert_frame_equal(again.table, first.table)
    assert (again.run.content, generous.events()) == (first.run.content, events)

    # Another solver finds others, and none of both becomes a table.
    forgotten(tmp_path)
    assert invented(tmp_path) > 1
    monkeypatch.setattr(BestRecords, "solve", none_found)
    with pytest.raises(LedgerIntegrityError, match="the machine that drew"):
        draw(engine(tmp_path, generous, **SOLVER), tmp_path)
    assert generous.events() == events
    assert not (tmp_path / "asset.run").exists()


def test_errors_of_another_run_are_refused_and_stay_charged(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, errors = draw(engine(tmp_path, ledger), tmp_path)
    assert errors.synthetic is not None
    balance = ledger.balance("people")
    forgotten(tmp_path)

    # As on a machine whose fit is another one.
    fitted = Live.result

    def elsewhere(self: Live, *given: Any) -> MechanismResult:
        made = fitted(self, *given)
        return replace(made, model=FittedModel.uniform(self.domain, self.records))

    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(Live, "result", elsewhere)
        other = replace(engine(tmp_path, ledger), progress=Progress(notify=said.append))
        _, unknown = draw(other, tmp_path)
    assert unknown.synthetic is None
    assert any("was drawn of something else" in sentence for sentence in said)
    assert ledger.balance("people") == balance

    # Where it was measured, its errors are known as before.
    forgotten(tmp_path)
    made, known = draw(engine(tmp_path, ledger), tmp_path)
    assert made.run.content == first.run.content
    assert known == errors
    assert ledger.balance("people") == balance
