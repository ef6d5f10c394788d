"""`jam-dagster ledger`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jam_dagster.cli.console import group, print_json, print_result, stdout, tell
from jam_dagster.cli.ledger_keys import app as key_app
from jam_dagster.cli.options import (
    AsJson,
    DatasetOption,
    EditionOption,
    LedgerOption,
    ReasonOption,
    SliceOption,
    check_reason,
)
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from jam_dagster.privacy import Balance, Event, Policy, Release, ReleaseKey
    from jam_dagster.privacy.ledger.journal import Access
    from jam_dagster.privacy.ledger.population import Amounts, Population

PopulationOption = Annotated[
    str,
    typer.Option(metavar="NAME", help="The population: people who are in several datasets."),
]


def approve(
    ledger: LedgerOption,
    dataset: DatasetOption,
    release: Annotated[str, typer.Option(metavar="NAME", help="The release.")],
    specification: Annotated[
        str,
        typer.Option(
            metavar="DIGEST",
            help="The whole digest of its specification, as `jam-dagster plan` and the refusal "
            "show it.",
        ),
    ],
    reason: ReasonOption,
    partition: SliceOption = "",
    all_partitions: Annotated[
        bool, typer.Option("--all-partitions", help="Every slice of the data, now and later.")
    ] = False,
    edition: EditionOption = "1",
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The most that it may reserve, at the delta of the dataset's budget.",
            show_default="what its specification asks for",
        ),
    ] = None,
    withdraw: Annotated[
        bool,
        typer.Option("--withdraw", help="Take the approval back, before the release reserves."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    r"""Approve that a release reserves, if the dataset's budget asks for approval.

    ```
    jam-dagster ledger approve --ledger ledger.db --dataset people --release yearly \
        --specification DIGEST --epsilon 0.5 --reason "request of 3 May"
    ```

    The approval is of exactly that specification: a change of epsilon, mechanism, workload or
    domain needs another one. The engineer's `jam-dagster plan` shows the same digest.
    """
    from jam_dagster.privacy import Ledger, ReleaseKey
    from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
    from jam_dagster.privacy.ledger.key import check_digest

    check_reason(reason)
    # An approval is of exactly one specification: the beginning of a digest will not do.
    check_digest(specification, "--specification")
    if partition and all_partitions:
        raise InputError("Give --partition or --all-partitions, not both.")
    if withdraw and epsilon is not None:
        raise InputError("--withdraw takes back the whole approval: drop --epsilon.")
    which = ALL_PARTITIONS if all_partitions else partition
    key = ReleaseKey(dataset, release, specification, which, edition)
    opened = Ledger(ledger)
    if withdraw:
        event = opened.withdraw_approval(key, reason=reason)
        said = f"No longer approved: {key_text(key)}."
    else:
        event = opened.approve(key, epsilon=epsilon, reason=reason)
        limit = _limit(event, opened.balance(dataset))
        said = f"Approved: {key_text(key)}. It may reserve {limit}."
    print_result(event_in_json(event), said, as_json=as_json)


def key_text(key: ReleaseKey | None) -> str:
    """Return a release key in words, with all partitions and the whole digest."""
    from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS

    if key is None:
        return "no release"
    partition = f", partition {key.partition!r}" if key.partition else ""
    if key.partition == ALL_PARTITIONS:
        partition = ", all partitions"
    return (
        f"release {key.release!r}{partition}, edition {key.edition!r}, of {key.dataset}, "
        f"specification {key.specification}"
    )


def _limit(event: Event, balance: Balance) -> str:
    from jam_dagster.privacy import describe_rho

    if not event.units:
        return "what its specification asks for"
    return f"at most {describe_rho(event.rho, balance.delta)}"


def approval_lines(balance: Balance, approved: tuple[Event, ...]) -> list[str]:
    """Return what `ledger show` says of a dataset's approvals; nothing if none is needed."""
    if not balance.approval:
        return []
    lines = [f"Releases of {balance.dataset} wait for approval."]
    for event in approved:
        by = f" by {event.by}" if event.by else ""
        reason = f": {event.reason}" if event.reason else ""
        lines.append(
            f"Approved and not reserved yet: {key_text(event.key)}, for {_limit(event, balance)}, "
            f"on {event.at[:10]}{by}{reason}."
        )
    return lines


def population(
    ledger: LedgerOption,
    population: PopulationOption,
    epsilon: Annotated[
        float, typer.Option(help="The most that all releases of all its datasets may spend.")
    ],
    delta: Annotated[float, typer.Option(help="delta of the budget.")],
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Grant a population its whole budget, or replace it.

    ```
    jam-dagster ledger population --ledger ledger.db --population residents \
        --epsilon 3 --delta 1e-9 --reason "policy of 2026"
    ```

    A population is the people of several datasets, which join it by `jam-dagster ledger join`. A
    release reserves in the budget of its dataset and in that of the population, or is refused. The
    budget is for a lifetime and cannot be lowered below what is spent and reserved.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    made = Ledger(ledger).grant_population(population, epsilon=epsilon, delta=delta, reason=reason)
    _print_population(made, f"Population {population} is granted", as_json=as_json)


def join(
    ledger: LedgerOption,
    dataset: DatasetOption,
    population: PopulationOption,
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Make a dataset belong to a population, for good.

    ```
    jam-dagster ledger join --ledger ledger.db --dataset people \
        --population residents --reason "the same people as in the survey"
    ```

    Its spent and reserved amounts count in the population's budget at once, and must fit.
    No dataset leaves its population: what was released of its people stays released.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    made = Ledger(ledger).join(dataset, population, reason=reason)
    _print_population(
        made, f"{dataset} belongs to population {population}, which has", as_json=as_json
    )


def _print_population(population: Population, said: str, *, as_json: bool) -> None:
    from jam_dagster.privacy import describe_rho

    print_result(
        _population_in_json(population),
        f"{said} {describe_rho(population.granted, population.delta)};"
        f" {describe_rho(population.remaining, population.delta)} is left.",
        as_json=as_json,
    )


def move(
    ledger: LedgerOption,
    to: Annotated[
        str,
        typer.Option(metavar="FILE", help="Its new place: a file, or postgresql://..."),
    ],
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Move a ledger to another place, such as from a file to PostgreSQL, and close the old one.

    ```
    jam-dagster ledger move --ledger ledger.db \
        --to postgresql://officer@ledger.internal/ledger --reason "a server for the team"
    ```

    Every event moves as it is, with its hash, and the audit runs at the new place before anything
    can be written there. If the command is interrupted, give it again: until it has ended, neither
    place can be written. A ledger moves back in the same way, into the place that it left. It
    prints the hash of the last event, as `ledger verify` does. The secret by which the command line
    knows sources again is copied to the store that goes with the new place.
    """
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.private_store import carry_private_store, default_private_store

    check_reason(reason)
    opened = Ledger(ledger)
    proof = opened.move(to, reason=reason)
    tell(
        f"The ledger is at {opened.moved_to} now, {proof.events} events, all in order. Name that "
        f"place wherever {opened.location} was named: the old one is closed. The last event has "
        "the hash",
    )
    if as_json:
        print_json({"ledger": opened.moved_to, "events": proof.events, "head": proof.head})
    else:
        typer.echo(proof.head)
    before, now = (default_private_store(one.file, one.place) for one in (opened, Ledger(to)))
    if not carry_private_store(before, now):
        tell(
            f"The private store {now} has another secret than {before}: name the latter with "
            "--private-store when a release is repeated.",
        )


def acknowledge(
    ledger: LedgerOption, dataset: DatasetOption, reason: ReasonOption, as_json: AsJson = False
) -> None:
    r"""Let private data be opened again, after attempts to open them that did not end well.

    ```
    jam-dagster ledger acknowledge --ledger ledger.db --dataset people \
        --reason "the domain lacked a value; corrected"
    ```

    Whether an attempt ends well can depend on private values, so after a few that did not the
    dataset stays closed. Look first why they failed: the details are in the private store, in
    failures/ of the release, or in restricted/failures/ of the folder of `synthesize`. Attempts
    that still run count, and end as they would have.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    counted = Ledger(ledger).acknowledge(dataset, reason=reason)
    print_result(
        {"dataset": dataset, "attempts": counted},
        f"{counted} attempt{'' if counted == 1 else 's'} to open {dataset} acknowledged."
        if counted
        else f"No attempt to open {dataset} counts: nothing is written.",
        as_json=as_json,
    )


def rebind(
    ledger: LedgerOption,
    dataset: DatasetOption,
    reason: ReasonOption,
    partition: SliceOption = "",
    as_json: AsJson = False,
) -> None:
    r"""Let releases be bound to other sources, for a file or a database that has moved.

    ```
    jam-dagster ledger rebind --ledger ledger.db --dataset people \
        --reason "people.csv is now on the new server"
    ```

    A release reads the source that it was reserved for. After this, the next run of each release
    of the dataset, or of the partition, binds the source that it reads then. See that it is the
    same table: other records under one reservation are an answer that was not paid for.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    bound = Ledger(ledger).rebind(dataset, partition=partition, reason=reason)
    slice_ = f", partition {partition}" if partition else ""
    print_result(
        {"dataset": dataset, "partition": partition, "releases": bound},
        f"{bound} release{'' if bound == 1 else 's'} of {dataset}{slice_} can be bound once more."
        if bound
        else f"No release of {dataset}{slice_} is bound to a source: nothing is written.",
        as_json=as_json,
    )


def attempts_table(attempts: list[Access], table: Table) -> Table:
    """Fill a table with the attempts to open private data that have not ended well."""
    for name in ("when (UTC)", "dataset", "release", "run", "by"):
        table.add_column(name, overflow="fold")
    for one in attempts:
        release = f"{one.release} [{one.partition}]" if one.partition else one.release
        table.add_row(one.at[:16].replace("T", " "), one.dataset, release, one.run_id, one.by)
    return table


app = group("Who spent what on which protected dataset.")

app.command()(approve)
app.command()(population)
app.command()(join)
app.command()(move)
app.add_typer(key_app, name="key")


@app.command()
def show(
    ledger: LedgerOption,
    dataset: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this protected dataset.")
    ] = None,
    last: Annotated[int, typer.Option(help="How many of the last events to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show what was granted, reserved, spent and is left, and the last events.

    It also shows the rest after one more release of the size of the last.

    ```
    jam-dagster ledger show --ledger ledger.db --dataset people
    ```

    Amounts are in rho, which adds up, and as the epsilon that they mean at the delta of the
    grant, which does not: a release that spends a quarter of rho spends about half of epsilon.
    `--json` gives all events.
    """
    from jam_dagster.privacy import Ledger

    if last < 0:
        raise InputError(f"--last must be 0 or more, got {last}.")
    opened = Ledger(ledger)
    # Reading the journal first says what is wrong with a file that is no ledger.
    events = opened.events(dataset)
    balances = [
        opened.balance(name) for name in (opened.datasets() if dataset is None else (dataset,))
    ]
    approved = {balance.dataset: opened.approved(balance.dataset) for balance in balances}
    after = {balance.dataset: _after_another(balance, events) for balance in balances}
    attempts = {one.dataset: opened.open_attempts(one.dataset) for one in balances}
    populations = [one for one in opened.populations() if dataset is None or dataset in one.uses]
    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        **_balance_in_json(balance),
                        **_after_in_json(after[balance.dataset]),
                        **_access_in_json(balance, attempts[balance.dataset]),
                        "approval": balance.approval or "none",
                        "approved": [event_in_json(one) for one in approved[balance.dataset]],
                    }
                    for balance in balances
                ],
                "populations": [_population_in_json(one) for one in populations],
                "moved_to": opened.moved_to,
                "events": [event_in_json(event) for event in events],
            }
        )
        return
    console = stdout()
    if place := opened.moved_to:
        console.print(
            f"This ledger has moved to {place}: nothing can be written here.", soft_wrap=True
        )
    for balance in balances:
        _print_balance(console, balance, after[balance.dataset])
    for one in populations:
        title = f"Population {one.name} (epsilon at delta {one.delta:g})"
        console.print(title, markup=False, style="italic", soft_wrap=True)
        console.print(_balance_table(one))
        joined = ", ".join(one.uses) or "none"
        console.print(
            f"Its datasets: {joined}. None has more left than it.", markup=False, soft_wrap=True
        )
    if still_open := [one for listed in attempts.values() for one in listed]:
        title = "Attempts to open private data that have not ended, or paid nothing"
        console.print(attempts_table(still_open, _table(title)))
    for balance in balances:
        for line in approval_lines(balance, approved[balance.dataset]):
            console.print(line, soft_wrap=True)
    if last and events:
        console.print(_events_table(events[-last:], total=len(events)))


def _print_balance(console: Console, balance: Balance, after: int | None) -> None:
    from jam_dagster.privacy import describe_rho

    period = "" if balance.period == "lifetime" else f", {balance.period}"
    title = f"{balance.dataset} (epsilon at delta {balance.delta:g}{period})"
    console.print(title, markup=False, style="italic", soft_wrap=True)
    console.print(_balance_table(balance, after))
    if text := _policy_text(balance.policy):
        lifetime = describe_rho(balance.lifetime_spent, balance.delta)
        console.print(
            f"{balance.dataset} is granted this{text}; {lifetime} was spent over its lifetime.",
            soft_wrap=True,
        )


@app.command()
def grant(
    ledger: LedgerOption,
    dataset: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="The protected dataset: the same people, wherever they are stored.",
        ),
    ],
    epsilon: Annotated[
        float, typer.Option(help="The most that all its releases together may spend.")
    ],
    delta: Annotated[float, typer.Option(help="delta of the budget.")],
    period: Annotated[
        str | None,
        typer.Option(
            metavar="PERIOD",
            help="lifetime, or year, quarter, month: the budget renews each calendar period (UTC).",
            show_default="what is granted, or lifetime",
        ),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="add: partitions add up. disjoint: only the largest counts; needs --ground.",
            show_default="what is granted, or add",
        ),
    ] = None,
    ground: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Why no person's change touches two partitions: 'add/remove neighbours' or "
            "'membership public and fixed'.",
            show_default="what is granted, or none",
        ),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="public: the table has one fixed set of people, and their number may be known. "
            "Releases of replace_one neighbours need it, of partitions with --ground 'membership "
            "public and fixed' as well. Never say it of a table that somebody can choose.",
            show_default="what is granted, or private",
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="How many attempts to open private data may end badly, or be in progress, before "
            "`acknowledge` is needed.",
            show_default="what is granted, or 3",
        ),
    ] = None,
    sources: Annotated[
        str | None,
        typer.Option(
            metavar="WHICH",
            help="Digests of queries, assets, folders or URLs, as a refusal shows them, separated "
            "by commas: they select the people that --records or --ground speaks of.",
            show_default="what is granted, or none",
        ),
    ] = None,
    approval: Annotated[
        str | None,
        typer.Option(
            metavar="HOW",
            help="none, or required: releases wait for `ledger approve` before they reserve.",
            show_default="what is granted, or none",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Written in the journal.")] = "",
    as_json: AsJson = False,
) -> None:
    r"""Grant a protected dataset its whole budget, or replace the budget that it has.

    ```
    jam-dagster ledger grant --ledger ledger.db --dataset people \
        --epsilon 3 --delta 1e-9 --reason "policy of 2026"
    ```

    The file is made if it is not there. A budget cannot be lowered below what is spent and
    reserved. A budget that renews bounds what is spent on each period, and over a lifetime
    nothing: it is for data that turn over.
    """
    from jam_dagster.privacy import Ledger, Policy, describe_rho
    from jam_dagster.privacy.ledger.approval import ApprovalName

    opened = Ledger(ledger)
    before = opened.balance_if_granted(dataset)
    given = {"period": period, "partitions": partitions, "ground": ground, "records": records}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    policy = replace(Policy() if before is None else before.policy, **changed)
    balance = opened.grant(
        dataset,
        epsilon=epsilon,
        delta=delta,
        policy=policy,
        attempts=attempts,
        sources=sources,
        approval=cast("ApprovalName | None", approval),
        reason=reason,
    )
    print_result(
        _balance_in_json(balance),
        f"{dataset} is granted {describe_rho(balance.granted, balance.delta)}"
        f"{_policy_text(policy)}; {describe_rho(balance.remaining, balance.delta)} is left."
        f"{' Releases wait for approval.' if balance.approval else ''}",
        as_json=as_json,
    )


@app.command()
def upgrade(ledger: LedgerOption, as_json: AsJson = False) -> None:
    """Bring a ledger that an earlier version made up to date.

    No event is rewritten, and the hash of the last stays what it was. `grant` does it too.
    """
    from jam_dagster.privacy import Ledger

    opened = Ledger(ledger)
    opened.upgrade()
    print_result(
        {"ledger": opened.location},
        f"The ledger {opened.location} is up to date.",
        as_json=as_json,
    )


@app.command()
def close(
    ledger: LedgerOption,
    dataset: DatasetOption,
    release: Annotated[str, typer.Option(metavar="NAME", help="The release.")],
    reason: ReasonOption,
    partition: SliceOption = "",
    edition: EditionOption = "1",
    specification: Annotated[
        str,
        typer.Option(
            metavar="DIGEST",
            help="The beginning of its specification's digest; needed where releases of one name "
            "differ in nothing else.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    r"""Close a release that will not continue, and return what it has not spent.

    ```
    jam-dagster ledger close --ledger ledger.db --dataset people \
        --release yearly --reason "wrong public table"
    ```

    Its spent budget stays spent. A closed release draws nothing more: what it drew can be used
    again, and drawing again takes another edition.
    """
    from jam_dagster.privacy import Ledger, describe_rho

    check_reason(reason)
    opened = Ledger(ledger)
    delta = opened.balance(dataset).delta
    known = opened.releases(dataset)
    meant = [
        one
        for one in known
        if (one.key.release, one.key.partition, one.key.edition) == (release, partition, edition)
        and one.key.specification.startswith(specification)
    ]
    still_open = [one for one in meant if not one.closed]
    if len(still_open) > 1:
        raise InputError(
            f"{len(still_open)} open releases are called so, of different specifications: say "
            f"which with --specification. {_open_text(still_open)}"
        )
    if not meant:
        others = [one for one in known if not one.closed]
        raise InputError(
            f"The dataset {dataset!r} has no such release: {release!r}, partition {partition!r}, "
            f"edition {edition!r}. {_open_text(others)}"
        )
    closed = (still_open or meant)[-1]
    returned = closed.close(reason) if still_open else 0.0
    left = opened.balance(dataset).remaining
    said = f"The {closed.key} has ended before: nothing returns."
    if still_open:
        said = (
            f"The {closed.key} is closed; {describe_rho(returned, delta)} returns to {dataset}, "
            f"of which {describe_rho(left, delta)} is left."
        )
    print_result(
        {**vars(closed.key), "rho_returned": returned, "rho_remaining": left},
        said,
        as_json=as_json,
    )


def _open_text(releases: list[Release]) -> str:
    if not releases:
        return "None is open."
    listed = [f"{one.key}, specification {one.key.specification[:12]}" for one in releases]
    return f"Open: {'; '.join(listed)}."


@app.command()
def verify(ledger: LedgerOption, as_json: AsJson = False) -> None:
    """Prove that the journal was not altered and that all balances follow from it.

    It prints the hash of the last event. Keep it elsewhere: a journal whose last events were cut
    off is whole in itself, and only the hash that you kept shows it.
    """
    from jam_dagster.privacy import Ledger

    verification = Ledger(ledger).verify()
    if as_json:
        print_json(asdict(verification))
        return
    if (opened := verification.accesses) is not None and opened.lines:
        tell(
            f"{opened.attempts} attempts to open private data, {opened.not_ended} of which did not "
            f"end well, all in order; the last line of their journal has the hash {opened.head}",
        )
    tell(f"{verification.events} events, all in order; the last has the hash")
    typer.echo(verification.head)


app.command()(acknowledge)
app.command()(rebind)


def _policy_text(policy: Policy) -> str:
    """Return how a budget counts, empty for the default."""
    text = "" if policy.period == "lifetime" else f" each {policy.period}"
    if policy.partitions == "disjoint":
        text += f", of which only the largest partition counts ({policy.ground})"
    if policy.records == "public":
        of = "in each partition is" if policy.partitions == "add" and policy.ground else "is"
        text += f"; the number of records {of} public"
    return text


def _after_another(balance: Balance, events: list[Event]) -> int | None:
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
        if (one.kind.value, one.key, one.opening) == ("reserved", last.key, last.opening)
    )
    # The next release is of a partition that has released nothing yet.
    return balance.remaining_units_after(size, ANOTHER if last.partition else "")


def _balance_in_json(balance: Balance) -> dict[str, Any]:
    shared = balance.population
    return {
        "dataset": balance.dataset,
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "period": balance.period,
        "policy": vars(balance.policy),
        "population": None if shared is None else shared.name,
        **_amounts_in_json(balance, "lifetime_spent"),
    }


def _population_in_json(population: Population) -> dict[str, Any]:
    return {
        "population": population.name,
        "epsilon": population.epsilon,
        "delta": population.delta,
        "datasets": [*population.uses],
        **_amounts_in_json(population),
    }


def _amounts_in_json(budget: Amounts, *more: str) -> dict[str, Any]:
    names = ("granted", "reserved", "spent", "remaining", *more)
    amounts: dict[str, float] = {name: getattr(budget, name) for name in names}
    return {
        "rho": amounts,
        "epsilon_at_delta": {
            **{name: budget.epsilon_of(rho) for name, rho in amounts.items()},
            "remaining": budget.remaining_epsilon,
        },
    }


def _after_in_json(after: int | None) -> dict[str, Any]:
    from jam_dagster.privacy import rho_within

    left = None if after is None or after < 0 else rho_within(after)
    return {"rho_after_another_release": left}


def _access_in_json(balance: Balance, attempts: list[Access]) -> dict[str, Any]:
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


_ROOM = 34
"""Width in a page of 80 columns, next to number, time, kind and rho of an event."""


def _balance_table(balance: Amounts, after: int | None = None) -> Table:
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


def _events_table(events: list[Event], *, total: int) -> Table:
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
