"""Whether the parameters of each draw are worth what was charged for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jam_dagster.certificates.issue import EVALUATION_SHARE, MECHANISM_SHARE
from jam_dagster.privacy import exponential_epsilon, gaussian_sigma

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.mechanisms import Transcript
    from jam_dagster.privacy import Neighbours, NoiseCall

_CLOSE = 1e-9
"""Relative: amounts went through floats."""

_MORE_NOISE = 2e-6
"""Relative: what the exact backend adds to a scale for the sake of rounding is half of it."""

_TABLES_EVALUATED = 2


def draw_faults(certificate: Certificate, transcript: Transcript) -> Iterator[str]:
    """Yield what is wrong with the draws of a release, in sentences.

    Every sensitivity must be the one that follows from the neighbours, every scale the one that
    its rho pays for, and every private measurement of the transcript must have been such a draw.
    """
    neighbours, records = certificate.neighbours, certificate.records
    for one in certificate.draws:
        call = one.call
        wanted = _sensitivity(call, neighbours, records, one.share)
        if wanted is None:
            yield f"{call.step} is a draw that share {one.share} does not make"
        elif not math.isclose(call.sensitivity, wanted, rel_tol=_CLOSE):
            yield f"{call.step} has another sensitivity than the neighbours ask for"
        if (call.scale is None) != call.lost:
            yield f"{call.step} does not say whether it was lost"
        elif call.scale is not None and not -_CLOSE <= _noisier(call) <= _MORE_NOISE:
            yield f"{call.step} has other noise than was paid for"
    yield from _round_faults(transcript)


def _sensitivity(call: NoiseCall, neighbours: Neighbours, records: int, share: str) -> float | None:
    """Return what the sensitivity of a draw must be; None where no such draw is known."""
    if share == EVALUATION_SHARE:
        return neighbours.mean_errors_l2(records, _TABLES_EVALUATED) if _means(call) else None
    if share != MECHANISM_SHARE:
        return None
    if call.kind == "exponential mechanism":
        return neighbours.jam_score
    if call.kind == "discrete Gaussian":
        if call.step.split("-")[0] == "records":
            return neighbours.records
        return neighbours.marginal_l2
    return None


def _means(call: NoiseCall) -> bool:
    return call.kind == "Gaussian" and call.cells == _TABLES_EVALUATED


def _noisier(call: NoiseCall) -> float:
    """Return how much more noise a draw had than its rho asks for, relatively."""
    assert call.scale is not None  # noqa: S101  # the caller has looked
    if call.kind == "exponential mechanism":
        return exponential_epsilon(call.rho) / call.scale - 1.0
    return call.scale / gaussian_sigma(call.sensitivity, call.rho) - 1.0


def _round_faults(transcript: Transcript) -> Iterator[str]:
    """Yield which rounds do not fit the draws that they are said to come from."""
    kept = [
        (call.scale, call.rho, call.cells)
        for call in transcript.calls
        if call.kind == "discrete Gaussian"
        and not call.lost
        and call.step.split("-")[0] != "records"
    ]
    private = [one for one in transcript.rounds if one.source == "private"]
    measured = [
        (one.measurement.sigma, one.rho_measure, one.measurement.values.size)
        for one in private
        if one.measurement is not None
    ]
    if len(measured) != len(kept) or any(
        one[0] != other[0]
        or not math.isclose(one[1], other[1], rel_tol=_CLOSE)
        or one[2] != other[2]
        for one, other in zip(measured, kept, strict=True)
    ):
        yield "the private measurements are not the draws of the transcript"
    if any(one.measurement is not None and one.sigma != one.measurement.sigma for one in private):
        yield "a round tells another sigma than its measurement"
