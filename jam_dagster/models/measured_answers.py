"""The model of a mechanism that only answers: the measured tables, made consistent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.models.graphical.junction_tree import BYTES_PER_CELL, MEGABYTE
from jam_dagster.models.graphical.model import possible_cells
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel
from jam_dagster.tables import Clique, Domain, EncodedTable

LARGEST_VALUE = 2.0**24
"""Largest value, in totals, to project unchanged: larger ones make sums lose the total."""


class MeasuredAnswers(StoredModel):
    """Measured marginals and their margins; it samples no rows.

    An answer is the mean over all measured marginals that contain it, each weighted by one over the
    variance of its sum, projected (in L2) to the tables without negative counts that sum to the
    total and are zero in impossible cells. Answers that share attributes need not agree on them.
    """

    kind = "answers"
    archive = "answers.npz"
    domain: Domain
    total: float

    def __init__(
        self, domain: Domain, total: float, measurements: Iterable[Measurement] = ()
    ) -> None:
        self.domain = domain
        self.total = float(total)
        self._measured: list[tuple[Clique, np.ndarray, float]] = []
        # The numbers of the measured marginals by attribute.
        self._with: dict[str, set[int]] = {name: set() for name in domain.names}
        self._cells = 0
        for one in measurements:
            self.add(one)

    def __repr__(self) -> str:
        return f"MeasuredAnswers({len(self._measured)} measured marginals over {self.domain!r})"

    def add(self, measurement: Measurement) -> None:
        """Add a measurement."""
        self._keep(measurement.clique, measurement.values, measurement.sigma)

    def _keep(self, clique: Clique, values: np.ndarray, sigma: float) -> None:
        for name in clique:
            self._with[name].add(len(self._measured))
        self._measured.append((clique, np.asarray(values, dtype=np.float64), sigma))
        self._cells += values.size

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals that were measured, in order."""
        return tuple(clique for clique, _, _ in self._measured)

    @property
    def size_mb(self) -> float:
        """Size of the measured tables in megabytes, 8 bytes a cell."""
        return self._cells * BYTES_PER_CELL / MEGABYTE

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many answers, or raise InputError if no measured marginal holds one of them."""
        return {tuple(clique): self._answer(clique) for clique in cliques}

    def _answer(self, names: Sequence[str]) -> np.ndarray:
        holding = self._holding(names)
        clique = self.domain.canonical(names)
        size = self.domain.size(clique)
        summed, weights = np.zeros([self.domain.size((name,)) for name in clique]), 0.0
        for number in sorted(holding):
            measured, values, sigma = self._measured[number]
            others = tuple(axis for axis, name in enumerate(measured) if name not in clique)
            weight = size / values.size / sigma**2
            summed += weight * (values * possible_cells(self.domain, measured)).sum(axis=others)
            weights += weight
        answer = _nearest(summed / weights, possible_cells(self.domain, clique), self.total)
        return answer.transpose([clique.index(name) for name in names])

    def _holding(self, names: Sequence[str]) -> set[int]:
        """Return the numbers of the measured marginals that hold all of `names`, or raise."""
        for name in names:
            if name not in self._with:
                raise InputError(
                    f"The model has no attribute {name!r}; it has {', '.join(self.domain.names)}."
                )
        if len(set(names)) < len(names):
            raise InputError(f"An attribute is repeated in {tuple(names)}.")
        holding = set(range(len(self._measured))).intersection(*(self._with[n] for n in names))
        if not holding:
            raise InputError(
                f"No marginal that was measured holds {', '.join(names)}: this model answers the "
                "marginals of its workload and those within them. Add it to the workload, or use a "
                "mechanism that fits a model, such as tilt."
            )
        return holding

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Raise InputError: separately measured answers do not determine a table."""
        raise InputError(
            "This mechanism answers the marginals of its workload and makes no synthetic table, "
            "for use in Python and in the benchmark. Choose a mechanism that fits a model, "
            "such as tilt, to sample rows."
        )

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes."""
        facts = {"sigmas": [sigma for _, _, sigma in self._measured]}
        return facts, {f"answer_{i}": values for i, (_, values, _) in enumerate(self._measured)}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        domain = kept.domain
        model = cls(domain, kept.total)
        for i, (clique, sigma) in enumerate(zip(kept.cliques, kept.facts["sigmas"], strict=True)):
            values = kept.arrays[f"answer_{i}"]
            shape = tuple(domain.size((name,)) for name in clique)
            if values.shape != shape or not sigma > 0 or not np.isfinite(values).all():
                raise ValueError(f"answer {i}")
            model._keep(clique, values, float(sigma))
        return model


def _nearest(values: np.ndarray, possible: np.ndarray, total: float) -> np.ndarray:
    """Return the table nearest to `values` in L2 that is not negative and sums to `total`.

    It is ``max(values - t, 0)`` in the possible cells, with the t that makes it sum to the total.
    A constant added to all values changes only t, so values that are too large for floats are
    lowered first.
    """
    if np.abs(values[possible]).max() > LARGEST_VALUE * total:
        values = values - values[possible].max()
    descending = -np.sort(-values[possible])
    excess = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    # The last that stays positive: those before it do.
    kept = int(np.flatnonzero(descending > excess)[-1])
    nearest: np.ndarray = np.where(possible, np.maximum(values - excess[kept], 0.0), 0.0)
    return nearest
