"""PEP and PEP^Pub: private entropy projection over the full domain, or over public records.

Liu, Vietri, Wu: "Iterative Methods for Private Synthetic Data: Unifying Framework and New
Methods", NeurIPS 2021, Algorithms 1 and 2, and their variant with public data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.base import PublicUse
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.mechanisms.loops.weighted import HistogramMechanism
from jam_dagster.models.weighted.fit import EntropyProjection
from jam_dagster.models.weighted.support import Support


@dataclass(frozen=True)
class Pep(HistogramMechanism):
    """Private entropy projection over the full domain.

    The model weights every possible record of the domain, initially equally; a domain with too many
    cells is refused.

    Attributes
    ----------
    rounds, alpha
        See `HistogramMechanism`.
    gamma
        Allowed distance of an answer from its measurement, in standard deviations of the noise.
        With 0, as in the authors' code, all noise is fitted: on the paper's titanic split at
        epsilon 0.1 the error is more than twice as large. Noise alone exceeds three in only one
        answer in 370.
    iterations
        Most steps of a projection; 100 in the authors' code.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    gamma: float = setting(
        3.0,
        "how far an answer may be from what was measured, in standard deviations of its noise",
        minimum=0,
    )
    iterations: int = setting(100, "most steps of a projection", minimum=1, maximum=MOST_ITERATIONS)

    name: ClassVar[str] = "pep"
    title: ClassVar[str] = "PEP"
    summary: ClassVar[str] = "as PEP^Pub, over all records of a small domain"
    rank: ClassVar[int] = 90

    def weigh(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> EntropyProjection:
        """Return the weights before any measurement."""
        return EntropyProjection(
            support, log_start, total, gamma=self.gamma, iterations=self.iterations
        )


@dataclass(frozen=True)
class PepPub(Pep):
    """Private entropy projection over the records of a public table.

    It projects from the public frequencies, while `Pep` projects from the uniform distribution; the
    settings are the same.
    """

    name: ClassVar[str] = "pep_pub"
    title: ClassVar[str] = "PEP^Pub"
    summary: ClassVar[str] = (
        "weighs public records too, and stays as close to their frequencies as the answers allow"
    )
    rank: ClassVar[int] = 100
    takes_public: ClassVar[PublicUse] = "must"
    takes_named_public: ClassVar[bool] = False
