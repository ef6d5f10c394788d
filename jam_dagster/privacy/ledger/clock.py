"""The ledger's time, which is never earlier than its last entry.

A renewing budget counts the reservations of the current period. A clock that is set back would
select an earlier period, with less spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jam_dagster.privacy.ledger.commands import grant_command
from jam_dagster.privacy.ledger.journal import Event, events, instant

Clock = Callable[[], datetime]

CLOCK_TOLERANCE = timedelta(minutes=5)
"""How far apart the clocks of machines that share a ledger may be."""


def ledger_time(connection: sa.Connection, clock: Clock) -> str:
    """Return the time by a clock, or that of the last entry if it is later; ISO 8601."""
    return _after(_last(connection)[0], clock)


def time_after(tail: Sequence[Event], clock: Clock) -> str:
    """Return the ledger's time where `tail` are its last entries, which were read already."""
    return _after(_time_of(tail[-1].at) if tail else None, clock)


def _after(last: datetime | None, clock: Clock) -> str:
    now = clock().astimezone(UTC)
    return instant(now if last is None else max(now, last))


def clock_fault(connection: sa.Connection, clock: Clock, location: str) -> str:
    """Return the fault of a clock more than `CLOCK_TOLERANCE` behind the last entry, else "".

    Either this clock is wrong, or that of the machine which made the entry was. The text has a
    remedy for both.
    """
    last, dataset = _last(connection)
    now = clock().astimezone(UTC)
    if last is None or last - now <= CLOCK_TOLERANCE:
        return ""
    return (
        f"the clock of this machine says {_minutes(now)}, and the last entry of the ledger "
        f"{location} was made at {_minutes(last)}: set the clock. If that entry's time is wrong, "
        "the ledger's owner corrects it by granting the budget again, with a reason: "
        f"{grant_command(location, dataset or 'ID')} --reason REASON"
    )


def _last(connection: sa.Connection) -> tuple[datetime | None, str]:
    """Return the time and the dataset of the last entry."""
    found = connection.execute(
        sa.select(events.c.at, events.c.dataset).order_by(events.c.seq.desc()).limit(1)
    ).first()
    if found is None:
        return None, ""
    return _time_of(found.at), found.dataset


def _time_of(at: str) -> datetime:
    return datetime.fromisoformat(at).astimezone(UTC)


def _minutes(when: datetime) -> str:
    return when.isoformat(sep=" ", timespec="minutes")
