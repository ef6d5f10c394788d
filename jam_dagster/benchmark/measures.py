"""What rows of runs come to: means over seeds, and the runs that belong into one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd

from jam_dagster.benchmark.runs import BASELINES

MEASURES = ("error_mean", "error_max", "seconds", "public_share", "peak_memory_mb")


@dataclass(frozen=True)
class Level:
    """A baseline on a split: one number, whatever epsilon.

    Parameters
    ----------
    split, name
        Which.
    title
        How figures call it.
    error, error_max
        The mean over the workload, and its worst marginal, both averaged over seeds.
    """

    split: str
    name: str
    title: str
    error: float
    error_max: float


def done(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of mechanisms that ended well, with what figures show of them.

    A mechanism that answers and samples no rows has its model's errors in place of a table's.
    """
    runs = frame[(frame["status"] == "done") & (frame["kind"] == "mechanism")].copy()
    for name in ("error_mean", "error_max"):
        runs[name] = runs[name].astype(float).fillna(runs[f"model_{name}"].astype(float))
    rounds = runs["rounds"].astype(float)
    runs["public_share"] = (runs["public_picks"].astype(float) / rounds).where(rounds > 0)
    return runs


def levels(frame: pd.DataFrame) -> list[Level]:
    """Return the baselines of every split."""
    rows = frame[(frame["status"] == "done") & (frame["kind"] == "baseline")]
    return [
        Level(
            str(split),
            str(name),
            BASELINES.get(str(name), str(name)),
            float(group["error_mean"].mean()),
            float(group["error_max"].mean()),
        )
        for (split, name), group in rows.groupby(["split", "mechanism"], sort=False)
    ]


def main_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that a comparison of mechanisms shows: one setting a label and split.

    Where a label has several settings on a split, it is the one with the most runs; the others
    belong to the figures of that setting.
    """
    runs = done(frame)
    kept = [
        group[group["parameters"] == group["parameters"].value_counts(sort=False).idxmax()]
        for _, group in runs.groupby(["label", "split"], sort=False)
    ]
    return pd.concat(kept).sort_index() if kept else runs


def sweep(frame: pd.DataFrame, setting: str) -> pd.DataFrame:
    """Return the runs in which one setting, and nothing else, takes several values.

    Parameters
    ----------
    frame
        Rows.
    setting
        Its name, such as ``rounds``.

    Returns
    -------
    DataFrame
        The runs with a column of the setting's name; empty where it was never varied. Of runs
        that differ in other settings too, those whose setting took the most values.
    """
    runs = done(frame)
    given = runs["parameters"].map(json.loads)
    runs[setting] = pd.to_numeric(
        pd.Series([one.get(setting) for one in given], index=runs.index, dtype=object)
    )
    runs["others"] = [
        json.dumps({name: value for name, value in one.items() if name != setting}, sort_keys=True)
        for one in given
    ]
    runs = runs[runs[setting].notna()]
    kept = []
    for _, group in runs.groupby("label", sort=False):
        counts = group.groupby("others", sort=False)[setting].nunique()
        if counts.max() > 1:
            kept.append(group[group["others"] == counts.idxmax()])
    return pd.concat(kept) if kept else runs.iloc[:0]


def means(runs: pd.DataFrame, by: list[str]) -> list[dict[str, Any]]:
    """Return the mean of each measure, and its standard error over the seeds, by some columns.

    Returns
    -------
    list of dict
        A row a group, with ``runs`` (how many), and of each of `MEASURES` the mean, ``<name>_se``,
        ``<name>_low`` and ``<name>_high`` (one standard error below and above; the mean itself
        where one seed tells no error).
    """
    made = []
    for values, group in runs.groupby(by, sort=False):
        row: dict[str, Any] = dict(zip(by, values, strict=True)) | {"runs": len(group)}
        for name in MEASURES:
            column = group[name].astype(float)
            mean = float(column.mean())
            error = float(cast(float, column.sem())) if len(group) > 1 else float("nan")
            spread = 0.0 if error != error else error
            row |= {
                name: _or_none(mean),
                f"{name}_se": _or_none(error),
                f"{name}_low": _or_none(mean - spread),
                f"{name}_high": _or_none(mean + spread),
            }
        made.append(row)
    return made


def _or_none(value: float) -> float | None:
    return None if value != value else value
