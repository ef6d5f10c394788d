"""What time it is for a ledger: never earlier than its last entry.

A renewing budget counts what was reserved in the current period. A clock that is set back would
find an earlier period, in which nothing, or less, was spent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jam_dagster.privacy.ledger.backend import grant_command
from jam_dagster.privacy.ledger.journal import events, instant

Clock = Callable[[], datetime]

TOLERANCE = timedelta(minutes=5)
"""How far the clocks of machines that share a ledger may lie apart."""


def ledger_time(connection: sa.Connection, clock: Clock) -> str:
    """Return the time by a clock, or that of the last entry if it is later; ISO 8601.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        To the journal.
    clock : callable returning datetime
        What tells the time.
    """
    last, _ = _last(connection)
    now = clock().astimezone(UTC)
    return instant(now if last is None else max(now, last))


def clock_fault(connection: sa.Connection, clock: Clock, location: str) -> str:
    """Return what is wrong if a clock is behind the last entry by more than clocks may differ.

    Either this clock is wrong, or that of the machine which made the entry was: only a person can
    tell, so the text says what to do in either case. Empty where nothing is wrong.
    """
    last, dataset = _last(connection)
    now = clock().astimezone(UTC)
    if last is None or last - now <= TOLERANCE:
        return ""
    return (
        f"the clock of this machine says {_told(now)}, and the last entry of the ledger "
        f"{location} was made at {_told(last)}: set the clock. If that entry's time is wrong, "
        "the ledger's owner puts the time right by granting the budget again, with a reason: "
        f"{grant_command(location, dataset or 'ID')} --reason REASON"
    )


def _last(connection: sa.Connection) -> tuple[datetime | None, str]:
    """Return when the last entry was made, and of which dataset it is."""
    found = connection.execute(
        sa.select(events.c.at, events.c.dataset).order_by(events.c.seq.desc()).limit(1)
    ).first()
    if found is None:
        return None, ""
    return datetime.fromisoformat(found.at).astimezone(UTC), found.dataset


def _told(when: datetime) -> str:
    return when.isoformat(sep=" ", timespec="minutes")
