"""JAM-PGM on the paper's splits: its workload error beside that of the public table.

    JAM_DATA=... python -m benchmarks.jam_pgm --split titanic --rounds 10 --epsilon 1 10 --seeds 5
    JAM_DATA=... python -m benchmarks.jam_pgm --split titanic salary --epsilon 1 --first-seed 100 \
        --seeds 10 --estimator mirror_descent --jobs 2 --out plain.csv

Noise is seeded and nothing is charged. A line is printed for every run, and at the end a table
with a row for every split and epsilon: the mean of the seeds, its standard error, the public
table's error, how many rounds measured private and public marginals, and the seconds of a run. With
--out, the CSV file gets a line as soon as a run ends, and runs that it holds already are not
repeated; two such files are compared by `python -m benchmarks.error_study`.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd

from benchmarks.splits import Split, load_split
from jam_dagster.errors import InputError
from jam_dagster.evaluation import workload_error
from jam_dagster.mechanisms import JamPgm, OnRound, Round
from jam_dagster.mechanisms.estimation import EstimatorName
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Workload

# Several runs share the cores, so each is to keep to its own.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
)


@dataclass(frozen=True)
class Run:
    """Everything that decides what one run comes to, and so what tells it from others."""

    split: str
    epsilon: float
    seed: int
    delta: float
    degree: int
    rounds: int
    size_limit_mb: float
    estimator: EstimatorName
    iterations: int
    tolerance: float
    all_private: bool

    def mechanism(self) -> JamPgm:
        """Return the mechanism."""
        return JamPgm(
            rounds=self.rounds,
            size_limit_mb=self.size_limit_mb,
            estimator=self.estimator,
            iterations=self.iterations,
            tolerance=self.tolerance,
        )

    @property
    def key(self) -> tuple[str, ...]:
        """What tells the run from others, as a file holds it."""
        return tuple(str(value) for value in asdict(self).values())


SETTINGS = tuple(field.name for field in fields(Run))
RESULTS = (
    "error",
    "max",
    "model",
    "public",
    "private_picks",
    "public_picks",
    "rho_spent",
    "model_mb",
    "seconds",
)


def run_once(split: Split, run: Run, *, on_round: OnRound | None = None) -> dict[str, float]:
    """Make one synthetic table and measure it.

    Returns
    -------
    dict
        ``error`` and ``max`` of the synthetic table, ``model`` (the mean error of the model that
        the table is sampled from), ``public`` (the public table's mean error), ``private_picks``,
        ``public_picks``, ``rho_spent``, ``model_mb``, ``seconds`` (mechanism and sampling).
        Errors are fractions of the records.
    """
    workload = Workload.all_k_way(split.domain, run.degree)
    public = split.public.take([0]) if run.all_private else split.public
    draws = Draws(SeededNoise(run.seed), UnledgeredAccount(Budget(run.epsilon, run.delta).rho))
    started = time.monotonic()
    result = run.mechanism().run(split.private, public, workload, draws, on_round=on_round)
    synthetic = result.model.sample(split.private.records, np.random.default_rng(run.seed))
    seconds = time.monotonic() - started
    error = workload_error(
        split.private, synthetic, split.public, workload, mode="exact", draws=None
    )
    assert error.synthetic is not None
    assert error.public is not None
    assert error.synthetic.maximum is not None
    of_model = workload_error(
        split.private, result.model, split.public, workload, mode="exact", draws=None
    )
    assert of_model.synthetic is not None
    return {
        "error": error.synthetic.mean,
        "max": error.synthetic.maximum,
        "model": of_model.synthetic.mean,
        "public": error.public.mean,
        "private_picks": result.transcript.picks["private"],
        "public_picks": result.transcript.picks["public"],
        "rho_spent": result.transcript.rho_spent,
        "model_mb": result.model.size_mb,
        "seconds": seconds,
    }


def load_runs(path: Path) -> list[dict[str, str]]:
    """Return the lines of a file of runs; none where there is no file.

    Raises
    ------
    InputError
        If the file holds something else.
    """
    if not path.exists():
        return []
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != (*SETTINGS, *RESULTS):
            raise InputError(
                f"{path} does not hold runs of this benchmark, or of another version of it: move "
                "it away, or name another file with --out."
            )
        return list(reader)


def append_run(path: Path, run: Run, results: Mapping[str, float]) -> None:
    """Add a line to a file of runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, (*SETTINGS, *RESULTS))
        if new:
            writer.writeheader()
        writer.writerow({**asdict(run), **results})


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for every split and epsilon.

    The standard error is of the mean over seeds, from their sample standard deviation; with one
    seed there is none.
    """
    groups = runs.groupby(["split", "epsilon"], sort=False)
    return pd.DataFrame(
        {
            "seeds": groups.size(),
            "mean error": groups["error"].mean(),
            "se": groups["error"].sem(),
            "model error": groups["model"].mean(),
            "public error": groups["public"].mean(),
            "private picks": groups["private_picks"].mean(),
            "public picks": groups["public_picks"].mean(),
            "seconds": groups["seconds"].mean(),
        }
    ).reset_index()


def _wanted(arguments: argparse.Namespace) -> list[Run]:
    return [
        Run(
            split=split,
            epsilon=epsilon,
            seed=seed,
            delta=arguments.delta,
            degree=arguments.degree,
            rounds=arguments.rounds,
            size_limit_mb=arguments.size_limit_mb,
            estimator=arguments.estimator,
            iterations=arguments.iterations,
            tolerance=arguments.tolerance,
            all_private=arguments.all_private,
        )
        for split in arguments.split
        for epsilon in arguments.epsilon
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    ]


@lru_cache(maxsize=1)
def _split(name: str) -> Split:
    return load_split(name)


def _in_worker(run: Run) -> dict[str, float]:
    return run_once(_split(run.split), run)


def _done(
    runs: Sequence[Run], jobs: int, *, verbose: bool
) -> Iterator[tuple[Run, dict[str, float]]]:
    """Yield runs and their results as they end."""
    if jobs == 1:
        for run in runs:

            def show(outcome: Round, rounds: int = run.rounds) -> None:
                print("  " + outcome.line(rounds), flush=True)

            yield run, run_once(_split(run.split), run, on_round=show if verbose else None)
        return
    os.environ.update(_ONE_THREAD)
    # A fork of a process with threads may hang, and would keep the libraries' thread pools.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending = {pool.submit(_in_worker, run): run for run in runs}
        try:
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            for future in pending:
                future.cancel()


def _describe(run: Run, results: Mapping[str, float]) -> str:
    return (
        f"{run.split}, epsilon {run.epsilon:g}, seed {run.seed}: error {results['error']:.4f} "
        f"(model {results['model']:.4f}, public {results['public']:.4f}), "
        f"{results['private_picks']:.0f} private and {results['public_picks']:.0f} public picks, "
        f"{results['seconds']:.1f} s"
    )


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jam_pgm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    defaults = JamPgm()
    parser.add_argument(
        "--split", nargs="+", default=["titanic"], help="folders below $JAM_DATA/paper"
    )
    parser.add_argument("--rounds", type=int, default=defaults.rounds)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5, help="how many, one after another")
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--size-limit-mb", type=float, default=defaults.size_limit_mb)
    parser.add_argument("--estimator", choices=get_args(EstimatorName), default=defaults.estimator)
    parser.add_argument("--iterations", type=int, default=defaults.iterations)
    parser.add_argument("--tolerance", type=float, default=defaults.tolerance)
    parser.add_argument(
        "--all-private",
        action="store_true",
        help="give the mechanism one public record only, which it has no reason to choose",
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, a process each")
    parser.add_argument("--verbose", action="store_true", help="print every round of single jobs")
    parser.add_argument("--out", type=Path, help="a CSV file for the runs")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    arguments = _arguments(given)
    if arguments.jobs < 1 or arguments.seeds < 1 or arguments.first_seed < 0:
        print("--jobs and --seeds are at least 1, --first-seed at least 0.", file=sys.stderr)
        return 2
    rows: list[dict[str, object]] = []
    try:
        wanted = _wanted(arguments)
        held: dict[tuple[str, ...], dict[str, float]] = {}
        if arguments.out is not None:
            for row in load_runs(arguments.out):
                key = tuple(row[name] for name in SETTINGS)
                held[key] = {name: float(row[name]) for name in RESULTS}
        for name in arguments.split:
            split = _split(name)
            print(
                f"{split.name}: {split.private.records:,} private and "
                f"{split.public.records:,} public records, {len(split.domain.names)} attributes",
                flush=True,
            )
        mechanism = wanted[0].mechanism()
        told = ", ".join(f"{name} = {value}" for name, value in mechanism.parameters().items())
        print(f"all {arguments.degree}-way marginals, delta = {arguments.delta:g}, {told}")
        rows += [{**asdict(run), **held[run.key]} for run in wanted if run.key in held]
        if rows:
            print(f"{len(rows)} of {len(wanted)} runs are in {arguments.out} already.")
        missing = [run for run in wanted if run.key not in held]
        for run, results in _done(missing, arguments.jobs, verbose=arguments.verbose):
            if arguments.out is not None:
                append_run(arguments.out, run, results)
            rows.append({**asdict(run), **results})
            print(_describe(run, results), flush=True)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print()
    print(summarize(pd.DataFrame(rows)).round(4).to_string(index=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
