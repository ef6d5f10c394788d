"""`jam-dagster plan`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jam_dagster.cli.console import print_json, stderr, stdout, stdout_kept_clean, tell
from jam_dagster.cli.options import (
    DEFINITION,
    PARTITION,
    AsJson,
    release_options,
    with_release_options,
)
from jam_dagster.cli.progress import progress_of_trials
from jam_dagster.common.choices import PLAN_SECONDS
from jam_dagster.errors import InputError
from jam_dagster.keys import Panel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jam_dagster.trials.planner import Prepared
    from jam_dagster.trials.release_plan import Known, Plan

TRIAL = "The simulation"
_FORMATS = (".html", ".svg", ".png")


@with_release_options
def plan(
    definition: Annotated[Path | None, DEFINITION] = None,
    records: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=Panel.TABLES,
            help="How many records the private table has; it is not opened to count them.",
            show_default="as many as the public one, which is said",
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=Panel.BUDGET,
            envvar="JAM_LEDGER",
            help="The ledger that would pay; it is only read.",
        ),
    ] = None,
    partition: Annotated[str, PARTITION] = "",
    earlier: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=Panel.TABLES,
            help="The folder of an earlier release of the same private table, which shows whether "
            "the domain fits.",
            show_default="none",
        ),
    ] = None,
    epsilons: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            rich_help_panel=TRIAL,
            help="Further values to try, separated by commas.",
            show_default="none",
        ),
    ] = None,
    curve: Annotated[
        bool,
        typer.Option(
            "--curve",
            rich_help_panel=TRIAL,
            help="Try a quarter, half, twice and four times the epsilon asked for, too.",
        ),
    ] = False,
    seeds: Annotated[
        int,
        typer.Option(
            rich_help_panel=TRIAL,
            help="How often each epsilon is tried, with another split and other noise each time.",
        ),
    ] = 1,
    seconds: Annotated[
        float,
        typer.Option(
            metavar="S",
            rich_help_panel=TRIAL,
            help="Start no trial that is expected to end later than this.",
        ),
    ] = PLAN_SECONDS,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            rich_help_panel=TRIAL,
            help="Simulate nothing: say what is known at once, in seconds.",
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=Panel.OUTPUT,
            help="Draw the curve into a .svg or .png file, or write the plan as a .html page "
            "(which needs no network).",
        ),
    ] = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    r"""Plan a release: what it would take, cost and bring, from public data alone.

    ```
    jam-dagster plan defs/people/defs.yaml --records 30000 --quick
    jam-dagster plan defs/people/defs.yaml --records 30000 --ledger ledger.db --plot plan.html
    jam-dagster plan --public survey.csv --domain domain.yaml --epsilon 1 --records 30000
    ```

    Nothing is spent, the ledger is only read, and the private table is not opened: the mechanism
    is really run, with seeded noise, on the public table split in two, one half of which plays
    the private table. It cannot show the public table's bias. Other mechanisms are tried
    too, as far as `--seconds` allow; `--mechanism` tries the one that it names alone. `--quick`
    tries none, and neither does a plan whose first trial would take longer than that. If the file
    has `domain: {identify: paid}`, the names and types of the private columns are read, and no row.
    """
    from jam_dagster.trials.plan_request import PlanRequest
    from jam_dagster.trials.planner import known_without_public, prepare

    if plot is not None:
        if quick:
            raise InputError("--quick simulates nothing that --plot could draw: drop one of them.")
        _check_plot(plot)
    with stdout_kept_clean() if as_json else nullcontext():
        request = PlanRequest.of(
            definition,
            records=records,
            ledger=ledger,
            partition=partition,
            earlier=earlier,
            epsilons=() if epsilons is None else _numbers(epsilons),
            curve=curve,
            seeds=seeds,
            seconds=seconds,
            **release_options(options),
        )
        if request.spec.public is None:
            if plot is not None:
                raise InputError("--plot draws trials on a public table: name one with --public.")
            known, made = known_without_public(request), None
            if not as_json:
                _print_known(known)
        else:
            ready = prepare(request)
            known = ready.known
            if not as_json:
                _print_known(known)
            made = None if quick or _is_long(ready, plot) else _run(ready, as_json=as_json)
        if made is not None and plot is not None:
            _draw(made, plot)
    if as_json:
        print_json((made or known).to_dict())
    elif made is not None:
        _print_plan(made, plot)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--epsilons must be numbers separated by commas, such as 0.5,1,2; got {text!r}."
        ) from None


def _check_plot(path: Path) -> None:
    """Find before the simulation what would fail after it."""
    from jam_dagster.common.files import check_folder

    if path.suffix.lower() not in _FORMATS:
        raise InputError(f"--plot {path} must end in {', '.join(_FORMATS)}: it says the format.")
    check_folder(path.absolute().parent)


def _is_long(ready: Prepared, plot: Path | None) -> bool:
    """Return whether even the first trial would last longer than is allowed, and say so."""
    from jam_dagster.common.shown_text import clock

    known, allowed = ready.known, ready.request.seconds
    if known.seconds <= allowed:
        return False
    said = (
        f"The first trial would take about {clock(known.seconds)}, or a few times that, and"
        f" {allowed:g} s are allowed: give more by --seconds"
    )
    if plot is not None:
        raise InputError(f"{said}, for a curve that --plot draws.")
    tell(f"Nothing was simulated. {said}.")
    return True


def _run(ready: Prepared, *, as_json: bool) -> Plan:
    from jam_dagster.common.shown_text import clock
    from jam_dagster.trials.planner import simulate

    known, allowed = ready.known, ready.request.seconds
    if not as_json:
        tell(
            f"Trials to come: {known.trials}, in about {clock(known.seconds)} or a few times that;"
            f" none starts that would end after {allowed:g} s (--seconds)."
        )
    with progress_of_trials(ready.known.trials, stderr()) as (stage, start, one_round, trial):
        return simulate(ready, on_stage=stage, on_start=start, on_round=one_round, on_trial=trial)


def _draw(made: Plan, path: Path) -> None:
    from jam_dagster.reports.plot_style import png, svg
    from jam_dagster.trials.plan_page import plan_chart, render_plan

    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.lower()
    if kind == ".png":
        path.write_bytes(png(plan_chart(made)))
    elif kind == ".svg":
        path.write_text(svg(plan_chart(made)), encoding="utf-8")
    else:
        path.write_text(render_plan(made), encoding="utf-8")


def _print_known(known: Known) -> None:
    from jam_dagster.trials.plan_words import known_in_words

    _print_lines(known_in_words(known))
    for note in known.notes:
        stdout().print(f"Note: {note}", soft_wrap=True)
    for warning in known.warnings:
        tell(f"Warning: {warning}")


def _print_plan(made: Plan, plot: Path | None) -> None:
    from rich.table import Table

    from jam_dagster.trials.plan_words import conclusion, simulated_in_words, tables_of
    from jam_dagster.trials.release_plan import NOT_SHOWN

    console = stdout()
    _print_lines(simulated_in_words(made))
    console.print()
    for one in tables_of(made):
        table = Table(title=one.title)
        for name in one.head:
            words = name in one.words
            table.add_column(name, justify="left" if words else "right", no_wrap=words)
        for row in one.rows:
            table.add_row(*row)
        console.print(table)
    console.print(conclusion(made), soft_wrap=True)
    console.print(f"Limits of this plan: {NOT_SHOWN}", soft_wrap=True)
    if plot is not None:
        console.print(f"Plot: {plot}", soft_wrap=True)


def _print_lines(lines: Mapping[str, str]) -> None:
    for name, line in lines.items():
        stdout().print(f"{name:<18}{line}", soft_wrap=True)
