"""The papers' figures, from the rows of a benchmark.

Every figure has a panel a split. Points are means over seeds, bars show one standard error on
either side. Mechanisms that learn from public data have full lines, the others dashed ones. Runs of
different experiments never share a point: the names of panels and lines state their differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.axes import Axis, placed, with_places
from jam_dagster.benchmark.figure import Figure
from jam_dagster.benchmark.line_styles import LineStyles
from jam_dagster.benchmark.measures import Level, levels, main_runs, means, sweep
from jam_dagster.benchmark.panels import (
    level_rules,
    limits,
    lines_of,
    panel,
    shown_levels,
    together,
)
from jam_dagster.benchmark.public_figures import best_mixture_figure, public_table_figure
from jam_dagster.benchmark.runs import BEST_MIXTURE
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_ERROR = "mean workload error (L1)"


def figures(frame: pd.DataFrame) -> list[Figure]:
    """Draw every figure with enough runs in the rows.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.benchmark.read_frame`.

    Raises
    ------
    InputError
        If no run of a mechanism succeeded.
    """
    if main_runs(frame).empty:
        raise InputError(
            "No run of a mechanism succeeded, so there is nothing to draw: see the column "
            "message, and run the benchmark with --retry."
        )
    styles = _line_styles(frame)
    made = [one(frame, styles) for one in _FIGURES]
    return [one for one in made if one is not None]


def _line_styles(frame: pd.DataFrame) -> LineStyles:
    """Return the styles of all lines in any figure."""
    named: list[tuple[str, str]] = []
    for machines in (False, True):
        shown = [main_runs(frame, machines=machines)]
        shown += [sweep(frame, one, machines=machines) for one in ("rounds", "size_limit_mb")]
        for runs in shown:
            named += zip(runs["label"], runs["mechanism"], strict=True)
    return LineStyles.of(named)


def _error_by_epsilon(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_epsilon(
        main_runs(frame),
        styles,
        name="error_by_epsilon",
        measure="error_mean",
        title=_ERROR,
        beside=_levels(frame, lambda one: one.error),
        caption="Mean error of the synthetic tables over the workload against epsilon, with the "
        "public table alone, the true one-way marginals and the sampling floor: the main "
        "comparison of the JAM, AIM and PMW^Pub papers.",
    )


def _max_error_by_epsilon(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_epsilon(
        main_runs(frame),
        styles,
        name="max_error_by_epsilon",
        measure="error_max",
        title="largest workload error (L1)",
        beside=_levels(frame, lambda one: one.error_max),
        caption="Error of the worst marginal of the workload against epsilon: the measure that "
        "PMW^Pub and GEM^Pub are made for.",
    )


def _seconds_by_epsilon(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_epsilon(
        main_runs(frame, machines=True),
        styles,
        name="seconds_by_epsilon",
        measure="seconds",
        title="seconds",
        caption="Wall-clock time of mechanism and sampling on one thread against epsilon (the AIM "
        "paper's runtime figure). Runs side by side share the machine.",
    )


def _public_picks(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    runs = main_runs(frame)
    runs = runs[
        runs["public_picks"].astype(float).fillna(0).groupby(runs["label"]).transform("max") > 0
    ]
    return _by_epsilon(
        runs,
        styles,
        name="public_picks",
        measure="public_share",
        title="share of rounds with public data",
        log=False,
        caption="Of the rounds of mechanisms that choose between private and public measurements, "
        "the share that took a public one, against epsilon (the JAM paper's figure of picks).",
    )


def _levels(frame: pd.DataFrame, level: Callable[[Level], float]) -> dict[str, dict[str, float]]:
    """Return the baselines' numbers by panel and name; the best mixture has a figure of its own."""
    made: dict[str, dict[str, float]] = {}
    for one in levels(frame):
        if one.name != BEST_MIXTURE:
            made.setdefault(one.split, {})[one.name] = level(one)
    return made


def _by_epsilon(
    runs: pd.DataFrame,
    styles: LineStyles,
    *,
    name: str,
    measure: str,
    title: str,
    caption: str,
    beside: Mapping[str, Mapping[str, float]] | None = None,
    log: bool = True,
) -> Figure | None:
    """Draw a measure against epsilon, a panel a split."""
    if runs.empty:
        return None
    rows = means(runs, ["label", "split", "epsilon"])
    log, word = with_places(rows, measure, log=log)
    rows = placed(rows, measure, log=log)
    if len({row["epsilon"] for row in rows}) < 2:
        return None
    styles = styles.of_titles(row["label"] for row in rows)
    drawn = []
    splits = list(dict.fromkeys(str(row["split"]) for row in rows))
    for split in splits:
        own = [row for row in rows if row["split"] == split]
        around = shown_levels((beside or {}).get(split, {}), log=log)
        values = [*limits(own, measure, log=log), *around.values()]
        # The axis of a share reaches from 0 to 1.
        axis = Axis(title, 0, 1, log=False) if measure == "public_share" else None
        axis = axis or Axis.around(title, values, log=log)
        layers = [
            *level_rules(around, axis),
            *lines_of(
                own, styles, "epsilon", "epsilon", measure, axis, columns=min(2, len(splits))
            ),
        ]
        drawn.append(panel(layers, split))
    return Figure(name, caption + word, together(drawn), tuple(rows))


def _error_by_rounds(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_setting(
        sweep(frame, "rounds"),
        styles,
        setting="rounds",
        name="error_by_rounds",
        measure="error_mean",
        axis="T, the number of rounds",
        title=_ERROR,
        caption="Mean error against the number of rounds, a panel a split and epsilon (the JAM "
        "paper's appendix on the sensitivity to T).",
    )


def _error_by_capacity(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_setting(
        sweep(frame, "size_limit_mb"),
        styles,
        setting="size_limit_mb",
        name="error_by_capacity",
        measure="error_mean",
        axis="size limit of the model, MB",
        title=_ERROR,
        caption="Mean error against the size that the model may take (the AIM paper's figure of "
        "capacity).",
    )


def _seconds_by_capacity(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    return _by_setting(
        sweep(frame, "size_limit_mb", machines=True),
        styles,
        setting="size_limit_mb",
        name="seconds_by_capacity",
        measure="seconds",
        axis="size limit of the model, MB",
        title="seconds",
        caption="Wall-clock time against the size that the model may take (the AIM paper's figure "
        "of capacity).",
    )


def _by_setting(
    runs: pd.DataFrame,
    styles: LineStyles,
    *,
    setting: str,
    name: str,
    measure: str,
    axis: str,
    title: str,
    caption: str,
) -> Figure | None:
    """Draw a measure against a setting, a panel a split and epsilon."""
    runs = runs[runs[setting] > 0]
    if runs.empty:
        return None
    rows = means(runs, ["label", "split", "epsilon", setting])
    log, word = with_places(rows, measure, log=True)
    rows = placed(rows, measure, log=log)
    varied = _varied(rows, setting)
    rows = [row for row in rows if (row["split"], row["epsilon"]) in varied]
    if not rows:
        return None
    styles = styles.of_titles(row["label"] for row in rows)
    epsilons = sorted({row["epsilon"] for row in rows})
    columns = min(2, len({(row["split"], row["epsilon"]) for row in rows}))
    drawn = []
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        for epsilon in epsilons:
            own = [row for row in rows if (row["split"], row["epsilon"]) == (split, epsilon)]
            if own:
                upright = Axis.around(title, limits(own, measure, log=log), log=log)
                layers = lines_of(own, styles, setting, axis, measure, upright, columns=columns)
                drawn.append(panel(layers, f"{split}, epsilon {epsilon:g}"))
    return Figure(name, caption + word, together(drawn), tuple(rows))


def _varied(rows: Sequence[Mapping[str, Any]], setting: str) -> set[tuple[str, float]]:
    """Return the panels on which a setting takes more than one value."""
    held: dict[tuple[str, float], set[float]] = {}
    for row in rows:
        held.setdefault((row["split"], row["epsilon"]), set()).add(row[setting])
    return {place for place, values in held.items() if len(values) > 1}


_FIGURES: tuple[Callable[[pd.DataFrame, LineStyles], Figure | None], ...] = (
    _error_by_epsilon,
    _max_error_by_epsilon,
    best_mixture_figure,
    public_table_figure,
    _public_picks,
    _error_by_rounds,
    _error_by_capacity,
    _seconds_by_epsilon,
    _seconds_by_capacity,
)
