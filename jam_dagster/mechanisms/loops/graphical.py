"""The base of mechanisms with a graphical model: settings, filter, fits, refit."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from jam_dagster.errors import EmptyCandidateSetError
from jam_dagster.mechanisms.base import Mechanism
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.models.graphical.estimator import EstimatorName, Weighting
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    LARGEST_TREE_CELLS,
    MEGABYTE,
)
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.tables import Clique, Domain


def alpha_setting(default: float) -> float:
    """Return the setting of the share of a round's budget that measures."""
    share: float = setting(
        default, "share of a round's budget that measures, the rest selects", above=0, below=1
    )
    return share


def size_limit_setting(default: float = 80.0) -> float:
    """Return the setting of the largest model."""
    limit: float = setting(
        default,
        "largest junction tree of the model, in MB",
        above=0,
        maximum=LARGEST_TREE_CELLS * BYTES_PER_CELL // MEGABYTE,
    )
    return limit


def tolerance_setting(default: float = 0.1) -> float:
    """Return the setting of when a fit ends."""
    tolerance: float = setting(
        default,
        "trades error for time: an accelerated fit ends when 15 steps lowered its loss by less"
        " than this share; 0 takes all iterations",
        minimum=0,
        below=1,
        last=True,
    )
    return tolerance


def check_first_candidates(
    domain: Domain, candidates: Sequence[Clique], size_limit_mb: float, rounds: int
) -> None:
    """Raise unless a candidate fits the model of the first round."""
    limit = size_limit_mb / rounds
    if not TractabilityFilter(domain, candidates).fitting([], limit):
        empty = FittedModel.uniform(domain, 1.0).size_mb
        raise EmptyCandidateSetError(
            f"No marginal of the workload fits the first round's model size limit of "
            f"{limit:.3g} MB (size_limit_mb / rounds); the empty model alone takes "
            f"{empty:.3g} MB. Raise size_limit_mb, lower rounds, or use fewer values an "
            "attribute."
        )


@dataclass(frozen=True)
class GraphicalMechanism(Mechanism, ABC):
    """A mechanism that fits a graphical model, with the settings of the fits, as of `JamPgm`."""

    estimator: str = setting(
        "accelerated",
        "how the model is fitted: accelerated or mbi (Private-PGM's, slow)",
        choices=get_args(EstimatorName),
        last=True,
    )
    iterations: int = setting(
        1000, "most steps of a fit", minimum=1, maximum=MOST_ITERATIONS, last=True
    )
    tolerance: float = tolerance_setting()

    weighting: ClassVar[Weighting] = "alike"

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values, and how measurements are weighted if not alike."""
        weighting = {} if self.weighting == "alike" else {"weighting": self.weighting}
        return super().parameters() | weighting
