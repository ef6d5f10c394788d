"""A plan in words and tables, for a console and for its page."""

from __future__ import annotations

from jam_dagster.common.choices import RECOMMENDED, RECOMMENDED_WHERE
from jam_dagster.common.shown_text import clock
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.privacy import Budget, describe_advantage, describe_rho
from jam_dagster.tables.sources.parquet import ENCODED_BYTES
from jam_dagster.trials.measures import estimate_in_words
from jam_dagster.trials.release_plan import Cost, Known, LedgerOutlook, Plan
from jam_dagster.trials.results import error_of, stages
from jam_dagster.trials.tables import Table


def known_in_words(known: Known) -> dict[str, str]:
    """Return what is known before the trials, in words."""
    size, noise = known.size, known.noise
    budget = Budget(known.epsilon, known.delta, known.selections)
    risk = describe_advantage(budget)
    assumed = " (assumed)" if known.records_assumed else ""
    costly = "; ".join(f"{one.name} ({one.values:,} values) {one.share:.0%}" for one in size.costly)
    lines = {
        "Specification": known.specification,
        "Mechanism": known.described,
        "Budget": describe_rho(sum(known.shares.values()), budget.converts_at),
        "Risk": f"an attacker gains at most {risk}",
        "Records": f"{known.records:,} private{assumed}, "
        + (f"{known.public_records:,} public" if known.public_records else "no public table"),
        "Candidates": f"{size.candidates:,} (the workload's {size.workload:,} marginals and all "
        "within them)",
        "Costly columns": f"{costly} of the workload's cells: fewer or coarser ones leave more "
        "budget for each",
    }
    if size.counted_cells is not None:
        lines["Counting"] = (
            f"one pass for {size.counted:,} marginals of {size.counted_cells:,} cells,"
            f" {4e-6 * size.counted_cells:,.0f} MB"
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


def simulated_in_words(made: Plan) -> dict[str, str]:
    """Return the results of the trials, in words."""
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
        f"about {clock(cost.seconds)} of a core of this machine: the mechanism was measured, "
        f"{_steps(cost)}, not measured, {_unmeasured(made)}"
    )
    large = cost.private_table_mb * 2**20 > ENCODED_BYTES
    kept = {"counts": cost.counts_mb, "synthetic rows": cost.rows_mb}
    added = "".join(f", {mb:,.0f} MB for {what}" for what, mb in kept.items() if mb >= 1)
    lines["Memory"] = (
        f"about {cost.memory_mb:,.0f} MB: {cost.measured_peak_mb:,.0f} MB measured{added}, "
        f"{cost.private_table_mb:,.0f} MB for the codes of the private table, which is read in "
        "batches unless it is in memory"
    ) + (f"; about {cost.in_files_mb:,.0f} MB if it is in Parquet files" if large else "")
    if made.bought:
        more = "" if len(made.curve) > 1 else "; --curve shows other budgets"
        lines["Bought"] = f"{made.bought}{more}"
    if made.not_tried:
        lines["Not tried"] = (
            f"{', '.join(made.not_tried)}: the trials would have ended after {made.allowed:g} s;"
            " give more by --seconds"
        )
    return lines


def _steps(cost: Cost) -> str:
    """Return which steps were measured next to the mechanism, and which were not."""
    public = f"extrapolated from the {cost.public_records:,} public records"
    if not cost.rehearsed:
        return f"{_counting(cost)}; reading and encoding were {public}. Checks and report"
    steps, extrapolated = (
        "rows, evaluation and checks",
        f"extrapolated from up to {cost.rehearsed:,} rows",
    )
    if cost.in_chunks:
        steps = f"reading (as of Parquet), encoding, {steps}"
        return f"{_counting(cost)}; {steps} were {extrapolated}. Report and certificate"
    return (
        f"{_counting(cost)}; reading and encoding were {public}, {steps} {extrapolated}. Report and"
        " certificate"
    )


def _unmeasured(made: Plan) -> str:
    """Return what the steps that were not measured add."""
    if not made.unwritten:
        return "add seconds"
    return (
        "and an evaluation grow with the rows: none to measure them by could be written in TMPDIR;"
        " set it to a folder with room, and plan again"
    )


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


def tables_of(made: Plan) -> list[Table]:
    """Return the errors by epsilon and, where others were tried, those of each mechanism."""
    seeds, asked = made.asked["runs"], made.known
    how = "one seed" if seeds == 1 else f"{seeds} seeds, ± one standard error"
    rounds = "rounds private : public" if made.chooses_source else "rounds"
    origins = ("private", "public") if made.chooses_source else ("private",)
    curve = [
        (
            f"{point['epsilon']:g}",
            estimate_in_words(point, "error"),
            estimate_in_words(point, "gain", sign="+"),
            "" if point["bought"] is None else estimate_in_words(point, "bought", sign="+"),
            " : ".join(f"{point[f'{origin}_picks']:.1f}" for origin in origins),
            "asked for" if point["epsilon"] == asked.epsilon else "",
        )
        for point in made.curve
    ]
    mechanisms = [
        (
            one["label"],
            f"{error_of(one):.4f}",
            str(one["private_picks"]),
            "" if one["sigma_median"] is None else f"{one['sigma_median']:,.1f}",
            f"{stages(one['seconds_by_stage'])['mechanism']:.1f}",
            "this release" if one["label"] == asked.title else "",
        )
        for one in made.mechanisms.values()
    ]
    tables = [
        Table(
            f"Simulated error ({how})",
            ("epsilon", "error", "below public half", "bought", rounds, "remark"),
            curve,
            words=("remark",),
        ),
        Table(
            f"Mechanisms at epsilon {asked.epsilon:g}, one trial each",
            ("mechanism", "error", "measured", "noise a cell", "seconds", "remark"),
            mechanisms,
            words=("mechanism", "remark"),
        ),
    ]
    return tables if len(mechanisms) > 1 else tables[:1]


def conclusion(made: Plan) -> str:
    """Return when the release pays and, where others were tried, which mechanism is recommended."""
    if len(made.mechanisms) == 1:
        return made.break_even
    return (
        f"{made.break_even} Recommended, by measurements on published tables:"
        f" {title_of(RECOMMENDED)} {RECOMMENDED_WHERE}. The others are fitted loosely, in half the"
        " time."
    )
