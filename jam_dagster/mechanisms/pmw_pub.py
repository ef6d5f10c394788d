"""PMW^Pub: private multiplicative weights over the records of a public table.

Liu, Vietri, Steinke, Ullman, Wu: "Leveraging Public Data for Practical Private Query Release",
ICML 2021, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.weighted import HistogramMechanism
from jam_dagster.models.weighted.multiplicative_weights import MultiplicativeWeights
from jam_dagster.models.weighted.support import Support


def passes_setting(default: int) -> int:
    """Return the setting of the number of passes over the measurements."""
    passes: int = setting(
        default,
        "how often all measurements are gone through after a new one; 0: the new one alone, once",
        minimum=0,
        maximum=10_000,
    )
    return passes


def iterate_setting(default: str) -> str:
    """Return the setting of the released weights."""
    iterate: str = setting(
        default,
        "which weights are released: the last ones, or the average of those after each round",
        choices=("last", "average"),
    )
    return iterate


@dataclass(frozen=True)
class PmwPub(HistogramMechanism):
    """The mechanism and its settings.

    The model weights the distinct records of the public table, initially by their frequency. For
    any budget, it cannot be better than the best weights of these records (see
    `jam_dagster.evaluation.best_mixture`).

    Attributes
    ----------
    rounds, alpha
        See `HistogramMechanism`.
    passes
        Number of passes over all measurements after each new one (Appendix C.3 of the paper has
        one); see `MultiplicativeWeights`.
    iterate
        The released weights. Algorithm 1 averages, which its theorem needs.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    passes: int = passes_setting(1)
    iterate: str = iterate_setting("average")

    name: ClassVar[str] = "pmw_pub"
    title: ClassVar[str] = "PMW^Pub"
    summary: ClassVar[str] = "weighs the records of the public table"
    rank: ClassVar[int] = 70
    uses_public: ClassVar[bool] = True
    takes_named_public: ClassVar[bool] = False

    def weigh(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> MultiplicativeWeights:
        """Return the weights before any measurement."""
        return MultiplicativeWeights(
            support, log_start, total, passes=self.passes, average=self.iterate == "average"
        )
