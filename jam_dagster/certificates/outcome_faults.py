"""Checks that the outcomes of a release match their digests in the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.certificates.facts import COUNTED, RAN, STORED
from jam_dagster.mechanisms.context import step_of
from jam_dagster.mechanisms.loops.transcript import NOTHING, NOTHING_HELPS, subject_of
from jam_dagster.privacy.noise.calls import SELECTION
from jam_dagster.privacy.outcome_digest import choice_digest, values_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jam_dagster.certificates.facts import Entry, PaidDraw
    from jam_dagster.mechanisms import Round, Transcript
    from jam_dagster.privacy import NoiseCall

_STEP = re.compile(r"round-(\d+)/(select|measure)(?:-(\d+))?")

_TABLES = ("synthetic", "public")
"""The tables with released mean errors, in the order of the draw."""


@dataclass(frozen=True)
class Outcomes:
    """The result of comparing a release's outcomes with their digests in the ledger.

    `unused` counts choices that no result depends on: what they chose was never measured.
    """

    faults: tuple[str, ...]
    compared: int
    unused: int


def compare_outcomes(
    draws: Sequence[PaidDraw],
    entries: Sequence[Entry],
    transcript: Transcript,
    errors: Mapping[str, Any] | None,
    content: str,
) -> Outcomes:
    """Compare the outcomes of draws with the digests that the ledger has of them.

    Every paid draw is compared, or was lost before it was stored, or is a fault; and every round
    is of such a draw.

    `errors` is the file of workload errors, if they were measured with noise and it exists.
    `content` is the digest of the run's files (see `content_of`), which the ledger must have.
    """
    digests = {(one.share, one.step): one for one in entries if one.kind == STORED}
    faults = list(_records_faults(transcript, entries))
    faults += list(_round_faults(transcript, [one.call for one in draws]))
    unused, compared = 0, 0
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
        wanted = _digest_of(call, transcript, errors)
        if wanted is None:
            if _is_unused(call, transcript):
                unused += 1
            else:
                faults.append(f"no file of the release records the outcome of {call.step}")
        elif wanted != entry.digest:
            faults.append(f"the outcome of {call.step} is not the one that was drawn and stored")
        else:
            compared += 1
    faults += [f"the ledger has an outcome of {step}, which is no draw" for _, step in digests]
    if not _has_run(entries, content):
        faults.append("the run is not the one that was made")
    return Outcomes(tuple(faults), compared, unused)


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
    elif not any(one.step.split("-")[0] == "records" and not one.lost for one in transcript.calls):
        yield "the number of records is the outcome of no draw"


def _round_faults(transcript: Transcript, calls: Sequence[NoiseCall]) -> Iterator[str]:
    """Yield the rounds in another place than their number, or with what no draw gave or chose.

    A fit takes what rounds measured, and nothing else. The digest of a choice covers its source.
    """
    chosen = {_place_of(one.step) for one in calls if one.kind == SELECTION and not one.lost}
    measured = {one.step: one.lost for one in calls if one.kind != SELECTION}
    for place, one in enumerate(transcript.rounds):
        called, lost = f"round {place + 1}", measured.get(step_of(place, "measure"))
        if one.index != place:
            yield f"round {one.index + 1} of the transcript stands in place {place + 1}"
        elif one.measurement is None:
            if not lost:
                yield f"{called} records neither a measurement nor a lost one"
        elif one.source == "private":
            if lost is not False:
                yield f"{called} records a measurement that was never drawn"
        elif (place, "select") not in chosen:
            yield f"{called} records public data that no draw chose"
        elif one.measurement.sigma != 0.0:
            yield f"{called} records noise of public counts"


def _place_of(step: str) -> tuple[int, str] | None:
    """Return the index of a draw's round, and what it does there; None for no draw of a round."""
    found = _STEP.fullmatch(step)
    if found is None:
        return None
    index, action, attempt = int(found[1]) - 1, found[2], int(found[3] or 1)
    # Another spelling of the same numbers would name the same round twice.
    return (index, action) if step == step_of(index, action, attempt) else None


def _round_of(call: NoiseCall, transcript: Transcript) -> Round | None:
    action = "select" if call.kind == SELECTION else "measure"
    place = _place_of(call.step)
    if place is None or place[1] != action or not 0 <= place[0] < len(transcript.rounds):
        return None
    return transcript.rounds[place[0]]


def _is_unused(call: NoiseCall, transcript: Transcript) -> bool:
    """Return whether what a draw chose was never measured.

    A run that was closed may have ended between a choice and its measurement.
    """
    if call.kind != SELECTION or _round_of(call, transcript) is not None:
        return False
    return transcript.ended == "closed" and _is_next_choice(call, transcript)


def _is_next_choice(call: NoiseCall, transcript: Transcript) -> bool:
    """Return whether a draw chose what would have been a further round."""
    return _place_of(call.step) == (len(transcript.rounds), "select")


def _was_lost(done: Round, transcript: Transcript) -> bool:
    """Return whether the measurement of a round was drawn and lost."""
    step = step_of(done.index, "measure")
    return any(one.step == step and one.lost for one in transcript.calls)


def _digest_of(
    call: NoiseCall, transcript: Transcript, errors: Mapping[str, Any] | None
) -> str | None:
    """Return the required digest of an outcome; None if the released files do not determine it."""
    if call.kind == "Gaussian":
        return None if errors is None else _of_means(call, errors)
    if call.step.split("-")[0] == "records":
        return values_digest(np.array([float(transcript.records)]), call.scale or 0.0, call.rho)
    done = _round_of(call, transcript)
    if done is None:
        ends = _is_next_choice(call, transcript) and transcript.ended == NOTHING_HELPS
        return choice_digest(NOTHING, call.rho) if ends else None
    measurement = done.measurement
    if measurement is None and not _was_lost(done, transcript):
        return None
    subject = subject_of(done.clique, done.source, done.table)
    if call.kind == SELECTION:
        return choice_digest(subject, call.rho)
    if measurement is None:
        return None
    return values_digest(measurement.values, measurement.sigma, call.rho, subject)


def means_in(errors: Mapping[str, Any]) -> list[float]:
    """Return the released means in a file of workload errors."""
    return [errors[name]["mean"] for name in _TABLES if errors.get(name) is not None]


def _of_means(call: NoiseCall, errors: Mapping[str, Any]) -> str:
    means = np.array(means_in(errors), dtype=np.float64)
    return values_digest(means, call.scale or 0.0, call.rho)
