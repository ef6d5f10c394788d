"""The ledger's time, which is never earlier than its last entry.

A renewing budget counts the reservations of the current period. A clock that is set back would
select an earlier period, with less spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger.commands import grant_command
from jam_dagster.privacy.ledger.journal import Event, instant, last

Clock = Callable[[], datetime]

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far apart the clocks of machines that share a ledger may be."""


def ledger_time(connection: sa.Connection, clock: Clock) -> str:
    """Return the time by a clock, or that of the last entry if it is later; ISO 8601."""
    entry = last(connection)
    return time_after([] if entry is None else [entry], clock)


def time_after(tail: Sequence[Event], clock: Clock) -> str:
    """Return the ledger's time where `tail` are its last entries, which were read already."""
    return instant(max([clock().astimezone(UTC), *map(time_of, tail[-1:])]))


def clock_fault(connection: sa.Connection, clock: Clock, location: str) -> str:
    """Return the fault of a clock more than `CLOCK_TOLERANCE` behind the last entry, else "".

    Either this clock is wrong, or that of the machine which made the entry was. The text has a
    remedy for both.
    """
    entry, now = last(connection), clock().astimezone(UTC)
    if entry is None or time_of(entry) - now <= CLOCK_TOLERANCE:
        return ""
    return (
        f"the clock of this machine says {_minutes(now)}, and the last entry of the ledger "
        f"{location} was made at {_minutes(time_of(entry))}: set the clock. If that entry's time "
        "is wrong, the ledger's owner corrects it by granting the budget again, with a reason: "
        f"{grant_command(location, entry.dataset or 'ID')} --reason REASON"
    )


def time_of(entry: Event) -> datetime:
    """Return the time of an entry, in UTC; raise if it has none."""
    try:
        return datetime.fromisoformat(entry.at).astimezone(UTC)
    except ValueError as error:
        raise LedgerIntegrityError(
            f"event {entry.seq} of the ledger has no time, {entry.at!r}: jam-dagster did not write "
            "it; only the ledger's owner can repair it, from a backup"
        ) from error


def _minutes(when: datetime) -> str:
    return when.isoformat(sep=" ", timespec="minutes")
