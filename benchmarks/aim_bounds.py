"""How tight AIM's error bounds are, and how often they hold.

    JAM_DATA=... python -m benchmarks.aim_bounds --split titanic --epsilon 1 10 --seeds 5

Noise is seeded and nothing is charged. A row for every split, epsilon and kind of marginal: how
many marginals there were in all runs, in which share of them the bound of 95% held, the median
bound and true error of the model (fractions of the records), the median of bound over error, and
the seconds that the bounds of a run took.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import pandas as pd

from benchmarks.splits import Split, load_split
from jam_dagster.evaluation import error_bounds
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.mechanisms import Aim
from jam_dagster.privacy import Budget, Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Workload


def bounds_of_a_run(split: Split, epsilon: float, delta: float, seed: int) -> pd.DataFrame:
    """Return a row for every marginal of the downward closure of all 3-way marginals.

    Returns
    -------
    DataFrame
        ``kind``, ``bound`` and ``error`` (fractions of the records), and ``seconds``, of the bounds
        of the whole run.
    """
    workload = Workload.all_k_way(split.domain, 3)
    draws = Draws(SeededNoise(seed), UnledgeredAccount(Budget(epsilon, delta).rho))
    made = Aim().run(split.private, None, workload, draws)
    started = time.monotonic()
    found = error_bounds(made.transcript, split.domain, workload, released=made.model)
    seconds = time.monotonic() - started
    closure = Workload.of(split.domain, workload.downward_closure())
    (judged,) = table_errors(split.private, [made.model], closure)
    errors = judged.per_marginal or {}
    fractions = found.fractions()
    rows = [(one.kind, fractions[one.clique], errors[one.clique]) for one in found.bounds]
    return pd.DataFrame(rows, columns=["kind", "bound", "error"]).assign(seconds=seconds)


def summary(runs: pd.DataFrame) -> dict[str, float]:
    """Return what a row of the table says of some marginals."""
    return {
        "marginals": len(runs),
        "held": float((runs["bound"] >= runs["error"]).mean()),
        "bound": float(runs["bound"].median()),
        "error": float(runs["error"].median()),
        "ratio": float((runs["bound"] / runs["error"]).median()),
        "seconds": float(runs["seconds"].mean()),
    }


def rows(arguments: argparse.Namespace) -> Iterator[str]:
    """Make the runs, and yield the lines of the table."""
    yield "| split | epsilon | kind | marginals | held | bound | error | ratio | seconds |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for name in arguments.split:
        split = load_split(name)
        for epsilon in arguments.epsilon:
            runs = pd.concat(
                bounds_of_a_run(split, epsilon, arguments.delta, seed)
                for seed in range(arguments.seeds)
            )
            for kind, of_kind in runs.groupby("kind", sort=True):
                said = summary(of_kind)
                yield (
                    f"| {name} | {epsilon:g} | {kind} | {said['marginals']} | {said['held']:.1%} | "
                    f"{said['bound']:.3f} | {said['error']:.3f} | {said['ratio']:.1f} | "
                    f"{said['seconds']:.1f} |"
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--split", nargs="+", default=["titanic"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--seeds", type=int, default=3)
    for line in rows(parser.parse_args(arguments)):
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
