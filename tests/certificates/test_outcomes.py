"""The genuine ledger and invented outcomes: whatever else is made to fit, they do not verify."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from jam_dagster.certificates import Certificate, Finding, verify
from jam_dagster.certificates.facts import COUNTED, DERIVED, RAN, STORED, Entry, PaidDraw
from jam_dagster.certificates.outcome_faults import compare_outcomes
from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.mechanisms import (
    Measurement,
    Round,
    Transcript,
    mechanism_class,
)
from jam_dagster.mechanisms.loops.making import step_of
from jam_dagster.mechanisms.loops.transcript import NOTHING_HELPS, measurements_hash
from jam_dagster.privacy import Draws, Event, Kind, UnledgeredAccount
from jam_dagster.privacy.noise.calls import SELECTION
from jam_dagster.tables import CsvSource, Domain, EncodedTable, Workload
from tests.certificates.conftest import MWEM, Released, certified_again, copied, fitted
from tests.certificates.test_verification import ISSUED
from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize, write_tables
from tests.mechanisms.conftest import ScriptedNoise
from tests.tiers import slow, slow_rows

ANOTHER_RUN = "the run is not the one that was made"


@pytest.fixture(scope="module")
def unchosen_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that chose nothing: the ledger has digests of its measurements alone."""
    folder = tmp_path_factory.mktemp("unchosen")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_tables()
        given = ["--private", "priv.csv", "--domain", "domain.json", "--degree", "2"]
        given += ["--epsilon", "0.4", "--out", "out", "--no-checks"]
        made = run_cli("synthesize", *given, *RELEASE, "--mechanism", "independent")
        assert made.exit_code == 0, made.output
    return folder


BY_CHANCE = {"the errors"}
"""Fails where a sample equivalent, which other rows or another mean may have too, is another."""


@pytest.fixture
def made(tmp_path: Path, private_folder: Path) -> Released:
    return copied(private_folder, tmp_path)


def encoded(made: Released, name: str) -> EncodedTable:
    domain = Domain.load(made.folder / "domain.yaml")
    return EncodedTable.from_frame(domain, pd.read_csv(made.home / name))


def invent(made: Released, change: Callable[[Measurement], Measurement]) -> None:
    """Change what was measured, and make model, table, seed and hashes follow from that."""
    rounds = tuple(
        one if one.measurement is None else replace(one, measurement=change(one.measurement))
        for one in Transcript.load(made.folder / "transcript").rounds
    )
    put_rounds(
        made,
        *(
            one if one.measurement is None else replace(one, clique=one.measurement.clique)
            for one in rounds
        ),
    )


def put_rounds(made: Released, *rounds: Round, ended: str | None = None) -> None:
    """Put other rounds into the transcript, and make all else follow from them."""
    transcript = Transcript.load(made.folder / "transcript")
    forged = replace(transcript, rounds=rounds, ended=ended or transcript.ended)
    forged.save(made.folder / "transcript")
    made.sample_from(fitted(made, forged), forged)
    measured = measurements_hash(forged).hexdigest()
    made.forge(
        lambda it: replace(
            it, sampling=replace(it.sampling, measurements=measured, seed=measured[:32])
        )
    )


def exact(made: Released) -> Callable[[Measurement], Measurement]:
    private = encoded(made, "priv.csv")

    def counted(measured: Measurement) -> Measurement:
        return replace(measured, values=private.marginal(measured.clique).astype(float))

    return counted


def found(made: Released, **given: Any) -> dict[str, Finding]:
    return {one.name: one for one in verify(made.folder, **given)}


def test_exact_counts_in_place_of_what_was_drawn(made: Released) -> None:
    """All of the release is made again from exact private counts, and sealed."""
    invent(made, exact(made))
    assert made.failed() - BY_CHANCE == {"the outcomes", "the ledger", ISSUED}
    assert made.failed(ledger=False) - BY_CHANCE == {"the outcomes"}


@pytest.mark.slow
def test_digests_that_were_invented_too(made: Released) -> None:
    from jam_dagster.certificates.outcome_faults import outcome_digest, values_of

    invent(made, exact(made))
    transcript = Transcript.load(made.folder / "transcript")
    calls = {one.step: one for one in transcript.calls}
    values = values_of(transcript)

    def fitting(entry: Entry) -> Entry:
        if entry.kind != STORED or entry.step not in calls:
            return entry
        call, given = calls[entry.step], values.get(entry.step)
        return replace(entry, digest=outcome_digest(call, given) or "")

    made.forge(lambda it: replace(it, entries=tuple(map(fitting, it.entries))))
    assert made.failed(ledger=False) - BY_CHANCE == set()
    assert made.failed() - BY_CHANCE == {"the ledger", ISSUED}


@pytest.mark.slow
def test_outcomes_under_other_names(made: Released) -> None:
    """What was measured stays as it was, and is said to be of another marginal of the shape."""
    swapped = {"sex": "income", "income": "sex"}
    domain, genuine = Domain.load(made.folder / "domain.yaml"), rounds_of(made)

    def renamed(measured: Measurement) -> Measurement:
        names = tuple(swapped.get(name, name) for name in measured.clique)
        clique = domain.canonical(names)
        order = [names.index(name) for name in clique]
        return replace(measured, clique=clique, values=measured.values.transpose(order))

    invent(made, renamed)
    # A marginal of both has the same name as before, and is what the mechanism asked for.
    moved = [one for one in genuine if len(swapped.keys() & {*one.clique}) == 1]
    failing = {"the outcomes", "the draws"} if moved else {"the outcomes"}
    assert made.failed(ledger=False) - BY_CHANCE == failing
    assert made.failed() - BY_CHANCE == {*failing, "the ledger", ISSUED}


def test_a_digest_that_is_left_out(made: Released) -> None:
    first = next(one for one in made.certificate.entries if one.kind == STORED)
    for others in ([STORED], []):

        def without(it: Certificate, others: list[str] = others) -> Certificate:
            kept = (one for one in it.entries if one != first and one.kind not in others)
            return replace(it, entries=tuple(kept))

        made.forge(without)
        outcomes = found(made)["the outcomes"]
        assert not outcomes.passed
        assert f"no digest of the outcome of {first.step}" in outcomes.message


def test_an_outcome_that_is_told_to_be_lost(made: Released) -> None:
    def lose(it: Certificate) -> Certificate:
        first, *others = it.draws
        call = replace(first.call, scale=None, lost=True)
        return replace(it, draws=(replace(first, call=call), *others))

    made.forge(lose)
    outcomes = found(made)["the outcomes"]
    assert not outcomes.passed
    assert "is listed as lost, but its outcome was stored" in outcomes.message
    assert "the transcript" in made.failed()


def rounds_of(made: Released) -> tuple[Round, ...]:
    return Transcript.load(made.folder / "transcript").rounds


def public_copy(one: Round, index: int) -> Round:
    """Return a round that says to have taken what another measured from the public table."""
    assert one.measurement is not None
    taken = replace(one.measurement, source="public", sigma=0.0, round=index)
    return replace(
        one,
        index=index,
        source="public",
        sigma=0.0,
        rho_select=0.0,
        rho_measure=0.0,
        measurement=taken,
    )


@pytest.mark.slow
def test_rounds_that_draws_are_not_looked_for_in(tmp_path: Path, unchosen_folder: Path) -> None:
    """Dummies are where the draws' rounds should be, and invented values behind them."""
    made = copied(unchosen_folder, tmp_path)
    assert made.failed() == set()
    invent(made, exact(made))
    invented = rounds_of(made)
    dummies = [
        replace(public_copy(one, 100 + place), measurement=None)
        for place, one in enumerate(invented)
    ]
    put_rounds(made, *dummies, *invented)
    outcomes = found(made)["the outcomes"]
    assert not outcomes.passed
    assert "the draws" in made.failed()
    with pytest.raises(LedgerIntegrityError, match="is not the one that was drawn and stored"):
        certified_again(made)


@pytest.mark.parametrize("ended", ["all rounds", *slow("closed")])
def test_measurements_that_the_transcript_leaves_out(made: Released, ended: str) -> None:
    """A measurement that its owner does not like is no less an outcome that was stored."""
    *others, last = rounds_of(made)
    put_rounds(made, *others, ended=ended)
    assert f"no file of the release records the outcome of {step_of(last.index, 'measure')}" in (
        found(made)["the outcomes"].message
    )
    put_rounds(made, *others, replace(last, measurement=None), ended=ended)
    shown = found(made)
    assert f"the outcome of {step_of(last.index, 'measure')}" in shown["the outcomes"].message
    assert f"no round records what {step_of(last.index, 'measure')}" in shown["the draws"].message


def test_a_measurement_that_was_never_drawn(made: Released) -> None:
    rounds = rounds_of(made)
    more = replace(rounds[-1], index=len(rounds))
    put_rounds(made, *rounds, more)
    with pytest.raises(LedgerIntegrityError, match="records a measurement that was never drawn"):
        certified_again(made)


def test_measurements_in_another_order_than_they_were_drawn(made: Released) -> None:
    """The seed of the table depends on it, and nobody without public data runs TILT again."""
    *others, before, last = rounds_of(made)
    places = [replace(last, index=before.index), replace(before, index=last.index)]
    put_rounds(made, *others, *places)
    wrong = f"round {len(others) + 2} records a measurement that was drawn before an earlier"
    assert wrong in found(made)["the outcomes"].message


def test_values_of_a_draw_that_gave_none(made: Released) -> None:
    """They would choose the seed of the table, or hide a private number of records."""
    transcript = Transcript.load(made.folder / "transcript")
    chosen = next(one.step for one in transcript.calls if one.kind == SELECTION)
    replace(transcript, values={chosen: np.ones(1)}).save(made.folder / "transcript")
    made.forge()
    wrong = f"the transcript has values of {chosen}, which was never drawn"
    assert wrong in found(made)["the outcomes"].message


@pytest.mark.slow
def test_public_data_that_no_draw_chose(tmp_path: Path, public_folder: Path) -> None:
    """True counts of the public table, which the mechanism would have had to choose."""
    made = copied(public_folder, tmp_path)
    rounds = rounds_of(made)
    (public, *_) = (one for one in rounds if one.source == "public")
    put_rounds(made, *rounds, public_copy(public, len(rounds)))
    outcomes = found(made)["the outcomes"]
    assert f"round {len(rounds) + 1} records public data that no draw chose" in outcomes.message


@pytest.mark.parametrize("released", ["private_folder", "unchosen_folder"])
def test_a_round_that_the_mechanism_does_not_make(
    tmp_path: Path, released: str, request: pytest.FixtureRequest
) -> None:
    """Invented counts behind the last draw, of a mechanism that measures no public table.

    MWEM+PGM chooses in each round, and never the source.
    """
    made = copied(request.getfixturevalue(released), tmp_path)
    rounds = rounds_of(made)
    more = public_copy(rounds[-1], len(rounds))
    assert more.measurement is not None
    certain = replace(more.measurement, sigma=1e-3)
    put_rounds(made, *rounds, replace(more, sigma=1e-3, measurement=certain))
    fault = "records public data that no draw chose"
    outcomes = found(made)["the outcomes"]
    assert not outcomes.passed
    assert f"round {len(rounds) + 1} {fault}" in outcomes.message
    with pytest.raises(LedgerIntegrityError, match=fault):
        certified_again(made)


def test_a_round_without_a_measurement_that_nothing_lost(made: Released) -> None:
    rounds = rounds_of(made)
    put_rounds(made, *rounds, replace(rounds[-1], index=len(rounds), measurement=None))
    with pytest.raises(LedgerIntegrityError, match=r"\d rounds, and the mechanism makes \d"):
        certified_again(made)


def test_noise_of_public_counts(tmp_path: Path, public_folder: Path) -> None:
    """How near a fit comes to a measurement may depend on its sigma."""
    made = copied(public_folder, tmp_path)
    rounds = [
        replace(one, sigma=1e-3, measurement=replace(one.measurement, sigma=1e-3))
        if one.source == "public" and one.measurement is not None
        else one
        for one in rounds_of(made)
    ]
    put_rounds(made, *rounds)
    outcomes = found(made)["the outcomes"]
    assert not outcomes.passed
    assert "records noise of public counts" in outcomes.message


def test_that_nothing_was_chosen_is_an_outcome() -> None:
    """A run that ended by its own choice has a digest of that choice, and no other fits it."""
    domain = Domain.from_sizes({"a": 2, "b": 3})
    rng = np.random.default_rng(0)
    table = EncodedTable(domain, tuple(rng.integers(0, size, 300) for size in domain.shape))
    digests: dict[str, str] = {}
    derived: dict[str, str] = {}

    class Journal(UnledgeredAccount):
        def confirm(self, step: str, digest: str) -> None:
            digests[step] = digest

        def derive(self, step: str, digest: str) -> None:
            derived[step] = digest

    draws = Draws(ScriptedNoise([0, 0, -1]), Journal(1.0))
    workload = Workload.all_k_way(domain, 2)
    transcript = mechanism_class("tilt")().run(table, table, workload, draws).transcript
    assert transcript.ended == NOTHING_HELPS
    paid = [PaidDraw("mechanism", call) for call in transcript.calls]
    entries = [
        Entry(number, STORED, "o", "mechanism", call.step, 0, "", "", digest=digests[call.step])
        for number, call in enumerate(transcript.calls)
    ]
    followed = [
        Entry(0, DERIVED, "o", "mechanism", step, 0, "", "", digest=digest)
        for step, digest in derived.items()
    ]
    for changed, fault in (
        (followed[1:], "the ledger has no digest of decision-001"),
        ([*followed, replace(followed[0], step="decision-999")], "the ledger has decision-999"),
        ([replace(followed[0], digest="ab"), *followed[1:]], "decision-001 is not what"),
    ):
        faults = compare_outcomes(paid, [*changed, *entries], transcript, None, "").faults
        assert fault in " ".join(faults)
    entries = [*followed, *entries]
    entries.insert(0, Entry(0, COUNTED, "", "", "", 0, "", "", records="300"))
    entries.insert(0, Entry(0, RAN, "", "", "", 0, "", "", digest=""))
    assert compare_outcomes(paid, entries, transcript, None, "").faults == ()
    assert compare_outcomes(paid, entries, transcript, None, "ab").faults == (ANOTHER_RUN,)
    assert compare_outcomes(paid, entries[1:], transcript, None, "").faults == (ANOTHER_RUN,)
    followed_up = len(transcript.decisions) + len(transcript.solutions)
    assert len(derived) == followed_up > len(transcript.decisions) > 0
    swapped = [*entries[:-1], replace(entries[-1], digest="0" * 64)]
    (fault,) = compare_outcomes(paid, swapped, transcript, None, "").faults
    assert fault.startswith(f"the outcome of {transcript.calls[-1].step} is not the one")


def test_errors_that_were_measured_on_another_run(made: Released) -> None:
    certificate, run = made.certificate, "ab" * 32
    entries = [replace(e, digest=run) if e.kind == RAN else e for e in certificate.entries]
    errors = json.loads((made.folder / "errors.json").read_text())
    transcript = Transcript.load(made.folder / "transcript")
    faults = compare_outcomes(certificate.draws, entries, transcript, errors, run).faults
    assert faults == ("evaluation/means was measured on another run than this one",)


def test_errors_that_were_changed(made: Released) -> None:
    made.rewrite("errors.json", lambda it: it["synthetic"].update(mean=0.001))
    assert "file: errors" in made.failed(ledger=False)
    made.forge()
    assert made.failed(ledger=False) - BY_CHANCE == {"the outcomes"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_equivalent", 2_999_999),
        *slow_rows(("equivalent_within", [2_999_990, 2_999_999]), ("sigma", 1e-9)),
        ("rho", 1e-9),
        *slow_rows(
            ("mode", "exact"),
            ("synthetic", {"max": 0.001}),
            ("independent", {"mean": 0.9, "max": 1.0}),
            ("remark", "as good as the private records"),
        ),
    ],
)
def test_errors_that_say_more_than_was_drawn(made: Released, name: str, value: Any) -> None:
    """The ledger has the digest of the means alone; the rest follows from them and the table."""

    def put(it: dict[str, Any]) -> None:
        if name == "synthetic":
            it[name].update(value)
        else:
            it[name] = value

    made.rewrite("errors.json", put)
    made.forge()
    assert made.failed(ledger=False) == {"the errors"}
    assert name in found(made)["the errors"].message


def test_errors_that_leave_out_another_column(made: Released) -> None:
    made.rewrite("errors.json", lambda it: it.update(left_out=["sex"]))
    made.forge()
    assert made.failed(ledger=False) - BY_CHANCE == {"the outcomes"}


def test_errors_that_lack_what_follows(made: Released) -> None:
    """A mean without its noise would be taken for the truth."""
    made.rewrite("errors.json", lambda it: it.pop("sigma"))
    made.forge()
    assert made.failed(ledger=False) == {"the errors"}


def test_public_measurements_that_are_no_counts_of_the_public_table(
    tmp_path: Path, public_folder: Path
) -> None:
    made = copied(public_folder, tmp_path)
    table = CsvSource(str(made.home / "same.csv"))
    without, given = found(made)["the draws"], found(made, public=table)["the draws"]
    assert (without.passed, without.checked) == (True, False)
    assert (given.passed, given.checked) == (True, True)
    assert certified_again(made, public=encoded(made, "same.csv")) == made.certificate

    def more(measured: Measurement) -> Measurement:
        return replace(measured, values=measured.values + (measured.source == "public"))

    invent(made, more)
    # What the noisy means are compared with follows from the table, which may be another.
    assert made.failed(ledger=False) <= BY_CHANCE
    assert not found(made, public=table)["the draws"].passed
    assert made.failed() - BY_CHANCE == {"the ledger", ISSUED}
    for public, fault in (
        (encoded(made, "same.csv"), "records other counts than the public table has"),
        (None, "no public table was given"),
    ):
        with pytest.raises(LedgerIntegrityError, match=fault):
            certified_again(made, public=public)


def test_a_file_whose_hash_fails_is_not_read(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    opened = np.load

    def watched(file: Any, **options: Any) -> Any:
        read.append(str(file))
        return opened(file, **options)

    monkeypatch.setattr(np, "load", watched)
    for name in ("transcript/measurements.npz", "model/potentials.npz"):
        path = made.folder / name
        path.write_bytes(path.read_bytes() + b"\n")
    monkeypatch.setattr(Transcript, "load", lambda folder: pytest.fail(f"{folder} was read"))
    shown = found(made)
    assert read == []
    for finding in ("the transcript", "the draws", "the outcomes", "the model, refitted"):
        assert not shown[finding].passed
        assert "not checked" in shown[finding].message
        assert "was altered" in shown[finding].message


def change_draw(made: Released, step: str, change: Callable[[dict[str, Any]], None]) -> Result:
    """Change a stored draw; run the mechanism again, from what is stored."""
    path = made.folder / "draws" / f"{step.replace('/', '-')}.npz"
    with np.load(path) as stored:
        content = {name: stored[name] for name in stored.files}
    change(content)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **content)
    path.write_bytes(buffer.getvalue())
    (made.folder / "transcript" / "transcript.json").unlink()
    return run_cli(*synthesize(*RELEASE, *NOISY, *MWEM))


def choose(content: dict[str, Any], index: int) -> None:
    scalars = {**json.loads(str(content["scalars"])), "index": [index]}
    content["scalars"] = np.array(json.dumps(scalars))


def drawn(made: Released) -> list[Event]:
    return [event for event in made.ledger.events() if event.kind in (Kind.CHARGED, Kind.STORED)]


@pytest.mark.parametrize(
    "step", [*slow("round-001/measure"), "round-001/select", *slow("evaluation/means")]
)
def test_a_stored_draw_that_was_swapped_is_refused_and_named(
    made: Released, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap(content: dict[str, Any]) -> None:
        if "values" in content:
            content["values"] = content["values"] + 1
        else:
            choose(content, 0 if json.loads(str(content["scalars"]))["index"] != [0] else 1)

    made.move_in(monkeypatch)
    before = drawn(made)
    again = change_draw(made, step, swap)
    assert again.exit_code != 0
    assert step in " ".join(again.output.split())
    assert drawn(made) == before


def test_a_choice_that_there_is_not_is_refused(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.move_in(monkeypatch)
    again = change_draw(made, "round-001/select", lambda content: choose(content, 10**6))
    assert again.exit_code != 0
    assert "chooses a candidate that does not exist" in again.output


@pytest.mark.slow
def test_a_changed_transcript_is_not_certified(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat makes the run again from the stored draws, unless the ledger has its digest."""
    before, files = made.ledger.events(), made.certificate.files
    invent(made, exact(made))
    made.move_in(monkeypatch)
    again = run_cli(*synthesize(*RELEASE, *NOISY, *MWEM))
    assert again.exit_code == 0, again.output
    assert [one for one in made.ledger.events() if one.moves_amount] == [
        one for one in before if one.moves_amount
    ]
    assert made.certificate.files["table"] == files["table"]
    assert made.failed() == set()


@pytest.mark.parametrize("name", [*slow("rho_select", "l1_residual"), "loss", *slow("candidates")])
def test_what_no_draw_has_a_digest_of(made: Released, name: str) -> None:
    """The ledger's digest of the run covers all of the transcript."""
    made.rewrite(
        "transcript/transcript.json", lambda it: it["rounds"][0].update({name: it["records"]})
    )
    entries = made.certificate.entries
    made.forge()
    # What follows from no fit, the mechanism says.
    seen = {"the draws"} if name in ("rho_select", "candidates") else set()
    assert made.failed() == {"the ledger", ISSUED} | seen
    made.put(replace(made.certificate, entries=entries))
    assert made.failed(ledger=False) == {"the outcomes"} | seen
    events = made.ledger.events()
    with pytest.raises(LedgerIntegrityError, match=ANOTHER_RUN):
        certified_again(made, ran=False)
    assert made.ledger.events() == events
