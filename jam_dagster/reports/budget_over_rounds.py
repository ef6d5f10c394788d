"""The use of a run's rho by purpose; lost draws are a purpose of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.privacy.noise.calls import RECORDS

if TYPE_CHECKING:
    from jam_dagster.common import palette
    from jam_dagster.mechanisms.loops.transcript import Transcript


@dataclass(frozen=True)
class Spending:
    """Spent rho by purpose; the parts add up to the total.

    `counting` is for the number of records, where that is private; `lost` for draws that were
    charged and lost to a crash.
    """

    counting: float
    selecting: float
    measuring: float
    lost: float

    @classmethod
    def of(cls, transcript: Transcript) -> Spending:
        """Return the spent rho of a whole run by purpose."""
        return cls._split(
            transcript,
            _counting(transcript),
            math.fsum(one.rho_select for one in transcript.rounds),
            math.fsum(one.rho_measure for one in transcript.rounds if one.measurement is not None),
            transcript.rho_spent,
        )

    @classmethod
    def by_round(cls, transcript: Transcript) -> Iterator[Spending]:
        """Yield the spent rho after each round."""
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
        # Charges are rounded up; a part below the rounding error of the whole counts as zero.
        real = lost > 1e-9 * transcript.rho_budget
        return cls(counting, selecting, measuring, lost if real else 0.0)


def _counting(transcript: Transcript) -> float:
    """Return the price of the measured number of records."""
    return math.fsum(
        call.rho for call in transcript.calls if call.subject == RECORDS and not call.lost
    )


NUMBER_OF_ROWS, LOST_DRAWS = "number of rows", "lost draws"


def shown_uses(
    colours: Mapping[str, palette.Colour], rows: Iterable[Mapping[str, Any]], amount: str
) -> dict[str, palette.Colour]:
    """Return the uses of a chart, without counted rows and lost draws if no row has any."""
    rare = {NUMBER_OF_ROWS, LOST_DRAWS} - {row["use"] for row in rows if row[amount] > 0}
    return {use: colour for use, colour in colours.items() if use not in rare}
