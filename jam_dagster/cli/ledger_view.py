"""Balances and events of a ledger as its commands show them: tables, and JSON."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from jam_dagster.privacy import Balance, Event, Policy
    from jam_dagster.privacy.ledger.journal import Access


def print_balance(console: Console, balance: Balance, after: int | None) -> None:
    """Print a dataset's balance, and what `after_another` returned of it."""
    from jam_dagster.privacy import describe_rho
    from jam_dagster.privacy.accounting import UNITS_PER_DELTA

    period = "" if balance.period == "lifetime" else f", {balance.period}"
    title = f"{balance.dataset} (epsilon at delta {balance.delta:g}{period})"
    console.print(title, markup=False, style="italic", soft_wrap=True)
    console.print(balance_table(balance, after))
    if balance.granted_selections:
        parts = (balance.used_selections, balance.granted_selections)
        used, granted = (f"{one / UNITS_PER_DELTA:g}" for one in parts)
        console.print(
            f"{balance.dataset}: selections of values have {used} of {granted} of its delta,"
            f" {balance.granted_delta:g}.",
            soft_wrap=True,
        )
    if text := policy_text(balance.policy):
        lifetime = describe_rho(balance.lifetime_spent, balance.delta)
        console.print(
            f"{balance.dataset} is granted this{text}; {lifetime} was spent over its lifetime.",
            soft_wrap=True,
        )


def policy_text(policy: Policy) -> str:
    """Return how a budget counts, empty for the default."""
    text = "" if policy.period == "lifetime" else f" each {policy.period}"
    if policy.parallel:
        among = "" if policy.of_one_table else " of all tables"
        text += f", of which only the largest partition{among} counts ({policy.ground})"
    if policy.records == "public":
        of = "in each partition is" if policy.partitions == "add" and policy.ground else "is"
        text += f"; the number of records {of} public"
    return text


def after_another(balance: Balance, events: list[Event]) -> int | None:
    """Return the units left after another release like the last; None if there was none."""
    from jam_dagster.privacy.ledger.policy import ANOTHER

    last = next(
        (one for one in reversed(events) if one.dataset == balance.dataset and one.share), None
    )
    if last is None:
        return None
    size = sum(
        one.units
        for one in events
        if (one.kind.value, one.release_id, one.opening)
        == ("reserved", last.release_id, last.opening)
    )
    # The next release is of a partition that has released nothing yet.
    return balance.remaining_units_after(size, ANOTHER if last.partition else "")


def balance_in_json(balance: Balance) -> dict[str, Any]:
    """Return a dataset's balance and its policy."""
    from jam_dagster.privacy.accounting import UNITS_PER_DELTA

    selections = (balance.granted_selections, balance.used_selections)
    granted, used = (units / UNITS_PER_DELTA for units in selections)
    return {
        "dataset": balance.dataset,
        "epsilon": balance.epsilon,
        "delta": balance.granted_delta,
        "selection_delta": {"granted": granted, "used": used},
        "period": balance.period,
        "policy": vars(balance.policy),
        **amounts_in_json(balance, "lifetime_spent"),
    }


def amounts_in_json(budget: Balance, *more: str) -> dict[str, Any]:
    """Return the amounts of a budget, and `more` of its properties, in rho and as epsilon."""
    names = ("granted", "reserved", "spent", "remaining", *more)
    amounts: dict[str, float] = {name: getattr(budget, name) for name in names}
    return {
        "rho": amounts,
        "epsilon_at_delta": {
            **{name: budget.epsilon_of(rho) for name, rho in amounts.items()},
            "remaining": budget.remaining_epsilon,
        },
    }


def after_in_json(after: int | None) -> dict[str, Any]:
    """Return the rho that `after_another` release leaves; null if it does not fit."""
    from jam_dagster.privacy import rho_within

    left = None if after is None or after < 0 else rho_within(after)
    return {"rho_after_another_release": left}


def access_in_json(balance: Balance, attempts: list[Access]) -> dict[str, Any]:
    """Return how many attempts may fail, which sources are named, and the attempts that count."""
    return {
        "attempts": balance.attempts,
        "sources": balance.sources or "one",
        "open_attempts": [
            {name: value for name, value in vars(one).items() if value} | {"kind": one.kind.value}
            for one in attempts
        ],
    }


def event_in_json(event: Event) -> dict[str, Any]:
    """Return what an event says, with its kind as a text and its amount in rho."""
    said = {name: value for name, value in vars(event).items() if value not in ("", None)}
    return {**said, "kind": event.kind.value, "rho": event.rho}


def _table(title: str | None = None) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )


def balance_table(balance: Balance, after: int | None = None) -> Table:
    """Return a budget's amounts, and the units `after_another` release if there is a number."""
    from jam_dagster.privacy import rho_within

    table = _table()
    table.add_column("")
    amounts = {
        "granted": (balance.granted, None),
        "reserved": (balance.reserved, None),
        "spent": (balance.spent, None),
        "remaining": (balance.remaining, balance.remaining_epsilon),
    }
    if after is not None and after >= 0:
        amounts["after another"] = (rho_within(after), None)
    for name in amounts:
        table.add_column(name, justify="right", no_wrap=True)
    told = [balance.epsilon_of(rho) if of is None else of for rho, of in amounts.values()]
    late = ["too little"] if after is not None and after < 0 else []
    if late:
        table.add_column("after another", justify="right", no_wrap=True)
    table.add_row("epsilon", *(f"{one:.4g}" for one in told), *late)
    table.add_row("rho", *(f"{rho:.4g}" for rho, _ in amounts.values()))
    return table


def attempts_table(attempts: list[Access], title: str) -> Table:
    """Return the attempts to open private data that have not ended well."""
    table = _table(title)
    for name in ("when (UTC)", "dataset", "release", "run", "by"):
        table.add_column(name, overflow="fold")
    for one in attempts:
        release = f"{one.release} [{one.partition}]" if one.partition else one.release
        table.add_row(one.at[:16].replace("T", " "), one.dataset, release, one.run_id, one.by)
    return table


def decisions_table(events: list[Event], acknowledged: list[Access]) -> Table | None:
    """Return what persons decided, one decision a row: when, what, who and why; None: nothing.

    `acknowledged` are the acknowledgements of attempts, which another journal has.
    """
    from jam_dagster.privacy.ledger.decisions import decisions

    table = _table("Decisions")
    table.add_column("when (UTC)", no_wrap=True)
    for name in ("what", "who", "why"):
        table.add_column(name, overflow="fold")
    rows = [(one.event.at, one.when, one.said, one.by, one.why) for one in decisions(events)]
    rows += [
        (
            one.at,
            one.at[:16].replace("T", " "),
            f"{one.dataset}: attempts acknowledged",
            one.by,
            one.reason,
        )
        for one in acknowledged
    ]
    for _, *cells in sorted(rows, key=itemgetter(0)):
        table.add_row(*cells)
    return table if table.row_count else None


_ROOM = 34
"""Width in a page of 80 columns, next to number, time, kind and rho of an event."""


def events_table(events: list[Event], *, total: int) -> Table:
    """Return the last events of `total`, one a row."""
    table = _table(f"The last {len(events)} of {total} events")
    table.add_column("", justify="right")
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("what", no_wrap=True)
    # Most ledgers have one dataset, which then needs no mention.
    datasets = {event.dataset for event in events}
    several = len(datasets) > 1
    width = max(map(len, datasets))
    # Names of draws and shares stay in one piece as far as there is room; a reason is a text, which
    # wraps.
    drawn = max(len(event.step or event.share) for event in events)
    wide = {"dataset, release, for": min(max(width, drawn), _ROOM)}
    columns = wide if several else {"release": None, "for": min(drawn, _ROOM)}
    for name, least in columns.items():
        table.add_column(name, overflow="fold", min_width=least)
    table.add_column("rho", justify="right", no_wrap=True)
    for event in events:
        release = event.release
        if event.partition:
            release += f" [{event.partition}]"
        if event.edition not in ("", "1"):
            release += f", edition {event.edition}"
        reason = event.step or event.share or event.reason or event.digest[:16]
        table.add_row(
            str(event.seq),
            event.at[:16].replace("T", " "),
            event.kind.value,
            *([f"{event.dataset}\n{release} {reason}".rstrip()] if several else [release, reason]),
            f"{event.rho:.4g}" if event.units else "",
        )
    return table
