"""The papers' figures, from the rows of a benchmark.

Points are means over seeds, bars show one standard error on either side. Runs of different
experiments never share a point: the names of panels and lines state their differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import InputError
from jam_dagster.mechanisms.registry import MECHANISMS
from jam_dagster.trials.charts import Axis, Line, chart_of_lines, line_styles
from jam_dagster.trials.measures import QUESTION, best_runs, levels, main_runs, means, sweep
from jam_dagster.trials.runs import BASELINES, BEST_MIXTURE, PUBLIC_TABLE, TRUE_ONE_WAYS

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.reports.plot_style import Chart

_EPSILON = Axis("epsilon", "epsilon")
_ROUNDS = Axis("rounds", "T, the number of rounds")
_LIMIT = Axis("size_limit_mb", "size limit of the model, MB")
_ERROR = Axis("error_mean", "mean workload error (L1)")
_OWN_ERROR = Axis("public_error", "error of the public table alone (L1)")
_LARGEST = Axis("error_max", "largest workload error (L1)")
_DRAWN = Axis("sample_share", "records of a random sample that errs as much, share of all")
_MARGINALS = Axis("marginals", "marginals of the workload")
_PUBLIC_ROWS = Axis("public_records", "rows of the public table")
_CELL = Axis("cell_max", "largest error of a cell")
_SHARE = Axis("public_share", "share of rounds with public data", share=True)
_SECONDS = Axis("seconds", "seconds")
_AUC = Axis("tstr_auc", "area under the ROC curve", linear=True)
_PAIRS = Axis("pairs8", "mean error of pairs at eight groups (L1)")
_CORRELATION = Axis("correlation", "mean error of rank correlations")

CAPTIONS = {
    "error_by_epsilon": "Mean error of the synthetic tables over the workload against epsilon, "
    "with the baselines: the main comparison of the JAM and AIM papers.",
    "max_error_by_epsilon": "L1 error of the worst marginal of the workload against epsilon.",
    "cell_max_by_epsilon": "Error of the worst counting query against epsilon, of all cells of the "
    "workload's marginals: the measure of the PMW^Pub and GEM papers.",
    "auc_by_epsilon": "Area under the ROC curve of a logistic regression that learns from the "
    "synthetic rows, on rows that are in neither table, or on the private ones, against epsilon. "
    "The sampling floor learns from private rows: it is the ceiling.",
    "pairs_by_epsilon": "Mean L1 error of all pairs of attributes at about eight groups of values "
    "each, against epsilon.",
    "correlation_by_epsilon": "Mean error of the rank correlations of ordered attributes, against "
    "epsilon.",
    "best_setting_by_epsilon": "Mean error against epsilon, with the setting of least error at "
    "each epsilon: it is found by the private table itself, without a charge, as in the figures "
    "of the PMW^Pub and GEM papers, and no release reaches it.",
    "best_setting_cell_max_by_epsilon": "Error of the worst counting query, with the setting of "
    "least error at each epsilon, found by the private table itself.",
    "sample_share_by_epsilon": "The size of a random sample of the private records, drawn with "
    "replacement, whose expected error is that of the synthetic table (AIM paper, appendix C).",
    "cell_max_by_marginals": "Error of the worst counting query against the number of random "
    "marginals in the workload (PMW^Pub paper).",
    "error_by_public_rows": "Mean error against the number of rows of the public table.",
    "cell_max_by_public_rows": "Error of the worst counting query against the number of rows of "
    "the public table (PMW^Pub paper).",
    "best_mixture": "Mean error against epsilon. Shaded: below the best mixture error, which no "
    "reweighting of the public table's rows can reach (PMW^Pub paper).",
    "error_by_public_table": "Mean error against that of the public table alone (dashed), for "
    "splits that share their private table. Shaded: what no reweighting of the public rows reaches "
    "(JAM paper).",
    "public_picks": "Share of rounds that took a public measurement, of mechanisms that choose "
    "between private and public ones (JAM paper).",
    "error_by_rounds": "Mean error against the number of rounds (JAM paper, appendix).",
    "error_by_capacity": "Mean error against the size that the model may take (AIM paper).",
    "seconds_by_epsilon": "Wall-clock time of mechanism and sampling on one thread against epsilon "
    "(AIM paper). Runs side by side share the machine.",
    "seconds_by_capacity": "Wall-clock time against the size that the model may take (AIM paper).",
}


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its files, its caption and chart, and the numbers behind it."""

    name: str
    caption: str
    chart: Chart
    rows: tuple[Mapping[str, Any], ...]


def figures(frame: pd.DataFrame) -> list[Figure]:
    """Draw every figure with enough runs in the rows.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.trials.read_frame`.

    Raises
    ------
    InputError
        If no run of a mechanism succeeded.
    """
    runs, timed = main_runs(frame), main_runs(frame, machines=True)
    if runs.empty:
        raise InputError(
            "No run of a mechanism succeeded, so there is nothing to draw: see the column "
            "message, and run the benchmark with --retry."
        )
    rounds = sweep(frame, "rounds")
    limits, timed_limits = (sweep(frame, "size_limit_mb", machines=one) for one in (False, True))
    best, best_cells = (best_runs(frame, name) for name in ("error_mean", "cell_max"))
    every = (runs, timed, rounds, limits, timed_limits, best, best_cells)
    # A line looks the same in all figures.
    named = [pair for one in every for pair in zip(one["label"], one["mechanism"], strict=True)]
    draw = partial(_figure, line_styles(named))
    points = _points(runs)
    picks = runs["public_picks"].astype(float).fillna(0).groupby(runs["label"]).transform("max")
    mixture = levels(frame, BEST_MIXTURE)
    bounds = [{"panel": one, "x": None, "bound": bound} for one, bound in mixture.items()]
    reweighted = runs[runs["split"].isin(mixture)]
    # Mechanisms that weight the records of one public table can come no nearer than these.
    known = MECHANISMS.items()
    weighting = [
        name for name, one in known if one.takes_public == "must" and not one.takes_named_public
    ]
    if not reweighted["mechanism"].isin(weighting).any():
        reweighted = reweighted.iloc[:0]
    public = {one: error for one, error in levels(frame, PUBLIC_TABLE).items() if error > 0}
    drawn = runs[runs["workload"].str.startswith("random")]
    marginals = _points(drawn, "marginals", panel="over_marginals")
    parts = runs[runs["split_of"].notna() & runs["public_records"].notna()]
    public_rows = _points(parts, "public_records", panel="over_public_rows")
    at_limits = _points(timed_limits, "size_limit_mb")
    made = [
        draw("error_by_epsilon", points, levels=_levels(frame, "error_mean")),
        draw("max_error_by_epsilon", points, y=_LARGEST, levels=_levels(frame, "error_max")),
        draw("cell_max_by_epsilon", points, y=_CELL, levels=_levels(frame, "cell_max")),
        draw("auc_by_epsilon", points, y=_AUC, levels=_levels(frame, "tstr_auc")),
        draw("pairs_by_epsilon", points, y=_PAIRS, levels=_levels(frame, "pairs8")),
        draw(
            "correlation_by_epsilon", points, y=_CORRELATION, levels=_levels(frame, "correlation")
        ),
        draw("best_setting_by_epsilon", _points(best)),
        draw("best_setting_cell_max_by_epsilon", _points(best_cells), y=_CELL),
        draw("sample_share_by_epsilon", points, y=_DRAWN),
        draw("cell_max_by_marginals", marginals, x=_MARGINALS, y=_CELL),
        draw("error_by_public_rows", public_rows, x=_PUBLIC_ROWS),
        draw("cell_max_by_public_rows", public_rows, x=_PUBLIC_ROWS, y=_CELL),
        draw("best_mixture", _points(reweighted), bounds=bounds),
        draw(
            "error_by_public_table", *_by_public_table(frame, runs, public, mixture), x=_OWN_ERROR
        ),
        draw("public_picks", _points(runs[picks > 0]), y=_SHARE),
        draw("error_by_rounds", _points(rounds, "rounds"), x=_ROUNDS),
        draw("error_by_capacity", _points(limits, "size_limit_mb"), x=_LIMIT),
        draw("seconds_by_epsilon", _points(timed), y=_SECONDS),
        draw("seconds_by_capacity", at_limits, x=_LIMIT, y=_SECONDS),
    ]
    return [one for one in made if one is not None]


def _figure(
    styles: Sequence[Line],
    name: str,
    rows: Sequence[Mapping[str, Any]],
    levels: Sequence[Mapping[str, Any]] = (),
    bounds: Sequence[Mapping[str, Any]] = (),
    *,
    x: Axis = _EPSILON,
    y: Axis = _ERROR,
) -> Figure | None:
    """Draw y against x in every panel in which x takes two values; None without one."""
    known = [row for row in rows if row[y.column] is not None and row[x.column] > 0]
    kept = [row for row in known if y.share or row[y.column] > 0]
    zero = [row for row in known if row not in kept]
    off = [f"{row['label']} on {row['split']} at epsilon {row['epsilon']:g}" for row in zero]
    caption = CAPTIONS[name]
    if off:
        caption += " Left out, as a logarithmic axis has no place for 0: "
        caption += "; ".join(dict.fromkeys(off)) + "."
    places: dict[str, set[float]] = {}
    for row in kept:
        places.setdefault(row["panel"], set()).add(row[x.column])
    panels = {panel for panel, held in places.items() if len(held) > 1}
    kept = [row for row in kept if row["panel"] in panels]
    if not kept:
        return None
    labels = {row["label"] for row in kept}
    chart = chart_of_lines(
        kept,
        [one for one in styles if one.title in labels],
        x,
        y,
        [one for one in levels if one["panel"] in panels and one["level"] > 0],
        [one for one in bounds if one["panel"] in panels and one["bound"] > 0],
    )
    return Figure(name, caption, chart, tuple(kept))


def _points(runs: pd.DataFrame, column: str = "", *, panel: str = "split") -> list[dict[str, Any]]:
    """Return points of a panel a split; against a column, a panel a split and epsilon."""
    by = dict.fromkeys(["label", panel, "epsilon", *([column] if column else [])])
    rows = means(runs, list(by))
    for row in rows:
        row["split"] = row[panel]
        row["panel"] = row[panel] + (f", epsilon {row['epsilon']:g}" if column else "")
    return rows


def _levels(frame: pd.DataFrame, measure: str) -> list[dict[str, Any]]:
    """Return the baselines; the best mixture has a figure of its own."""
    return [
        {"panel": split, "x": None, "level": error, "dash": title}
        for name, title in BASELINES.items()
        if name != BEST_MIXTURE
        for split, error in levels(frame, name, measure).items()
    ]


def _by_public_table(
    frame: pd.DataFrame,
    runs: pd.DataFrame,
    public: Mapping[str, float],
    mixture: Mapping[str, float],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return points, levels and bounds of a panel a private table (`sharing`) and epsilon."""
    rows, diagonal, bounds = [], [], []
    groups = [[split for split in group if split in public] for group in sharing(frame)]
    for group in groups:
        for row in means(runs[runs["split"].isin(group)], ["label", "split", "epsilon", "records"]):
            table = f"{row['records']:,} records" if len(groups) == 1 else ", ".join(group)
            panel = f"{table}, epsilon {row['epsilon']:g}"
            rows.append({**row, "panel": panel, "public_error": public[row["split"]]})
        bounded = all(mixture.get(split, 0.0) > 0 for split in group)
        for panel in dict.fromkeys(row["panel"] for row in rows if row["split"] in group):
            for split in group:
                place = {"panel": panel, "x": public[split]}
                diagonal.append({**place, "level": public[split], "dash": BASELINES[PUBLIC_TABLE]})
                if bounded:
                    bounds.append({**place, "bound": mixture[split]})
    return rows, diagonal, bounds


def sharing(frame: pd.DataFrame) -> list[list[str]]:
    """Return groups of two or more panels that share a private table.

    A row records only the number of records and attributes of a private table, and no hash of its
    content. Baselines identify it: the errors of the true one-way marginals depend on the private
    table alone, and two tables with equal mean and largest error to nine digits count as one.
    Panels with different workloads or deltas are never in one group.
    """
    alone, largest = (levels(frame, TRUE_ONE_WAYS, name) for name in ("error_mean", "error_max"))
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in main_runs(frame).drop_duplicates("split").to_dict("records"):
        split = row["split"]
        if alone.get(split, 0.0) > 0:
            errors = (f"{one[split]:.9g}" for one in (alone, largest))
            question = (row[name] for name in ("records", "attributes", *QUESTION, "delta"))
            groups.setdefault((*question, *errors), []).append(split)
    return [group for group in groups.values() if len(group) > 1]
