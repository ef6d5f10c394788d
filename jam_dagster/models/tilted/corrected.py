"""A tilted model whose rows are tilted once more, to the correlations of its public records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError
from jam_dagster.models.base import Model, check_rows
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.moments import Moments
from jam_dagster.tables import Clique, Domain, EncodedTable

POOL_SEED = 0
"""The seed of the pool: a constant, since the pool is of the model alone."""

OFFERED = 3.0
"""Most rows of the model from which each row is drawn by weight."""

SELDOM = 0.99
"""The part of the pool whose weights are below the largest of which no row comes twice."""

CHUNK = 100_000
"""The most rows that are drawn at a time, so that memory does not grow with those offered."""

CAPPED = 0.9999
"""The part of the pool whose weights are below the largest that a row may have."""


def with_moments(model: TiltedModel) -> TiltedModel | CorrectedModel:
    """Return a model with its public records' correlations, or as it is if nothing tilts it."""
    moments = Moments(model, POOL_SEED)
    found = moments.solve()
    return CorrectedModel(model, POOL_SEED, found, moments) if found.any() else model


@dataclass(frozen=True, eq=False)
class CorrectedModel(StoredModel):
    """A model times the exponential of its `Moments`; a `MarginalSource`.

    `solution` is that of `Moments.solve`, over a pool of rows by `seed`. Marginals are those of the
    model, changed as the weights change those of the pool, and never negative. `given` are the
    moments, if they were made before: their pool is not sampled again.
    """

    base: TiltedModel
    seed: int
    solution: npt.NDArray[np.int64]
    given: Moments | None = field(default=None, repr=False)

    kind = "corrected"
    archive = "potentials.npz"

    def __post_init__(self) -> None:
        fault = self.moments.fault(self.solution)
        if fault or not self.solution.any():
            fault = fault or "tilts nothing"
            raise InputError(f"The solution of a model's moments {fault}: solve them again.")

    @cached_property
    def moments(self) -> Moments:
        """The moments of the model."""
        return self.given or Moments(self.base, self.seed)

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self.base.domain

    @property
    def total(self) -> float:
        """The number of records of the model; marginals sum to it."""
        return self.base.total

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that the model was fitted to."""
        return self.base.cliques

    @property
    def size_mb(self) -> float:
        """Size of the model before it is corrected, 8 bytes a number."""
        return self.base.size_mb

    def largest_table(self, names: Sequence[str]) -> int:
        """See `FittedModel.largest_table`."""
        return self.base.largest_table(names)

    @cached_property
    def _offered(self) -> float:
        """The rows of the model from which each row is drawn: 1 if all have the same weight."""
        weights, _ = self._weights
        largest = float(np.quantile(weights, SELDOM)) * weights.size
        # In tenths, since another machine's last digits decide nothing.
        return min(math.ceil(10.0 * largest) / 10.0, OFFERED)

    @cached_property
    def _weights(self) -> tuple[npt.NDArray[np.float64], float]:
        """The weights of the pool's rows, which sum to one, and the largest log weight of a row."""
        logs = self.moments.log_weights(self.solution, self.moments.pool)
        most = float(np.quantile(logs, CAPPED))
        weights = np.exp(np.minimum(logs, most) - most)
        return weights / weights.sum(), most

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals, which share the work; see `marginal`."""
        pool, (weights, _) = self.moments.pool, self._weights
        change = weights - 1.0 / pool.records
        found = {}
        answers = dict(self.base.marginals(cliques))
        for clique in [*answers]:
            # Popped, so that none is held next to its corrected one.
            answer = answers.pop(clique)
            cells = np.zeros(pool.records, dtype=np.intp)
            for name in clique:
                cells = cells * self.domain.sizes[name] + pool.column(name)
            changes = np.bincount(cells, weights=change, minlength=answer.size)
            moved = np.maximum(answer + self.total * changes.reshape(answer.shape), 0.0)
            found[clique] = moved * (answer.sum() / max(moved.sum(), np.finfo(float).tiny))
        return found

    def distance(self, other: Model) -> float:
        """Return the distance of the models before; infinite for another solution or pool."""
        if not isinstance(other, CorrectedModel):
            return math.inf
        same = self.seed == other.seed and np.array_equal(self.solution, other.solution)
        return self.base.distance(other.base) if same else math.inf

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table: rows of the model, drawn in even strata of their weights."""
        check_rows(rows)
        chunks = [
            self._drawn(min(CHUNK, rows - start), rng).columns for start in range(0, rows, CHUNK)
        ]
        return EncodedTable(self.domain, tuple(map(np.concatenate, zip(*chunks, strict=True))))

    def _drawn(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        offered = self.base.sample(math.ceil(self._offered * rows), rng)
        _, most = self._weights
        logs = np.minimum(self.moments.log_weights(self.solution, offered), most)
        summed = np.cumsum(np.exp(logs - most))
        strata = (np.arange(rows) + rng.random()) / rows * summed[-1]
        chosen = np.minimum(np.searchsorted(summed, strata), offered.records - 1)
        return offered.take(rng.permutation(chosen))

    def _stored(self) -> tuple[Facts, Arrays]:
        facts, arrays = self.base._stored()
        return facts | {"pool_seed": self.seed}, arrays | {"solution": self.solution}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        base = TiltedModel._restored(kept)
        return cls(base, int(kept.facts["pool_seed"]), kept.arrays["solution"])
