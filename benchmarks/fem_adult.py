"""FEM in the setting of its authors, whose figures are public.

    JAM_DATA=... python -m benchmarks.fem_adult 37,50,0.97,0.1 50,20,2,1 354,20,3,1

Each argument is T, s, the mean of the noise, and the epsilon of the authors' run. Its choices have
the authors' ``eps_0 = 0.008 sqrt(epsilon)``, scaled to the smaller table here, whatever T: the rho
is what these choices cost. The table is UCI Adult with 14 attributes of up to 100 values, and the
workload 64 random three-way marginals of at most n cells, by the first of the authors' seeds. Noise
is seeded and nothing is charged. A row for every argument: rho, the mean L1 error of a marginal,
and the largest error of a cell, in shares of the records, both of the model.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from jam_dagster.mechanisms.fem import Fem
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload

AUTHORS_RECORDS, AUTHORS_EPS_0, MARGINALS, SEED = 48_842, 0.008, 64, 1961979125
BINS = {"age": 85, "hours-per-week": 99, "fnlwgt": 100, "capital-gain": 100, "capital-loss": 100}
SAME = "education"
"""The column of words that says what education-num does."""


def adult(rows: pd.DataFrame) -> EncodedTable:
    """Return Adult in equal bins, without `SAME`; a missing value is a value."""
    codes: dict[str, np.ndarray] = {}
    for name, column in rows.drop(columns=SAME).items():
        if bins := BINS.get(str(name)):
            place = (column - column.min()) / (column.max() - column.min())
            codes[str(name)] = np.minimum((bins * place).astype(int), bins - 1).to_numpy()
        else:
            codes[str(name)] = pd.factorize(column, sort=True)[0]
    sizes = {name: BINS.get(name, int(one.max()) + 1) for name, one in codes.items()}
    return EncodedTable(Domain.from_sizes(sizes), tuple(codes.values()))


def workload(table: EncodedTable) -> Workload:
    """Return `MARGINALS` random three-way marginals that have at most n cells."""
    domain = table.domain
    small = [one for one in combinations(domain.names, 3) if domain.size(one) <= table.records]
    drawn = np.random.RandomState(SEED).choice(len(small), MARGINALS, replace=False)
    return Workload.of(domain, [small[place] for place in drawn])


def run(table: EncodedTable, rounds: int, s: int, scale: float, epsilon: float) -> list[float]:
    """Return rho, the mean L1 error and the largest error of a cell."""
    asked = workload(table)
    choice = AUTHORS_EPS_0 * math.sqrt(epsilon) * AUTHORS_RECORDS / table.records
    rho = (rounds - 1) * choice**2 / 8
    draws = Draws(SeededNoise(0), UnledgeredAccount(rho))
    model = Fem(rounds=rounds, s=s, scale=scale).run(table, None, asked, draws).model
    apart = [np.abs(table.marginal(q) - model.marginal(q)) / table.records for q in asked.cliques]
    return [rho, float(np.mean([one.sum() for one in apart])), max(one.max() for one in apart)]


def lines(table: EncodedTable, settings: Sequence[str]) -> Iterator[str]:
    """Make the runs, and yield the lines of the table."""
    yield "| T | s | scale | epsilon | rho | mean L1 | largest cell |"
    yield "|---|---|---|---|---|---|---|"
    for one in settings:
        rounds, s, scale, epsilon = one.split(",")
        rho, mean, most = run(table, int(rounds), int(s), float(scale), float(epsilon))
        yield f"| {rounds} | {s} | {scale} | {epsilon} | {rho:.2g} | {mean:.3f} | {most:.3f} |"


if __name__ == "__main__":
    rows = pd.read_csv(
        Path(os.environ["JAM_DATA"]) / "adult_raw" / "adult.csv", skipinitialspace=True
    )
    for line in lines(adult(rows), sys.argv[1:]):
        print(line, flush=True)
