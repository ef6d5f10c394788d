"""Moves of a ledger: at every instant at most one of the two places can be written.

The destination first receives the whole journal, ended by an event that closes a ledger and names
the destination. Then the same event closes the origin, and another one opens the destination.
Between the two events neither place can be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from jam_dagster.errors import BudgetError, LedgerIntegrityError
from jam_dagster.privacy.ledger.audit import verify_journal
from jam_dagster.privacy.ledger.balance import balance_of
from jam_dagster.privacy.ledger.commands import ledger_command
from jam_dagster.privacy.ledger.journal import (
    Access,
    Event,
    Kind,
    append,
    copy_rows,
    moved_to,
    read,
    read_accesses,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

    from jam_dagster.privacy.ledger.backend import LedgerBackend

_Line = TypeVar("_Line", Event, Access)

_CLAIM = "moving"


def move_journal(
    origin: LedgerBackend, destination: LedgerBackend, *, at: str, reason: str
) -> None:
    """Move a journal, or finish an interrupted move.

    A missing destination is created. If the copied journal does not add up, the destination stays
    unchanged.
    """
    with origin.claim(_CLAIM) as taken:
        if not taken:
            raise BudgetError(f"the ledger {origin.location} is being moved by another process")
        _check_destination(origin, destination)
        destination.create()
        destination.upgrade()
        # If both are names of one database, the claim is taken already.
        with destination.claim(_CLAIM) as free:
            if not free:
                raise BudgetError(
                    f"{destination.location} is the ledger {origin.location} by another name, or "
                    "is being moved itself: name another destination"
                )
            _move(origin, destination, {"at": at, "reason": reason})


def _check_destination(origin: LedgerBackend, destination: LedgerBackend) -> None:
    """Raise if the origin has moved elsewhere, before anything is created."""
    with origin.reading() as here:
        place = moved_to(here)
    if place and place != destination.place:
        raise BudgetError(
            f"the ledger {origin.location} has moved to {place} already. If that move was "
            "interrupted, finish it: "
            f"{ledger_command('move', origin.location, to=place, reason='REASON')}"
        )


def _move(origin: LedgerBackend, destination: LedgerBackend, details: dict[str, str]) -> None:
    with origin.writing() as here, destination.writing() as there:
        if _is_there(here, there, origin, destination):
            return
        held = read(there)
        if not moved_to(here):
            closing = _closing(held, read(here), destination)
            if closing is None:
                append(here, Kind.MOVED, "", step=destination.place, **details)
            else:
                copy_rows(here, [closing], [])
        journal, attempts = read(here), read_accesses(here)
        copy_rows(there, journal[len(held) :], attempts[len(read_accesses(there)) :])
        _check(there, journal, attempts, destination, details["at"])
        # The destination holds everything, and ends in the event that closes a ledger.
    # The origin is closed from here on.
    with destination.writing() as there:
        if moved_to(there):
            append(there, Kind.ARRIVED, "", step=destination.place, **details)


def _closing(
    held: Sequence[Event], journal: Sequence[Event], destination: LedgerBackend
) -> Event | None:
    """Return the event that a move wrote to its destination before it could close the origin."""
    if held and held[-1].kind == Kind.MOVED and list(held[:-1]) == list(journal):
        return held[-1] if held[-1].step == destination.place else None
    return None


def _check(
    there: sa.Connection,
    journal: Sequence[Event],
    attempts: Sequence[Access],
    destination: LedgerBackend,
    at: str,
) -> None:
    """Raise unless a destination holds what the origin does, and its balances follow from it."""
    held = read(there)
    verify_journal(held, lambda dataset: balance_of(there, dataset, at), destination.location, at)
    if (held, read_accesses(there)) != (journal, attempts):
        raise LedgerIntegrityError(
            f"the copy of the journal in {destination.location} differs from the origin; nothing "
            "was copied. Check both places with `jam-dagster ledger verify`"
        )


def _is_there(
    here: sa.Connection, there: sa.Connection, origin: LedgerBackend, destination: LedgerBackend
) -> bool:
    """Return whether the move is finished already; raise if it is impossible."""
    journal, held = read(here), read(there)
    moved = bool(moved_to(here))
    if moved and _begins(held, journal) and len(held) > len(journal):
        return True
    if _closing(held, journal, destination) is not None:
        return False
    if _begins(held, journal) and len(held) > len(journal):
        raise BudgetError(
            f"{destination.location} has continued since {origin.location}, which is an older copy "
            "of it: use the newer one"
        )
    if not (_begins(journal, held) and _begins(read_accesses(here), read_accesses(there))):
        raise BudgetError(
            f"{destination.location} holds another ledger: name an empty place, or one that this "
            "ledger has left"
        )
    return False


def _begins(lines: Sequence[_Line], first: Sequence[_Line]) -> bool:
    return list(lines[: len(first)]) == list(first)
