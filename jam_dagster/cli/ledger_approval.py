"""`jam-dagster ledger approve`, and what `ledger show` prints of approvals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jam_dagster.cli.console import print_result
from jam_dagster.cli.ledger_view import event_in_json
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
    from jam_dagster.privacy import Balance, Event, ReleaseId


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
    from jam_dagster.privacy import Ledger, ReleaseId
    from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
    from jam_dagster.privacy.ledger.release_id import check_digest

    check_reason(reason)
    # An approval is of exactly one specification: the beginning of a digest will not do.
    check_digest(specification, "--specification")
    if partition and all_partitions:
        raise InputError("Give --partition or --all-partitions, not both.")
    if withdraw and epsilon is not None:
        raise InputError("--withdraw takes back the whole approval: drop --epsilon.")
    which = ALL_PARTITIONS if all_partitions else partition
    release_id = ReleaseId(dataset, release, specification, which, edition)
    opened = Ledger(ledger)
    if withdraw:
        event = opened.withdraw_approval(release_id, reason=reason)
        said = f"No longer approved: {_id_text(release_id)}."
    else:
        event = opened.approve(release_id, epsilon=epsilon, reason=reason)
        limit = _limit(event, opened.balance(dataset))
        said = f"Approved: {_id_text(release_id)}. It may reserve {limit}."
    print_result(event_in_json(event), said, as_json=as_json)


def _id_text(release_id: ReleaseId | None) -> str:
    """Return a release's id in words, with all partitions and the whole digest."""
    from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS

    if release_id is None:
        return "no release"
    partition = f", partition {release_id.partition!r}" if release_id.partition else ""
    if release_id.partition == ALL_PARTITIONS:
        partition = ", all partitions"
    return (
        f"release {release_id.release!r}{partition}, edition {release_id.edition!r}, of "
        f"{release_id.dataset}, specification {release_id.specification}"
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
            f"Approved and not reserved yet: {_id_text(event.release_id)}, for "
            f"{_limit(event, balance)}, on {event.at[:10]}{by}{reason}."
        )
    return lines
