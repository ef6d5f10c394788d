"""Rows of a benchmark as lines and points: what may be averaged, and what differs.

Two rows belong to one experiment if they may be averaged: the same tables, workload, delta,
mechanism, settings and version; epsilon and the seed may differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError
from jam_dagster.trials.results import stages

JUDGED = ("error_mean", "error_max", "sample_share")
USES = ("tstr_auc", "pairs8", "correlation")
"""Measures of what a user does with the rows of a release."""

MEASURES = (*JUDGED, *USES, "cell_max", "seconds", "round_seconds", "public_share")
_SIZES = ("records", "public_records", "attributes")
_TABLES = ("split", *_SIZES, "fingerprint")
QUESTION = ("degree", "workload")

BEST = "best setting, tuned on private data"


def workload_in_words(workload: str) -> str:
    """Return what marginals a workload has."""
    kind, _, name = workload.partition(" ")
    words = {"target": f"marginals with {name}", "random": f"{name} random marginals"}
    return words.get(kind, f"{kind} marginals")


_IN_WORDS: Mapping[str, Callable[[Any], str]] = {
    "records": lambda value: f"{int(value):,} records",
    "public_records": lambda value: (
        "no public table" if pd.isna(value) else f"{int(value):,} public records"
    ),
    "attributes": lambda value: f"{int(value)} attributes",
    "fingerprint": lambda value: "tables unknown" if pd.isna(value) else f"tables {value[:6]}",
    "degree": lambda value: f"{int(value)}-way marginals",
    "delta": lambda value: f"delta {value:g}",
    "workload": workload_in_words,
    "mechanism": str,
    "version": lambda value: f"version {value}",
    "machine": str,
}


def apart(frame: pd.DataFrame, *, machines: bool = False) -> pd.DataFrame:
    """Return rows with texts that distinguish different experiments.

    Tables are the same if their split has the same name and fingerprint, which covers the domain,
    the number of private records and the public table. A changed private table of the same length
    is not detected. Tables, workload and delta decide the panel; mechanism, settings and version
    decide the line.

    ``split`` becomes the name of a panel: the split's name, with the differences between rows of
    that name. It names degree, workload and delta if any two rows differ in them. New columns:
    ``over_marginals`` and ``over_public_rows``, the same without the workload, and without the
    number of public rows; ``shown``, the differences between rows of one label other than settings
    (also the machine, if times are compared); and ``tables``, a number for each pair of tables and
    workload.
    """
    rows = frame.copy()
    rows["tables"] = rows.groupby([*_TABLES, *QUESTION], sort=False, dropna=False).ngroup()
    runs = rows["kind"] == "mechanism"
    # Baselines cost nothing, so their delta is meaningless.
    asked = dict.fromkeys(QUESTION, rows) | {"delta": rows[runs]}
    words = {
        name: rows[name].map(_IN_WORDS[name]) if _kinds(some[name]) > 1 else ""
        for name, some in asked.items()
    }
    shown = _differences(rows, "split", _SIZES)
    many = rows.groupby([rows["split"], shown], sort=False)["fingerprint"].transform(_kinds) > 1
    named = rows["fingerprint"].map(_IN_WORDS["fingerprint"]).where(many, "")
    rows["shown"] = _differences(
        rows[runs], "label", ("mechanism", "version", *(["machine"] if machines else []))
    ).reindex(rows.index, fill_value="")
    parts = pd.DataFrame({"split": rows["split"], "shown": shown, "named": named} | words)
    rows["over_public_rows"] = _joined(parts.assign(split=rows["split_of"]), "shown", "named")
    rows["over_marginals"] = _joined(parts, "workload")
    rows["split"] = _joined(parts)
    return rows


def _joined(parts: pd.DataFrame, *left_out: str) -> list[str]:
    texts = parts.drop(columns=list(left_out)).fillna("").astype(str)
    return [", ".join(filter(None, one)) for one in texts.itertuples(index=False)]


def with_settings(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return runs of `apart` with the differences between rows of a label in it.

    The column of settings as JSON must agree within a line; ``title`` is the label before.
    """
    runs = runs.copy()
    lines = runs.groupby(["label", "shown"], sort=False)[column]
    settings = lines.transform(lambda one: _setting_differences(list(one)))
    pairs = zip(runs["label"], runs["shown"], settings, strict=True)
    runs["title"] = runs["label"]
    runs["label"] = [named(label, shown, some) for label, shown, some in pairs]
    return runs


def named(title: str, *shown: str) -> str:
    """Return a title, with further words in parentheses."""
    words = ", ".join(filter(None, shown))
    return f"{title} ({words})" if words else str(title)


def _differences(rows: pd.DataFrame, name: str, columns: Sequence[str]) -> pd.Series[str]:
    """Return in words the columns in which rows of one name differ, with each row's values."""
    shown: dict[Any, str] = {}
    for _, group in rows.groupby(name, sort=False):
        differing = [one for one in columns if _kinds(group[one]) > 1]
        words = [group[one].map(_IN_WORDS[one]) for one in differing]
        shown |= zip(group.index, map(", ".join, zip(*words, strict=True)), strict=False)
    return pd.Series([shown.get(place, "") for place in rows.index], index=rows.index, dtype=object)


def _kinds(values: pd.Series[Any]) -> int:
    return len(values.drop_duplicates())


def _setting_differences(given: Sequence[str]) -> list[str]:
    """Return for each of several settings the values that differ from the others."""
    held = [json.loads(one) for one in given]
    names = dict.fromkeys(name for one in held for name in one)
    differing = [name for name in names if len({json.dumps(one.get(name)) for one in held}) > 1]
    return [", ".join(f"{name} {one[name]}" for name in differing if name in one) for one in held]


def _done(frame: pd.DataFrame, machines: bool) -> pd.DataFrame:
    """Return the successful runs of mechanisms; without sampled rows their model's errors count."""
    good = apart(frame[frame["status"] == "done"], machines=machines)
    runs = good[good["kind"] == "mechanism"].copy()
    for name in JUDGED:
        runs[name] = runs[name].astype(float).fillna(runs[f"model_{name}"].astype(float))
    rounds = runs["rounds"].astype(float)
    runs["public_share"] = (runs["public_picks"].astype(float) / rounds).where(rounds > 0)
    seconds = runs["seconds_by_stage"].map(lambda text: stages(text).get("mechanism"))
    runs["round_seconds"] = (seconds.astype(float) / rounds).where(rounds > 0)
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
    for name in JUDGED:
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


def best_runs(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the runs of the settings with the least mean of a measure in each panel and epsilon.

    The label of a line with several settings says `BEST`. No run if no line has several.
    """
    runs = _done(frame, machines=False)
    runs["title"] = runs["label"]
    runs[measure] = runs[measure].astype(float)
    kept, several = [], False
    for _, line in runs.groupby(["label", "shown"], sort=False):
        tuned = line.groupby("split")["parameters"].nunique().max() > 1
        several |= tuned
        for _, group in line.groupby(["split", "epsilon"], sort=False):
            errors = group.groupby("parameters", sort=False)[measure].mean().dropna()
            if not errors.empty:
                best = group[group["parameters"] == errors.idxmin()].copy()
                words = (best["shown"].iloc[0], BEST if tuned else "")
                best["label"] = named(best["label"].iloc[0], *words)
                kept.append(best)
    return pd.concat(kept) if several and kept else runs.iloc[:0]


def sweep(frame: pd.DataFrame, setting: str, *, machines: bool = False) -> pd.DataFrame:
    """Return the runs in which one setting, and nothing else, takes several values.

    The setting is a column. If runs of a line also differ in other settings, those of a panel with
    the most values count.
    """
    runs = _done(frame, machines)
    given = [json.loads(one) for one in runs["parameters"]]
    values = pd.Series([one.pop(setting, None) for one in given], index=runs.index, dtype=object)
    runs[setting] = pd.to_numeric(values)
    runs["others"] = [json.dumps(one, sort_keys=True) for one in given]
    runs = runs[runs[setting].notna()]
    kept = []
    for _, group in runs.groupby(["label", "shown", "split"], sort=False):
        counts = group.groupby("others", sort=False)[setting].nunique()
        if counts.max() > 1:
            kept.append(group[group["others"] == counts.idxmax()])
    return with_settings(pd.concat(kept) if kept else runs.iloc[:0], "others")


def means(
    runs: pd.DataFrame, by: list[str], measures: Sequence[str] = MEASURES
) -> list[dict[str, Any]]:
    """Return the mean of each measure, and its standard error over the seeds, by some columns.

    A row has ``runs`` (how many), and of each measure the mean, ``<name>_se``, ``<name>_low`` and
    ``<name>_high`` (one standard error below and above; the mean itself for a single seed, without
    a standard error).
    """
    made = []
    for values, group in runs.groupby(by, sort=False):
        row: dict[str, Any] = dict(zip(by, values, strict=True)) | {"runs": len(group)}
        for name in measures:
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


def estimate_in_words(point: Mapping[str, Any], name: str, sign: str = "") -> str:
    """Return a mean of `means`, with its standard error where there is one."""
    error = point[f"{name}_se"]
    return f"{point[name]:{sign}.4f}" + ("" if error is None else f" ± {error:.4f}")


def ratios(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the mean error of each line over AIM's, and the number of ratios.

    A ratio is that of the means over seeds in a panel at an epsilon. The columns are the epsilons,
    with geometric means over panels, then ``all``, the geometric mean of all ratios, by which the
    lines are sorted, and ``of``, how many these are. Empty without runs of AIM.
    """
    means = runs.astype({"error_mean": float}).pivot_table(
        "error_mean", index=["split", "epsilon"], columns="label"
    )
    plain = runs.loc[runs["mechanism"] == "aim", "label"].unique()
    if len(plain) == 0:
        return means.iloc[:0]
    logs = means.div(means[plain[0]], axis="index").transform(np.log)
    made = logs.groupby("epsilon").mean().transform(np.exp).T
    made = made.assign(all=logs.mean().transform(np.exp), of=logs.count())
    return made[made["of"] > 0].sort_values("all")


def _or_none(value: float) -> float | None:
    return None if value != value else value
