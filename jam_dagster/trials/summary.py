"""The summary of a benchmark: figures as files, and the numbers in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.trials.figures import Figure, figures
from jam_dagster.trials.measures import (
    USES,
    estimate_in_words,
    has_search,
    levels,
    main_runs,
    means,
    named,
    ratios,
    searched,
    workload_in_words,
)
from jam_dagster.trials.results import NOTICE
from jam_dagster.trials.runs import BASELINES, PRIOR_ROWS, PUBLIC_TABLE, SAMPLING_FLOOR
from jam_dagster.trials.tables import Table

if TYPE_CHECKING:
    import pandas as pd

TEXT = "benchmark.md"


def write_figures(frame: pd.DataFrame, out: Path, *, search: bool | None = None) -> list[Path]:
    """Draw all figures of some rows, with a summary.

    Parameters
    ----------
    frame
        Rows of `jam_dagster.trials.read_frame`.
    out
        The folder: `benchmark.md`, and each figure as .svg and .png.
    search
        Whether errors are those after the search for rows, as a release has them, or those of rows
        that were sampled alone. None: after the search, if every table was searched.

    Returns
    -------
    list of Path
        The written files, the summary first.

    Raises
    ------
    InputError
        If there are no runs to draw, or not every table was searched that is to be.
    """
    from jam_dagster.reports.plot_style import png, svg

    search = has_search(frame) if search is None else search
    frame = searched(frame) if search else frame
    drawn = figures(frame)
    out.mkdir(parents=True, exist_ok=True)
    written = {TEXT: markdown(frame, drawn, search=search).encode()}
    for one in drawn:
        # Lines and texts are dark, and the file may be shown on a dark page.
        written[f"{one.name}.svg"] = svg(one.chart, background="white").encode()
        written[f"{one.name}.png"] = png(one.chart)
    for name, content in written.items():
        write_whole(out / name, content, mode=OWNER_ONLY)
    return [out / name for name in written]


def markdown(frame: pd.DataFrame, drawn: Sequence[Figure], *, search: bool) -> str:
    """Return the summary: provenance, figures, a table of errors a split, and failed runs."""
    lines = ["# Benchmark", "", NOTICE, "", *_provenance(frame, search=search)]
    for one in drawn:
        lines += ["", f"![{one.name.replace('_', ' ')}]({one.name}.svg)", "", one.caption]
    baselines = {title: levels(frame, name) for name, title in BASELINES.items()}
    runs = main_runs(frame)
    pooled = ratios(runs)
    if not pooled.empty:
        lines += ["", "## Ratio to AIM", "", *_ratio_table(pooled)]
    for panel, own in runs.groupby("split", sort=False):
        split = str(panel)
        known = (f"{name}: {of[split]:.4f}" for name, of in baselines.items() if split in of)
        lines += ["", *_errors(split, own), "", "; ".join(known)]
        lines += _uses(frame, split, own)
    if failed := failures(frame):
        lines += ["", "## Runs that failed", "", *(f"- {run}: {why}" for run, why in failed)]
    return "\n".join(lines).rstrip() + "\n"


def _provenance(frame: pd.DataFrame, *, search: bool) -> Iterator[str]:
    """List the versions, machines, dates and measurement of the runs, and how rows were made."""
    days = {str(one)[:10] for one in frame["date"]}
    failed = int((frame["status"] == "failed").sum())
    when = " to ".join(sorted({min(days), max(days)}))
    yield f"- Runs: {len(frame)}, {failed} of which failed; {when}"
    asked = frame["workload"].map(workload_in_words)
    pairs = sorted(set(zip(frame["degree"], asked, strict=True)))
    yield "- Workload: " + ", ".join(f"{words} of {degree} attributes" for degree, words in pairs)
    yield f"- Rows: {'sampled, then searched' if search else 'sampled alone'}"
    yield "- Delta: " + ", ".join(f"{one:g}" for one in sorted(set(frame["delta"])))
    yield "- Version: jam_dagster " + ", ".join(sorted(set(frame["version"])))
    yield "- Machine: " + "; ".join(sorted(set(frame["machine"])))
    yield "- Noise: seeded, for research: nothing was charged to a ledger"


def _ratio_table(pooled: pd.DataFrame) -> Iterator[str]:
    yield "Mean error over AIM's: the geometric mean over splits, and over splits and budgets."
    yield ""
    epsilons = [f"epsilon {one:g}" for one in pooled.columns[:-2]]
    lines = [
        [name, *("" if one != one else f"{one:.2f}" for one in mean), f"{of:.0f}"]
        for name, *mean, of in pooled.itertuples()
    ]
    yield from Table("", ["mechanism", *epsilons, "all", "splits and budgets"], lines).markdown()


def _errors(split: str, own: pd.DataFrame) -> Iterator[str]:
    """List the table of a split: the mean error of each mechanism at each epsilon, and its cost."""
    first = own.iloc[0]
    public = first["public_records"]
    size = f"{first['records']:,} private"
    if public == public:
        size += f" and {int(public):,} public"
    yield f"## {split}: {size} records, {first['attributes']} attributes"
    yield ""
    epsilons = sorted(own["epsilon"].unique())
    head = ["mechanism", *(f"epsilon {one:g}" for one in epsilons)]
    lines = [_line(group, epsilons) for _, group in own.groupby("label", sort=False)]
    yield from Table("", [*head, "seconds", "seconds a round", "MB"], lines).markdown()


def _uses(frame: pd.DataFrame, split: str, own: pd.DataFrame) -> list[str]:
    """List next to the mean error what a user gets of the rows; nothing if it was not measured."""
    head = ("error_mean", *USES)
    if own[list(USES)].isna().all(axis=None):
        return []
    compared = (PUBLIC_TABLE, PRIOR_ROWS, SAMPLING_FLOOR)
    baselines = {name: levels(frame, name, "error_mean") for name in compared}
    lines = [
        [BASELINES[name], "", *(_number(levels(frame, name, one).get(split)) for one in head)]
        for name, known in baselines.items()
        if split in known
    ]
    for label, group in own.groupby("label", sort=False):
        for row in means(group, ["split", "epsilon"], head):
            values = [_number(row[one]) for one in head]
            lines.append([str(label), f"{row['epsilon']:g}", *values])
    tested = ", ".join(sorted(set(own["tested_on"].dropna())))
    area = f"AUC on {tested}" if tested else "AUC"
    columns = ["table", "epsilon", "mean error", area, "pairs at 8 groups", "rank correlations"]
    return ["", *Table("", columns, lines).markdown()]


def _number(value: float | None) -> str:
    return "" if value is None or value != value else f"{value:.4f}"


def _line(group: pd.DataFrame, epsilons: Sequence[float]) -> list[str]:
    by_epsilon = {row["epsilon"]: row for row in means(group, ["split", "epsilon"])}
    given = json.loads(group["settings"].iloc[0])
    settings = ", ".join(f"{name} {value}" for name, value in given.items())
    first = group.iloc[0]
    a_round = group["round_seconds"].mean()
    return [
        named(first["title"], first["shown"], settings),
        *(_cell(by_epsilon.get(epsilon)) for epsilon in epsilons),
        f"{group['seconds'].astype(float).mean():.1f}",
        "" if a_round != a_round else f"{a_round:.2f}",
        f"{group['peak_memory_mb'].astype(float).max():,.0f}",
    ]


def _cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{estimate_in_words(row, 'error_mean')} ({row['runs']})"


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
