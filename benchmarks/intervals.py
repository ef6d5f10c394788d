"""How often intervals hold, and how often a test of independence rejects what is true.

    python -m benchmarks.intervals --study small --runs 1000 \
        --out docs/measurements/intervals.parquet
    python -m benchmarks.intervals --study null --runs 2000 --out ...
    JAM_DATA=... python -m benchmarks.intervals --study titanic --runs 50 --out ...
    python -m benchmarks.intervals --study bootstrap --runs 200 --out ...

Noise is seeded and nothing is charged. Conditions are random, fixed before any run: values of one
to three attributes, half of each on average.

    small      500 records of a population in which four attributes are dependent, drawn in each
               run, and 200 of another population as the public table; all pairs are the workload
    null       500 records of three independent attributes, drawn in each run; the pair of the first
               two is named before any run
    titanic, adult_pub025_01
               the JAM paper's splits; all pairs are the workload
    bootstrap  as small; conditions that no measurement covers. Noise is added again to the model's
               marginals at what was measured, 40 times, and the model is fitted again; 2.5% of the
               differences to the model's answers are cut off at each end

A row of the file is a run and a kind of answers: how many there were, and how many intervals held
the truth or, in the study ``null``, how many tests rejected at 5%. Runs that the file has already
are not repeated. At the end the table of all rows is printed, with the standard error over runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.splits import load_split
from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.evaluation.independence import independence_test
from jam_dagster.evaluation.intervals import answer
from jam_dagster.evaluation.released_marginals import covers
from jam_dagster.mechanisms import Aim, JamPgm, Mechanism, MechanismResult
from jam_dagster.mechanisms.gaussian import Gaussian
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.noise.seeded import discrete_gaussian
from jam_dagster.tables import Domain, EncodedTable, Workload

DELTA = 1e-9
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}
RECORDS, PUBLIC_RECORDS, CONDITIONS, REFITS = 500, 200, 20, 40
MECHANISMS: Mapping[str, Callable[[], Mechanism]] = {
    "gaussian": Gaussian,
    "jam_pgm": lambda: JamPgm(rounds=10),
    "aim": Aim,
}
SPLITS = ("titanic", "adult_pub025_01")
KEY = ["study", "mechanism", "epsilon", "seed"]

Where = dict[str, list[int]]
Held = Counter[tuple[str, bool]]


@dataclass(frozen=True)
class Case:
    """The tables of a run, and the population's shares if there is a population."""

    private: EncodedTable
    public: EncodedTable
    population: np.ndarray | None = None


@cache
def shares(seed: int) -> np.ndarray:
    """Return a population of dependent attributes: the share of each cell."""
    rng = np.random.default_rng([7, seed])
    made: np.ndarray = rng.dirichlet(np.full(int(np.prod(list(SIZES.values()))), 0.5))
    return made.reshape(list(SIZES.values()))


def drawn(population: np.ndarray, records: int, rng: np.random.Generator) -> EncodedTable:
    """Return a random sample of a population."""
    cells = rng.choice(population.size, size=records, p=population.ravel())
    names = list(SIZES)[: population.ndim]
    domain = Domain.from_sizes({name: SIZES[name] for name in names})
    columns = np.unravel_index(cells, population.shape)
    return EncodedTable.from_frame(domain, pd.DataFrame(dict(zip(names, columns, strict=True))))


def case(study: str, seed: int) -> Case:
    """Return the tables of a run."""
    if study in SPLITS:
        split = load_split(study)
        return Case(split.private, split.public)
    rng = np.random.default_rng([11, seed])
    population, other = shares(0), shares(1)
    if study == "null":
        population = other = np.einsum(
            "i,j,k->ijk", [0.3, 0.7], [0.2, 0.3, 0.5], [0.1, 0.2, 0.3, 0.4]
        )
    tables = drawn(population, RECORDS, rng), drawn(other, PUBLIC_RECORDS, rng)
    return Case(*tables, population)


def released(name: str, tables: Case, epsilon: float, seed: int) -> MechanismResult:
    """Return a run of a mechanism on all pairs."""
    mechanism = MECHANISMS[name]()
    public = tables.public if mechanism.uses_public else None
    workload = Workload.all_k_way(tables.private.domain, 2)
    draws = Draws(SeededNoise(seed), UnledgeredAccount(Budget(epsilon, DELTA).rho))
    return mechanism.run(tables.private, public, workload, draws)


def conditions(domain: Domain) -> Iterator[Where]:
    """Yield random conditions on one to three attributes, the same in every run."""
    rng = np.random.default_rng(0)
    for _ in range(CONDITIONS):
        names = rng.choice(list(domain.names), size=rng.integers(1, 4), replace=False).tolist()
        where = {}
        for name in domain.canonical(names):
            codes = np.flatnonzero(rng.random(domain.sizes[name]) < 0.5)
            where[name] = codes.tolist() or [int(rng.integers(domain.sizes[name]))]
        yield where


def met(counts: np.ndarray, where: Where) -> float:
    """Return the sum of a marginal over a condition on its attributes, in their order."""
    return float(counts[np.ix_(*where.values())].sum())


def intervals_held(made: MechanismResult, tables: Case) -> Held:
    """Count the intervals by kind, and by whether they hold the truth."""
    transcript, model, domain = made.transcript, made.model, tables.private.domain
    workload = Workload.all_k_way(domain, 2)
    known = known_bounds(transcript, domain, workload, released=model)
    held: Held = Counter()
    for where in conditions(domain):
        names = tuple(where)
        many = sum(covers(one, names) for one in transcript.measurements)
        given = (where, transcript, domain, model, lambda: known)
        truth = met(tables.private.marginal(names), where)
        found = answer(*given)
        if found.low is not None and found.high is not None:
            held[found.basis, found.low <= truth <= found.high] += 1
            if many:
                times = "once" if many == 1 else "several times"
                held[f"measured {times}", found.low <= truth <= found.high] += 1
        if tables.population is None or not many:
            continue
        away = tuple(i for i, name in enumerate(domain.names) if name not in names)
        truth = RECORDS * met(tables.population.sum(axis=away), where)
        found = answer(*given, population=True)
        assert found.low is not None
        assert found.high is not None
        held["population", found.low <= truth <= found.high] += 1
    return held


def bootstrap_held(made: MechanismResult, tables: Case, seed: int) -> Held:
    """Count intervals of the bootstrap for conditions that no measurement covers."""
    transcript, model, domain = made.transcript, made.model, tables.private.domain
    rng, again = np.random.default_rng([13, seed]), []
    for _ in range(REFITS):
        fit = make_estimator("accelerated", domain, RECORDS, iterations=1000, tolerance=0.1)
        for one in transcript.measurements:
            values = one.values
            if one.source == "private":
                noise = discrete_gaussian(rng, one.sigma, values.size).reshape(values.shape)
                values = model.marginal(one.clique) + noise
            fit.add(replace(one, values=values))
        again.append(fit.model)
    held: Held = Counter()
    for where in conditions(domain):
        names = tuple(where)
        if any(covers(one, names) for one in transcript.measurements):
            continue
        truth = met(tables.private.marginal(names), where)
        estimate = met(model.marginal(names), where)
        apart = [met(one.marginal(names), where) - estimate for one in again]
        low, high = np.quantile(apart, [0.025, 0.975])
        held["bootstrap", bool(estimate - high <= truth <= estimate - low)] += 1
    return held


def rejected(made: MechanismResult, tables: Case) -> Held:
    """Count the test of the pair that was named, by whether it rejects."""
    found = independence_test(made.transcript, tables.private.domain, "a", "b")
    if found.p_value is None:
        return Counter({("all", False): 1})
    rejects = found.p_value <= 0.05
    return Counter({("all", rejects): 1, ("measured", rejects): 1})


def rows(study: str, mechanism: str, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of answers of a run."""
    started, tables = time.monotonic(), case(study, seed)
    made = released(mechanism, tables, epsilon, seed)
    if study == "null":
        held = rejected(made, tables)
    elif study == "bootstrap":
        held = bootstrap_held(made, tables, seed)
    else:
        held = intervals_held(made, tables)
    seconds = time.monotonic() - started
    run = dict(zip(KEY, (study, mechanism, epsilon, seed), strict=True))
    for kind in dict.fromkeys(kind for kind, _ in held) or [""]:
        yes, no = held[kind, True], held[kind, False]
        yield {**run, "kind": kind, "answers": yes + no, "held": yes, "seconds": seconds}


def summarize(found: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each kind of answers, with the standard error of the share over runs."""
    keys = [*KEY[:-1], "kind"]
    found = found[found["answers"] > 0]
    groups = found.groupby(keys, sort=False)
    sums = groups[["answers", "held"]].sum()
    share = sums["held"] / sums["answers"]
    joined = found.set_index(keys)
    apart = (joined["held"] - share.reindex(joined.index) * joined["answers"]) ** 2
    error = np.sqrt(apart.groupby(level=keys, sort=False).sum()) / sums["answers"]
    return sums.assign(runs=groups.size(), share=share, se=error).reset_index()


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.intervals",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--study", choices=["small", "null", *SPLITS, "bootstrap"], default="small")
    parser.add_argument("--mechanism", nargs="+", choices=list(MECHANISMS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=900.0, help="no run begins later")
    parser.add_argument("--out", type=Path, help="a Parquet file for the rows")
    arguments = parser.parse_args(given)
    study: str = arguments.study
    out: Path | None = arguments.out
    usual = {"null": list(MECHANISMS), "bootstrap": ["jam_pgm"]}.get(study, ["jam_pgm", "aim"])
    found: pd.DataFrame = pd.read_parquet(out) if out and out.exists() else pd.DataFrame()
    done = set() if found.empty else set(found[KEY].itertuples(index=False, name=None))
    made: list[dict[str, Any]] = []
    started = time.monotonic()
    for seed in range(arguments.runs):
        for mechanism in arguments.mechanism or usual:
            run = (study, mechanism, arguments.epsilon, seed)
            if run not in done and time.monotonic() - started < arguments.seconds:
                made += rows(*run)
    found = pd.concat([found, pd.DataFrame(made)], ignore_index=True)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        found.to_parquet(out, index=False)
    print(summarize(found).round(4).to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
