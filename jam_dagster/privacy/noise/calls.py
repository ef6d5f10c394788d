"""The draws of a release and their parameters, for transcripts and certificates."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

SELECTION: Final = "exponential mechanism"
"""The mechanism that chooses a candidate."""

DrawKind = Literal["exponential mechanism", "discrete Gaussian", "Gaussian"]


@dataclass(frozen=True)
class NoiseCall:
    """One draw and its parameters, which do not depend on the outcome.

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
    """

    step: str
    kind: DrawKind
    rho: float
    sensitivity: float
    scale: float | None
    cells: int
    lost: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
