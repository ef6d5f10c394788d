"""The round that a run is at, and how long the stages of a run take."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.mechanisms.loops.transcript import Round
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement, Origin
from jam_dagster.tables import Clique

if TYPE_CHECKING:
    from jam_dagster.models.base import Model


def step_of(index: int, action: str, attempt: int = 1) -> str:
    """Return the name under which a draw of a round is charged and stored."""
    suffix = "" if attempt == 1 else f"-{attempt}"
    return f"round-{index + 1:03d}/{action}{suffix}"


@dataclass
class Making:
    """The round that a run is at; `left` and `spent` are the rho when it began."""

    index: int
    left: float
    spent: float
    started: float = field(default_factory=time.monotonic)
    draws: dict[str, int] = field(default_factory=dict)
    clique: Clique | None = None
    source: Origin = "private"
    table: str = ""
    candidates: int = 0
    size_limit_mb: float | None = None
    rho_select: float = 0.0
    rho_measure: float = 0.0
    measurement: Measurement | None = None
    convergence: Convergence | None = None

    def step(self, action: str) -> str:
        """Return the name of the round's next draw of that kind."""
        self.draws[action] = self.draws.get(action, 0) + 1
        return step_of(self.index, action, self.draws[action])

    def closed(self, clique: Clique, model: Model, spent: float, records: int) -> Round:
        """Return the round, once it took `clique` and left `model`, with the rho spent by then."""
        measured, residual = self.measurement, math.nan
        convergence = self.convergence or Convergence(0, math.nan)
        if measured is not None:
            fitted = model.marginal(measured.clique)
            residual = l1_distance(fitted, measured.values) / records
        return Round(
            index=self.index,
            clique=clique,
            source=self.source,
            candidates=self.candidates,
            rho_select=self.rho_select,
            rho_measure=self.rho_measure,
            rho_spent=spent,
            sigma=0.0 if measured is None else measured.sigma,
            size_limit_mb=self.size_limit_mb,
            model_mb=model.size_mb,
            l1_residual=residual,
            iterations=convergence.iterations,
            loss=convergence.loss,
            seconds=time.monotonic() - self.started,
            measurement=measured,
            table=self.table,
        )


class Stages:
    """The seconds of each stage of a run."""

    def __init__(self, *names: str) -> None:
        self.seconds = dict.fromkeys(names, 0.0)
        self._inner = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the duration of a stage, without those within it."""
        started, outer, self._inner = time.monotonic(), self._inner, 0.0
        yield
        took = time.monotonic() - started
        self.seconds[name] += took - self._inner
        self._inner = outer + took
