"""How the figures of a benchmark look: lines, bars, baselines and panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.runs import PUBLIC_TABLE, SAMPLING_FLOOR, TRUE_ONE_WAYS
from jam_dagster.evaluation import palette
from jam_dagster.evaluation.plot_style import chart_of, styled
from jam_dagster.mechanisms import MECHANISMS, mechanism_class
from jam_dagster.mechanisms.titles import TITLES

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation.plot_style import Chart

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
class Look:
    """How each line is drawn, the same in all figures.

    Parameters
    ----------
    titles, colours, shapes, dashed
        Of each line; dashed are those of mechanisms that learn from no public data.
    """

    titles: tuple[str, ...]
    colours: tuple[str, ...]
    shapes: tuple[str, ...]
    dashed: tuple[bool, ...]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Look:
        """Return the looks of all mechanisms that have runs."""
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

    def of_rows(self, rows: Sequence[Mapping[str, Any]]) -> Look:
        """Return the looks of the lines that a figure shows, the same in all of its panels."""
        shown = {row["label"] for row in rows}
        places = [place for place, title in enumerate(self.titles) if title in shown]
        return Look(
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


def lines_of(
    rows: Sequence[Mapping[str, Any]],
    look: Look,
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


def is_shown(row: Mapping[str, Any], measure: str, log: bool) -> bool:
    """Whether a value is known, and has a place on a logarithmic axis."""
    value = row[measure]
    return value is not None and (value > 0 or not log)


def _low(row: Mapping[str, Any], measure: str, log: bool) -> float:
    """Return the lower end of a bar, which a logarithmic axis keeps above nothing."""
    low = float(row[f"{measure}_low"])
    return max(low, float(row[measure]) / 10) if log else max(low, 0.0)


def level_rules(levels: Mapping[str, float]) -> list[Any]:
    """Return baselines as lines across a panel, with their names at its right.

    Parameters
    ----------
    levels
        Errors by the baselines' names; those that have no look, or are 0, are left out.
    """
    import altair as alt

    made: list[Any] = []
    for name, (colour, dash) in _LEVELS.items():
        if levels.get(name, 0.0) > 0:
            base = chart_of([{"error": levels[name]}]).encode(y="error:Q")
            text = base.mark_text(align="left", dx=4, fontSize=10, color=colour)
            made.append(base.mark_rule(color=colour, strokeDash=dash, size=1.4))
            made.append(text.encode(x=alt.value(_WIDTH), text=alt.value(_NAMES[name])))
    return made


def shade_below(bound: float) -> list[Any]:
    """Return what lies below the best mixture error, shaded, and its name."""
    import altair as alt

    base = chart_of([{"bound": bound}]).encode(y="bound:Q")
    area = base.mark_rect(color=palette.MUTED.light, opacity=0.18).encode(y2=alt.value(_HEIGHT))
    name = base.mark_text(
        align="left", baseline="top", dx=4, dy=4, fontSize=10, color=palette.INK.light
    ).encode(x=alt.value(0), text=alt.value(f"best mixture error {bound:.3g}"))
    return [area, name]


def panel(layers: Sequence[Any], title: str) -> Any:
    """Return one panel of its layers."""
    import altair as alt

    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=title)


def together(panels: Sequence[Any], columns: int = 2) -> Chart:
    """Return panels side by side, with one legend."""
    import altair as alt

    if len(panels) == 1:
        return styled(panels[0])
    made = alt.concat(*panels, columns=min(columns, len(panels)), spacing=28)
    return styled(made.resolve_scale(color="shared", shape="shared"))
