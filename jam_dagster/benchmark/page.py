"""The summary of a benchmark: figures as files, one page, and the numbers in Markdown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.experiments import named
from jam_dagster.benchmark.figures import Figure, figures
from jam_dagster.benchmark.measures import has_search, levels, main_runs, means, searched
from jam_dagster.benchmark.results import NOTICE, REASON
from jam_dagster.benchmark.runs import BASELINES
from jam_dagster.common.files import OWNER_ONLY, write_whole

if TYPE_CHECKING:
    import pandas as pd

PAGE = "benchmark.html"
TEXT = "benchmark.md"


@dataclass(frozen=True)
class Table:
    """The errors on one split, whose name and size it states."""

    split: str
    epsilons: tuple[float, ...]
    lines: tuple[tuple[str, tuple[str, ...], str, str], ...]
    """Of each mechanism: name and settings, errors, seconds, and the largest memory of a run."""
    baselines: tuple[tuple[str, str], ...]


def write_figures(frame: pd.DataFrame, out: Path, *, search: bool | None = None) -> list[Path]:
    """Draw all figures of some rows, with a summary.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.benchmark.read_frame`.
    out
        The folder: each figure as .svg and .png, `benchmark.html`, which needs no network, and
        `benchmark.md`.
    search
        Whether errors are those after the search for rows, as a release has them, or those of rows
        that were sampled alone. None: after the search, where every table was searched.

    Returns
    -------
    list of Path
        The written files, the page first.

    Raises
    ------
    InputError
        If there are no runs to draw, or not every table was searched that is to be.
    """
    from jam_dagster.reports.plot_style import png, svg

    search = has_search(frame) if search is None else search
    frame = searched(frame) if search else frame
    rows = "sampled, then searched" if search else "sampled alone"
    drawn = figures(frame)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for one in drawn:
        # Lines and texts are dark, and the file may be shown on a dark page.
        pictures = ((".svg", svg(one.chart, background="white").encode()), (".png", png(one.chart)))
        for suffix, content in pictures:
            written.append(out / f"{one.name}{suffix}")
            write_whole(written[-1], content, mode=OWNER_ONLY)
    tables = summarize(frame)
    write_whole(out / PAGE, render(frame, drawn, tables, rows).encode(), mode=OWNER_ONLY)
    write_whole(out / TEXT, markdown(frame, drawn, tables, rows).encode(), mode=OWNER_ONLY)
    return [out / PAGE, out / TEXT, *written]


def summarize(frame: pd.DataFrame) -> list[Table]:
    """Return a table of errors for each split."""
    runs = main_runs(frame)
    baselines = {title: levels(frame, name) for name, title in BASELINES.items()}
    made = []
    for panel, own in runs.groupby("split", sort=False):
        split = str(panel)
        epsilons = tuple(sorted(own["epsilon"].unique()))
        lines = []
        for _, group in own.groupby("label", sort=False):
            by_epsilon = {row["epsilon"]: row for row in means(group, ["split", "epsilon"])}
            given = json.loads(group["settings"].iloc[0])
            settings = ", ".join(f"{name} {value}" for name, value in given.items())
            one = group.iloc[0]
            lines.append(
                (
                    named(one["title"], one["shown"], settings),
                    tuple(_cell(by_epsilon.get(epsilon)) for epsilon in epsilons),
                    f"{group['seconds'].astype(float).mean():.1f}",
                    f"{group['peak_memory_mb'].astype(float).max():,.0f}",
                )
            )
        first = own.iloc[0]
        public = first["public_records"]
        size = f"{first['records']:,} private"
        if public == public:
            size += f" and {int(public):,} public"
        what = f"{split}: {size} records, {first['attributes']} attributes"
        own_levels = tuple(
            (title, f"{errors[split]:.4f}")
            for title, errors in baselines.items()
            if split in errors
        )
        made.append(Table(what, epsilons, tuple(lines), own_levels))
    return made


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    error = row["error_mean_se"]
    return f"{row['error_mean']:.4f}" + (
        f" ± {error:.4f} ({row['runs']})" if error is not None else f" ({row['runs']})"
    )


def provenance(frame: pd.DataFrame, rows: str) -> dict[str, str]:
    """Return the versions, machines, dates and measurement of the runs, and how rows were made."""
    dates = sorted(str(one)[:10] for one in frame["date"])
    failed = int((frame["status"] == "failed").sum())
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    return {
        "Runs": f"{len(frame)}, {failed} of which failed; {days}",
        "Workload": ", ".join(f"all {one}-way marginals" for one in sorted(set(frame["degree"]))),
        "Rows": rows,
        "Delta": ", ".join(f"{one:g}" for one in sorted(set(frame["delta"]))),
        "Version": "jam_dagster " + ", ".join(sorted(set(frame["version"]))),
        "Machine": "; ".join(sorted(set(frame["machine"]))),
        "Noise": "seeded, for research: nothing was charged to a ledger",
    }


def failures(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """Return every failed run, with its cause."""
    import pandas as pd

    made = []
    for row in frame[frame["status"] == "failed"].to_dict("records"):
        parts = [str(row["split"]), f"{row['label']} {row['settings']}"]
        # Baselines have no epsilon, and mostly no seed.
        given = {name: row[name] for name in ("epsilon", "seed") if pd.notna(row[name])}
        parts += [f"{name} {value:g}" for name, value in given.items()]
        made.append((", ".join(parts), str(row["message"])))
    return made


def markdown(
    frame: pd.DataFrame, drawn: Sequence[Figure], tables: Sequence[Table], rows: str
) -> str:
    """Return the summary as Markdown, with the figures beside it."""
    lines = ["# Benchmark", "", NOTICE, ""]
    lines += [f"- {name}: {text}" for name, text in provenance(frame, rows).items()]
    for one in drawn:
        lines += ["", f"![{one.name.replace('_', ' ')}]({one.name}.svg)", "", one.caption]
    for table in tables:
        head = ["mechanism", *(f"epsilon {one:g}" for one in table.epsilons), "seconds", "MB"]
        lines += ["", f"## {table.split}", "", _row(head), _row(["---"] * len(head))]
        lines += [_row([name, *errors, s, mb]) for name, errors, s, mb in table.lines]
        lines += ["", "; ".join(f"{name}: {error}" for name, error in table.baselines)]
    if failed := failures(frame):
        lines += ["", "## Runs that failed", "", *(f"- {run}: {why}" for run, why in failed)]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def render(frame: pd.DataFrame, drawn: Sequence[Figure], tables: Sequence[Table], rows: str) -> str:
    """Return the summary as one HTML page that needs no network."""
    from jam_dagster.common.html_pages import environment
    from jam_dagster.reports.live_charts import live_chart, page_script

    return (
        environment("jam_dagster.benchmark")
        .get_template("benchmark.html")
        .render(
            notice=REASON,
            provenance=provenance(frame, rows),
            figures=[(one, live_chart(one.chart, one.caption)) for one in drawn],
            tables=tables,
            failures=failures(frame),
            script=page_script(),
        )
    )
