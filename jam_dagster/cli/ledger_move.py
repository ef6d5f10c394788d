"""`jam-dagster ledger move`."""

from __future__ import annotations

from typing import Annotated

import typer

from jam_dagster.cli.console import tell
from jam_dagster.cli.options import LedgerOption, ReasonOption, check_reason


def move(
    ledger: LedgerOption,
    to: Annotated[
        str,
        typer.Option(metavar="FILE", help="Its new place: a file, or postgresql://..."),
    ],
    reason: ReasonOption,
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
    typer.echo(proof.head)
    before, now = (default_private_store(one.file, one.place) for one in (opened, Ledger(to)))
    if not carry_private_store(before, now):
        tell(
            f"The private store {now} has another secret than {before}: name the latter with "
            "--private-store when a release is made again.",
        )
