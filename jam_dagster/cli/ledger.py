"""`jam-dagster ledger`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jam_dagster.cli.console import group, print_json, print_result, stdout, tell
from jam_dagster.cli.ledger_approval import approval_lines, approve
from jam_dagster.cli.ledger_signing_keys import app as signing_key_app
from jam_dagster.cli.ledger_view import (
    access_in_json,
    after_another,
    after_in_json,
    attempts_table,
    balance_in_json,
    decisions_table,
    event_in_json,
    events_table,
    policy_text,
    print_balance,
)
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
    from jam_dagster.privacy import Ledger, Reservation

app = group("Who spent what on which protected dataset.")

app.command()(approve)
app.add_typer(signing_key_app, name="key")


@app.command()
def move(
    ledger: LedgerOption,
    to: Annotated[
        str, typer.Option(metavar="FILE", help="Its new place: a file, or postgresql://...")
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
        "the hash"
    )
    if as_json:
        print_json({"ledger": opened.moved_to, "events": proof.events, "head": proof.head})
    else:
        typer.echo(proof.head)
    before, now = (default_private_store(one.file, one.place) for one in (opened, Ledger(to)))
    if not carry_private_store(before, now):
        tell(
            f"The private store {now} has another secret than {before}: name the latter with "
            "--private-store when a release is repeated."
        )


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

    It also shows the rest after one more release of the size of the last, and who granted, raised,
    approved and withdrew what, when and why.

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
    after = {balance.dataset: after_another(balance, events) for balance in balances}
    attempts = {one.dataset: opened.open_attempts(one.dataset) for one in balances}
    if as_json:
        print_json(
            {
                "datasets": [
                    {
                        **balance_in_json(balance),
                        **after_in_json(after[balance.dataset]),
                        **access_in_json(balance, attempts[balance.dataset]),
                        "approval": balance.approval or "none",
                        "approved": [event_in_json(one) for one in approved[balance.dataset]],
                    }
                    for balance in balances
                ],
                "by_hand": opened.by_hand(),
                "identity": opened.identity,
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
    console.print(f"Its identity is {opened.identity[:12]}.")
    for balance in balances:
        print_balance(console, balance, after[balance.dataset])
    if opened.by_hand():
        console.print("Definitions grant no new dataset: the officer does, by hand.")
    if still_open := [one for listed in attempts.values() for one in listed]:
        title = "Attempts to open private data that have not ended, or paid nothing"
        console.print(attempts_table(still_open, title))
    for balance in balances:
        for line in approval_lines(balance, approved[balance.dataset]):
            console.print(line, soft_wrap=True)
    if (decisions := decisions_table(events, opened.acknowledgements(dataset))) is not None:
        console.print(decisions)
    if last and events:
        console.print(events_table(events[-last:], total=len(events)))


@app.command()
def grant(
    ledger: LedgerOption,
    dataset: Annotated[
        str,
        typer.Option(
            metavar="ID", help="The protected dataset: the same people, wherever they are stored."
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The most that all its releases together may spend.",
            show_default="what is granted; a first grant needs it",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="delta of the budget.", show_default="what is granted; a first grant needs it"
        ),
    ] = None,
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
            help="add: partitions add up. disjoint: only the largest of one table counts; needs "
            "--ground. 'disjoint in all tables': several tables, and no person is in two "
            "partitions of all of them.",
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
    selection_delta: Annotated[
        float | None,
        typer.Option(
            metavar="DELTA",
            help="How much of delta the selections of values may have: it bounds the probability "
            "that they publish a value of one person alone. Rho has the rest of delta.",
            show_default="what is granted, or 0",
        ),
    ] = None,
    definition: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DEFS.YAML",
            help="A release that this ledger pays for: its file or folder, next to which ledger.id "
            "names the ledger. It may be given again.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str,
        typer.Option(
            help="Written in the journal. Needed to raise epsilon or delta, and to end approvals."
        ),
    ] = "",
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
    from jam_dagster.privacy.ledger.identity import (
        check_ledger,
        folder_of,
        read_ledger_id,
        write_ledger_id,
    )
    from jam_dagster.privacy.ledger.policy import ApprovalName

    opened = Ledger(ledger)
    beside = [folder_of(one) for one in definition or ()]
    for folder in beside:
        # Another ledger is adopted, with a reason.
        check_ledger(opened, read_ledger_id(folder))
    before = opened.balance_if_granted(dataset)
    if before is not None:
        epsilon = before.epsilon if epsilon is None else epsilon
        delta = before.granted_delta if delta is None else delta
        raised = epsilon > before.epsilon or delta > before.granted_delta
        if raised and not reason.strip():
            raise InputError(
                f"{dataset} has epsilon {before.epsilon:g} at delta {before.granted_delta:g}: say"
                " why it is raised by --reason, which the journal keeps."
            )
        if before.approval and approval == "none" and not reason.strip():
            raise InputError(
                f"releases of {dataset} wait for approval: say why they need none from now on by"
                " --reason, which the journal keeps."
            )
    if epsilon is None or delta is None:
        raise InputError(f"{dataset} has no grant: state --epsilon and --delta.")
    given = {"period": period, "partitions": partitions, "ground": ground, "records": records}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    held = Policy() if before is None else before.policy
    if partitions == "add" and held.parallel:
        # The ground of disjoint partitions, unless the grant names one.
        changed.setdefault("ground", "")
    policy = replace(held, **changed)
    balance = opened.grant(
        dataset,
        epsilon=epsilon,
        delta=delta,
        policy=policy,
        attempts=attempts,
        sources=sources,
        approval=cast("ApprovalName | None", approval),
        selections=selection_delta,
        reason=reason,
    )
    for folder in beside:
        tell(f"{write_ledger_id(folder, opened.identity)} names this ledger: commit it.")
    print_result(
        balance_in_json(balance),
        f"{dataset} is granted {describe_rho(balance.granted, balance.delta)}"
        f"{policy_text(policy)}; {describe_rho(balance.remaining, balance.delta)} is left."
        f"{' Releases wait for approval.' if balance.approval else ''}",
        as_json=as_json,
    )


@app.command()
def adopt(
    ledger: LedgerOption,
    definition: Annotated[
        list[Path],
        typer.Argument(
            metavar="DEFS.YAML...",
            help="The releases that this ledger pays for: each one's file, or its folder.",
            show_default=False,
        ),
    ],
    reason: ReasonOption,
    as_json: AsJson = False,
) -> None:
    r"""Name a ledger next to releases' definitions, which are refused any other from then on.

    ```
    jam-dagster ledger adopt --ledger .jam/ledger.sqlite \
        --reason "the ledger of this project" my_project/defs/people
    ```

    A repository has no ledger, so on another machine the same project would begin one of its own,
    with a whole budget. The file `ledger.id` next to each definition is to be committed. A ledger
    that moves keeps its identity, and so has a copy: two copies that are both used spend twice.
    """
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.ledger.identity import folder_of, write_ledger_id

    check_reason(reason)
    beside = [folder_of(one) for one in definition]
    new = not Ledger(ledger).exists
    identity = Ledger(ledger).adopt(reason=reason)
    files = [write_ledger_id(folder, identity) for folder in beside]
    print_result(
        {"ledger": Ledger(ledger).location, "identity": identity, "files": [*map(str, files)]},
        f"{', '.join(map(str, files))} names this ledger: commit it."
        f"{' The ledger is new, and knows no release.' if new else ''}",
        as_json=as_json,
    )


@app.command()
def by_hand(ledger: LedgerOption, reason: ReasonOption, as_json: AsJson = False) -> None:
    r"""End grants of new datasets by definitions, for good: the officer grants each by hand.

    ```
    jam-dagster ledger by-hand --ledger ledger.db --reason "the datasets of 2026 are granted"
    ```

    A new name in the `budgets` of Dagster's definitions is refused from then on, since the same
    people would have another budget under it. A grant that was made stays.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    opened = Ledger(ledger)
    opened.grant_by_hand(reason=reason)
    print_result(
        {"ledger": opened.location, "by_hand": True},
        f"Definitions grant no new dataset in {opened.location} from now on.",
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
        {"ledger": opened.location}, f"The ledger {opened.location} is up to date.", as_json=as_json
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
    known = opened.reservations(dataset)
    meant = [
        one
        for one in known
        if (one.release_id.release, one.release_id.partition, one.release_id.edition)
        == (release, partition, edition)
        and one.release_id.specification.startswith(specification)
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
    said = f"The {closed.release_id} has ended before: nothing returns."
    if still_open:
        said = (
            f"The {closed.release_id} is closed; {describe_rho(returned, delta)} returns to "
            f"{dataset}, of which {describe_rho(left, delta)} is left."
        )
    print_result(
        {**vars(closed.release_id), "rho_returned": returned, "rho_remaining": left},
        said,
        as_json=as_json,
    )


def _open_text(releases: list[Reservation]) -> str:
    if not releases:
        return "None is open."
    listed = [
        f"{one.release_id}, specification {one.release_id.specification[:12]}" for one in releases
    ]
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
            f"end well, all in order; the last line of their journal has the hash {opened.head}"
        )
    tell(f"{verification.events} events, all in order; the last has the hash")
    typer.echo(verification.head)


@app.command()
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


@app.command()
def rebind(
    ledger: LedgerOption,
    dataset: DatasetOption,
    reason: ReasonOption,
    partition: SliceOption = "",
    table: Annotated[
        str,
        typer.Option(
            metavar="DIGEST",
            help="The table that all releases of the partition are of, as the refusal of a run "
            "shows it; by default, each keeps the table that it is of.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    r"""Let releases be bound to other sources, for a file or a database that has moved.

    ```
    jam-dagster ledger rebind --ledger ledger.db --dataset people \
        --reason "people.csv is now on the new server"
    ```

    A release reads the source that it was reserved for. After this, the next run of each release
    of the dataset, or of the partition, binds the source that it reads then. See that it is the
    same table: other records under one reservation are an answer that was not paid for. If
    partitions are disjoint, see also that no other one reads the file that is let go: the two are
    compared no more. Disjoint partitions of one table stay of that table, until --table names the
    one that has taken its place.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    opened = Ledger(ledger)
    bound = opened.rebind(dataset, partition=partition, table=table, reason=reason)
    slice_ = f", partition {partition}" if partition else ""
    print_result(
        {"dataset": dataset, "partition": partition, "releases": bound},
        f"{bound} release{'' if bound == 1 else 's'} of {dataset}{slice_} can be bound once more."
        if bound
        else f"No release of {dataset}{slice_} is bound to another source: nothing is written."
        f"{_partitions_text(opened, dataset, partition)}",
        as_json=as_json,
    )


def _partitions_text(ledger: Ledger, dataset: str, partition: str) -> str:
    """Return which other partitions have releases, if any do."""
    ids = (one.release_id for one in ledger.reservations(dataset))
    others = sorted({one.partition for one in ids if one.partition} - {partition})
    more = f" and {len(others) - 12} more" if len(others) > 12 else ""
    listed = ", ".join(others[:12])
    return f" Name one of its partitions by --partition: {listed}{more}." if others else ""
