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

    from rich.console import Console

    from jam_dagster.trials.planner import Prepared
    from jam_dagster.trials.release_plan import Cost, Known, LedgerOutlook, Plan

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
    tries none, and neither does a plan whose first trial would take longer than that.
    """
    from jam_dagster.trials.plan_request import PlanRequest
    from jam_dagster.trials.planner import prepare

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
        ready = prepare(request)
        if not as_json:
            _print_known(ready.known)
        made = None if quick or _is_long(ready, plot) else _run(ready, as_json=as_json)
        if made is not None and plot is not None:
            _draw(made, plot)
    if as_json:
        print_json((made or ready.known).to_dict())
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
    from jam_dagster.cli.progress import clock

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
    from jam_dagster.cli.progress import clock
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
        facts = {**_known(made.known), **_simulated(made)}
        path.write_text(render_plan(made, facts), encoding="utf-8")


def _print_known(known: Known) -> None:
    _print_lines(_known(known))
    for note in known.notes:
        stdout().print(f"Note: {note}", soft_wrap=True)
    for warning in known.warnings:
        tell(f"Warning: {warning}")


def _print_plan(made: Plan, plot: Path | None) -> None:
    from jam_dagster.trials.release_plan import NOT_SHOWN

    console = stdout()
    _print_lines(_simulated(made))
    console.print()
    _print_curve(made, console)
    console.print(f"Limits of this plan: {NOT_SHOWN}", soft_wrap=True)
    if plot is not None:
        console.print(f"Plot: {plot}", soft_wrap=True)


def _print_lines(lines: Mapping[str, str]) -> None:
    for name, line in lines.items():
        stdout().print(f"{name:<18}{line}", soft_wrap=True)


def _known(known: Known) -> dict[str, str]:
    """Return what is known before the trials, in words."""
    from jam_dagster.privacy import Budget, describe_advantage, describe_rho

    size, noise = known.size, known.noise
    risk = describe_advantage(Budget(known.epsilon, known.delta))
    assumed = " (assumed)" if known.records_assumed else ""
    costly = "; ".join(f"{one.name} ({one.values:,} values) {one.share:.0%}" for one in size.costly)
    lines = {
        "Specification": known.specification,
        "Budget": describe_rho(sum(known.shares.values()), known.delta),
        "Risk": f"an attacker gains at most {risk}",
        "Records": f"{known.records:,} private{assumed}, {known.public_records:,} public",
        "Candidates": f"{size.candidates:,} (the workload's {size.workload:,} marginals and all "
        "within them)",
        "Costly columns": f"{costly} of the workload's cells: fewer or coarser ones leave more "
        "budget for each",
    }
    if size.counted_cells is not None:
        lines["Counting"] = (
            f"one pass into {size.blocks:,} blocks of {size.counted_cells:,} cells,"
            f" {8e-6 * size.counted_cells:,.0f} MB; a database that counts sends those that occur"
        )
    if size.last_limit_mb is not None:
        lines["Model"] = (
            f"{size.last_limit_mb:.3g} MB at most, which {size.fit_last:,} candidates fit by "
            "themselves"
        )
    cell = f"a cell of the median marginal holds {noise.median_cell:,.1f} records on average"
    lines["Noise"] = (
        f"what a round has is known when it comes; {cell}"
        if noise.sigma is None
        else f"sigma {noise.sigma:,.1f} a cell, if every round measures privately; {cell}"
    )
    if known.ledger is not None:
        lines["Ledger"] = _ledger_line(known.ledger)
    return lines


def _simulated(made: Plan) -> dict[str, str]:
    """Return the results of the trials, in words."""
    from jam_dagster.cli.progress import clock

    size, cost, noise = made.size, made.cost, made.noise
    lines = {}
    if size.first_limit_mb is not None:
        lines["First round"] = f"{size.fit_first:,} fit its limit of {size.first_limit_mb:.3g} MB"
    if size.last_round is not None and size.last_limit_mb is not None:
        least, most = size.last_round
        last_round = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        lines["Last round"] = f"{last_round} candidates fitted next to the model"
    elif size.most is not None:
        lines["A round"] = f"chose from {size.most:,} candidates at most"
    if size.largest_model_mb is not None:
        lines["Largest model"] = f"{size.largest_model_mb:.3g} MB"
    if noise.measured is not None:
        low, median, high = noise.measured
        lines["Simulated noise"] = f"sigma {low:,.1f} to {high:,.1f}, median {median:,.1f}"
    lines["Time"] = (
        f"about {clock(cost.seconds)} on this machine: the mechanism was measured, "
        f"{_counting(cost)}; reading and encoding were extrapolated from the "
        f"{cost.public_records:,} public records. Checks and report, not measured, add seconds"
    )
    lines["Memory"] = (
        f"about {cost.memory_mb:,.0f} MB: {cost.measured_peak_mb:,.0f} MB measured, "
        f"{cost.private_table_mb:,.0f} MB extrapolated for the private table, if it is read "
        "whole, by what a row of the public one takes"
    )
    if made.not_tried:
        lines["Not tried"] = (
            f"{', '.join(made.not_tried)}: the trials would have ended after {made.allowed:g} s;"
            " give more by --seconds"
        )
    return lines


def _counting(cost: Cost) -> str:
    all_records = cost.records + cost.public_records
    if cost.counted >= all_records:
        return f"and its counting at {all_records:,} records"
    return f"its counting at {cost.counted:,} records and extrapolated to {all_records:,}"


def _ledger_line(outlook: LedgerOutlook) -> str:
    where = f"{outlook.dataset} in {outlook.ledger}"
    if outlook.remaining_epsilon is None:
        return f"{where}: {outlook.note}"
    now = f"{where} has epsilon {outlook.remaining_epsilon:.4g} left"
    if not outlook.fits:
        return f"{now}. IT DOES NOT ALLOW THIS: {outlook.note}"
    return (
        f"{now}; epsilon {outlook.after_epsilon:.4g} after this, or "
        f"more: what it does not use returns. {outlook.note}"
    )


def _print_curve(made: Plan, console: Console) -> None:
    from rich.table import Table

    from jam_dagster.trials.measures import estimate_in_words

    seeds = made.asked["runs"]
    how = "one seed" if seeds == 1 else f"{seeds} seeds, ± one standard error"
    table = Table(title=f"Simulated error ({how})")
    rounds = "private : public" if made.chooses_source else "rounds"
    for name in ("epsilon", "error", "below public half", rounds):
        table.add_column(name, justify="right")
    table.add_column("")
    for point in made.curve:
        table.add_row(
            f"{point['epsilon']:g}",
            estimate_in_words(point, "error"),
            estimate_in_words(point, "gain", sign="+"),
            f"{point['private_picks']:.1f}"
            + (f" : {point['public_picks']:.1f}" if made.chooses_source else ""),
            "asked for" if point["epsilon"] == made.known.epsilon else "",
        )
    console.print(table)
    if len(made.mechanisms) > 1:
        _print_mechanisms(made, console)
    console.print(made.break_even, soft_wrap=True)


def _print_mechanisms(made: Plan, console: Console) -> None:
    from rich.table import Table

    from jam_dagster.common.choices import RECOMMENDED
    from jam_dagster.mechanisms.registry import title_of
    from jam_dagster.trials.results import error_of, stages

    table = Table(title=f"Mechanisms at epsilon {made.known.epsilon:g}, one trial each")
    table.add_column("mechanism", no_wrap=True)
    for name in ("error", "measured", "noise a cell", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("")
    for name, one in made.mechanisms.items():
        sigma = one["sigma_median"]
        table.add_row(
            one["label"],
            f"{error_of(one):.4f}",
            str(one["private_picks"]),
            "" if sigma is None else f"{sigma:,.1f}",
            f"{stages(one['seconds_by_stage'])['mechanism']:.1f}",
            "this release" if name == made.known.mechanism else "",
        )
    console.print(table)
    recommended = ", ".join(f"{title_of(name)} {where}" for name, where in RECOMMENDED.items())
    console.print(
        f"Recommended, by measurements on published tables: {recommended}. The others are fitted"
        " loosely, in half the time.",
        soft_wrap=True,
    )
