"""What a run's rho was spent on, a lost draw told as lost and not as what it was to be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript


@dataclass(frozen=True)
class Spending:
    """Rho by what it was spent on; the parts add up to all that was spent.

    Parameters
    ----------
    counting
        On the number of records, where that is private.
    selecting, measuring
        On marginals.
    lost
        On draws that were charged and lost to a crash.
    """

    counting: float
    selecting: float
    measuring: float
    lost: float

    @classmethod
    def of(cls, transcript: Transcript) -> Spending:
        """Return what a whole run was spent on."""
        return cls._split(
            transcript,
            _counting(transcript),
            math.fsum(one.rho_select for one in transcript.rounds),
            math.fsum(one.rho_measure for one in transcript.rounds if one.measurement is not None),
            transcript.rho_spent,
        )

    @classmethod
    def by_round(cls, transcript: Transcript) -> Iterator[Spending]:
        """Yield for each round what had been spent after it."""
        counting, selecting, measuring = _counting(transcript), 0.0, 0.0
        for one in transcript.rounds:
            selecting += one.rho_select
            measuring += 0.0 if one.measurement is None else one.rho_measure
            yield cls._split(transcript, counting, selecting, measuring, one.rho_spent)

    @classmethod
    def _split(
        cls,
        transcript: Transcript,
        counting: float,
        selecting: float,
        measuring: float,
        spent: float,
    ) -> Spending:
        lost = spent - counting - selecting - measuring
        # Charges are rounded up; what is less than a rounding error of the whole is none.
        real = lost > 1e-9 * transcript.rho_budget
        return cls(counting, selecting, measuring, lost if real else 0.0)


def _counting(transcript: Transcript) -> float:
    """Return what the measured number of records cost."""
    return math.fsum(
        call.rho for call in transcript.calls if call.step.startswith("records") and not call.lost
    )
