"""Checks that the outcomes of a release match their digests in the ledger."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.certificates.draw_faults import SELECTIONS
from jam_dagster.certificates.facts import STORED
from jam_dagster.mechanisms.loops.base import step_of
from jam_dagster.mechanisms.loops.transcript import subject_of
from jam_dagster.privacy.outcome_digest import choice_digest, values_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jam_dagster.certificates.facts import Entry, PaidDraw
    from jam_dagster.mechanisms import Round, Transcript
    from jam_dagster.privacy import NoiseCall

_STEP = re.compile(r"round-(\d+)/(select|measure)(?:-\d+)?")

_TABLES = ("synthetic", "public")
"""The tables with released mean errors, in the order of the draw."""


@dataclass(frozen=True)
class Outcomes:
    """The result of comparing a release's outcomes with their digests in the ledger.

    Parameters
    ----------
    faults
        The faults, in sentences.
    compared
        Number of outcomes that match their digest.
    unknown
        Number of outcomes without a digest in the ledger, from an earlier version.
    unnamed
        Number of outcomes with a digest, in a file that the certificate does not name.
    gone
        Number of outcomes with a digest that are listed as lost: the stored ones were removed, and
        are not used.
    """

    faults: tuple[str, ...]
    compared: int
    unknown: int
    unnamed: int
    gone: int


def compare_outcomes(
    draws: Sequence[PaidDraw],
    entries: Sequence[Entry],
    transcript: Transcript,
    errors: Mapping[str, Any] | None,
) -> Outcomes:
    """Compare the outcomes of draws with the digests that the ledger has of them.

    Parameters
    ----------
    draws
        All draws of the release.
    entries
        The ledger's entries about it.
    transcript
        What the mechanism drew.
    errors
        The file of the workload errors, if they were measured with noise and the file exists.
    """
    digests = {(one.share, one.step): one for one in entries if one.kind == STORED}
    charged = {(one.share, one.step): one.seq for one in entries if one.kind == "charged"}
    began = min((one.seq for one in digests.values()), default=None)
    lost = {one.call.step for one in draws if one.call.lost}
    faults, unknown, unnamed, gone, compared = [], 0, 0, 0, 0
    for draw in draws:
        call, place = draw.call, (draw.share, draw.call.step)
        entry = digests.pop(place, None)
        if call.lost:
            # No result depends on a stored outcome that was removed.
            gone += entry is not None
            continue
        if entry is None:
            # Earlier versions journalled no outcomes: only those before the first may lack one.
            if began is not None and charged.get(place, began) > began:
                faults.append(f"the ledger has no digest of the outcome of {call.step}")
            unknown += 1
            continue
        if fault := _choice_fault(call, transcript, lost):
            faults.append(fault)
            continue
        wanted = _digest_of(call, transcript, errors)
        if wanted is None:
            # No result depends on a mechanism's outcome that no round records.
            unnamed += call.kind == "Gaussian"
        elif wanted != entry.digest:
            faults.append(f"the outcome of {call.step} is not the one that was drawn and stored")
        else:
            compared += 1
    faults += [f"the ledger has an outcome of {step}, which is no draw" for _, step in digests]
    return Outcomes(tuple(faults), compared, unknown, unnamed, gone)


def _choice_fault(call: NoiseCall, transcript: Transcript, lost: Collection[str]) -> str:
    """Return the fault of a choice that the transcript does not record; empty if it has none."""
    if call.kind not in SELECTIONS:
        return ""
    done = _round_of(call, transcript)
    if done is None:
        # A closed run may have ended between a choice and its measurement.
        return "" if transcript.ended == "closed" else f"no round records the choice of {call.step}"
    if done.measurement is None and step_of(done.index, "measure") not in lost:
        return f"the choice of {call.step} was measured, and no round records the result"
    return ""


def _round_of(call: NoiseCall, transcript: Transcript) -> Round | None:
    found = _STEP.fullmatch(call.step)
    index = int(found[1]) - 1 if found else -1
    return transcript.rounds[index] if 0 <= index < len(transcript.rounds) else None


def _digest_of(
    call: NoiseCall, transcript: Transcript, errors: Mapping[str, Any] | None
) -> str | None:
    """Return the required digest of an outcome; None if the released files do not determine it."""
    if call.kind == "Gaussian":
        return None if errors is None else _of_means(call, errors)
    if call.step.split("-")[0] == "records":
        return values_digest(np.array([float(transcript.records)]), call.scale or 0.0, call.rho)
    done = _round_of(call, transcript)
    if done is None or done.measurement is None:
        # A lost measurement does not record its cell, and no result depends on it.
        return None
    measurement = done.measurement
    subject = subject_of(done.clique, done.source, done.table, measurement.cell)
    if call.kind in SELECTIONS:
        return choice_digest(subject, call.rho)
    return values_digest(measurement.values, measurement.sigma, call.rho, subject)


def _of_means(call: NoiseCall, errors: Mapping[str, Any]) -> str:
    means = [errors[name]["mean"] for name in _TABLES if errors.get(name) is not None]
    return values_digest(np.array(means, dtype=np.float64), call.scale or 0.0, call.rho)
