"""Runs of every mechanism, for every relation, certify: their draws are as asked, and no other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.certificates import (
    Certificate,
    Finding,
    certify,
    held,
    released_files,
    table_csv,
    verify,
)
from jam_dagster.certificates.facts import FileHash, PaidDraw, ReleaseTerms, RequestedBudget
from jam_dagster.certificates.issue import sha256_of
from jam_dagster.mechanisms import Mechanism, Transcript, make_mechanism
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.privacy import (
    Draws,
    Neighbours,
    ReleaseId,
    SeededNoise,
    UnledgeredAccount,
    gaussian_sigma,
)
from jam_dagster.privacy.ledger.release_id import canonical_digest, specification_of
from jam_dagster.privacy.noise.calls import COUNTS, NoiseCall
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.tables import CsvSource, Domain, EncodedTable, Workload, decode
from jam_dagster.tables.sources.dialect import Dialect
from tests.battery.mechanisms import (
    QUICK_CASES,
    Case,
    aim,
    every_mechanism_that_samples,
    marked,
    tilt,
)

RELATIONS = [Neighbours(relation, k) for relation in ("replace_one", "add_remove") for k in (1, 3)]

# Weights of their own: a heavy marginal makes candidates that are more sensitive than others.
WORKLOAD = {"cliques": [["a", "b"], ["b", "c"], ["a"]], "weights": [1.0, 3.0, 0.5]}


def certified(folder: Path, mechanism: Mechanism, neighbours: Neighbours) -> Certificate:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, size, 300) for name, size in domain.sizes.items()})
    table = EncodedTable.from_frame(domain, frame)
    frame.to_csv(folder / "public.csv", index=False)
    asked = RequestedBudget(10.0, 1e-9, {"mechanism": 1.0})
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), neighbours=neighbours)
    made = mechanism.run(table, table, Workload.specified(domain, WORKLOAD), draws)
    seed = sampling_generator(made.transcript)
    sampled = decode(made.model.sample(made.transcript.records, seed), seed)
    (folder / "table.csv").write_bytes(table_csv(sampled, domain, Dialect()))
    domain.save(folder / "domain.yaml")
    made.model.save(folder / "model")
    made.transcript.save(folder / "transcript")
    specification = specification_of(
        epsilon=asked.epsilon,
        delta=asked.delta,
        protection={
            "neighbours": neighbours.relation,
            "unit": {"max_rows": neighbours.max_rows},
        },
        mechanism={"name": mechanism.name, **mechanism.parameters()},
        workload=WORKLOAD,
        evaluation_share=0.0,
        domain=domain.digest,
    )
    certificate = certify(
        folder,
        released_files(
            table=folder / "table.csv",
            domain=folder / "domain.yaml",
            transcript=folder / "transcript",
            model=folder / "model",
        ),
        made,
        ReleaseTerms(
            release_id=ReleaseId("people", "small", canonical_digest(specification)),
            specification=specification,
            asked=asked,
        ),
    )
    certificate.save(folder)
    return certificate


def failed(folder: Path, **given: Any) -> dict[str, str]:
    return {one.name: one.message for one in verify(folder, **given) if not one.passed}


def test_another_part_of_the_budget_for_the_number_of_records_is_found(tmp_path: Path) -> None:
    """The total is the same, and the noise fits the prices."""
    certificate = certified(tmp_path, make_mechanism("hdmm_pgm"), Neighbours("add_remove"))
    transcript = Transcript.load(tmp_path / "transcript")
    counted, measured = transcript.calls
    assert failed(tmp_path) == {}
    for moved in (0.3 * counted.rho, -0.3 * counted.rho):
        calls = (priced(counted, counted.rho - moved), priced(measured, measured.rho + moved))
        draws = tuple(PaidDraw(MECHANISM, call) for call in calls)
        put(tmp_path, replace(certificate, draws=draws), replace(transcript, calls=calls))
        assert "records cost rho" in failed(tmp_path)["the draws"]


def priced(call: NoiseCall, rho: float) -> NoiseCall:
    """Return a draw at another price, with the noise for it."""
    return replace(call, rho=rho, scale=gaussian_sigma(call.sensitivity, rho))


def put(folder: Path, certificate: Certificate, transcript: Transcript) -> None:
    """Put another transcript in place, with a certificate that fits it."""
    transcript.save(folder / "transcript")
    path = folder / "transcript" / "transcript.json"
    hashed = FileHash("transcript/transcript.json", sha256_of(path))
    replace(certificate, files={**certificate.files, "transcript": hashed}).save(folder)


@pytest.mark.slow
@every_mechanism_that_samples
@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
def test_a_run_under_every_relation_certifies(
    case: Case, neighbours: Neighbours, tmp_path: Path
) -> None:
    certificate = certified(tmp_path, case.make(), neighbours)
    assert failed(tmp_path) == {}

    for wrong in RELATIONS:
        replace(certificate, neighbours=wrong).save(tmp_path)
        noticing = {"the draws", "the transcript", "the settings"}
        if case.measured == "cell" and (neighbours.records_public or wrong.cell == neighbours.cell):
            # No number of records is drawn, or one with the same sensitivity.
            noticing.remove("the draws")
        found = noticing <= failed(tmp_path).keys()
        assert found is (wrong != neighbours)


@pytest.mark.slow
@pytest.mark.parametrize("case", marked(case for case in QUICK_CASES if case.make().samples))
def test_a_wrong_sensitivity_of_any_draw_is_found(case: Case, tmp_path: Path) -> None:
    """Also where transcript and certificate agree on it, and the noise is the right one for it."""
    public = CsvSource(str(tmp_path / "public.csv"))
    certificate = certified(tmp_path, case.make(), Neighbours())
    transcript = Transcript.load(tmp_path / "transcript")
    for number, draw in enumerate(certificate.draws):
        halved = replace(draw.call, sensitivity=draw.call.sensitivity / 2)
        forged = [*certificate.draws]
        forged[number] = replace(draw, call=halved)
        calls = tuple(one.call for one in forged)
        put(tmp_path, replace(certificate, draws=tuple(forged)), replace(transcript, calls=calls))
        assert re.search(
            f"{halved.step} has (the|another) sensitivity",
            failed(tmp_path, public=public)["the draws"],
        )


def test_a_wrong_sensitivity_of_a_measurement_is_found_without_public_data(tmp_path: Path) -> None:
    """Without the public table the run is not made again, and the neighbours alone ask for it."""
    certificate = certified(tmp_path, tilt().make(), Neighbours())
    transcript = Transcript.load(tmp_path / "transcript")
    place = next(at for at, one in enumerate(certificate.draws) if one.call.kind == COUNTS)
    draw = certificate.draws[place]
    call = draw.call
    # The noise is the right one for it.
    scale = None if call.scale is None else call.scale / 2
    halved = replace(call, sensitivity=call.sensitivity / 2, scale=scale)
    draws = [*certificate.draws]
    draws[place] = replace(draw, call=halved)
    calls = tuple(one.call for one in draws)
    put(tmp_path, replace(certificate, draws=tuple(draws)), replace(transcript, calls=calls))
    assert failed(tmp_path)["the draws"] == (
        f"{call.step} has another sensitivity than the neighbours ask for"
    )


def test_a_decision_that_the_fit_does_not_make(tmp_path: Path) -> None:
    """The last one changes no price, and no model."""
    certificate = certified(tmp_path, aim().make(), Neighbours())
    transcript = Transcript.load(tmp_path / "transcript")
    *others, last = transcript.decisions
    put(tmp_path, certificate, replace(transcript, decisions=(*others, not last)))
    (name,) = failed(tmp_path)
    assert name == "the model, refitted"
    assert "1 of the run's decisions are not those of this fit" in failed(tmp_path)[name]
    # A fit on another processor may have come to it.
    elsewhere = {**certificate.made_with, "blas": "Zen"}
    put(
        tmp_path,
        replace(certificate, made_with=elsewhere),
        Transcript.load(tmp_path / "transcript"),
    )
    assert failed(tmp_path) == {}


@pytest.mark.slow
def test_what_jax_trained_may_differ_with_another_version_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = held.environment()
    monkeypatch.setattr(held, "environment", lambda: {**here, "jax": "9.9"})
    trained = make_mechanism("rap_softmax", rounds=1, iterations=2, components=3)
    for mechanism, differs in ((trained, True), (make_mechanism("independent"), False)):
        folder = tmp_path / mechanism.name
        folder.mkdir()
        certified(folder, mechanism, Neighbours())
        (found,) = (one for one in verify(folder) if "refitted" in one.name)
        assert found.passed
        assert ("made with another jax" in found.message) is differs


def test_a_model_of_public_records_is_refitted_where_these_are_given(tmp_path: Path) -> None:
    certified(tmp_path, make_mechanism("pmw_pub", rounds=2), Neighbours())

    def refitted(**given: Any) -> Finding:
        (found,) = (one for one in verify(tmp_path, **given) if "refitted" in one.name)
        return found

    without = refitted()
    assert (without.passed, without.checked) == (True, False)
    assert "NOT CHECKED" in without.message
    table = refitted(public=CsvSource(str(tmp_path / "public.csv")))
    assert (table.passed, table.checked) == (True, True)
    # Another table has other records.
    pd.DataFrame({"a": [0], "b": [0], "c": [0]}).to_csv(tmp_path / "other.csv", index=False)
    assert "the draws" in failed(tmp_path, public=CsvSource(str(tmp_path / "other.csv")))
