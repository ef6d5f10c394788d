"""Whether the outcomes of a release are those that the ledger took digests of."""

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
"""The tables whose mean errors are released, in the order of the draw."""


@dataclass(frozen=True)
class Outcomes:
    """What comparing the outcomes of a release with the ledger's digests came to.

    Parameters
    ----------
    faults
        What is wrong, in sentences.
    compared
        How many outcomes have the digest that they must have.
    unknown
        How many outcomes the ledger has no digest of: it was charged by an earlier version.
    untold
        How many have one, and lie in a file that the certificate does not name.
    gone
        How many have one, and are listed as lost: what was stored was removed, and is not used.
    """

    faults: tuple[str, ...]
    compared: int
    unknown: int
    untold: int
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
        The file of the workload errors, where they were measured with noise and the file is there.
    """
    digests = {(one.share, one.step): one for one in entries if one.kind == STORED}
    charged = {(one.share, one.step): one.seq for one in entries if one.kind == "charged"}
    began = min((one.seq for one in digests.values()), default=None)
    lost = {one.call.step for one in draws if one.call.lost}
    faults, unknown, untold, gone, compared = [], 0, 0, 0, 0
    for draw in draws:
        call, place = draw.call, (draw.share, draw.call.step)
        entry = digests.pop(place, None)
        if call.lost:
            # Of what was stored and is gone, nothing follows either.
            gone += entry is not None
            continue
        if entry is None:
            # Earlier versions journalled no outcomes: the first that was divides them.
            if began is not None and charged.get(place, began) > began:
                faults.append(f"the ledger has no digest of the outcome of {call.step}")
            unknown += 1
            continue
        if fault := _choice_fault(call, transcript, lost):
            faults.append(fault)
            continue
        wanted = _digest_of(call, transcript, errors)
        if wanted is None:
            # Of what the mechanism drew, nothing follows from what no round tells.
            untold += call.kind == "Gaussian"
        elif wanted != entry.digest:
            faults.append(f"the outcome of {call.step} is not the one that was drawn and stored")
        else:
            compared += 1
    faults += [f"the ledger has an outcome of {step}, which is no draw" for _, step in digests]
    return Outcomes(tuple(faults), compared, unknown, untold, gone)


def _choice_fault(call: NoiseCall, transcript: Transcript, lost: Collection[str]) -> str:
    """Return what is wrong with a choice of which the transcript does not say what it was."""
    if call.kind not in SELECTIONS:
        return ""
    done = _round_of(call, transcript)
    if done is None:
        # A run that was closed may have chosen what it could not measure any more.
        return "" if transcript.ended == "closed" else f"no round tells what {call.step} chose"
    if done.measurement is None and step_of(done.index, "measure") not in lost:
        return f"what {call.step} chose was measured, and no round tells how"
    return ""


def _round_of(call: NoiseCall, transcript: Transcript) -> Round | None:
    found = _STEP.fullmatch(call.step)
    index = int(found[1]) - 1 if found else -1
    return transcript.rounds[index] if 0 <= index < len(transcript.rounds) else None


def _digest_of(
    call: NoiseCall, transcript: Transcript, errors: Mapping[str, Any] | None
) -> str | None:
    """Return the digest that an outcome must have; None where what leaves does not tell."""
    if call.kind == "Gaussian":
        return None if errors is None else _of_means(call, errors)
    if call.step.split("-")[0] == "records":
        return values_digest(np.array([float(transcript.records)]), call.scale or 0.0, call.rho)
    done = _round_of(call, transcript)
    if done is None or done.measurement is None:
        # A lost measurement does not say of which cell it was, and nothing follows from it.
        return None
    measurement = done.measurement
    subject = subject_of(done.clique, done.source, done.table, measurement.cell)
    if call.kind in SELECTIONS:
        return choice_digest(subject, call.rho)
    return values_digest(measurement.values, measurement.sigma, call.rho, subject)


def _of_means(call: NoiseCall, errors: Mapping[str, Any]) -> str:
    means = [errors[name]["mean"] for name in _TABLES if errors.get(name) is not None]
    return values_digest(np.array(means, dtype=np.float64), call.scale or 0.0, call.rho)
