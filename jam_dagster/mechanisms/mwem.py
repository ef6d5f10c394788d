"""MWEM: multiplicative weights over the full domain.

Hardt, Ligett, McSherry: "A Simple and Practical Algorithm for Differentially Private Data
Release", NeurIPS 2012, Figure 1, in zCDP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.weighted import HistogramMechanism
from jam_dagster.models.weighted.fit import MultiplicativeWeights
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
class Mwem(HistogramMechanism):
    """The mechanism and its settings.

    The model weights every possible record of the domain, initially equally; a domain with too many
    cells is refused.

    Attributes
    ----------
    rounds, alpha
        See `HistogramMechanism`. The paper uses Laplace noise; here it is discrete Gaussian, as in
        all mechanisms of zCDP.
    passes
        Number of passes over all measurements after each new one, as Section 2.3.1 of the paper
        advises.
    iterate
        The released weights: Figure 1 averages; in practice the last ones are better.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    passes: int = passes_setting(10)
    iterate: str = iterate_setting("last")

    name: ClassVar[str] = "mwem"
    title: ClassVar[str] = "MWEM"
    summary: ClassVar[str] = "weighs all records of a small domain"
    rank: ClassVar[int] = 80

    def weigh(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> MultiplicativeWeights:
        """Return the weights before any measurement."""
        return MultiplicativeWeights(
            support, log_start, total, passes=self.passes, average=self.iterate == "average"
        )
