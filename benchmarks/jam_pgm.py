"""JAM-PGM on the paper's splits: its workload error beside that of the public table.

    JAM_DATA=... python -m benchmarks.jam_pgm --split titanic --rounds 10 --epsilon 1 10 --seeds 5

Noise is seeded and nothing is charged. A line is printed for every run, and at the end a table
with a row for every epsilon: the mean of the seeds, its standard error, the public table's error,
how many rounds measured private and public marginals, and the seconds of a run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.splits import Split, load_split
from jam_dagster.errors import InputError
from jam_dagster.evaluation import workload_error
from jam_dagster.mechanisms import JamPgm, OnRound, Round
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Workload


def run_once(
    split: Split,
    mechanism: JamPgm,
    *,
    epsilon: float,
    delta: float,
    seed: int,
    degree: int,
    on_round: OnRound | None = None,
) -> dict[str, float]:
    """Make one synthetic table and measure it.

    Returns
    -------
    dict
        ``error`` and ``max`` of the synthetic table, ``model`` (the mean error of the model that
        the table is sampled from), ``public`` (the public table's mean error), ``private_picks``,
        ``public_picks``, ``rho_spent``, ``seconds`` (mechanism and sampling), ``model_mb``.
        Errors are fractions of the records.
    """
    workload = Workload.all_k_way(split.domain, degree)
    draws = Draws(SeededNoise(seed), UnledgeredAccount(Budget(epsilon, delta).rho))
    started = time.monotonic()
    result = mechanism.run(split.private, split.public, workload, draws, on_round=on_round)
    synthetic = result.model.sample(split.private.records, np.random.default_rng(seed))
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
        "epsilon": epsilon,
        "seed": seed,
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


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Return a row for every epsilon.

    The standard error is of the mean over seeds, from their sample standard deviation; with one
    seed there is none.
    """
    by_epsilon = runs.groupby("epsilon")
    return pd.DataFrame(
        {
            "seeds": by_epsilon.size(),
            "mean error": by_epsilon["error"].mean(),
            "se": by_epsilon["error"].sem(),
            "model error": by_epsilon["model"].mean(),
            "public error": by_epsilon["public"].mean(),
            "private picks": by_epsilon["private_picks"].mean(),
            "public picks": by_epsilon["public_picks"].mean(),
            "seconds": by_epsilon["seconds"].mean(),
        }
    ).reset_index()


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.jam_pgm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--split", default="titanic", help="a folder below $JAM_DATA/paper")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to SEEDS - 1")
    parser.add_argument("--degree", type=int, default=3)
    parser.add_argument("--size-limit-mb", type=float, default=80.0)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--verbose", action="store_true", help="print every round")
    parser.add_argument("--out", type=Path, help="a CSV file for the runs")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    arguments = _arguments(given)
    runs: list[dict[str, float]] = []

    def show(outcome: Round) -> None:
        print("  " + outcome.line(arguments.rounds), flush=True)

    try:
        split = load_split(arguments.split)
        mechanism = JamPgm(
            rounds=arguments.rounds,
            size_limit_mb=arguments.size_limit_mb,
            iterations=arguments.iterations,
        )
        print(
            f"{split.name}: {split.private.records:,} private and {split.public.records:,} public "
            f"records, {len(split.domain.names)} attributes; T = {mechanism.rounds}, all "
            f"{arguments.degree}-way marginals, delta = {arguments.delta:g}",
            flush=True,
        )
        for epsilon in arguments.epsilon:
            for seed in range(arguments.seeds):
                run = run_once(
                    split,
                    mechanism,
                    epsilon=epsilon,
                    delta=arguments.delta,
                    seed=seed,
                    degree=arguments.degree,
                    on_round=show if arguments.verbose else None,
                )
                runs.append(run)
                print(
                    f"epsilon {epsilon:g}, seed {seed}: error {run['error']:.4f} (model "
                    f"{run['model']:.4f}, public {run['public']:.4f}), "
                    f"{run['private_picks']:.0f} private and {run['public_picks']:.0f} public "
                    f"picks, {run['seconds']:.0f} s",
                    flush=True,
                )
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    frame = pd.DataFrame(runs)
    print()
    print(summarize(frame).round(4).to_string(index=False))
    if arguments.out is not None:
        frame.to_csv(arguments.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
