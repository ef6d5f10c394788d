"""Checks of draws: their noise, the digests of their outcomes, and the errors that follow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.certificates.facts import COUNTED, DERIVED, RAN, STORED, PaidDraw
from jam_dagster.common.choices import RECORDS_SHARE
from jam_dagster.common.json_text import parse_json
from jam_dagster.evaluation.score_histograms import CELLS
from jam_dagster.evaluation.workload_error import (
    DRAWN,
    MEANS,
    TableErrors,
    judged_workload,
    means_subject,
    noisy_errors,
)
from jam_dagster.mechanisms.loops.transcript import subject_of
from jam_dagster.privacy.accounting import UNITS_PER_RHO, rho_within, units_down, units_up
from jam_dagster.privacy.ledger.release_id import canonical_json
from jam_dagster.privacy.noise.calls import (
    CLOSE,
    COUNTS,
    RECORDS,
    SELECTION,
    THRESHOLD,
    VALUES,
    NoiseCall,
    noise_fault,
    subject_of_values,
)
from jam_dagster.privacy.noise.thresholds import selection_delta
from jam_dagster.privacy.outcome_store import (
    choice_digest,
    derived_digest,
    derived_steps,
    values_digest,
)
from jam_dagster.privacy.shares import DOMAIN, EVALUATION, MECHANISM
from jam_dagster.tables.codes.purpose import targets
from jam_dagster.tables.domain.bought import LEVELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.certificates.facts import Entry
    from jam_dagster.mechanisms import Transcript
    from jam_dagster.privacy import Neighbours
    from jam_dagster.tables import Domain, MarginalSource, Workload


def draw_faults(certificate: Certificate) -> Iterator[str]:
    """Yield the faults of a release's draws, in sentences.

    Every scale must match its rho, and every sensitivity of a measurement or an evaluation follow
    from the neighbours. The specification states the price of the number of records. How far scores
    and values move, and their prices, the mechanism says: see `jam_dagster.mechanisms.replay`.
    """
    for one in certificate.draws:
        call, wanted = one.call, _sensitivity(one, certificate)
        if wanted is None:
            yield f"{call.step} is a draw that share {one.share} does not make"
        elif not math.isclose(call.sensitivity, wanted, rel_tol=CLOSE):
            yield f"{call.step} has another sensitivity than the neighbours ask for"
        if fault := noise_fault(call):
            yield fault
        yield from _threshold_faults(call, certificate.neighbours)
    yield from _price_faults(certificate)


def _threshold_faults(call: NoiseCall, neighbours: Neighbours) -> Iterator[str]:
    """Yield the fault of a selection of values whose threshold is not worth its delta."""
    if call.kind != THRESHOLD or call.scale is None:
        return
    values, rows = neighbours.values_of_one, neighbours.max_rows
    if selection_delta(call.scale, call.threshold, values, rows) > call.delta * (1.0 + CLOSE):
        yield f"{call.step} publishes values of one person with a larger probability than its delta"


def _price_faults(certificate: Certificate) -> Iterator[str]:
    """Yield the draws whose price the specification alone decides, and does not ask for."""
    for call, wanted in _prices(certificate):
        if not math.isclose(call.rho, wanted, rel_tol=CLOSE, abs_tol=2 / UNITS_PER_RHO):
            yield f"{call.step} cost rho {call.rho:.6g} in place of {wanted:.6g}"


def _prices(certificate: Certificate) -> Iterator[tuple[NoiseCall, float]]:
    """Yield the draws of the number of records and of a bought domain, each with its price."""
    part = certificate.specification["privacy"].get("records_share", RECORDS_SHARE)
    left = units_down(certificate.asked.shares[MECHANISM])
    for call in (one.call for one in certificate.draws if one.call.subject == RECORDS):
        yield call, part * rho_within(max(0, left))
        left -= units_up(call.rho)
    bought = [one.call for one in certificate.draws if one.share == DOMAIN]
    parts = [LEVELS if one.kind == THRESHOLD else 1 for one in bought]
    for call, its in zip(bought, parts, strict=True):
        yield call, certificate.asked.shares.get(DOMAIN, 0.0) * its / sum(parts)


def _sensitivity(draw: PaidDraw, certificate: Certificate) -> float | None:
    """Return the required sensitivity of a draw; None if its share makes no such draw."""
    call, neighbours = draw.call, certificate.neighbours
    if draw.share == EVALUATION:
        # There are fewer means than a histogram has cells.
        number, means = divmod(call.cells, CELLS)
        asked = len(targets(certificate.specification["workload"].get("purpose", ())))
        most = len(DRAWN) * asked
        if call.kind != "Gaussian" or not 0 < means <= len(DRAWN) * len(MEANS) or number > most:
            return None
        return neighbours.evaluation_l2(certificate.records, means, number)
    if draw.share == DOMAIN:
        return neighbours.marginal_l2 if call.kind in (COUNTS, THRESHOLD) else None
    if draw.share != MECHANISM:
        return None
    if call.kind == COUNTS:
        return neighbours.records if call.subject == RECORDS else neighbours.marginal_l2
    return call.sensitivity if call.kind in (SELECTION, *VALUES) else None


@dataclass(frozen=True)
class Outcomes:
    """The result of comparing a release's outcomes with their digests in the ledger."""

    faults: tuple[str, ...]
    compared: int


def compare_outcomes(
    draws: Sequence[PaidDraw],
    entries: Sequence[Entry],
    transcript: Transcript,
    errors: Mapping[str, Any] | None,
    content: str,
    domain: Domain | None = None,
) -> Outcomes:
    """Compare the outcomes of draws with the digests that the ledger has of them.

    Every paid draw is compared, or was lost before it was stored, or is a fault; and every
    measurement is of such a draw. So is every decision and every record that a solver found, which
    follow from outcomes.

    `errors` is the file of workload errors, if they were measured with noise and it exists.
    `content` is the digest of the run's files (see `content_of`), which the ledger must have.
    `domain` is the run's, if its draws are among those.
    """
    digests = {(one.share, one.step): one for one in entries if one.kind == STORED}
    # The last run that was made has a digest, which covers what no draw's does.
    runs = [one for one in entries if one.kind == RAN]
    another = [one.digest for one in runs[-1:]] != [content]
    faults = ["the run is not the one that was made"] if another else []
    faults += [*_records_faults(transcript, entries), *_measurement_faults(transcript)]
    compared, values = 0, values_of(transcript)
    if domain is not None:
        values |= bought_values(domain)
    made = runs[-1].seq if runs else 0
    for draw in draws:
        call, place = draw.call, (draw.share, draw.call.step)
        entry = digests.pop(place, None)
        if call.lost:
            # Errors of an earlier run are of no use, and stay charged.
            if entry is not None and not (draw.share == EVALUATION and entry.seq < made):
                faults.append(f"{call.step} is listed as lost, but its outcome was stored")
            continue
        if entry is None:
            faults.append(f"the ledger has no digest of the outcome of {call.step}")
            continue
        given = values.get(call.step)
        if draw.share == EVALUATION:
            given = None if errors is None else np.array(means_in(errors), dtype=np.float64)
            if call.subject != means_subject(content, _left_out(errors, call.subject)):
                faults.append(f"{call.step} was measured on another run than this one")
        wanted = outcome_digest(call, given)
        if wanted is None:
            faults.append(f"no file of the release records the outcome of {call.step}")
        elif wanted != entry.digest:
            faults.append(f"the outcome of {call.step} is not the one that was drawn and stored")
        else:
            compared += 1
    faults += [f"the ledger has an outcome of {step}, which is no draw" for _, step in digests]
    faults += _derived_faults(transcript, entries)
    return Outcomes(tuple(faults), compared)


def _derived_faults(transcript: Transcript, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield what follows from outcomes, and not as the ledger has it of the last opening."""
    opening = next((one.opening for one in reversed(entries) if one.share == MECHANISM), "")
    last = (one for one in entries if (one.kind, one.opening) == (DERIVED, opening))
    digests = {(one.share, one.step): one.digest for one in last}
    for step, follows in derived_steps(transcript.decisions, transcript.solutions).items():
        digest = digests.pop((MECHANISM, step), None)
        if digest is None:
            yield f"the ledger has no digest of {step}"
        elif digest != derived_digest(follows):
            yield f"{step} is not what the run found"
    for _, step in digests:
        yield f"the ledger has {step}, which the transcript lacks"


def _records_faults(transcript: Transcript, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield why the number of records is not the one that the ledger has.

    A private number is the outcome of a draw.
    """
    counted = [one.records for one in entries if one.kind == COUNTED]
    if transcript.neighbours.records_public:
        if counted != [str(transcript.records)]:
            yield "the number of records is not the one that the ledger has of the release"
    elif counted:
        yield "the ledger has a public number of records, and the release protects it"
    elif not any(one.subject == RECORDS and not one.lost for one in transcript.calls):
        yield "the number of records is the outcome of no draw"


def draws_of(transcript: Transcript, domain: Domain) -> list[PaidDraw]:
    """Return the draws of a run, and before them those that bought its domain."""
    counts = () if domain.bought is None else domain.bought.counts
    bought = (
        NoiseCall(
            one.step,
            COUNTS if one.threshold is None else THRESHOLD,
            one.rho,
            one.sensitivity,
            one.sigma,
            one.cells,
            lost=one.values is None,
            subject=one.attribute
            if one.names is None
            else subject_of_values(one.attribute, one.names),
            delta=one.delta,
            threshold=one.threshold or 0,
        )
        for one in counts
    )
    return [
        *(PaidDraw(DOMAIN, call) for call in bought),
        *(PaidDraw(MECHANISM, call) for call in transcript.calls),
    ]


def bought_values(domain: Domain) -> dict[str, np.ndarray]:
    """Return the counts that bought a domain, by the steps of their draws."""
    counts = () if domain.bought is None else domain.bought.counts
    return {one.step: np.array(one.values, float) for one in counts if one.values is not None}


def values_of(transcript: Transcript) -> dict[str, np.ndarray]:
    """Return what draws gave, by their steps; see `_measurement_faults` for what none gave."""
    values = {one.step: one.values for one in transcript.measurements if one.source == "private"}
    records = np.array([float(transcript.records)])
    values |= {one.step: records for one in transcript.calls if one.subject == RECORDS}
    return values | dict(transcript.values)


def _measurement_faults(transcript: Transcript) -> Iterator[str]:
    """Yield the measurements that no draw gave or chose: a fit takes nothing else."""
    drawn = {(one.step, one.subject): one for one in transcript.calls if not one.lost}
    chosen = Counter(one.subject for one in drawn.values() if one.kind == SELECTION)
    order, last = {draw: number for number, draw in enumerate(drawn)}, -1
    for index, one in enumerate(transcript.rounds):
        called, measured = f"round {index + 1}", one.measurement
        if measured is None:
            continue
        subject = subject_of(one.clique, one.source, one.table)
        if one.source == "private":
            draw = measured.step, subject
            call = drawn.pop(draw, None)
            if call is None or call.kind != COUNTS:
                yield f"{called} records a measurement that was never drawn"
                continue
            if measured.sigma != call.scale:
                yield f"{called} records other noise than was drawn"
            # A fit depends on their order, and so does the seed of the table.
            if order[draw] < last:
                yield f"{called} records a measurement that was drawn before an earlier round's"
            last = order[draw]
        elif not chosen[subject]:
            yield f"{called} records public data that no draw chose"
        elif measured.sigma != 0.0:
            yield f"{called} records noise of public counts"
        chosen[subject] -= one.source == "public"
    # Other draws have their outcome elsewhere: values of theirs would hide it from its digest.
    valued = {one.step for one in drawn.values() if one.kind in VALUES}
    for step in sorted(transcript.values.keys() - valued):
        yield f"the transcript has values of {step}, which was never drawn"


def outcome_digest(call: NoiseCall, values: np.ndarray | None) -> str | None:
    """Return the required digest of the outcome of a draw that gave values, or of a choice.

    None if no released file has the values.
    """
    if call.kind == SELECTION:
        return choice_digest(call.subject, call.rho)
    if values is None:
        return None
    subject = "" if call.subject == RECORDS else call.subject
    if call.kind == THRESHOLD:
        subject = f"{subject} from {call.threshold}"
    return values_digest(values, call.scale or 0.0, call.rho, subject)


def means_in(errors: Mapping[str, Any]) -> list[float]:
    """Return the released means in a file of workload errors, in the order of the draw."""
    tables = {name: dict(means) for name, means in _tables(errors).items()}
    scores = [means.pop("scores", {}) for means in tables.values()]
    found = [one for means in tables.values() for one in means.values()]
    return found + [one for table in scores for cells in table.values() for one in cells]


def _tables(errors: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the released means of each table in a file of workload errors."""
    return {
        name: {
            mean: errors[name][mean]
            for mean in (*MEANS, "scores")
            if errors[name].get(mean) is not None
        }
        for name in DRAWN
        if errors.get(name) is not None
    }


def _left_out(errors: Mapping[str, Any] | None, subject: str) -> list[str]:
    """Return the columns that a file of errors leaves out; without one, those of its draw."""
    if errors is None:
        _, _, stated = subject.partition(" without ")
        return parse_json(stated) if stated else []
    return errors.get("left_out") or []


def error_faults(
    errors: Mapping[str, Any],
    call: NoiseCall,
    synthetic: MarginalSource,
    workload: Workload,
    records: int,
    run: str,
) -> Iterator[str]:
    """Yield the parts of a file of errors that do not follow from the means that were drawn.

    `run` is the digest of the release's run, which Dagster's files have.
    """
    tables = {name: TableErrors(**means) for name, means in _tables(errors).items()}
    left_out = _left_out(errors, call.subject)
    measured = judged_workload(workload, synthetic.domain, left_out)
    if measured is None:
        yield "no marginal of the workload was measured without the columns that they leave out"
        return
    follows = noisy_errors(tables, call, synthetic, measured, records)
    wanted: dict[str, Any] = {
        "mode": follows.mode,
        "sigma": follows.sigma,
        "rho": follows.rho,
        "sample_equivalent": follows.sample_equivalent,
        "equivalent_within": follows.equivalent_within,
        "left_out": left_out or None,
        **follows.to_dict(),
    }
    beside: dict[str, Any] = {"call": call.to_dict(), "run": run}
    wanted |= {name: value for name, value in beside.items() if name in errors}
    stated, wanted = _filled(errors), _filled(wanted)
    for name in sorted(stated.keys() | wanted.keys()):
        if canonical_json(stated.get(name)) != canonical_json(wanted.get(name)):
            yield f"{name} does not follow from the means that were drawn"


def _filled(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without what is None."""
    return {
        name: _filled(value) if isinstance(value, Mapping) else value
        for name, value in content.items()
        if value is not None
    }
