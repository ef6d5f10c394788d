"""What was really drawn and really stored, counted without the help of what is tested."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from jam_dagster.privacy import Noise


@dataclass(frozen=True)
class Line:
    """One line of the tally."""

    what: str
    step: str
    units: int = 0
    digest: str = ""
    repeats: bool = False


class Tally:
    """A file that grows by one line, in one write, for each draw made and each outcome stored.

    A line outlives the process that wrote it: SIGKILL takes nothing from the kernel's cache.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, **line: Any) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, (json.dumps(line) + "\n").encode())
        finally:
            os.close(descriptor)

    def lines(self) -> list[Line]:
        if not self._path.exists():
            return []
        return [Line(**json.loads(line)) for line in self._path.read_text().splitlines()]


def units_of(rho: float) -> int:
    """The least number of the ledger's units that pays for a draw, by arithmetic of our own."""
    return math.ceil(Fraction(rho) * 10**15)


class TalliedNoise:
    """Noise whose every draw is in the tally before anyone sees it."""

    def __init__(self, noise: Noise, tally: Tally, reach: Callable[[str, str], None]) -> None:
        self._noise = noise
        self._tally = tally
        self._reach = reach

    @property
    def name(self) -> str:
        return self._noise.name

    @property
    def releasable(self) -> bool:
        return self._noise.releasable

    @property
    def repeatable(self) -> bool:
        return self._noise.repeatable

    def gaussian_counts(
        self, counts: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        return self._made(
            step, rho, lambda: self._noise.gaussian_counts(counts, l2_sensitivity, rho, step)
        )

    def gaussian_values(
        self, values: np.ndarray, l2_sensitivity: float, rho: float, step: str
    ) -> tuple[np.ndarray, float]:
        return self._made(
            step, rho, lambda: self._noise.gaussian_values(values, l2_sensitivity, rho, step)
        )

    def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
        return self._made(step, rho, lambda: self._noise.select(scores, rho, sensitivity, step))

    def select_values(
        self,
        counts: np.ndarray,
        l2_sensitivity: float,
        rho: float,
        delta: float,
        values: int,
        rows: int,
        step: str,
    ) -> tuple[np.ndarray, np.ndarray, float, int]:
        given = l2_sensitivity, rho, delta, values, rows, step
        return self._made(step, rho, lambda: self._noise.select_values(counts, *given))

    def _made(self, step: str, rho: float, draw: Callable[[], Any]) -> Any:
        self._reach("draw: before", step)
        made = draw()
        self._reach("draw: made", step)
        self._tally.add(
            what="drawn",
            step=step,
            units=units_of(rho),
            digest=_digest(made),
            repeats=self.name == "numpy",
        )
        self._reach("draw: tallied", step)
        return made


def _digest(made: Any) -> str:
    parts = made if isinstance(made, tuple) else (made,)
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(np.asarray(part).tobytes())
    return hashed.hexdigest()
