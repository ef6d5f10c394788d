"""Withdrawals of certificates: their release is no longer reliable, whatever its files say."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.ledger.journal import Event, Kind, append, events, of_release, read
from jam_dagster.privacy.ledger.key import ReleaseKey, key_fields
from jam_dagster.privacy.ledger.state import share_states


def withdraw(
    connection: sa.Connection,
    location: str,
    key: ReleaseKey,
    digest: str,
    *,
    at: str,
    reason: str,
) -> Event:
    """Append that a certificate is withdrawn; see `Ledger.withdraw`."""
    if not share_states(connection, key):
        raise BudgetError(
            f"the ledger {location} knows no {key} of dataset {key.dataset!r} under this "
            "specification: name the ledger that was charged for it"
        )
    withdrawals = read(connection, of_release(key), events.c.kind == Kind.WITHDRAWN.value)
    for event in withdrawals:
        if event.digest == digest:
            return event
    return append(
        connection,
        Kind.WITHDRAWN,
        **key_fields(key),
        digest=digest,
        at=at,
        reason=reason,
    )


def withdrawal_of(journal: Iterable[Event], key: ReleaseKey) -> Event | None:
    """Return the last withdrawal of a release's certificates, or None.

    One withdrawal covers all of them: a certificate that is issued again, by another version or
    for files elsewhere, is about the same release.
    """
    found = [one for one in journal if one.kind == Kind.WITHDRAWN and one.key == key]
    return found[-1] if found else None
