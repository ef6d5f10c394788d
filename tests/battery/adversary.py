"""Noise that says the worst: whatever is asked, a search has the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jam_dagster.privacy.accounting import gaussian_sigma
from tests.mechanisms.extremes import COUNTS, marginals

RECORDS = st.sampled_from([-(10**18), -1, 0, 1, 2, 40])
"""What noise says of the number of records, where it is private; so many rows are sampled."""


@dataclass
class Adversary:
    """A `Noise` that draws its answers from hypothesis.

    Exact noise may say any whole number, and choose any candidate, however unlikely.
    """

    data: st.DataObject
    name: str = "adversary"
    releasable: bool = False
    repeatable: bool = False

    def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
        assert np.isfinite(scores).all()
        return self.data.draw(st.integers(0, len(scores) - 1), label=step)

    def gaussian_counts(
        self, counts: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        sigma = gaussian_sigma(l2_sensitivity, rho)
        if step.startswith("records"):
            return np.array([self.data.draw(RECORDS, label=step)]), sigma
        said: Any = self.data.draw(marginals(counts.size) | st.just(None), label=step)
        # The truth once in a while, so that an extreme meets something ordinary.
        answer = counts if said is None else np.array(said, dtype=np.int64).reshape(counts.shape)
        return answer, sigma

    def gaussian_values(
        self, values: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        said = [self.data.draw(COUNTS, label=step) for _ in values]
        return np.array(said, dtype=np.float64), gaussian_sigma(l2_sensitivity, rho)
