"""Noise that keeps what it was asked, and noise that answers as it did before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jam_dagster.privacy import Noise


@dataclass(frozen=True, eq=False)
class Call:
    """One draw: what was asked, at what price, and what came out.

    `reach` is how far apart two inputs may be for the noise that was added to cost `rho`: in L2
    for measurements, as what their sigma says; in the maximum norm for selections, as it was
    stated.
    """

    kind: str
    step: str
    asked: np.ndarray
    rho: float
    reach: float
    answer: Any

    def moved(self, other: Call) -> float:
        """Return how far the inputs of two calls are apart, in the norm that their law needs."""
        apart = np.abs(self.asked.astype(float) - other.asked)
        return float(apart.max() if self.kind == "select" else np.sqrt((apart**2).sum()))


@dataclass
class Listening:
    """A `Noise` that keeps every call.

    Parameters
    ----------
    noise
        What draws.
    answers
        Outcomes by step, which are given instead of drawing.
    choose
        Chooses from the scores instead of drawing, if given.
    """

    noise: Noise
    answers: Mapping[str, Any] | None = None
    choose: Callable[[np.ndarray], int] | None = None
    calls: list[Call] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.noise.name

    @property
    def releasable(self) -> bool:
        return self.noise.releasable

    def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
        answer = self._answer(step)
        if answer is None:
            choose = self.choose
            drawn = self.noise.select(scores, rho, sensitivity, step)
            answer = drawn if choose is None else choose(scores)
        self._keep("select", step, scores, rho, sensitivity, answer)
        return int(answer)

    @property
    def repeatable(self) -> bool:
        return self.noise.repeatable

    def gaussian_counts(
        self, counts: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        drawn = self._answer(step) or self.noise.gaussian_counts(counts, l2_sensitivity, rho, step)
        self._keep("counts", step, counts, rho, drawn[1] * np.sqrt(2 * rho), drawn)
        return drawn

    def gaussian_values(
        self, values: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        drawn = self._answer(step) or self.noise.gaussian_values(values, l2_sensitivity, rho, step)
        self._keep("values", step, values, rho, drawn[1] * np.sqrt(2 * rho), drawn)
        return drawn

    @property
    def answered(self) -> dict[str, Any]:
        """Return the outcomes so far by step."""
        return {call.step: call.answer for call in self.calls}

    def _answer(self, step: str) -> Any:
        if self.answers is None:
            return None
        # A draw that the other run did not make depends on what is private.
        assert step in self.answers, f"{step} was not drawn before"
        return self.answers[step]

    def _keep(
        self, kind: str, step: str, asked: np.ndarray, rho: float, reach: float, answer: Any
    ) -> None:
        self.calls.append(Call(kind, step, np.array(asked), rho, float(reach), answer))
