"""The papers' figures, from the rows of a benchmark.

Every figure has a panel a split. Points are means over seeds, bars reach one standard error to
either side. Mechanisms that learn from public data have full lines, the others dashed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.measures import Level, levels, main_runs, means, sweep
from jam_dagster.benchmark.panels import (
    Look,
    is_shown,
    level_rules,
    lines_of,
    panel,
    shade_below,
    together,
)
from jam_dagster.benchmark.runs import BEST_MIXTURE
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation.plot_style import Chart


@dataclass(frozen=True)
class Figure:
    """A figure and what it shows.

    Parameters
    ----------
    name
        Of its files.
    caption
        What it shows and which figure of which paper it answers to.
    chart
        The chart.
    rows
        The numbers behind it.
    """

    name: str
    caption: str
    chart: Chart
    rows: tuple[Mapping[str, Any], ...]


def figures(frame: pd.DataFrame) -> list[Figure]:
    """Draw every figure that the rows have the runs for.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.benchmark.read_frame`.

    Raises
    ------
    InputError
        If no run of a mechanism ended well.
    """
    if main_runs(frame).empty:
        raise InputError(
            "No run of a mechanism ended well, so there is nothing to draw: look at the column "
            "message, and run the benchmark with --retry."
        )
    look = Look.of(frame)
    made = [one(frame, look) for one in _FIGURES]
    return [one for one in made if one is not None]


def _error_by_epsilon(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_epsilon(
        frame,
        look,
        name="error_by_epsilon",
        measure="error_mean",
        title="mean workload error",
        level=lambda one: one.error,
        caption="Mean error of the synthetic tables over the workload against epsilon, with the "
        "public table alone, the true one-way marginals and the sampling floor: the main "
        "comparison of the JAM, AIM and PMW^Pub papers.",
    )


def _max_error_by_epsilon(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_epsilon(
        frame,
        look,
        name="max_error_by_epsilon",
        measure="error_max",
        title="largest workload error",
        level=lambda one: one.error_max,
        caption="Error of the worst marginal of the workload against epsilon: the measure that "
        "PMW^Pub and GEM^Pub are made for.",
    )


def _seconds_by_epsilon(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_epsilon(
        frame,
        look,
        name="seconds_by_epsilon",
        measure="seconds",
        title="seconds",
        caption="Wall-clock time of mechanism and sampling on one thread against epsilon (the AIM "
        "paper's runtime figure). Runs side by side share the machine.",
    )


def _public_picks(frame: pd.DataFrame, look: Look) -> Figure | None:
    runs = main_runs(frame)
    runs = runs[
        runs["public_picks"].astype(float).fillna(0).groupby(runs["label"]).transform("max") > 0
    ]
    return _by_epsilon(
        runs,
        look,
        name="public_picks",
        measure="public_share",
        title="share of rounds that measure public data",
        log=False,
        caption="Of the rounds of mechanisms that choose between private and public measurements, "
        "the share that took a public one, against epsilon (the JAM paper's figure of picks).",
    )


def _by_epsilon(
    frame: pd.DataFrame,
    look: Look,
    *,
    name: str,
    measure: str,
    title: str,
    caption: str,
    level: Callable[[Level], float] | None = None,
    log: bool = True,
) -> Figure | None:
    """Draw a measure against epsilon, a panel a split."""
    if frame.empty:
        return None
    runs = main_runs(frame)
    rows = [
        row for row in means(runs, ["label", "split", "epsilon"]) if is_shown(row, measure, log)
    ]
    if len({row["epsilon"] for row in rows}) < 2:
        return None
    look = look.of_rows(rows)
    beside: dict[str, dict[str, float]] = {}
    if level is not None:
        for one in levels(frame):
            beside.setdefault(one.split, {})[one.name] = level(one)
    drawn = []
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        own = [row for row in rows if row["split"] == split]
        layers = [
            *level_rules(beside.get(split, {})),
            *lines_of(own, look, "epsilon", measure, "epsilon", title, log=log),
        ]
        drawn.append(panel(layers, split))
    return Figure(name, caption, together(drawn), tuple(rows))


def _error_by_rounds(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_setting(
        frame,
        look,
        setting="rounds",
        name="error_by_rounds",
        measure="error_mean",
        axis="T, the number of rounds",
        title="mean workload error",
        caption="Mean error against the number of rounds, a panel a split and epsilon (the JAM "
        "paper's appendix on the sensitivity to T).",
    )


def _error_by_capacity(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_setting(
        frame,
        look,
        setting="size_limit_mb",
        name="error_by_capacity",
        measure="error_mean",
        axis="size limit of the model, MB",
        title="mean workload error",
        caption="Mean error against the size that the model may take (the AIM paper's figure of "
        "capacity).",
    )


def _seconds_by_capacity(frame: pd.DataFrame, look: Look) -> Figure | None:
    return _by_setting(
        frame,
        look,
        setting="size_limit_mb",
        name="seconds_by_capacity",
        measure="seconds",
        axis="size limit of the model, MB",
        title="seconds",
        caption="Wall-clock time against the size that the model may take (the AIM paper's figure "
        "of capacity).",
    )


def _by_setting(
    frame: pd.DataFrame,
    look: Look,
    *,
    setting: str,
    name: str,
    measure: str,
    axis: str,
    title: str,
    caption: str,
) -> Figure | None:
    """Draw a measure against a setting, a panel a split and epsilon."""
    runs = sweep(frame, setting)
    if runs.empty:
        return None
    rows = means(runs, ["label", "split", "epsilon", setting])
    rows = [row for row in rows if is_shown(row, measure, log=True)]
    varied = _varied(rows, setting)
    rows = [row for row in rows if (row["split"], row["epsilon"]) in varied]
    if not rows:
        return None
    look = look.of_rows(rows)
    epsilons = sorted({row["epsilon"] for row in rows})
    drawn = []
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        for epsilon in epsilons:
            own = [row for row in rows if (row["split"], row["epsilon"]) == (split, epsilon)]
            if own:
                layers = lines_of(own, look, setting, measure, axis, title, log=True)
                drawn.append(panel(layers, f"{split}, epsilon {epsilon:g}"))
    return Figure(name, caption, together(drawn, columns=len(epsilons)), tuple(rows))


def _varied(rows: Sequence[Mapping[str, Any]], setting: str) -> set[tuple[str, float]]:
    """Return the panels on which a setting takes more than one value."""
    held: dict[tuple[str, float], set[float]] = {}
    for row in rows:
        held.setdefault((row["split"], row["epsilon"]), set()).add(row[setting])
    return {place for place, values in held.items() if len(values) > 1}


def _error_beside_best_mixture(frame: pd.DataFrame, look: Look) -> Figure | None:
    bounds = {one.split: one.error for one in levels(frame) if one.name == BEST_MIXTURE}
    runs = main_runs(frame)
    runs = runs[runs["split"].isin(bounds)]
    rows = means(runs, ["label", "split", "epsilon"])
    rows = [row for row in rows if is_shown(row, "error_mean", log=True)]
    if not rows or "PMW^Pub" not in set(runs["label"]):
        return None
    look = look.of_rows(rows)
    drawn = []
    for split, bound in bounds.items():
        own = [row for row in rows if row["split"] == split]
        if own:
            layers = lines_of(own, look, "epsilon", "error_mean", "epsilon", "mean workload error")
            drawn.append(panel([*shade_below(bound), *layers], split))
    return Figure(
        "best_mixture",
        "Mean error against epsilon. Shaded: below the best mixture error, which no reweighting of "
        "the public table's rows can reach (the PMW^Pub paper's figure).",
        together(drawn),
        tuple(rows),
    )


_FIGURES = (
    _error_by_epsilon,
    _max_error_by_epsilon,
    _error_beside_best_mixture,
    _public_picks,
    _error_by_rounds,
    _error_by_capacity,
    _seconds_by_epsilon,
    _seconds_by_capacity,
)
