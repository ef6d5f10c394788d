"""Means of runs over seeds, and the runs of one line."""

from __future__ import annotations

import json
from typing import Any, cast

import pandas as pd

from jam_dagster.benchmark.experiments import apart, with_settings
from jam_dagster.errors import InputError

MEASURES = ("error_mean", "error_max", "cell_max", "seconds", "public_share")


def _done(frame: pd.DataFrame, machines: bool) -> pd.DataFrame:
    """Return the successful runs of mechanisms; without sampled rows their model's errors count."""
    good = apart(frame[frame["status"] == "done"], machines=machines)
    runs = good[good["kind"] == "mechanism"].copy()
    for name in ("error_mean", "error_max"):
        runs[name] = runs[name].astype(float).fillna(runs[f"model_{name}"].astype(float))
    rounds = runs["rounds"].astype(float)
    runs["public_share"] = (runs["public_picks"].astype(float) / rounds).where(rounds > 0)
    return runs


def has_search(frame: pd.DataFrame) -> bool:
    """Return whether every sampled table was searched, too; those of earlier versions were not."""
    return not frame.loc[_sampled(frame), "searched_error_mean"].isna().any()


def searched(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose errors are those after the search for rows, or raise InputError."""
    if not has_search(frame):
        raise InputError(
            "Some rows were made by a version that did not search for rows: make them again with "
            "jam-dagster benchmark run, or draw them with --no-search."
        )
    made, sampled = frame.copy(), _sampled(frame)
    for name in ("error_mean", "error_max"):
        made.loc[sampled, name] = made.loc[sampled, f"searched_{name}"]
    return made


def _sampled(frame: pd.DataFrame) -> pd.Series[bool]:
    return (frame["kind"] == "mechanism") & frame["error_mean"].notna()


def levels(frame: pd.DataFrame, name: str, measure: str = "error_mean") -> dict[str, float]:
    """Return a baseline's error by panel, a mean over seeds.

    Panels with the same tables and workload share it, for it does not depend on epsilon or delta.
    """
    good = apart(frame[frame["status"] == "done"])
    panels = good[good["kind"] == "mechanism"].groupby("tables", sort=False)["split"].unique()
    rows = good[(good["kind"] == "baseline") & (good["mechanism"] == name)]
    errors = rows.astype({measure: float}).groupby("tables", sort=False)[measure].mean()
    return {
        str(split): float(error)
        for tables, error in errors.items()
        for split in panels.get(tables, ())
    }


def main_runs(frame: pd.DataFrame, *, machines: bool = False) -> pd.DataFrame:
    """Return the runs for a comparison of mechanisms: one set of settings a line and panel.

    If a line has several in a panel, the one with the most runs counts; the others belong to the
    figures of that setting. If panels have different ones, the label names them. For times, runs on
    different machines are different lines.
    """
    runs = _done(frame, machines)
    kept = [
        group[group["parameters"] == group["parameters"].value_counts(sort=False).idxmax()]
        for _, group in runs.groupby(["label", "shown", "split"], sort=False)
    ]
    return with_settings(pd.concat(kept).sort_index() if kept else runs, "parameters")


def sweep(frame: pd.DataFrame, setting: str, *, machines: bool = False) -> pd.DataFrame:
    """Return the runs in which one setting, and nothing else, takes several values.

    The setting is a column. If runs of a line also differ in other settings, those of a panel with
    the most values count.
    """
    runs = _done(frame, machines)
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
    for _, group in runs.groupby(["label", "shown", "split"], sort=False):
        counts = group.groupby("others", sort=False)[setting].nunique()
        if counts.max() > 1:
            kept.append(group[group["others"] == counts.idxmax()])
    return with_settings(pd.concat(kept) if kept else runs.iloc[:0], "others")


def means(runs: pd.DataFrame, by: list[str]) -> list[dict[str, Any]]:
    """Return the mean of each measure, and its standard error over the seeds, by some columns.

    A row has ``runs`` (how many), and of each of `MEASURES` the mean, ``<name>_se``, ``<name>_low``
    and ``<name>_high`` (one standard error below and above; the mean itself for a single seed,
    without a standard error).
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
