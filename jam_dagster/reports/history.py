"""The use of the budget by the releases of earlier partitions and of this one.

All of it comes from transcripts, which are paid for. A partition measures on the private table
where its public table no longer describes the population.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.common import palette
from jam_dagster.errors import PrivacyLabelError
from jam_dagster.evaluation.verdict import verdict_of
from jam_dagster.reports.budget_over_rounds import LOST_DRAWS, NUMBER_OF_ROWS, Spending, shown_uses
from jam_dagster.reports.live_charts import live_chart
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.reports.plot_style import ErrorAxis, chart_of, coloured, stacked_uses, styled
from jam_dagster.reports.plots import SOURCES, marginals_by_source
from jam_dagster.reports.report_figures import ReportFigure

if TYPE_CHECKING:
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.reports.plot_style import Chart

_TABLES = {"synthetic table": palette.SYNTHETIC, "public table": palette.PUBLIC}

_USES = {
    "measured privately": palette.MEASUREMENT,
    "selecting": palette.SELECTION,
    NUMBER_OF_ROWS: palette.MUTED,
    LOST_DRAWS: palette.LOST,
    "not spent": palette.GRID,
}


@dataclass(frozen=True)
class PartitionRelease:
    """The public facts of one partition's release."""

    partition: str
    edition: str
    transcript: Transcript
    errors: WorkloadErrors | None = None

    @property
    def measured(self) -> float:
        """Share of the mechanism's rho that measured marginals on the private table."""
        return self._share(Spending.of(self.transcript).measuring)

    @property
    def uses(self) -> dict[str, float]:
        """The mechanism's rho by purpose, in shares that add up to one."""
        spent = Spending.of(self.transcript)
        shares = [
            self._share(rho)
            for rho in (spent.measuring, spent.selecting, spent.counting, spent.lost)
        ]
        return dict(zip(_USES, [*shares, max(0.0, 1 - math.fsum(shares))], strict=True))

    def _share(self, rho: float) -> float:
        return rho / self.transcript.rho_budget if self.transcript.rho_budget > 0 else 0.0

    @property
    def outcome(self) -> str:
        """The verdict against the public table in a word; empty without released errors of both."""
        if self.errors is None or self.errors.public is None:
            return ""
        verdict = verdict_of(self.errors)
        return "unknown" if verdict.hidden else verdict.outcome

    @property
    def private_marginals(self) -> tuple[str, ...]:
        """The marginals that were measured on the private table, in the order of the rounds."""
        names = (
            " x ".join(one.clique)
            for one in self.transcript.measurements
            if one.source == "private"
        )
        return tuple(dict.fromkeys(names))


def history_figures(history: Sequence[PartitionRelease]) -> dict[str, ReportFigure]:
    """Draw the partitions' errors (``errors``, where they were released), budgets and marginals."""
    if len(history) < 2:
        return {}
    if len({one.transcript.releasable for one in history}) > 1:
        raise PrivacyLabelError(
            "a history contains a release with seeded noise among others: leave it out."
        )
    last = history[-1]
    taken = " and which they took from public data" if _choose_source(history) else ""
    recent = "; ".join(f"{one.partition} {one.measured:.0%}" for one in history[-6:])
    figures = {}
    if any(one.errors is not None and one.errors.synthetic is not None for one in history):
        told = "; ".join(f"{one.partition} {one.outcome}" for one in history[-6:] if one.outcome)
        figures["errors"] = ReportFigure(
            "Error over partitions",
            live_chart(
                errors_over_partitions(history),
                "Dot plot: mean error of the synthetic"
                + (" and of the public table" if told else " table")
                + ", with 95% intervals of noise."
                + (f" Against the public table: {told}." if told else "")
                + _error_axis(_error_rows(history)).alternative,
            ),
        )
    return figures | {
        "budget": ReportFigure(
            "Budget over partitions",
            live_chart(
                budget_over_partitions(history),
                f"Bar chart: share of the budget measured on the private table, {recent}.",
            ),
        ),
        "marginals": ReportFigure(
            "Marginals over partitions",
            live_chart(
                marginals_over_partitions(history),
                f"Dot plot: which marginals {len(history)} partitions measured privately{taken};"
                f" {last.partition} measured"
                f" {len(last.private_marginals)} privately. The table names them.",
            ),
        ),
    }


def errors_over_partitions(history: Sequence[PartitionRelease]) -> Chart:
    """Plot the released mean errors of both tables by partition, with intervals of their noise."""
    import altair as alt

    rows = _error_rows(history)
    axis = _error_axis(rows)
    shown = [table for table in _TABLES if any(row["table"] == table for row in rows)]
    base = chart_of(rows).encode(
        x=_partition_axis(history),
        # Side by side: their intervals would hide one another.
        xOffset=alt.XOffset("table:N", sort=shown),
        color=coloured("table:N", {table: _TABLES[table] for table in shown}),
        tooltip=[
            "partition:O",
            "table:N",
            *(alt.Tooltip(f"{one}:Q", format=".3f") for one in ("error", "low", "high")),
        ],
    )
    scale = alt.Scale(domain=[0, axis.top], nice=False)
    y = alt.Y("low:Q", title=axis.title("mean error"), scale=scale)
    intervals = base.mark_rule(strokeWidth=2, clip=True).encode(y=y, y2="high:Q")
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        y="error:Q",
        shape=alt.Shape("table:N", scale=alt.Scale(domain=shown, range=["circle", "diamond"])),
    )
    return styled((intervals + points).properties(width=430, height=200))


def _error_rows(history: Sequence[PartitionRelease]) -> list[dict[str, Any]]:
    """Return a row for each released error, with the ends of its interval."""
    rows: list[dict[str, Any]] = []
    for one in history:
        if one.errors is None:
            continue
        for table, error in zip(_TABLES, (one.errors.synthetic, one.errors.public), strict=True):
            if error is not None:
                half = one.errors.margin
                # Noise may take an error below 0, where none is.
                ends = {"low": max(0.0, error.mean - half), "high": max(0.0, error.mean + half)}
                mean = max(0.0, error.mean)
                rows.append({"partition": one.partition, "table": table, "error": mean, **ends})
    return rows


def _error_axis(rows: Sequence[dict[str, Any]]) -> ErrorAxis:
    return ErrorAxis.of(
        {f"{row['table']}, {row['partition']},": (row["error"], row["high"]) for row in rows}
    )


def budget_over_partitions(history: Sequence[PartitionRelease]) -> Chart:
    """Plot the shares of each partition's budget: measuring, selecting, lost, and not spent."""
    import altair as alt

    rows = [
        {"partition": one.partition, "use": use, "share": share}
        for one in history
        for use, share in one.uses.items()
    ]
    chart = stacked_uses(
        rows,
        _partition_axis(history),
        alt.Y(
            "share:Q",
            title="share of the mechanism's budget",
            axis=alt.Axis(format=".0%", tickCount=5),
            scale=alt.Scale(domain=[0, 1]),
        ),
        shown_uses(_USES, rows, "share"),
        *("partition:O", "use:N", alt.Tooltip("share:Q", format=".1%")),
    )
    return styled(chart.properties(width=430, height=200))


def _choose_source(history: Sequence[PartitionRelease]) -> bool:
    return any(chooses_source(one.transcript.mechanism) for one in history)


def marginals_over_partitions(history: Sequence[PartitionRelease]) -> Chart:
    """Plot the measured marginals of each partition, with their sources."""
    rows = [
        {"partition": one.partition, "marginal": " x ".join(round_.clique), "source": title}
        for source, (title, _, _) in SOURCES.items()
        for one in history
        for round_ in one.transcript.measurements
        if round_.source == source
    ]
    # Marginals with the most private measurements come first.
    private = SOURCES["private"][0]
    counts: dict[str, list[int]] = {}
    for row in rows:
        count = counts.setdefault(row["marginal"], [0, 0])
        count[row["source"] != private] -= 1
    marginals = sorted(counts, key=lambda name: (counts[name], name))
    sources = [SOURCES["private"], *([SOURCES["public"]] if _choose_source(history) else [])]
    return marginals_by_source(rows, _partition_axis(history), "partition:O", marginals, sources)


def _partition_axis(history: Sequence[PartitionRelease]) -> Any:
    import altair as alt

    return alt.X(
        "partition:O",
        title=None,
        sort=[one.partition for one in history],
        axis=alt.Axis(labelAngle=-40 if len(history) > 4 else 0, grid=False),
    )
