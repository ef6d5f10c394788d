"""The score of TILT: by how much a measurement is expected to bring the workload closer.

A candidate r that is measured with noise of sigma moves the model towards what was measured. A
cell of m records goes the part f = m / (m + lambda sigma^2 / n) of the way, where lambda says how
many records the model is worth. So the error of a margin t of r, of which the workload has N_t
marginals, changes in each cell from |d| to about the root of ((1 - f) d)^2 + (2 / pi) f^2 sigma^2,
d the deviation of the private counts from the model's.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.kernels import library
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.tables import Clique, Workload

Floats = npt.NDArray[np.float64]

STRENGTHS: Floats = np.array([3.0, 100.0, 3000.0])
"""The strengths of the model among which a score takes the one that promises most; see
`strengths_of`."""

OF_RECORDS = 0.5
"""One more strength is this part of the records, where that is far more: the model of a large table
soon stands for as many, and less would promise nothing of marginals of many cells."""

FAR = 10.0
"""How many times as much is far more."""

LARGEST_COMPILED = 16
"""Most attributes of a candidate in kernels.c."""

AT_A_TIME = 8192
"""Cells of a candidate that kernels.c looks at at a time, if that is more than a slice of it."""

ONE_WAY = 0.05
"""The part that counts of a larger candidate's gain for its single attributes: one that is
wrong is better measured alone, and these parts make up most of the sensitivity."""


class Margins:
    """How many marginals of a workload each margin of each candidate stands for.

    `weights` has N by the set of a candidate's attributes, as the bits of an index: shape
    ``(2^k,)``, the first attribute the lowest bit.

    N_t of a candidate r is the weight of the workload's marginals whose attributes within r are
    exactly t, in units of the largest weight. In a candidate of several attributes the single ones
    count `ONE_WAY` only; and N of a single attribute is at most the largest sum over the margins of
    a larger candidate, which is what the sensitivity allows.
    """

    def __init__(self, workload: Workload, candidates: Sequence[Clique]) -> None:
        heaviest = max(workload.weights)
        holding: dict[Clique, float] = {}
        for clique, weight in zip(workload.cliques, workload.weights, strict=True):
            for margin in _margins(clique):
                holding[margin] = holding.get(margin, 0.0) + weight / heaviest
        self.candidates = list(candidates)
        self._number: dict[Clique, int] = {(): 0}
        for clique in self.candidates:
            for margin in _margins(clique):
                self._number.setdefault(margin, len(self._number))
        held = np.array([holding.get(margin, 0.0) for margin in self._number])
        held[0] = 0.0
        # Candidates of as many attributes are rows of one table.
        self._levels: list[tuple[list[int], npt.NDArray[np.intp], Floats]] = []
        for degree in sorted(set(map(len, self.candidates))):
            places = [i for i, clique in enumerate(self.candidates) if len(clique) == degree]
            margins = self._margins_of([self.candidates[i] for i in places], degree)
            weights = _exactly(held[margins])
            if degree > 1:
                weights[:, [1 << index for index in range(degree)]] *= ONE_WAY
            self._levels.append((places, margins, weights))
        sums = [weights.sum(axis=1).max() for _, _, weights in self._levels if weights.shape[1] > 2]
        if sums:
            for _, _, weights in self._levels:
                if weights.shape[1] == 2:
                    np.minimum(weights[:, 1], max(sums), out=weights[:, 1])
        self.weights = self._listed(weights for _, _, weights in self._levels)

    def sums(self, weights: Sequence[Floats]) -> Floats:
        """Return the sum of the weights of each candidate, shape ``(m,)``."""
        found = np.zeros(len(self.candidates))
        for places, _, _ in self._levels:
            found[places] = np.array([weights[place] for place in places]).sum(axis=1)
        return found

    def _margins_of(self, cliques: Sequence[Clique], degree: int) -> npt.NDArray[np.intp]:
        """Return the numbers of all sets of attributes of each clique, in the order of bits."""
        found = np.zeros((len(cliques), 1 << degree), np.intp)
        for bits in range(1, 1 << degree):
            within = [index for index in range(degree) if bits >> index & 1]
            found[:, bits] = [
                self._number[tuple(clique[index] for index in within)] for clique in cliques
            ]
        return found

    def _listed(self, levels: Iterable[Floats]) -> list[Floats]:
        """Return rows of the tables of the levels by candidate."""
        found: dict[int, Floats] = {}
        for (places, _, _), weights in zip(self._levels, levels, strict=True):
            found.update(zip(places, weights, strict=True))
        return [found[place] for place in range(len(self.candidates))]

    def unsettled(self, settled: Collection[Clique]) -> list[Floats]:
        """Return the weights with zeros where a margin is settled."""
        if not settled:
            return self.weights
        kept = np.ones(len(self._number))
        kept[[self._number[margin] for margin in settled if margin in self._number]] = 0.0
        return self._listed(weights * kept[margins] for _, margins, weights in self._levels)


def _margins(clique: Clique) -> Iterable[Clique]:
    for size in range(1, len(clique) + 1):
        yield from combinations(clique, size)


def margins_by_bits(clique: Clique) -> list[Clique]:
    """Return all sets of a clique's attributes, in the order of their bits."""
    return [
        tuple(name for index, name in enumerate(clique) if bits >> index & 1)
        for bits in range(1 << len(clique))
    ]


def _exactly(holding: Floats) -> Floats:
    """Return the weight of what holds exactly each set, from that of what holds at least it.

    Both have shape ``(m, 2^k)``.
    """
    exact = holding.copy()
    for index in range((exact.shape[1] - 1).bit_length()):
        pairs = exact.reshape(len(exact), -1, 2, 1 << index)
        pairs[:, :, 0] -= pairs[:, :, 1]
    # No marginal has none of a candidate's attributes; rounding leaves nothing of the others.
    exact[:, 0] = 0.0
    exact[exact < 1e-9] = 0.0
    return exact


def strengths_of(records: float) -> Floats:
    """Return the strengths among which the scores of a run take the one that promises most."""
    largest = OF_RECORDS * records
    return np.append(STRENGTHS, largest) if largest > FAR * STRENGTHS[-1] else STRENGTHS


def expected_gain(
    model: Floats,
    counts: Floats,
    weights: Floats,
    sigma: float,
    records: float,
    *,
    strengths: Floats = STRENGTHS,
    compiled: bool | None = None,
) -> float:
    """Return by how much the measurement of a candidate brings its margins closer, in counts.

    `model` is its marginal in the model, as fractions, `counts` that of the private table. In each
    cell the derivative by d is within f and 1 in size, so a record moves the score by as much as it
    moves ``sum_t N_t`` marginals (`Neighbours.gain_score`).
    """
    loaded = library()
    if loaded is None or compiled is False or model.ndim > LARGEST_COMPILED:
        return _gain_in_numpy(model * records, counts, weights, sigma, records, strengths)
    model = np.ascontiguousarray(model, dtype=np.float64)
    counts = np.ascontiguousarray(counts, dtype=np.int32 if counts.dtype == np.int32 else np.int64)
    held = int(np.count_nonzero(counts))
    margins = math.prod(size + 1 for size in model.shape) - 1 - model.size
    block = min(model.size, model.size // model.shape[0] + AT_A_TIME)
    space = np.empty(6 * margins + 5 * block + 2 * held + 3 * len(weights))
    gain: float = loaded.jam_expected_gain(
        *(model.ctypes.data, counts.ctypes.data, counts.itemsize, held, model.ndim),
        *((ctypes.c_int64 * model.ndim)(*model.shape), weights.ctypes.data),
        *(strengths.ctypes.data, len(strengths), sigma**2, records, space.ctypes.data),
    )
    return gain


def _gain_in_numpy(
    model: Floats,
    counts: Floats,
    weights: Floats,
    sigma: float,
    records: float,
    strengths: Floats,
) -> float:
    best = -math.inf
    wanted = [int(bits) for bits in np.flatnonzero(weights)]
    lost = {
        bits: tuple(index for index in range(model.ndim) if not bits >> index & 1)
        for bits in wanted
    }
    deviations = {bits: (counts - model).sum(axis=lost[bits]) for bits in wanted}
    wholes = {bits: model.sum(axis=lost[bits]) for bits in wanted}
    for strength in strengths:
        let_through = model / (model + strength * sigma**2 / records)
        gain = 0.0
        for bits in wanted:
            part = (model * let_through).sum(axis=lost[bits])
            noise = np.square(let_through).sum(axis=lost[bits])
            share = np.divide(part, wholes[bits], out=np.zeros(part.shape), where=wholes[bits] > 0)
            deviation = deviations[bits]
            left = np.square((1.0 - share) * deviation)
            error = np.sqrt(left + (MEAN_ABSOLUTE_NORMAL * sigma) ** 2 * noise)
            gain += float(weights[bits]) * float((np.abs(deviation) - error).sum())
        best = max(best, gain)
    return best
