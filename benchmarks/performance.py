"""How long whole runs take, what memory they hold, and how wrong their tables are.

    JAM_DATA=... python -m benchmarks.performance
    JAM_DATA=... python -m benchmarks.performance --split titanic --epsilon 1 --noise numpy exact

Each run is one process, `jam-dagster synthesize`, from its start to its end: interpreter, imports,
reading, mechanism, sampling, evaluation. One run that does not count comes first, so that the files
are in the cache. Seconds are wall-clock time; where they far exceed those of the processor (cpu s),
other work had the cores. Memory is the peak of the process (GB of 10^9 bytes). Errors are mean L1
errors of the workload's marginals as fractions of n, of the synthetic table and of the public one.
Beside time and memory stands what they should not exceed on two cores.
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.process import RunFailedError, describe_stages, stages, synthesize

ROUNDS, SIZE_LIMIT_MB, DEGREE, DELTA = 30, 80.0, 3, 1e-9
"""The setting of the paper, for which the targets are stated."""


@dataclass(frozen=True)
class Target:
    """What a run should not exceed.

    Parameters
    ----------
    seconds
        Wall-clock time of the whole process.
    gigabytes
        Its peak memory, in 10^9 bytes.
    """

    seconds: float
    gigabytes: float


TARGETS: dict[tuple[str, float], Target] = {
    **{("titanic", epsilon): Target(4, 0.8) for epsilon in (0.1, 1.0, 10.0)},
    **{
        (split, epsilon): Target(6, 1.0) if epsilon == 1.0 else Target(20, 2.5)
        for split in ("adult_pub025_01", "adult_pub075_01")
        for epsilon in (0.1, 1.0, 10.0)
    },
    ("salary", 1.0): Target(20, 2.5),
}


@dataclass(frozen=True)
class Setting:
    """One line of the table: a split, an epsilon and a kind of noise."""

    split: str
    epsilon: float
    noise: str

    def __str__(self) -> str:
        return f"{self.split}, epsilon {self.epsilon:g}, {self.noise} noise"


def data_folder() -> Path | None:
    """Return the folder of the splits; None where JAM_DATA does not say where they are."""
    root = os.environ.get("JAM_DATA")
    return Path(root) / "paper" if root else None


def settings(arguments: argparse.Namespace) -> Iterator[Setting]:
    """Yield what is to be measured: the targets' pairs, or the splits and epsilons asked for."""
    for noise in arguments.noise:
        for split in arguments.split or dict.fromkeys(split for split, _ in TARGETS):
            epsilons = arguments.epsilon or [eps for name, eps in TARGETS if name == split]
            for epsilon in epsilons or [1.0]:
                yield Setting(split, epsilon, noise)


def run_once(
    folder: Path, setting: Setting, arguments: argparse.Namespace, seed: int
) -> dict[str, Any]:
    """Run and measure one process; return a row of the CSV file."""
    options = {
        "epsilon": setting.epsilon,
        "delta": DELTA,
        "noise": setting.noise,
        # A release's noise has no seed.
        **({"seed": seed} if setting.noise == "numpy" else {}),
        "degree": arguments.degree,
        "evaluation_mode": "exact",
    }
    settings = {
        "rounds": arguments.rounds,
        "size_limit_mb": arguments.size_limit_mb,
        "estimator": arguments.estimator,
        "tolerance": arguments.tolerance,
        "iterations": arguments.iterations,
    }
    split = folder / setting.split
    measured, made = synthesize(
        private=split / "priv.csv",
        public=split / "pub.csv",
        domain=split / "domain.json",
        options=options,
        settings=settings,
    )
    errors = made["workload_error"]
    return {
        "split": setting.split,
        "epsilon": setting.epsilon,
        "noise": setting.noise,
        "seed": seed,
        "wall_s": round(measured.seconds, 3),
        "cpu_s": round(measured.cpu_seconds, 3),
        "peak_gb": round(measured.peak_bytes / 1e9, 4),
        "error": errors["synthetic"]["mean"],
        "error_max": errors["synthetic"]["max"],
        "public": errors["public"]["mean"],
        "independent": errors["independent"]["mean"],
        "private_picks": made["picks"]["private"],
        "public_picks": made["picks"]["public"],
        **{f"seconds.{name}": round(s, 3) for name, s in stages(measured, made).items()},
    }


def describe(row: Mapping[str, Any]) -> str:
    """Return one run in words."""
    by_stage = {
        name.removeprefix("seconds."): seconds
        for name, seconds in row.items()
        if name.startswith("seconds.")
    }
    return (
        f"{row['split']}, epsilon {row['epsilon']:g}, {row['noise']} noise, seed {row['seed']}: "
        f"{row['wall_s']:.2f} s ({row['cpu_s']:.2f} of CPU), {row['peak_gb']:.2f} GB, "
        f"error {row['error']:.4f} (public {row['public']:.4f})\n"
        f"    {describe_stages(by_stage)}"
    )


def table(rows: Sequence[Mapping[str, Any]], *, with_targets: bool) -> str:
    """Return a line a setting: the median time, the largest memory and the mean error of its runs.

    Parameters
    ----------
    rows
        The runs.
    with_targets
        Whether they were run in the setting of the targets; what exceeds one is marked with ``!``.
    """
    heads = (
        "split",
        "epsilon",
        "noise",
        "runs",
        "cpu s",
        "wall s",
        "at most",
        "peak GB",
        "at most",
    )
    lines = [(*heads, "error", "public", "private / public picks")]
    cells: dict[tuple[str, float, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["split"], row["epsilon"], row["noise"]), []).append(row)
    for (split, epsilon, noise), runs in cells.items():
        wall = statistics.median(row["wall_s"] for row in runs)
        peak = max(row["peak_gb"] for row in runs)
        target = TARGETS.get((split, epsilon)) if with_targets else None
        picks = (
            f"{statistics.mean(row[name] for row in runs):.1f}"
            for name in ("private_picks", "public_picks")
        )
        lines.append(
            (
                split,
                f"{epsilon:g}",
                noise,
                str(len(runs)),
                f"{statistics.median(row['cpu_s'] for row in runs):.1f}",
                _marked(wall, target.seconds if target else None, "{:.1f}"),
                f"{target.seconds:g}" if target else "",
                _marked(peak, target.gigabytes if target else None, "{:.2f}"),
                f"{target.gigabytes:g}" if target else "",
                f"{statistics.mean(row['error'] for row in runs):.4f}",
                f"{statistics.mean(row['public'] for row in runs):.4f}",
                " / ".join(picks),
            )
        )
    return aligned(lines)


def _marked(value: float, limit: float | None, form: str) -> str:
    return form.format(value) + ("!" if limit is not None and value > limit else "")


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Return the lines of a table with their columns below one another."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )


def write(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write runs as CSV; a stage that a run did not have stays empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.performance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--split", nargs="+", help="folders below $JAM_DATA/paper (all four)")
    parser.add_argument("--epsilon", type=float, nargs="+", help="those with a target")
    parser.add_argument("--noise", nargs="+", choices=("numpy", "exact"), default=["numpy"])
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="of numpy noise")
    parser.add_argument("--repeats", type=int, default=1, help="runs of every seed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--size-limit-mb", type=float, default=SIZE_LIMIT_MB)
    parser.add_argument("--degree", type=int, default=DEGREE)
    parser.add_argument("--estimator", help="as of `jam-dagster synthesize`, its default if absent")
    parser.add_argument("--tolerance", type=float, help="the same")
    parser.add_argument("--iterations", type=int, help="the same")
    parser.add_argument("--out", type=Path, help="a CSV file for the runs")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    arguments = _arguments(given)
    wanted = list(settings(arguments))
    folder = data_folder()
    if folder is None:
        print(
            "JAM_DATA is not set: the benchmark runs on published tables that this repository "
            "does not carry. Set it to the folder that holds paper/<split>/domain.json, priv.csv "
            "and pub.csv, such as the splits of the JAM authors' repository.",
            file=sys.stderr,
        )
        return 2
    for split in dict.fromkeys(setting.split for setting in wanted):
        if not (folder / split / "domain.json").is_file():
            known = sorted(path.parent.name for path in folder.glob("*/domain.json"))
            print(
                f"JAM_DATA holds no split {split!r} ({folder / split}); it holds "
                f"{', '.join(known) or 'none'}. Choose some of them with --split.",
                file=sys.stderr,
            )
            return 2
    with_targets = (arguments.rounds, arguments.size_limit_mb, arguments.degree) == (
        ROUNDS,
        SIZE_LIMIT_MB,
        DEGREE,
    )
    rows: list[dict[str, Any]] = []
    try:
        warm_up = argparse.Namespace(**{**vars(arguments), "rounds": 1})
        run_once(folder, wanted[0], warm_up, arguments.seed[0])
        for setting in wanted:
            for seed in arguments.seed:
                for _ in range(arguments.repeats):
                    rows.append(run_once(folder, setting, arguments, seed))
                    print(describe(rows[-1]), flush=True)
                    if arguments.out is not None:
                        write(rows, arguments.out)
    except RunFailedError as error:
        print(f"A run failed: {error}", file=sys.stderr)
        return 1
    print()
    print(table(rows, with_targets=with_targets))
    return 0


if __name__ == "__main__":
    sys.exit(main())
