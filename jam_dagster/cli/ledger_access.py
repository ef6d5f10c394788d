"""`jam-dagster ledger acknowledge` and `rebind`: what an operator decides about private data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jam_dagster.cli.console import tell
from jam_dagster.cli.options import (
    DatasetOption,
    LedgerOption,
    ReasonOption,
    SliceOption,
    check_reason,
)

if TYPE_CHECKING:
    from rich.table import Table

    from jam_dagster.privacy.ledger.journal import Access


def acknowledge(ledger: LedgerOption, dataset: DatasetOption, reason: ReasonOption) -> None:
    r"""Let private data be opened again, after attempts to open them that did not end well.

    ```
    jam-dagster ledger acknowledge --ledger ledger.db --dataset people \
        --reason "the domain lacked a value; corrected"
    ```

    Whether an attempt ends well can depend on private values, so after a few that did not the
    dataset stays closed. Look first why they failed: the details lie in the private store, in
    failures/ of the release, or in restricted/failures/ of the folder of `synthesize`. Attempts
    that still run count, and end as they would have.
    """
    from jam_dagster.privacy import Ledger

    check_reason(reason)
    counted = Ledger(ledger).acknowledge(dataset, reason=reason)
    tell(
        f"{counted} attempt{'' if counted == 1 else 's'} to open {dataset} acknowledged."
        if counted
        else f"No attempt to open {dataset} counts: nothing is written.",
    )


def rebind(
    ledger: LedgerOption,
    dataset: DatasetOption,
    reason: ReasonOption,
    partition: SliceOption = "",
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
    tell(
        f"{bound} release{'' if bound == 1 else 's'} of {dataset}{slice_} can be bound once more."
        if bound
        else f"No release of {dataset}{slice_} is bound to a source: nothing is written.",
    )


def attempts_table(attempts: list[Access], table: Table) -> Table:
    """Fill a table with the attempts to open private data that have not ended well."""
    for name in ("when (UTC)", "dataset", "release", "run", "by"):
        table.add_column(name, overflow="fold")
    for one in attempts:
        release = f"{one.release} [{one.partition}]" if one.partition else one.release
        table.add_row(one.at[:16].replace("T", " "), one.dataset, release, one.run_id, one.by)
    return table
