"""Whether one setting of JAM-PGM errs more than another: two files of runs side by side.

    JAM_DATA=... python -m benchmarks.jam_pgm ... --out fast.csv
    JAM_DATA=... python -m benchmarks.jam_pgm ... --estimator mirror_descent --out plain.csv
    python -m benchmarks.error_study fast.csv plain.csv

A row for each split and epsilon: both mean errors with their standard errors, and the difference,
first minus second, over its standard error: once with the runs of each seed paired, once as two
independent samples. A positive difference says that the first errs more. Runs with the same seed
start from the same noise, but part ways as soon as they select differently, so neither pairing is
right or wrong: the smaller standard error tells how much they still have in common.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from benchmarks.jam_pgm import RESULTS, SETTINGS, load_runs
from jam_dagster.errors import InputError

LARGEST_DIFFERENCE = 2.0
"""Standard errors by which the first may exceed the second and still count as not worse."""

# What two files may differ in; all else must be alike for their errors to be compared.
COMPARED = ("estimator", "iterations", "tolerance")
_FIXED = tuple(name for name in SETTINGS if name not in (*COMPARED, "split", "epsilon", "seed"))


def read(path: Path) -> pd.DataFrame:
    """Return the runs of a file.

    Raises
    ------
    InputError
        If there is no file, it holds no runs, or a split, epsilon and seed twice.
    """
    rows = load_runs(path)
    if not rows:
        raise InputError(f"{path} holds no runs: make them with benchmarks.jam_pgm --out {path}.")
    runs = pd.DataFrame(rows)
    texts = ("split", "estimator", "all_private")
    numbers = [name for name in (*SETTINGS, *RESULTS) if name not in texts]
    runs[numbers] = runs[numbers].astype(float)
    whole = ["seed", "degree", "rounds", "iterations"]
    runs[whole] = runs[whole].astype(int)
    repeated = runs[runs.duplicated(["split", "epsilon", "seed"])]
    if len(repeated):
        one = repeated.iloc[0]
        raise InputError(
            f"{path} holds seed {one['seed']} of {one['split']} at epsilon {one['epsilon']:g} more "
            "than once, with different settings: keep a file for each setting."
        )
    return runs


def compare(first: pd.DataFrame, second: pd.DataFrame, column: str = "error") -> pd.DataFrame:
    """Return a row for each split and epsilon that both hold.

    Parameters
    ----------
    first, second
        Runs, as `read` returns them.
    column
        ``error``, of the synthetic table, or ``model``, of the model that it is sampled from.

    Returns
    -------
    DataFrame
        ``seeds`` (of the two), ``first``, ``se``, ``second``, ``se_second``, ``difference`` of the
        means, ``unpaired`` (that in standard errors), ``pairs``, ``paired_difference``, ``paired``
        (that in standard errors), and ``not_worse``: whether ``unpaired`` is at most 2. Where there
        are fewer than two seeds, or no spread, standard errors are not known, and neither is that.

    Raises
    ------
    InputError
        If other settings than the estimator's differ, or they have no split and epsilon in common.
    """
    for name in _FIXED:
        values = sorted({*first[name], *second[name]})
        if len(values) > 1:
            raise InputError(
                f"The runs differ in {name} ({', '.join(map(str, values))}): their "
                "errors cannot be compared. Run both with the same."
            )
    made = []
    for (split, epsilon), ours in first.groupby(["split", "epsilon"], sort=False):
        theirs = second[(second["split"] == split) & (second["epsilon"] == epsilon)]
        if theirs.empty:
            continue
        mean, error = _mean(ours[column])
        mean_second, error_second = _mean(theirs[column])
        unpaired = _over(mean - mean_second, math.hypot(error, error_second))
        pairs = ours.merge(theirs, on="seed")
        paired_difference, paired_error = _mean(pairs[f"{column}_x"] - pairs[f"{column}_y"])
        made.append(
            {
                "split": split,
                "epsilon": epsilon,
                "seeds": f"{len(ours)}, {len(theirs)}",
                "first": mean,
                "se": error,
                "second": mean_second,
                "se_second": error_second,
                "difference": mean - mean_second,
                "unpaired": unpaired,
                "pairs": len(pairs),
                "paired_difference": paired_difference,
                "paired": _over(paired_difference, paired_error),
                "not_worse": None if math.isnan(unpaired) else unpaired <= LARGEST_DIFFERENCE,
                "seconds": _mean(ours["seconds"])[0],
                "seconds_second": _mean(theirs["seconds"])[0],
            }
        )
    if not made:
        raise InputError("The two files have no split and epsilon in common.")
    return pd.DataFrame(made)


def _mean(values: pd.Series[float]) -> tuple[float, float]:
    """Return the mean and its standard error, NaN of a single value."""
    return float(values.mean()), float(cast(float, values.sem()))


def _over(difference: float, error: float) -> float:
    return difference / error if error > 0 else math.nan


def _setting(runs: pd.DataFrame) -> str:
    values = ", ".join(
        f"{name} {' and '.join(dict.fromkeys(map(str, runs[name])))}" for name in COMPARED
    )
    seeds = sorted(set(runs["seed"]))
    return f"{values}; seeds {seeds[0]} to {seeds[-1]}"


def main(given: Sequence[str] | None = None) -> int:
    """Compare the files; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.error_study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("first", type=Path, help="runs of the setting in question")
    parser.add_argument("second", type=Path, help="runs of the setting that it is held to")
    parser.add_argument(
        "--column",
        choices=("error", "model"),
        default="error",
        help="of the synthetic table, or of the model that it is sampled from",
    )
    parser.add_argument("--out", type=Path, help="a CSV file for the table")
    arguments = parser.parse_args(given)
    try:
        first, second = read(arguments.first), read(arguments.second)
        table = compare(first, second, arguments.column)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    for name, runs in (("first", first), ("second", second)):
        print(f"{name}: {_setting(runs)}")
    fixed = ", ".join(f"{name} {first[name].iloc[0]}" for name in _FIXED)
    print(f"both: {fixed}")
    print(f"not_worse: first exceeds second by at most {LARGEST_DIFFERENCE:g} standard errors\n")
    print(table.round(4).to_string(index=False))
    if arguments.out is not None:
        table.to_csv(arguments.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
