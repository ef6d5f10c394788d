"""The draws of a release and their parameters, for transcripts and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from jam_dagster.privacy.accounting import exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.ledger.release_id import canonical_json

SELECTION: Final = "exponential mechanism"
"""The mechanism that chooses a candidate."""

COUNTS: Final = "discrete Gaussian"
"""The mechanism that measures counts."""

INTEGERS: Final = "discrete Gaussian of integers"
"""The mechanism that releases whole numbers other than counts of a marginal."""

THRESHOLD: Final = "discrete Gaussian with a threshold"
"""The mechanism that publishes values whose noisy count reaches a threshold, with the counts."""

VALUES: Final = ("Gaussian", INTEGERS)
"""The mechanisms that release statistics other than counts of a marginal."""

RECORDS: Final = "the number of records"
"""The subject of the draw that measures n."""

DrawKind = Literal[
    "exponential mechanism",
    "discrete Gaussian",
    "discrete Gaussian of integers",
    "discrete Gaussian with a threshold",
    "Gaussian",
]


@dataclass(frozen=True)
class NoiseCall:
    """One draw, its parameters, and what it is of.

    Parameters
    ----------
    step : str
        The draw's name within its release.
    kind : str
        The mechanism.
    rho : float
        Its charge.
    sensitivity : float
        The largest change of a score for a selection, in L2 for the Gaussians; in the unit of the
        statistic.
    scale : float or None
        epsilon of a selection, sigma of a Gaussian; None for a lost draw.
    cells : int
        Number of candidates, counts or values.
    lost : bool
        Whether it was charged and its outcome never stored; it counts as spent.
    subject : str
        The name of what was measured, or of the chosen candidates, as the ledger's digest covers
        it; empty for means of errors and for a lost choice.
    choices : int
        How many independent choices were made from the same scores, at equal parts of the charge.
    delta : float
        The probability, at most, with which a selection publishes a value of one person alone.
    threshold : int
        The least noisy count of a value that a selection publishes; 0 of other draws.
    """

    step: str
    kind: DrawKind
    rho: float
    sensitivity: float
    scale: float | None
    cells: int
    lost: bool = False
    subject: str = ""
    choices: int = 1
    delta: float = 0.0
    threshold: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a delta and a threshold only of a selection of values."""
        content = asdict(self)
        if self.kind != THRESHOLD:
            del content["delta"], content["threshold"]
        return content


def subject_of_choices(names: Sequence[str]) -> str:
    """Return the subject of a draw that chose these candidates, in order."""
    return names[0] if len(names) == 1 else canonical_json(list(names))


def subject_of_values(attribute: str, values: Sequence[str]) -> str:
    """Return the subject of a draw that published these values of an attribute."""
    return canonical_json([attribute, list(values)])


CLOSE = 1e-9
"""Relative tolerance of what was computed with floats: sums may round otherwise elsewhere."""

_MORE_NOISE = 2e-6
"""Relative tolerance of more noise: twice the slack of the exact backend for rounding."""


def noise_fault(call: NoiseCall) -> str:
    """Return why a draw has not the noise that its rho pays for; empty if it has."""
    if (call.scale is None) != call.lost:
        return f"{call.step} does not say whether it was lost"
    if call.scale is None:
        return ""
    if call.kind == SELECTION:
        # The smaller epsilon, the more noise.
        least, stated = call.scale, exponential_epsilon(call.rho / call.choices)
    else:
        least, stated = gaussian_sigma(call.sensitivity, call.rho), call.scale
    if least > 0.0 and -CLOSE <= stated / least - 1.0 <= _MORE_NOISE:
        return ""
    return f"{call.step} has other noise than was paid for"
