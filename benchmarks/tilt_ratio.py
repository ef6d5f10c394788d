"""`python -m benchmarks.tilt_ratio ROWS... OUT.svg`: TILT's error, divided by the least of others.

ROWS are files of `jam-dagster benchmark run`; rows are searched. Others are all mechanisms in them,
and the public table alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt
import pandas as pd

from jam_dagster.mechanisms.registry import title_of
from jam_dagster.reports.plot_style import svg

PUBLIC = "public_table"


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Return TILT's mean error, that of the best other and its name, by split and epsilon."""
    public = rows[rows.mechanism == PUBLIC].set_index("split").error_mean.to_dict()
    errors = rows[rows.kind != "baseline"].pivot_table(
        index=["split", "epsilon"], columns="mechanism", values="searched_error_mean"
    )
    errors[PUBLIC] = errors.index.get_level_values("split").map(public)
    others = errors.drop(columns="tilt")
    found = pd.DataFrame({"tilt": errors.tilt, "least": others.min(axis=1)})
    found["other"] = [title_of(str(name)) for name in others.idxmin(axis=1)]
    found["ratio"] = found.tilt / found.least
    return found.reset_index()


def chart(found: pd.DataFrame) -> alt.FacetChart:
    """Return a panel a split: the ratio against epsilon, with a line at 1."""
    base = alt.Chart(found).encode(
        x=alt.X("epsilon:Q", title="ε")
        .scale(type="log", domain=[0.06, 17], nice=False)
        .axis(values=[0.1, 1, 10], format="~g")
    )
    line = base.mark_line(point=True).encode(
        y=alt.Y("ratio:Q", title="TILT / best other").scale(zero=False)
    )
    one = base.mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(1.0), x=alt.X())
    text = base.mark_text(dy=-10, fontSize=10).encode(y="ratio:Q", text="other:N")
    return (
        alt.layer(one, line, text, data=found)
        .properties(width=170, height=130)
        .facet(facet=alt.Facet("split:N", title=None), columns=4)
    )


def main() -> None:
    """Print the table, and draw it."""
    *files, out = map(Path, sys.argv[1:])
    if not files:
        sys.exit("usage: python -m benchmarks.tilt_ratio ROWS... OUT.svg")
    found = ratios(pd.concat([pd.read_parquet(file) for file in files]))
    print(found.round(4).to_string(index=False))
    out.write_text(svg(chart(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
