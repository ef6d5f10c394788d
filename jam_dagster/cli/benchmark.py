"""`jam-dagster benchmark`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jam_dagster.cli.console import echo, group, print_json, stderr
from jam_dagster.cli.options import AsJson
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from jam_dagster.trials import Grid
    from jam_dagster.trials.pool import Outcome
    from jam_dagster.trials.running import Planned


app = group("The papers' comparisons: mechanisms on splits at every epsilon, and their figures.")

WHAT, HOW = "The runs of the grid", "How"

DATA = typer.Option(
    metavar="DIR",
    rich_help_panel=WHAT,
    envvar="JAM_DATA",
    help="The folder of published tables: SPLIT/ or paper/SPLIT/ with domain.json, priv.csv and "
    "pub.csv, and whole/SPLIT/ with table.csv where all rows are private. A preset leaves out "
    "tables that are not there.",
)


@app.command()
def run(
    grid: Annotated[
        str,
        typer.Argument(
            metavar="GRID",
            help="`smoke` (every mechanism on a small simulated table, minutes), `quick` (the main "
            "comparison, an evening), `aim_paper`, `jam_paper`, `pmw_pub_paper` or `gem_paper` "
            "(the figures of a paper, hours to days), or a YAML file.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            rich_help_panel=HOW,
            help="The Parquet file of rows. Runs that it holds are not repeated.",
        ),
    ] = Path("benchmark.parquet"),
    data: Annotated[Path | None, DATA] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=WHAT, help="Only these splits; again for each."),
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=WHAT, help="Only these mechanisms; again for each."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(rich_help_panel=WHAT, help="These epsilons instead; again for each."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(rich_help_panel=WHAT, help="Only so many seeds.", show_default="all"),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=HOW,
            help="Runs at a time, a process of one thread each.",
            show_default="as many as there are cores",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            rich_help_panel=HOW,
            help="End a run that takes longer; it is kept as one that failed.",
        ),
    ] = None,
    retry: Annotated[
        bool,
        typer.Option("--retry", rich_help_panel=HOW, help="Make runs that failed once more."),
    ] = False,
    only_list: Annotated[
        bool,
        typer.Option(
            "--list", rich_help_panel=HOW, help="Print the runs and an estimate, and run nothing."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    r"""Run a grid, and keep every run in one file.

    ```
    jam-dagster benchmark run smoke --out smoke.parquet
    jam-dagster benchmark run quick --data data --out quick.parquet --list
    jam-dagster benchmark figures quick.parquet --out figures
    ```

    Noise is seeded, and errors are measured exactly: the file is restricted, and nothing of it
    may leave, unless the tables are published ones. Nothing is charged. A run that is interrupted
    leaves nothing; the same command continues where it stopped. If a run of the grid failed, all
    others are made, and the status is 1.
    """
    from jam_dagster.common.worker_processes import cores
    from jam_dagster.trials import load_grid, plan, run_grid
    from jam_dagster.trials.results import NOTICE, read_rows

    console = stderr()
    chosen = load_grid(grid)
    chosen = chosen.narrowed(
        splits=split or (), mechanisms=mechanism or (), epsilons=epsilon or (), seeds=seeds
    )
    # A split that the caller names is never left out.
    chosen = chosen.at_hand(data, requested=bool(split))
    for name, reason in chosen.missing.items():
        console.print(f"{name} is left out: {reason}", soft_wrap=True)
    if out.suffix != ".parquet":
        raise InputError(f"--out {out} must end in .parquet.")
    at_once = cores() if jobs is None else jobs
    if only_list:
        planned, _ = plan(chosen, read_rows(out), data, again=retry, limit_s=limit)
        _print_plan(chosen, planned, at_once, as_json=as_json)
        return
    try:
        rows = run_grid(
            *(chosen, out),
            data=data,
            jobs=at_once,
            limit_s=limit,
            again=retry,
            on_plan=_show_done,
            on_outcome=_show,
        )
    except KeyboardInterrupt:
        console.print(
            f"Stopped: {out} holds the runs that had ended, and the same command makes the rest.",
            soft_wrap=True,
        )
        raise
    failed = [row for row in rows if row["status"] == "failed"]
    if as_json:
        print_json({"file": str(out), "runs": len(rows), "failed": len(failed)})
    else:
        echo(f"{out}: {len(rows)} runs, {len(failed)} of them failed")
    for row in failed:
        console.print(
            f"failed: {row['split']}, {row['label']}, seed {row['seed']}: {row['message']}",
            soft_wrap=True,
        )
    if failed:
        console.print("--retry makes them once more.")
    console.print(NOTICE, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _print_plan(grid: Grid, planned: Sequence[Planned], jobs: int, *, as_json: bool) -> None:
    from jam_dagster.common.shown_text import clock

    if grid.description:
        stderr().print(grid.description, soft_wrap=True)
    todo = [one for one in planned if one.status is None]
    _show_outdated(planned)
    seconds = sum(one.seconds for one in todo)
    if as_json:
        listed = [
            {"run": str(one.run), "status": one.status, "seconds": one.seconds, "known": one.known}
            for one in planned
        ]
        print_json({"runs": listed, "to_be_made": len(todo), "seconds": seconds / jobs})
        return
    for one in planned:
        state = one.status or f"about {clock(one.seconds)}" + ("" if one.known else " (a guess)")
        echo(f"{one.run}: {state}")
    guessed = sum(not one.known for one in todo)
    note = f", {guessed} of which nothing is known" if guessed else ""
    typer.echo(
        f"{len(planned)} runs, {len(todo)} to be made{note}: about {clock(seconds / jobs)} with "
        f"{jobs} at a time"
    )


def _show_outdated(planned: Sequence[Planned]) -> None:
    """Say how many runs are repeated because another version of the package made their rows."""
    from jam_dagster.version import __version__

    versions = [one.made_by for one in planned if one.made_by]
    if versions:
        stderr().print(
            f"{len(versions)} runs are to be repeated: version "
            f"{', '.join(sorted(set(versions)))} of jam_dagster made their rows, and this is "
            f"{__version__}.",
            soft_wrap=True,
        )


def _show_done(planned: Sequence[Planned]) -> None:
    done = sum(one.status is not None for one in planned)
    if done:
        stderr().print(f"{done} of {len(planned)} runs are there already.")
    _show_outdated(planned)


def _show(one: Outcome) -> None:
    from jam_dagster.cli.progress import outcome_line

    stderr().print(outcome_line(one), soft_wrap=True)


@app.command()
def figures(
    results: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS...", help="Files that `benchmark run` made."),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for figures and summary.")
    ] = Path("figures"),
    search: Annotated[
        bool | None,
        typer.Option(
            "--search/--no-search",
            help="Errors after the search for rows, as of a release, or of rows sampled alone.",
            show_default="--search, where all tables were searched",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Draw the papers' figures from the rows of a benchmark, and sum them up.

    ```
    jam-dagster benchmark figures quick.parquet --out figures
    ```

    Each figure is an .svg and a .png file; `benchmark.md` shows all of them with tables of the
    numbers. They are as restricted as the rows.
    """
    from jam_dagster.trials import read_frame, write_figures

    written = write_figures(read_frame(results), out, search=search)
    if as_json:
        print_json({"files": [str(path) for path in written]})
        return
    for path in written:
        echo(str(path))
