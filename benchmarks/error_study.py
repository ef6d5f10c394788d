"""Whether one setting of a mechanism errs more than another: two labels of a benchmark's rows.

    jam-dagster benchmark run benchmarks/errors.yaml --data data --out errors.parquet
    python -m benchmarks.error_study errors.parquet accelerated mirror_descent

A row for each split and epsilon: both mean errors with their standard errors, and the difference,
first minus second, over its standard error: once with the runs of each seed paired, once as two
independent samples. A positive difference says that the first errs more. Runs with the same seed
start from the same noise, but part ways as soon as they select differently, so neither pairing is
right or wrong: the smaller standard error tells how much they still have in common.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pandas as pd

from jam_dagster.errors import InputError
from jam_dagster.trials import read_frame

LARGEST_DIFFERENCE = 2.0
"""Standard errors by which the first may exceed the second and still count as not worse."""

# What two labels may differ in; all else must be alike for their errors to be compared.
COMPARED = ("estimator", "iterations", "tolerance")


def read(path: Path, label: str) -> pd.DataFrame:
    """Return the runs of a label, and their settings as columns.

    Raises
    ------
    InputError
        If there is no file, it holds no runs of the label, or a split, epsilon and seed twice.
    """
    rows = read_frame([path])
    held = rows[(rows["kind"] == "mechanism") & (rows["status"] == "done")]
    runs = held[held["label"] == label].reset_index(drop=True)
    if runs.empty:
        known = ", ".join(dict.fromkeys(held["label"])) or "none"
        raise InputError(f"{path} holds no runs called {label!r}; it holds {known}.")
    repeated = runs[runs.duplicated(["split", "epsilon", "seed"])]
    if len(repeated):
        one = repeated.iloc[0]
        raise InputError(
            f"{path} holds seed {one['seed']} of {one['split']} at epsilon {one['epsilon']:g} more "
            f"than once, with different settings of {label!r}: give each setting a label."
        )
    return with_settings(runs)


def with_settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Return runs with their settings as columns."""
    settings = pd.DataFrame(
        [json.loads(one) for one in runs["parameters"]], index=runs.index, dtype=object
    )
    # How many rounds were made is a column, too, and how many were asked for a setting.
    return runs.drop(columns=[one for one in settings if one in runs]).join(settings)


def compare(first: pd.DataFrame, second: pd.DataFrame, column: str = "error_mean") -> pd.DataFrame:
    """Return a row for each split and epsilon that both hold.

    Parameters
    ----------
    first, second
        Runs, as `read` returns them.
    column
        ``error_mean``, of the synthetic table, or ``model_error_mean``, of the model that it is
        sampled from.

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
    for name in _fixed(first):
        values = sorted({*first[name], *second[name]}, key=str)
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
        raise InputError("The two have no split and epsilon in common.")
    return pd.DataFrame(made)


def _mean(values: pd.Series[float]) -> tuple[float, float]:
    """Return the mean and its standard error, NaN of a single value."""
    return float(values.mean()), float(cast(float, values.sem()))


def _over(difference: float, error: float) -> float:
    return difference / error if error > 0 else math.nan


def _fixed(runs: pd.DataFrame) -> list[str]:
    """Return what must be alike: the columns of settings but those compared, and the problem."""
    settings = json.loads(runs["parameters"].iloc[0])
    return ["mechanism", "delta", "degree", *(one for one in settings if one not in COMPARED)]


def _setting(runs: pd.DataFrame) -> str:
    values = ", ".join(
        f"{name} {' and '.join(dict.fromkeys(map(str, runs[name])))}" for name in COMPARED
    )
    seeds = sorted(set(runs["seed"]))
    return f"{values}; seeds {seeds[0]} to {seeds[-1]}"


def main(given: Sequence[str] | None = None) -> int:
    """Compare two labels; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.error_study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", type=Path, help="rows of jam-dagster benchmark run")
    parser.add_argument("first", help="label of the setting in question")
    parser.add_argument("second", help="label of the setting that it is held to")
    parser.add_argument(
        "--column",
        choices=("error_mean", "model_error_mean"),
        default="error_mean",
        help="of the synthetic table, or of the model that it is sampled from",
    )
    parser.add_argument("--out", type=Path, help="a CSV file for the table")
    arguments = parser.parse_args(given)
    try:
        first, second = (
            read(arguments.results, label) for label in (arguments.first, arguments.second)
        )
        table = compare(first, second, arguments.column)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    for name, runs in (("first", first), ("second", second)):
        print(f"{name}: {_setting(runs)}")
    print(f"both: {', '.join(f'{name} {first[name].iloc[0]}' for name in _fixed(first))}")
    print(f"not_worse: first exceeds second by at most {LARGEST_DIFFERENCE:g} standard errors\n")
    print(table.round(4).to_string(index=False))
    if arguments.out is not None:
        table.to_csv(arguments.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
