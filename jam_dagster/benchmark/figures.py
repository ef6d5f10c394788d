"""The papers' figures, from the rows of a benchmark.

Every figure has a panel a split. Points are means over seeds, bars reach one standard error to
either side. Mechanisms that learn from public data have full lines, the others dashed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.grid import PUBLIC_TABLE, SAMPLING_FLOOR, TITLES, TRUE_ONE_WAYS
from jam_dagster.benchmark.measures import Level, levels, main_runs, means, sweep
from jam_dagster.errors import InputError
from jam_dagster.evaluation import palette
from jam_dagster.evaluation.plot_style import chart_of, styled
from jam_dagster.mechanisms import MECHANISMS, mechanism_class

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation.plot_style import Chart

BEST_MIXTURE = "best_mixture"

# Okabe and Ito's hues first, for those that the papers compare; shapes tell the rest apart, too.
_LOOKS = {
    "jam_pgm": ("#0072b2", "circle"),
    "aim": ("#d55e00", "square"),
    "pmw_pub": ("#009e73", "triangle-up"),
    "gem_pub": ("#cc79a7", "diamond"),
    "gem": ("#8a5fbf", "diamond"),
    "mst": ("#b8860b", "triangle-down"),
    "independent": ("#6b7785", "cross"),
    "mwem_pgm": ("#56b4e9", "square"),
    "mwem": ("#a0522d", "square"),
    "pep": ("#7a8b1f", "triangle-up"),
    "pep_pub": ("#4f6d0a", "triangle-down"),
    "rap_softmax": ("#c0392b", "cross"),
    "gaussian": ("#3c4650", "circle"),
}
_SPARE = ("#1b9e9e", "#e07b39", "#5b4fa2", "#9c2f66", "#3f7f3f", "#927046")
_SHAPES = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross")
_LEVELS = {
    PUBLIC_TABLE: (palette.PUBLIC.light, [6, 4]),
    TRUE_ONE_WAYS: (palette.MUTED.light, [2, 3]),
    SAMPLING_FLOOR: (palette.INK.light, [1, 3]),
}

# Beside the panels there is little room.
_NAMES = {
    PUBLIC_TABLE: "public table",
    TRUE_ONE_WAYS: "true one-ways",
    SAMPLING_FLOOR: "sampling floor",
}

_WIDTH, _HEIGHT = 300, 210


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
    look = _Look.of(frame)
    made = [one(frame, look) for one in _FIGURES]
    return [one for one in made if one is not None]


@dataclass(frozen=True)
class _Look:
    """How each line is drawn, the same in all figures."""

    titles: tuple[str, ...]
    colours: tuple[str, ...]
    shapes: tuple[str, ...]
    dashed: tuple[bool, ...]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> _Look:
        runs = frame[frame["kind"] == "mechanism"]
        named = dict(zip(runs["label"], runs["mechanism"], strict=True))
        order = [*TITLES]
        titles = sorted(
            named, key=lambda t: (order.index(named[t]) if named[t] in order else 99, t)
        )
        colours, shapes, used = [], [], 0
        for title in titles:
            name = named[title]
            if TITLES.get(name) == title and name in _LOOKS:
                colour, shape = _LOOKS[name]
            else:
                colour, shape = _SPARE[used % len(_SPARE)], _SHAPES[used % len(_SHAPES)]
                used += 1
            colours.append(colour)
            shapes.append(shape)
        dashed = tuple(not _uses_public(named[title]) for title in titles)
        return cls(tuple(titles), tuple(colours), tuple(shapes), dashed)

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> _Look:
        """Return the looks of the lines that a figure shows, the same in all of its panels."""
        shown = {row["label"] for row in rows}
        places = [place for place, title in enumerate(self.titles) if title in shown]
        return _Look(
            tuple(self.titles[place] for place in places),
            tuple(self.colours[place] for place in places),
            tuple(self.shapes[place] for place in places),
            tuple(self.dashed[place] for place in places),
        )

    def encodings(self) -> tuple[Any, Any]:
        """Return colour and shape of the lines, with one legend."""
        import altair as alt

        # Filled symbols need no outline, which would be dashed where lines are.
        legend = alt.Legend(title=None, orient="top", columns=7, symbolStrokeWidth=0)
        domain = list(self.titles)
        colour = alt.Scale(domain=domain, range=list(self.colours))
        shape = alt.Scale(domain=domain, range=list(self.shapes))
        return (
            alt.Color("label:N", scale=colour, legend=legend),
            alt.Shape("label:N", scale=shape, legend=legend),
        )


def _uses_public(name: str) -> bool:
    """Whether a mechanism learns from a public table; one of another version is not known."""
    return name in MECHANISMS and mechanism_class(name)().uses_public


def _error_by_epsilon(frame: pd.DataFrame, look: _Look) -> Figure | None:
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


def _max_error_by_epsilon(frame: pd.DataFrame, look: _Look) -> Figure | None:
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


def _seconds_by_epsilon(frame: pd.DataFrame, look: _Look) -> Figure | None:
    return _by_epsilon(
        frame,
        look,
        name="seconds_by_epsilon",
        measure="seconds",
        title="seconds",
        caption="Wall-clock time of mechanism and sampling on one thread against epsilon (the AIM "
        "paper's runtime figure). Runs side by side share the machine.",
    )


def _public_picks(frame: pd.DataFrame, look: _Look) -> Figure | None:
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
    look: _Look,
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
    rows = [row for row in means(runs, ["label", "split", "epsilon"]) if _shown(row, measure, log)]
    if len({row["epsilon"] for row in rows}) < 2:
        return None
    look = look.of_rows(rows)
    beside = levels(frame) if level is not None else []
    panels = []
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        own = [row for row in rows if row["split"] == split]
        lines = (
            []
            if level is None
            else [
                {"error": level(one), "title": _NAMES[one.name], "name": one.name}
                for one in beside
                if one.split == split and one.name in _LEVELS and level(one) > 0
            ]
        )
        layers = [*_rules(lines), *_lines(own, look, "epsilon", measure, "epsilon", title, log=log)]
        panels.append(_panel(layers, split))
    return Figure(name, caption, _together(panels), tuple(rows))


def _error_by_rounds(frame: pd.DataFrame, look: _Look) -> Figure | None:
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


def _error_by_capacity(frame: pd.DataFrame, look: _Look) -> Figure | None:
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


def _seconds_by_capacity(frame: pd.DataFrame, look: _Look) -> Figure | None:
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
    look: _Look,
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
    rows = [row for row in rows if _shown(row, measure, log=True)]
    varied = _varied(rows, setting)
    rows = [row for row in rows if (row["split"], row["epsilon"]) in varied]
    if not rows:
        return None
    look = look.of_rows(rows)
    epsilons = sorted({row["epsilon"] for row in rows})
    panels = []
    for split in dict.fromkeys(str(row["split"]) for row in rows):
        for epsilon in epsilons:
            own = [row for row in rows if (row["split"], row["epsilon"]) == (split, epsilon)]
            if own:
                layers = _lines(own, look, setting, measure, axis, title, log=True)
                panels.append(_panel(layers, f"{split}, epsilon {epsilon:g}"))
    return Figure(name, caption, _together(panels, columns=len(epsilons)), tuple(rows))


def _varied(rows: Sequence[Mapping[str, Any]], setting: str) -> set[tuple[str, float]]:
    """Return the panels on which a setting takes more than one value."""
    held: dict[tuple[str, float], set[float]] = {}
    for row in rows:
        held.setdefault((row["split"], row["epsilon"]), set()).add(row[setting])
    return {place for place, values in held.items() if len(values) > 1}


def _error_beside_best_mixture(frame: pd.DataFrame, look: _Look) -> Figure | None:
    bounds = {one.split: one.error_max for one in levels(frame) if one.name == BEST_MIXTURE}
    runs = main_runs(frame)
    runs = runs[runs["split"].isin(bounds)]
    rows = means(runs, ["label", "split", "epsilon"])
    rows = [row for row in rows if _shown(row, "error_max", log=True)]
    if not rows or "PMW^Pub" not in set(runs["label"]):
        return None
    look = look.of_rows(rows)
    panels = []
    for split, bound in bounds.items():
        own = [row for row in rows if row["split"] == split]
        if own:
            layers = _lines(own, look, "epsilon", "error_max", "epsilon", "largest workload error")
            panels.append(_panel([*_shade(bound), *layers], split))
    return Figure(
        "best_mixture",
        "Error of the worst marginal against epsilon. Shaded: below the best mixture error, which "
        "no reweighting of the public table's rows can reach (the PMW^Pub paper's figure).",
        _together(panels),
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


def _lines(
    rows: Sequence[Mapping[str, Any]],
    look: _Look,
    x: str,
    y: str,
    x_title: str,
    y_title: str,
    *,
    log: bool = True,
) -> list[Any]:
    """Return lines, bars of one standard error, and points."""
    import altair as alt

    shown = [{**row, "low": _low(row, y, log), "high": row[f"{y}_high"]} for row in rows]
    values = sorted({row[x] for row in shown})
    kind = alt.Scale(type="log", nice=False) if log else alt.Scale(domain=[0, 1])
    base = chart_of(shown).encode(
        x=alt.X(
            f"{x}:Q",
            title=x_title,
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(values=values, format="~g", grid=False, labelOverlap=True),
        ),
        y=alt.Y(
            f"{y}:Q",
            title=y_title,
            scale=kind,
            axis=alt.Axis(format="~g", tickCount=6, labelOverlap=True),
        ),
        tooltip=[
            alt.Tooltip("label:N", title="mechanism"),
            alt.Tooltip(f"{x}:Q"),
            alt.Tooltip(f"{y}:Q", format=".4g"),
            alt.Tooltip(f"{y}_se:Q", format=".2g", title="standard error"),
            alt.Tooltip("runs:Q"),
        ],
    )
    colour, shape = look.encodings()
    bars = base.mark_rule(size=1.2).encode(y="low:Q", y2="high:Q", color=colour)
    points = base.mark_point(filled=True, size=52, opacity=1).encode(color=colour, shape=shape)
    lines = []
    for dashed, dash in ((False, [1, 0]), (True, [5, 3])):
        titles = {t for t, d in zip(look.titles, look.dashed, strict=True) if d == dashed}
        titles &= {str(row["label"]) for row in rows}
        if titles:
            one = base.transform_filter(alt.FieldOneOfPredicate("label", sorted(titles)))
            lines.append(one.mark_line(size=1.6, strokeDash=dash).encode(color=colour))
    return [bars, *lines, points]


def _shown(row: Mapping[str, Any], measure: str, log: bool) -> bool:
    """Whether a value is known, and has a place on a logarithmic axis."""
    value = row[measure]
    return value is not None and (value > 0 or not log)


def _low(row: Mapping[str, Any], measure: str, log: bool) -> float:
    """Return the lower end of a bar, which a logarithmic axis keeps above nothing."""
    low = float(row[f"{measure}_low"])
    return max(low, float(row[measure]) / 10) if log else max(low, 0.0)


def _rules(lines: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return baselines with their names, at the right of the panel."""
    import altair as alt

    made: list[Any] = []
    for line in lines:
        colour, dash = _LEVELS[str(line["name"])]
        base = chart_of([dict(line)]).encode(y="error:Q")
        made.append(base.mark_rule(color=colour, strokeDash=dash, size=1.4))
        made.append(
            base.mark_text(align="left", dx=4, fontSize=10, color=colour).encode(
                x=alt.value(_WIDTH), text="title:N"
            )
        )
    return made


def _shade(bound: float) -> list[Any]:
    import altair as alt

    base = chart_of([{"bound": bound}]).encode(y="bound:Q")
    area = base.mark_rect(color=palette.MUTED.light, opacity=0.18).encode(y2=alt.value(_HEIGHT))
    name = base.mark_text(
        align="left", baseline="top", dx=4, dy=4, fontSize=10, color=palette.INK.light
    ).encode(x=alt.value(0), text=alt.value(f"best mixture error {bound:.3g}"))
    return [area, name]


def _panel(layers: Sequence[Any], title: str) -> Any:
    import altair as alt

    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=title)


def _together(panels: Sequence[Any], columns: int = 2) -> Chart:
    import altair as alt

    if len(panels) == 1:
        return styled(panels[0])
    made = alt.concat(*panels, columns=min(columns, len(panels)), spacing=28)
    return styled(made.resolve_scale(color="shared", shape="shared"))
