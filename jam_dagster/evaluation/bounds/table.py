"""Bounds on the errors of a release's marginals, and the table of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jam_dagster.tables import Clique

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["supported", "unsupported", "none"]


@dataclass(frozen=True)
class ErrorBound:
    """A bound on ``||q(D) - q(released)||_1`` of one marginal, in counts.

    A marginal within a measured one is ``supported``, one within a candidate only ``unsupported``.
    The bound of kind ``none`` follows only from counts being non-negative. `round` is the round,
    from 0, with the selection that gives the bound of this marginal or of one that contains it;
    None if no selection gives it.
    """

    clique: Clique
    kind: Kind
    bound: float
    round: int | None = None


@dataclass(frozen=True)
class ErrorBounds:
    """The bounds of a release.

    Attributes
    ----------
    bounds
        A bound for each marginal of the downward closure, in its order.
    confidence
        The probability, over the noise of the run, with which each bound holds.
    records
        n, the number of private records, as in the transcript.
    """

    bounds: tuple[ErrorBound, ...]
    confidence: float
    records: int

    def fractions(self) -> dict[Clique, float]:
        """Return the bounds as fractions of the records, like workload errors."""
        return {one.clique: one.bound / self.records for one in self.bounds}

    def to_frame(self) -> pd.DataFrame:
        """Return one row a marginal, the loosest bound first.

        Returns
        -------
        DataFrame
            Columns ``marginal`` (names joined by " x "), ``kind``, ``bound`` (a fraction of the
            records, at most 2 where n is public) and ``round`` (from 1; empty if measurements
            give the bound).
        """
        import pandas as pd

        rows = [
            {
                "marginal": " x ".join(one.clique),
                "kind": one.kind,
                "bound": one.bound / self.records,
                "round": None if one.round is None else one.round + 1,
            }
            for one in self.bounds
        ]
        frame = pd.DataFrame(rows).astype({"round": "Int64"})
        return frame.sort_values("bound", ascending=False, kind="stable", ignore_index=True)
