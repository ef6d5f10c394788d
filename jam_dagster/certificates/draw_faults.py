"""Checks that the parameters of each draw are worth its charge."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from jam_dagster.mechanisms import mechanism_class
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.privacy import exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.noise.calls import SELECTION
from jam_dagster.privacy.shares import EVALUATION, MECHANISM
from jam_dagster.tables import Workload

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.mechanisms import Transcript
    from jam_dagster.privacy import Neighbours, NoiseCall
    from jam_dagster.tables import Domain

_CLOSE = 1e-9
"""Relative tolerance of amounts that were floats."""

_MORE_NOISE = 2e-6
"""Relative tolerance of scales: twice the slack of the exact backend for rounding."""

_TABLES_EVALUATED = (1, 2)

_SELECTION = re.compile(r"round-(\d+)/select(?:-\d+)?")


def draw_faults(certificate: Certificate, transcript: Transcript, domain: Domain) -> Iterator[str]:
    """Yield the faults of a release's draws, in sentences.

    Every sensitivity must follow from the neighbours, every scale must match its rho, and every
    private measurement in the transcript must match a draw.
    """
    selections = _selections(certificate, transcript, domain)
    for one in certificate.draws:
        call = one.call
        if one.share == EVALUATION:
            wanted = _of_evaluation(call, certificate)
        elif one.share != MECHANISM:
            wanted = None
        elif call.kind == SELECTION:
            wanted = selections.get(call.step)
        else:
            wanted = _of_measurement(call, certificate.neighbours)
        if wanted is None:
            yield f"{call.step} is a draw that share {one.share} does not make"
        elif not math.isclose(call.sensitivity, wanted, rel_tol=_CLOSE):
            yield f"{call.step} has another sensitivity than the neighbours ask for"
        if (call.scale is None) != call.lost:
            yield f"{call.step} does not say whether it was lost"
        elif call.scale is not None and not -_CLOSE <= _noisier(call) <= _MORE_NOISE:
            yield f"{call.step} has other noise than was paid for"
    yield from _round_faults(transcript, domain)


def _selections(
    certificate: Certificate, transcript: Transcript, domain: Domain
) -> dict[str, float]:
    """Return the required sensitivity of each selection by its step, from its mechanism."""
    steps = [one.call.step for one in certificate.draws if one.call.kind == SELECTION]
    rounds = {step: int(found[1]) for step in steps if (found := _SELECTION.fullmatch(step))}
    if not rounds:
        return {}
    workload = Workload.specified(domain, certificate.specification["workload"])
    expected = mechanism_class(transcript.mechanism).sensitivities(
        transcript, domain, workload, certificate.neighbours
    )
    # The iterator may be endless.
    each = list(islice(expected, min(max(rounds.values()), MOST_ROUNDS)))
    return {step: each[number - 1] for step, number in rounds.items() if 0 < number <= len(each)}


def _of_evaluation(call: NoiseCall, certificate: Certificate) -> float | None:
    if call.kind != "Gaussian" or call.cells not in _TABLES_EVALUATED:
        return None
    return certificate.neighbours.mean_errors_l2(certificate.records, call.cells)


def _of_measurement(call: NoiseCall, neighbours: Neighbours) -> float | None:
    """Return the required sensitivity of a measurement; None for an unknown draw."""
    if call.kind != "discrete Gaussian":
        return None
    if call.step.split("-")[0] == "records":
        return neighbours.records
    return neighbours.marginal_l2


def _noisier(call: NoiseCall) -> float:
    """Return the relative excess of a draw's noise over the noise for its rho."""
    assert call.scale is not None  # noqa: S101  # the caller has looked
    if call.kind == SELECTION:
        return exponential_epsilon(call.rho) / call.scale - 1.0
    return call.scale / gaussian_sigma(call.sensitivity, call.rho) - 1.0


def _round_faults(transcript: Transcript, domain: Domain) -> Iterator[str]:
    """Yield the rounds that do not fit their draws."""
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
    for one in private:
        if one.measurement is not None and one.measurement.values.size != domain.size(one.clique):
            yield f"round {one.index + 1} records another measurement than it drew"
    if any(one.measurement is not None and one.sigma != one.measurement.sigma for one in private):
        yield "a round records another sigma than its measurement"
