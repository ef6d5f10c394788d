"""Whether the grant of a dataset covers the reservation of a release, before it pays for a draw.

Whoever may write what releases write could insert a reservation that no opening has planned.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger.approval import REQUIRED, approvals_of
from jam_dagster.privacy.ledger.balance import Balance, balance_of, holdings
from jam_dagster.privacy.ledger.journal import Event
from jam_dagster.privacy.ledger.key import ReleaseKey
from jam_dagster.privacy.ledger.policy import mixture_fault


def check_covered(
    connection: sa.Connection, location: str, key: ReleaseKey, reserved: Collection[Event]
) -> None:
    """Raise LedgerIntegrityError unless a grant covered a release's reservation as it was written.

    `reserved` are the reservations of the shares of its last opening. Entries that came later do
    not count, so the answer never changes.
    """
    last = max(reserved, key=lambda event: event.seq)
    balance = balance_of(connection, key.dataset, last.at, through=last.seq)
    fault = (
        "is of a dataset that was granted nothing"
        if balance is None
        else _fault(connection, balance, key, reserved, last)
    )
    if fault:
        raise LedgerIntegrityError(
            f"the reservation of {key} of dataset {key.dataset!r} in the ledger {location} {fault}:"
            " jam-dagster did not write it, and it pays for no draw. Run `jam-dagster ledger "
            "verify`; only the ledger's owner can repair it, from a backup"
        )


def _fault(
    connection: sa.Connection,
    balance: Balance,
    key: ReleaseKey,
    reserved: Collection[Event],
    last: Event,
) -> str:
    if balance.remaining_units < 0:
        return "is of more than the grant had left"
    if any(one.counts_in != balance.policy.period_of(one.at) for one in reserved):
        return "counts in another period than its own"
    if fault := mixture_fault(balance.policy, holdings(connection, key.dataset, through=last.seq)):
        return f"is of a budget that {fault}"
    if balance.approval != REQUIRED:
        return ""
    approvals = approvals_of(connection, key.dataset, through=last.seq)
    return approvals.fault(key, sum(one.units for one in reserved))
