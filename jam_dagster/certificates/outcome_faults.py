"""Checks that the outcomes of a release match their digests in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.certificates.facts import COUNTED, RAN, STORED
from jam_dagster.mechanisms.loops.transcript import subject_of
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS, SELECTION
from jam_dagster.privacy.outcome_digest import choice_digest, values_digest
from jam_dagster.privacy.shares import EVALUATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jam_dagster.certificates.facts import Entry, PaidDraw
    from jam_dagster.mechanisms import Transcript
    from jam_dagster.privacy import NoiseCall

_TABLES = ("synthetic", "public")
"""The tables with released mean errors, in the order of the draw."""


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
) -> Outcomes:
    """Compare the outcomes of draws with the digests that the ledger has of them.

    Every paid draw is compared, or was lost before it was stored, or is a fault; and every
    measurement is of such a draw.

    `errors` is the file of workload errors, if they were measured with noise and it exists.
    `content` is the digest of the run's files (see `content_of`), which the ledger must have.
    """
    digests = {(one.share, one.step): one for one in entries if one.kind == STORED}
    faults = [*_records_faults(transcript, entries), *_measurement_faults(transcript)]
    compared, values = 0, values_of(transcript)
    for draw in draws:
        call, place = draw.call, (draw.share, draw.call.step)
        entry = digests.pop(place, None)
        if call.lost:
            if entry is not None:
                faults.append(f"{call.step} is listed as lost, but its outcome was stored")
            continue
        if entry is None:
            faults.append(f"the ledger has no digest of the outcome of {call.step}")
            continue
        given = values.get(call.step)
        if draw.share == EVALUATION:
            given = None if errors is None else np.array(means_in(errors), dtype=np.float64)
        wanted = outcome_digest(call, given)
        if wanted is None:
            faults.append(f"no file of the release records the outcome of {call.step}")
        elif wanted != entry.digest:
            faults.append(f"the outcome of {call.step} is not the one that was drawn and stored")
        else:
            compared += 1
    faults += [f"the ledger has an outcome of {step}, which is no draw" for _, step in digests]
    if not _has_run(entries, content):
        faults.append("the run is not the one that was made")
    return Outcomes(tuple(faults), compared)


def _has_run(entries: Sequence[Entry], content: str) -> bool:
    """Return whether the last run that was made has a digest; it covers what no draw's does."""
    return [one.digest for one in entries if one.kind == RAN][-1:] == [content]


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
    order, last = {place: number for number, place in enumerate(drawn)}, -1
    for place, one in enumerate(transcript.rounds):
        called, measured = f"round {place + 1}", one.measurement
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
    valued = {one.step for one in drawn.values() if one.kind == "Gaussian"}
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
    return values_digest(values, call.scale or 0.0, call.rho, subject)


def means_in(errors: Mapping[str, Any]) -> list[float]:
    """Return the released means in a file of workload errors."""
    return [errors[name]["mean"] for name in _TABLES if errors.get(name) is not None]
