"""What was asked of the noise: one line for each draw, for transcripts and certificates."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

SelectionKind = Literal["exponential mechanism", "permute-and-flip"]
"""How one of several candidates is chosen."""

DrawKind = Literal[SelectionKind, "discrete Gaussian", "Gaussian"]


@dataclass(frozen=True)
class NoiseCall:
    """One draw and its parameters; nothing in it depends on what was drawn.

    Parameters
    ----------
    step : str
        The draw's name within its release.
    kind : str
        Which mechanism drew.
    rho : float
        What it was charged.
    sensitivity : float
        Of a selection, how far a score can move; of the Gaussians, in L2. In the statistic's unit.
    scale : float or None
        epsilon of a selection, sigma of a Gaussian; None where the draw was lost.
    cells : int
        How many candidates, counts or values it was about.
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
