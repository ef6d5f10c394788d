"""Public error targeting: a biased part of one table plays the public table, as in the JAM paper.

The other construction of the paper is `jam_dagster.tables.stratified_split`. Both are for
experiments: the sampled rows count as public.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.tables import EncodedTable, Workload

STRONGEST_TILT = 64.0
_STEPS = 60


class ConstructedSplit(NamedTuple):
    """Two tables over one domain without a record in common.

    `error` is the public one's mean workload error: an exact statistic of the private table.
    """

    private: EncodedTable
    public: EncodedTable
    error: float


def error_targeted_split(
    table: EncodedTable,
    *,
    target: float,
    public_rows: int,
    workload: Workload,
    tolerance: float = 0.005,
    seed: int = 0,
) -> ConstructedSplit:
    """Choose public rows with a target workload error against the other rows.

    Every record gets a score, the sum of random weights of its values and of its pairs of values,
    and the public rows are drawn without replacement with odds ``exp(tilt * score)``: without a
    tilt a random sample, with a strong one a sample of a corner of the table. The tilt is found by
    bisection. The same random numbers serve all tilts (the Gumbel trick), so a slightly stronger
    one exchanges few rows, and the error moves in small steps.

    The paper names the construction, but its authors' code does not contain it: the tilt is a
    choice of this package. It shifts single values as well as relations. No error's message holds a
    value of the table or a count.
    """
    if not 0 < target < 2:
        raise SpecificationError(f"the target error must be between 0 and 2, got {target!r}")
    if not tolerance > 0:
        raise SpecificationError(f"the tolerance must be above 0, got {tolerance!r}")
    if not 0 < public_rows < table.records:
        raise SpecificationError(
            f"public_rows must be at least 1 and leave a private row, got {public_rows!r}"
        )
    rng = np.random.default_rng(seed)
    score, noise = _scores(table, rng), rng.gumbel(size=table.records)

    def split(tilt: float) -> ConstructedSplit:
        chosen = np.zeros(table.records, dtype=bool)
        chosen[np.argpartition(-(tilt * score + noise), public_rows - 1)[:public_rows]] = True
        private, public = table.take(np.flatnonzero(~chosen)), table.take(np.flatnonzero(chosen))
        (error,) = table_errors(private, [public], workload)
        return ConstructedSplit(private, public, error.mean)

    low, high = 0.0, 0.25
    made = split(low)
    if made.error > target + tolerance:
        raise InputError(
            "The target error is below that of a random sample of so many public rows: raise the "
            "target, or take more public rows."
        )
    while abs(made.error - target) > tolerance:
        made = split(high)
        if made.error > target:
            break
        low, high = high, 2 * high
        if high > STRONGEST_TILT and abs(made.error - target) > tolerance:
            raise InputError(
                "The target error is above that of the most biased sample of so many public rows: "
                "lower the target, or take fewer public rows."
            )
    for _ in range(_STEPS):
        if abs(made.error - target) <= tolerance:
            return made
        middle = (low + high) / 2
        made = split(middle)
        low, high = (low, middle) if made.error > target else (middle, high)
    raise InputError(
        "No sample of so many public rows comes that close to the target error: raise the "
        "tolerance, or take more public rows."
    )


def _scores(table: EncodedTable, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return the scores of all records, with mean 0 and standard deviation 1."""
    score = np.zeros(table.records)
    sizes = [attribute.size for attribute in table.domain.attributes]
    for column, size in zip(table.columns, sizes, strict=True):
        score += rng.normal(size=size)[column]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    for one, other in pairs:
        weights = rng.normal(size=sizes[one] * sizes[other])
        # All pairs together weigh as much as all single values.
        weights *= np.sqrt(len(sizes) / len(pairs))
        cells = table.columns[one].astype(np.intp) * sizes[other] + table.columns[other]
        score += weights[cells]
    standard: npt.NDArray[np.float64] = (score - score.mean()) / (score.std() or 1.0)
    return standard
