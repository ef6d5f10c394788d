"""Figures on the value of the public table: the best mixture of its rows, and its own error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.axes import HEIGHT, Axis, placed, spread, with_places
from jam_dagster.benchmark.figure import Figure
from jam_dagster.benchmark.measures import Level, levels, main_runs, means
from jam_dagster.benchmark.panels import (
    below,
    beside,
    limits,
    lines_of,
    panel,
    shade_below,
    together,
)
from jam_dagster.benchmark.runs import BEST_MIXTURE, PUBLIC_TABLE, TRUE_ONE_WAYS
from jam_dagster.common import palette
from jam_dagster.reports.plot_style import chart_of

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.benchmark.line_styles import LineStyles

_ERROR = "mean workload error (L1)"


def best_mixture_figure(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    """Draw error against epsilon, with the errors below the best mixture shaded."""
    bounds = {one.split: one.error for one in levels(frame) if one.name == BEST_MIXTURE}
    runs = main_runs(frame)
    runs = runs[runs["split"].isin(bounds)]
    if "pmw_pub" not in set(runs["mechanism"]):
        return None
    rows = means(runs, ["label", "split", "epsilon"])
    log, word = with_places(rows, "error_mean", log=True)
    rows = placed(rows, "error_mean", log=log)
    if not rows:
        return None
    styles = styles.of_titles(row["label"] for row in rows)
    drawn = []
    splits = list(dict.fromkeys(str(row["split"]) for row in rows))
    columns = min(2, len(splits))
    for split in splits:
        own = [row for row in rows if row["split"] == split]
        axis = Axis.around(_ERROR, limits(own, "error_mean", log=log), log=log)
        layers: list[Any] = []
        if bounds[split] > 0:
            axis = below(axis, bounds[split])
            layers = shade_below(axis, bounds[split])
        else:
            word += f" On {split} the best mixture has no error, so nothing is shaded."
        layers += lines_of(own, styles, "epsilon", "epsilon", "error_mean", axis, columns=columns)
        drawn.append(panel(layers, split))
    return Figure(
        "best_mixture",
        "Mean error against epsilon. Shaded: below the best mixture error, which no reweighting of "
        f"the public table's rows can reach (the PMW^Pub paper's figure).{word}",
        together(drawn),
        tuple(rows),
    )


def sharing(frame: pd.DataFrame) -> list[list[str]]:
    """Return groups of panels that share a private table.

    A row records only the number of records and attributes of a private table, and no hash of its
    content. Baselines identify it: the errors of the true one-way marginals depend on the private
    table alone, and two tables with equal mean and largest error to nine digits count as one.
    Panels with different workloads or deltas are never in one group.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.benchmark.read_frame`.

    Returns
    -------
    list of list of str
        Groups of two or more names of panels.
    """
    alone = {one.split: one for one in levels(frame) if one.name == TRUE_ONE_WAYS}
    runs = main_runs(frame).drop_duplicates("split").set_index("split")
    question = ["records", "attributes", "degree", "delta"]
    made: list[list[str]] = []
    for split, one in alone.items():
        for group in made:
            first = group[0]
            alike = list(runs.loc[split, question]) == list(runs.loc[first, question])
            if alike and _same(one, alone[first]):
                group.append(split)
                break
        else:
            made.append([split])
    return [group for group in made if len(group) > 1]


def _same(one: Level, other: Level) -> bool:
    pairs = ((one.error, other.error), (one.error_max, other.error_max))
    return all(left > 0 and math.isclose(left, right, rel_tol=1e-9) for left, right in pairs)


def public_table_figure(frame: pd.DataFrame, styles: LineStyles) -> Figure | None:
    """Draw error against the public table's, for splits that share a private table (`sharing`)."""
    public = _errors(frame, PUBLIC_TABLE)
    mixture = _errors(frame, BEST_MIXTURE)
    found: list[dict[str, Any]] = []
    for number, group in enumerate(sharing(frame)):
        runs = main_runs(frame)
        runs = runs[runs["split"].isin([one for one in group if public.get(one, 0.0) > 0])]
        found += [
            {**row, "private": number, "public_error": public[row["split"]]}
            for row in means(runs, ["label", "split", "epsilon", "records"])
        ]
    log, word = with_places(found, "error_mean", log=True)
    rows = placed(found, "error_mean", log=log)
    places = dict.fromkeys((row["private"], row["epsilon"]) for row in rows)
    panels = {place: own for place in sorted(places) if _varies(own := _at(rows, place))}
    if not panels:
        return None
    rows = [row for own in panels.values() for row in own]
    styles = styles.of_titles(row["label"] for row in rows)
    columns = min(2, len(panels))
    drawn = [_panel(own, styles, mixture, log=log, columns=columns) for own in panels.values()]
    return Figure(
        "error_by_public_table",
        "Mean error against that of the public table alone, for splits that share their private "
        "table. Dashed: the public table itself; below it a mechanism is better than its public "
        "table. Shaded: what no reweighting of the public rows reaches (the JAM paper's figure of "
        f"public data's error).{word}",
        together(drawn),
        tuple(rows),
    )


def _errors(frame: pd.DataFrame, name: str) -> dict[str, float]:
    return {one.split: one.error for one in levels(frame) if one.name == name}


def _at(rows: Sequence[dict[str, Any]], place: tuple[int, float]) -> list[dict[str, Any]]:
    return [row for row in rows if (row["private"], row["epsilon"]) == place]


def _varies(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether some line has more than one point."""
    held: dict[str, set[float]] = {}
    for row in rows:
        held.setdefault(row["label"], set()).add(row["public_error"])
    return any(len(one) > 1 for one in held.values())


def _panel(
    rows: Sequence[Mapping[str, Any]],
    styles: LineStyles,
    mixture: Mapping[str, float],
    *,
    log: bool,
    columns: int,
) -> Any:
    """Draw one private table at one epsilon."""
    own = {row["split"]: row["public_error"] for row in rows}
    bounds = {split: mixture[split] for split in own if mixture.get(split, 0.0) > 0}
    values = [*limits(rows, "error_mean", log=log), *own.values(), *bounds.values()]
    axis = Axis.around(_ERROR, values, log=log)
    bounded = len(bounds) == len(own)
    if bounded:
        axis = below(axis, min(bounds.values()))
    lines = lines_of(
        rows,
        styles,
        "public_error",
        "error of the public table alone (L1)",
        "error_mean",
        axis,
        columns=columns,
        marks=_names(own),
    )
    last = max(own, key=lambda split: own[split])
    names = [("public table", own[last])]
    layers = []
    if bounded:
        layers.append(_area({own[split]: bounds[split] for split in own}, axis))
        names.append(("best mixture", bounds[last]))
    layers.append(_diagonal(sorted(own.values()), axis))
    pixels = spread([HEIGHT * (1 - axis.share(value)) for _, value in names])
    layers += [beside(name, pixel) for (name, _), pixel in zip(names, pixels, strict=True)]
    first = rows[0]
    title = f"{first['records']:,} records, epsilon {first['epsilon']:g}"
    return panel([*layers, *lines], title)


def _area(bounds: Mapping[float, float], axis: Axis) -> Any:
    points = [{"public_error": x, "bound": y, "floor": axis.low} for x, y in sorted(bounds.items())]
    mark = chart_of(points).mark_area(
        color=palette.MUTED.light, opacity=0.18, line={"color": palette.MUTED.light, "size": 1}
    )
    return mark.encode(x="public_error:Q", y=axis.vertical("bound"), y2="floor:Q")


def _diagonal(errors: Sequence[float], axis: Axis) -> Any:
    points = [{"public_error": one, "itself": one} for one in errors]
    mark = chart_of(points).mark_line(color=palette.INK.light, strokeDash=[9, 4], size=1.4)
    return mark.encode(x="public_error:Q", y=axis.vertical("itself"))


def _names(own: Mapping[str, float]) -> str:
    """Return an expression for the labels of the axis: the error, and below it the split."""
    label = "format(datum.value, '.3~g')"
    for split, error in own.items():
        # Numbers from Vega may differ in their last digits.
        here = f"abs(datum.value - {error!r}) < {error * 1e-9!r}"
        label = f"{here} ? [format(datum.value, '.3~g'), {json.dumps(split)}] : {label}"
    return label
