"""A true certificate passes; a change anywhere is noticed, also where tracks were covered."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.certificates import Certificate, Finding, refitting, verification, verify
from jam_dagster.certificates.certificate import seal_of
from jam_dagster.certificates.facts import PaidDraw
from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import InputError
from jam_dagster.mechanisms import JamPgm, Replay, Transcript
from jam_dagster.mechanisms.loops import rows
from jam_dagster.mechanisms.loops.transcript import measurements_hash
from jam_dagster.privacy import Ledger, NoiseCall
from jam_dagster.privacy.ledger.release_id import canonical_digest
from jam_dagster.tables.sources.base import source_of
from tests.budgets import PUBLIC_N
from tests.certificates.conftest import Released
from tests.cli_bench import RELEASE, RESEARCH, Run, lines, run_cli, synthesize, write_tables
from tests.tiers import gate, slow, slow_rows

ISSUED = "the certificate, in the ledger"


def test_a_true_certificate_passes_every_check(made: Released) -> None:
    found = verify(made.folder, ledger=made.ledger)
    assert [one.name for one in found if not one.passed] == []
    assert len(found) == len({one.name for one in found}) == 24
    assert made.certificate.releasable
    assert made.certificate.reasons == ()


def test_a_certificate_moves_with_its_folder_and_needs_no_private_data(
    made: Released, tmp_path: Path
) -> None:
    moved = made.folder.rename(tmp_path / "elsewhere")
    for name in ("priv.csv", "pub.csv", "domain.json", "ledger.db"):
        (made.home / name).unlink()
    assert all(one.passed for one in verify(moved / "certificate.json"))


def leaves(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, *path, key)
    else:
        yield path


def other(value: Any) -> Any:
    """Return something else of the same type, close by."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 0.999
    return "tampered" if value is None else value[:-1] + ("0" if value[-1:] != "0" else "1")


def leave_out_models(patch: pytest.MonkeyPatch) -> None:
    """Fit no model again, and sample no table again."""
    whole = Finding("left out", True, "")
    patch.setattr(verification, "_refitted", lambda held: whole)
    patch.setattr(verification, "_table_faults", lambda held: iter(()))
    patch.setattr(verification, "_error_faults", lambda held: iter(()))


@pytest.mark.slow
def test_every_field_is_sealed_and_no_field_can_be_changed_and_sealed_again(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of some hundreds of fields in turn, first as it stands and then made to fit."""
    honest = made.document()
    unnoticed = []
    changed = 0
    for path in leaves(honest):
        name = ".".join(map(str, path))
        document = deepcopy(honest)
        inside = document
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = other(inside[path[-1]])
        changed += 1
        if name != "seal":
            assert seal_of(document) != honest["seal"], name
        try:
            forged = Certificate.from_dict(document)
        except InputError:
            continue
        if forged.to_dict() == honest:
            # It follows from the rest, and does not any more.
            continue
        made.put(forged)
        # What takes longest is looked at where nothing else shows it.
        with monkeypatch.context() as patch:
            leave_out_models(patch)
            if made.failed():
                continue
        if not made.failed():
            unnoticed.append(name)
    assert changed > 150
    assert unnoticed == []


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("transcript/transcript.json", "the transcript"),
        *slow_rows(("model/model.json", "the model, refitted"), ("errors.json", "the outcomes")),
    ],
)
def test_a_file_that_says_two_things_is_refused(made: Released, name: str, failing: str) -> None:
    path = made.folder / name
    first = next(iter(json.loads(path.read_text())))
    path.write_text(path.read_text().replace("{", f'{{"{first}": "what others read", ', 1))
    made.forge()
    assert failing in made.failed(ledger=False)


def test_an_array_that_no_round_measured_is_refused(made: Released) -> None:
    """It would be published with the measurements, and nothing else would show it."""
    path = made.folder / "transcript" / "measurements.npz"
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez_compressed(path, **arrays, extra=np.arange(3.0))
    made.forge()
    assert "the outcomes" in made.failed(ledger=False)
    with pytest.raises(InputError, match="holds extra, which no round measured"):
        Transcript.load(path.parent)


def test_a_certificate_that_says_two_things_is_refused(made: Released) -> None:
    """The last value counts for Python, and may be the first for another reader."""
    path = made.folder / "certificate.json"
    path.write_text(path.read_text().replace("{", '{"made": "1999-01-01", ', 1))
    with pytest.raises(InputError, match="key 'made' occurs twice"):
        verify(made.folder)


def test_a_page_that_was_changed(made: Released) -> None:
    page = made.folder / "certificate.html"

    def change() -> None:
        page.write_text(page.read_text().replace("</body>", "<p>It is all true.</p></body>"))

    change()
    assert made.failed() == {"page: certificate.html"}
    # The page of another version looks different.
    older = {**made.certificate.made_with, "jam_dagster": "0.0.1"}
    made.forge(lambda it: replace(it, made_with=older))
    change()
    found = {one.name: one for one in verify(made.folder)}["page: certificate.html"]
    assert (found.passed, found.checked) == (True, False)
    page.unlink()
    assert made.failed(ledger=False) == set()


@pytest.mark.slow
@pytest.mark.parametrize("junk", [None, *gate([], "x", -1, 1e308, "", 0, True, {})], ids=repr)
def test_junk_is_a_finding_or_an_input_error(
    made: Released, junk: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every place of the document, leaf or branch, in turn."""
    leave_out_models(monkeypatch)
    honest = made.document()
    draw, entry = honest["noise"]["draws"][0], honest["ledger"]["entries"][0]
    honest["noise"]["draws"], honest["ledger"]["entries"] = [draw], [entry]
    places = {path[:end] for path in leaves(honest) for end in range(1, len(path) + 1)}
    assert len(places) > 100
    for path in sorted(places, key=str):
        document = deepcopy(honest)
        inside = document
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = junk
        made.rewrite("certificate.json", lambda it, new=document: (it.clear(), it.update(new)))
        try:
            found = verify(made.folder, ledger=made.ledger)
        except InputError:
            continue
        assert any(not one.passed for one in found)


def test_what_follows_from_the_rest_cannot_say_something_else(made: Released) -> None:
    """The words and sums for people, sealed again."""
    honest = made.document()
    for change in (
        lambda it: it["privacy"]["guarantee"].append("And nobody was ever seen."),
        lambda it: it["privacy"]["spent"].update(epsilon=0.1),
        lambda it: it["releasable"]["conditions"].pop(),
        lambda it: it.update(comment="approved"),
    ):
        document = deepcopy(honest)
        change(document)
        document["seal"] = seal_of(document)
        made.rewrite("certificate.json", lambda it, new=document: (it.clear(), it.update(new)))
        assert made.failed() == {"the certificate is whole"}


@pytest.mark.slow
@pytest.mark.parametrize("version", [*slow("0.0.1"), None])
def test_another_version_may_word_it_otherwise(made: Released, version: str | None) -> None:
    """Its sentences are not compared, which a finding says; its figures are."""
    honest = made.document()
    if version is not None:
        honest["made_with"]["jam_dagster"] = version
    for change, words in (
        (lambda it: it["privacy"]["guarantee"].pop(), True),
        (lambda it: it["privacy"]["neighbours"].update(unit="a row"), True),
        (lambda it: it["releasable"]["conditions"][0].update(because="It was so."), True),
        (lambda it: it["releasable"]["conditions"][0].update(met=False), False),
        (lambda it: it["privacy"]["spent"].update(epsilon=0.1), False),
    ):
        document = deepcopy(honest)
        change(document)
        document["seal"] = seal_of(document)
        made.rewrite("certificate.json", lambda it, new=document: (it.clear(), it.update(new)))
        found = verify(made.folder)
        failed = {one.name for one in found if not one.passed}
        skipped = {one.name for one in found if not one.checked}
        if version is None:
            assert "the certificate is whole" in failed
            assert "the certificate's sentences" not in skipped
        else:
            assert failed == (set() if words else {"the certificate is whole"})
            assert "the certificate's sentences" in skipped


@pytest.mark.parametrize(
    "name",
    ["synthetic.csv", *slow("domain.yaml", "transcript/transcript.json", "model/potentials.npz")],
)
def test_a_changed_byte_in_a_file_is_noticed(made: Released, name: str) -> None:
    path = made.folder / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert any(one.startswith("file: ") for one in made.failed())


def test_a_bottomless_file_is_a_finding(made: Released) -> None:
    (made.folder / "transcript/transcript.json").write_text("[" * 100_000)
    made.forge()
    assert "the transcript" in made.failed()


def test_a_changed_row_of_the_table(made: Released) -> None:
    path = made.folder / "synthetic.csv"
    lines = path.read_text().splitlines()
    other = next(number for number, line in enumerate(lines) if number > 1 and line != lines[1])
    lines[1], lines[other] = lines[other], lines[1]
    path.write_text("\n".join(lines) + "\n")
    made.forge()
    assert made.failed(ledger=False) == {"the table, sampled again"}
    assert made.failed() == {"the table, sampled again", ISSUED}


def flip_a_count(folder: Path) -> None:
    path = folder / "transcript" / "measurements.npz"
    with np.load(path) as stored:
        tables = dict(stored)
    # The largest: a model may not follow one that noise has put below zero.
    tables["round_0"].flat[tables["round_0"].argmax()] += 1
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **tables)
    path.write_bytes(buffer.getvalue())


def test_a_changed_count_in_the_transcript(made: Released) -> None:
    flip_a_count(made.folder)
    made.forge()
    assert {"the transcript", "the table, sampled again"} <= made.failed()

    measured = measurements_hash(Transcript.load(made.folder / "transcript")).hexdigest()
    made.forge(
        lambda it: replace(
            it, sampling=replace(it.sampling, measurements=measured, seed=measured[:32])
        )
    )
    # Another seed gives another table, and another measurement another model.
    noticing = {"the model, refitted", "the table, sampled again"}
    if Transcript.load(made.folder / "transcript").rounds[0].source == "private":
        noticing.add("the outcomes")
    assert made.failed(ledger=False) == noticing


def test_a_transcript_that_served_another_workload(made: Released) -> None:
    made.rewrite("transcript/transcript.json", lambda it: it.update(workload_digest="0" * 64))
    made.forge()
    assert made.failed(ledger=False) == {"the transcript", "the draws"}


@pytest.mark.parametrize("name", ["calls", "neighbours", "workload_digest"])
def test_a_transcript_that_lacks_something(made: Released, name: str) -> None:
    made.rewrite("transcript/transcript.json", lambda it: it.pop(name))
    with pytest.raises(InputError, match=f"lacks {name}: restore it"):
        Transcript.load(made.folder / "transcript")


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it.pop("search"),
        *slow(
            lambda it: it["search"].update(lookups=1),
            lambda it: it["search"].update(workload={"degree": 1}),
            # No search that can be made, and no error of the verifier.
            lambda it: it.update(search={}),
            lambda it: it.update(search={"workload": {"degree": 2}}),
            lambda it: it.update(search={"workload": "all"}),
        ),
    ],
)
def test_another_search_for_rows(made: Released, change: Any) -> None:
    assert made.certificate.sampling.search == made.document()["sampling"]["search"]
    made.rewrite("transcript/transcript.json", change)
    made.forge()
    assert made.failed(ledger=False) == {"the table, sampled again"}
    told = json.loads((made.folder / "transcript/transcript.json").read_text()).get("search")
    made.forge(lambda it: replace(it, sampling=replace(it.sampling, search=told)))
    assert made.failed(ledger=False) == {"the table, sampled again"}


def refused(made: Released, name: str) -> str:
    """What the check of that name finds wrong."""
    found = {one.name: one for one in verify(made.folder)}[name]
    assert not found.passed
    return found.message


@pytest.mark.parametrize(
    ("setting", "asked", "limit"),
    [
        ("iterations", 10**12, "at least 1 and at most 100000"),
        *slow_rows(
            ("rounds", 10**12, "at least 1 and at most 100000"),
            ("size_limit_mb", 1e9, "above 0 and at most 4096"),
        ),
        ("iterations", [], "a whole number"),
    ],
)
def test_a_fit_without_end_is_not_begun(
    made: Released, setting: str, asked: object, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JamPgm, "draw", pytest.fail)
    made.rewrite("transcript/transcript.json", lambda it: it["parameters"].update({setting: asked}))
    made.forge(lambda it: replace(it, parameters={**it.parameters, setting: asked}))
    message = refused(made, "the model, refitted")
    assert f"{setting} must be" in message
    assert limit in message


def test_a_search_without_end_is_not_begun(made: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "search_rows", pytest.fail)
    search = {**(made.certificate.sampling.search or {}), "lookups": 10**10}
    made.rewrite("transcript/transcript.json", lambda it: it.update(search=search))
    made.forge(lambda it: replace(it, sampling=replace(it.sampling, search=search)))
    message = refused(made, "the table, sampled again")
    assert "a whole number of lookups from 1 to 1,000,000,000" in message


def test_no_more_rows_are_sampled_than_the_table_can_hold(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "release_rows", pytest.fail)
    made.rewrite("transcript/transcript.json", lambda it: it.update(records=10**12))
    made.forge(lambda it: replace(it, records=10**12, sampling=replace(it.sampling, rows=10**12)))
    message = refused(made, "the table, sampled again")
    assert "synthetic.csv is too small for its number of rows, 1,000,000,000,000" in message


@pytest.mark.slow
def test_a_transcript_of_too_many_rounds_is_not_read(made: Released) -> None:
    made.rewrite("transcript/transcript.json", lambda it: it.update(rounds=[{}] * 100_001))
    made.forge()
    assert "has 100,001 rounds, more than the 100,000" in refused(made, "the transcript")


def test_another_domain(made: Released) -> None:
    path = made.folder / "domain.yaml"
    path.write_text(path.read_text().replace("sex", "gender"))
    made.forge()
    assert "the domain" in made.failed()


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        "derived: {c: sex ** 9 ** 9}",
        "derived: {c: d, d: c}",
        "derived: {c: text(row(), 100) + " + "+".join(["'x'"] * 100) + "}",
        *slow(
            "derived: {c0: text(row(), 100)"
            + "".join(f", c{number + 1}: c{number} + c{number}" for number in range(300))
            + "}"
        ),
        "derived: {c: {lookup: [c], values: [[1, 1]]}}",
        *slow(f"derived: {{c: {{lookup: [sex], values: {[[one, one] for one in range(2000)]}}}}}"),
        "repairs: [{formula: {sex: sex * 1e308 * 1e308}}]",
        "repairs: [{missing: [sex, sex, nobody]}]",
    ],
    ids=[
        *("powers", "a circle", "longer than it may be", "doubling"),
        *("a lookup of itself", "a long lookup", "a formula of itself", "missing with nobody"),
    ],
)
def test_rules_that_nobody_vouches_for(made: Released, content: str) -> None:
    """They are refused, or computed in little time and memory: the table is another then."""
    for path in (made.folder / "domain.yaml", made.folder / "model/domain.json"):
        if path.is_file():
            path.write_text(write_yaml(parse_yaml(path.read_text()) | parse_yaml(content)))
    made.forge()
    assert "the domain" in made.failed(ledger=False)


def cheaper(call: NoiseCall) -> NoiseCall:
    return replace(call, rho=call.rho / 2)


def quieter(call: NoiseCall) -> NoiseCall:
    assert call.scale is not None
    return replace(call, scale=call.scale / 2)


@pytest.mark.parametrize("change", [cheaper, quieter])
def test_other_draws_in_certificate_and_transcript(made: Released, change: Any) -> None:
    """The transcript says the same, rounds and all."""

    def retell(transcript: dict[str, Any]) -> None:
        for call in transcript["calls"]:
            call.update(change(NoiseCall(**call)).to_dict())
        for one in transcript["rounds"]:
            private = one["source"] == "private"
            if private and change is quieter:
                one["sigma"] /= 2
            if change is cheaper:
                one["rho_select"] /= 2
                one["rho_measure"] /= 2
        if change is cheaper:
            transcript["rho_spent"] /= 2

    made.rewrite("transcript/transcript.json", retell)
    made.forge(
        lambda it: replace(
            it, draws=tuple(PaidDraw(one.share, change(one.call)) for one in it.draws)
        )
    )
    failed = made.failed(ledger=False)
    assert "the draws" in failed
    if change is cheaper:
        assert "the charges" in failed


@pytest.mark.parametrize("kind", [*slow("reserved"), "charged", *slow("returned", "closed")])
def test_an_entry_that_was_left_out(made: Released, kind: str) -> None:
    def drop(it: Certificate) -> Certificate:
        at = next(i for i, one in enumerate(it.entries) if one.kind == kind)
        return replace(it, entries=it.entries[:at] + it.entries[at + 1 :])

    made.forge(drop)
    assert "the ledger" in made.failed()
    if kind != "closed":
        assert "the charges" in made.failed(ledger=False)
        assert not made.certificate.releasable


def test_entries_out_of_order(made: Released) -> None:
    made.forge(lambda it: replace(it, entries=it.entries[::-1]))
    assert "the chain of entries" in made.failed(ledger=False)


@pytest.mark.slow
def test_seeded_noise_that_claims_to_be_exact(run: Run, made: Released) -> None:
    run(*synthesize(*RESEARCH))
    research = Released(Path().resolve())
    assert [one for one in verify(research.folder) if not one.passed] == []
    assert not research.certificate.releasable

    research.rewrite(
        "transcript/transcript.json", lambda it: it.update(noise="exact", releasable=True)
    )
    research.forge(lambda it: replace(it, noise="exact"))
    assert {"the charges", "the chain of entries"} <= research.failed(ledger=False)
    assert not research.certificate.releasable

    # With the entries of a release that was charged.
    honest = made.certificate
    research.forge(lambda it: replace(it, entries=honest.entries, standing=honest.standing))
    assert "the charges" in research.failed(ledger=False)
    assert "the ledger" in {
        one.name for one in verify(research.folder, ledger=made.ledger) if not one.passed
    }


def test_a_ledger_that_goes_on_still_vouches(made: Released) -> None:
    made.ledger.grant("people", epsilon=3.0, delta=1e-9, policy=PUBLIC_N)
    made.ledger.grant("others", epsilon=3.0, delta=1e-9, policy=PUBLIC_N)
    assert made.failed() == set()


def test_a_ledger_that_never_charged_it(made: Released, tmp_path: Path) -> None:
    stranger = Ledger(tmp_path / "other.db")
    stranger.grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    failed = {one.name for one in verify(made.folder, ledger=stranger) if not one.passed}
    assert failed == {"the ledger", "the certificate, in the ledger"}


def test_what_is_no_certificate_is_refused(tmp_path: Path, made: Released) -> None:
    with pytest.raises(InputError, match="no certificate to read"):
        verify(tmp_path / "nowhere")
    bottomless = "[" * 100_000
    schema = '{"schema": "jam_dagster certificate", "version": 1}'
    for content in ("[]", "{}", "no json", schema, bottomless):
        (tmp_path / "certificate.json").write_text(content)
        with pytest.raises(InputError):
            verify(tmp_path)
    made.rewrite("certificate.json", lambda it: it.update(version=3))
    with pytest.raises(InputError, match="version"):
        verify(made.folder)


def test_a_model_is_refitted_once(made: Released, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []

    def counted(*given: Any) -> Any:
        fits.append(given)
        return Replay(*given)

    monkeypatch.setattr(refitting, "Replay", counted)

    assert made.failed() == set()
    assert len(fits) == 1


@pytest.mark.slow
def test_the_prior_of_a_run_is_what_its_transcript_says(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        write_tables()
        tables = ("--private", "priv.csv", "--domain", "domain.json", "--degree", "2")
        done = run_cli("synthesize", *tables, "--epsilon", "1", "--out", "out", *RELEASE)
        assert done.exit_code == 0, done.output
    assert lines(done)[0].startswith("TILT without public data (")
    made = Released(tmp_path)
    assert "prior = uniform" in (made.folder / "certificate.html").read_text()
    found = {
        one.name: one
        for one in verify(made.folder, public=source_of(str(tmp_path / "pub.csv"), "public"))
    }
    assert [one.name for one in found.values() if not one.passed] == []
    assert found["the draws"].checked
    assert found["the model, refitted"].checked
    assert "ignored" in found["the public table"].message
    made.rewrite("transcript/transcript.json", lambda it: it["parameters"].update(prior="public"))
    made.forge(lambda it: replace(it, parameters={**it.parameters, "prior": "public"}))
    assert "the settings" in made.failed(ledger=False)
    # With a specification that fits, the release is another one than the ledger's.
    mechanism = {**made.certificate.specification["mechanism"], "prior": "public"}
    said = {**made.certificate.specification, "mechanism": mechanism}
    forged = replace(made.certificate.release_id, specification=canonical_digest(said))
    made.forge(lambda it: replace(it, specification=said, release_id=forged))
    assert "the ledger" in made.failed()
    given = {
        one.name: one
        for one in verify(made.folder, public=source_of(str(tmp_path / "pub.csv"), "public"))
    }
    assert not given["the draws"].passed
