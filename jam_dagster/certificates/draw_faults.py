"""Checks that the noise of each draw is worth its charge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jam_dagster.privacy import exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS, SELECTION
from jam_dagster.privacy.shares import EVALUATION, MECHANISM

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.certificates.facts import PaidDraw
    from jam_dagster.privacy import NoiseCall

_CLOSE = 1e-9
"""Relative tolerance of amounts that were floats."""

_MORE_NOISE = 2e-6
"""Relative tolerance of scales: twice the slack of the exact backend for rounding."""

_TABLES_EVALUATED = (1, 2)


def draw_faults(certificate: Certificate) -> Iterator[str]:
    """Yield the faults of a release's draws, in sentences.

    Every scale must match its rho, and every sensitivity of a measurement or an evaluation follow
    from the neighbours. How far scores and values move, and what all draws may cost, the mechanism
    says: see `jam_dagster.mechanisms.replay`.
    """
    for one in certificate.draws:
        call, wanted = one.call, _sensitivity(one, certificate)
        if wanted is None:
            yield f"{call.step} is a draw that share {one.share} does not make"
        elif not math.isclose(call.sensitivity, wanted, rel_tol=_CLOSE):
            yield f"{call.step} has another sensitivity than the neighbours ask for"
        if (call.scale is None) != call.lost:
            yield f"{call.step} does not say whether it was lost"
        elif call.scale is not None and not -_CLOSE <= _noisier(call) <= _MORE_NOISE:
            yield f"{call.step} has other noise than was paid for"


def _sensitivity(draw: PaidDraw, certificate: Certificate) -> float | None:
    """Return the required sensitivity of a draw; None if its share makes no such draw."""
    call, neighbours = draw.call, certificate.neighbours
    if draw.share == EVALUATION:
        if call.kind != "Gaussian" or call.cells not in _TABLES_EVALUATED:
            return None
        return neighbours.mean_errors_l2(certificate.records, call.cells)
    if draw.share != MECHANISM:
        return None
    if call.kind == COUNTS:
        return neighbours.records if call.subject == RECORDS else neighbours.marginal_l2
    return call.sensitivity if call.kind in (SELECTION, "Gaussian") else None


def _noisier(call: NoiseCall) -> float:
    """Return the relative excess of a draw's noise over the noise for its rho."""
    assert call.scale is not None  # noqa: S101  # the caller has looked
    if call.kind == SELECTION:
        return exponential_epsilon(call.rho / call.choices) / call.scale - 1.0
    return call.scale / gaussian_sigma(call.sensitivity, call.rho) - 1.0
