"""Attempts to open private data: journalled before they start, and counted until they end well.

Whether reading a private table fails can depend on its values, so each failure answers a question
about them without a charge. So does an opening that ends well and pays nothing: it is left open
too. The officer grants a number of such attempts; after that an operator must acknowledge them. The
journal holds no cause: the owner of the data keeps it.

The number is no amount that adds up over a lifetime, as rho is: it is how often a person may be
asked before somebody looks.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from jam_dagster.errors import AttemptsError, LedgerIntegrityError, SpecificationError
from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.commands import acknowledge_command
from jam_dagster.privacy.ledger.journal import (
    GENESIS,
    Access,
    AccessKind,
    Kind,
    accesses,
    append_access,
    chain_fault,
    events,
    of_release,
    read_accesses,
)
from jam_dagster.privacy.ledger.release_id import ReleaseId, id_fields

_RELEASE = ("dataset", "release", "partition", "edition")


def check_attempts(attempts: int | None) -> None:
    """Raise SpecificationError unless `attempts` is a number that can be granted, or None."""
    if attempts is None:
        return
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise SpecificationError(
            f"attempts of a budget must be a whole number of 1 or more, got {attempts!r}: it is "
            "how many attempts to open private data may fail before an operator must acknowledge"
            " them"
        )


def open_attempts(connection: sa.Connection, balance: Balance, at: str) -> list[Access]:
    """Return the attempts of a dataset that count against its granted number.

    An attempt counts if it has not ended well, no operator has acknowledged it, and it is in the
    current period (or a later one, where a clock was set back). A lifetime budget has one period.
    """
    acknowledged = sa.select(sa.func.coalesce(sa.func.max(accesses.c.seq), 0)).where(
        accesses.c.dataset == balance.dataset, accesses.c.kind == AccessKind.ACKNOWLEDGED.value
    )
    ended = sa.select(accesses.c.attempt).where(
        accesses.c.dataset == balance.dataset, accesses.c.kind == AccessKind.ENDED.value
    )
    still_open = read_accesses(
        connection,
        accesses.c.dataset == balance.dataset,
        accesses.c.kind == AccessKind.ATTEMPTED.value,
        accesses.c.seq > acknowledged.scalar_subquery(),
        accesses.c.attempt.not_in(ended),
    )
    period = balance.policy.period_of
    return [one for one in still_open if period(one.at) >= period(at)]


def begin_attempt(
    connection: sa.Connection,
    location: str,
    balance: Balance,
    release_id: ReleaseId,
    *,
    at: str,
    run_id: str,
) -> Access:
    """Journal that private data are about to be opened.

    The transaction is one that no other writer can interleave with. Too many attempts that have not
    ended well are an `AttemptsError`.
    """
    dataset, allowed = balance.dataset, balance.attempts
    if len(open_attempts(connection, balance, at)) >= allowed:
        period = "" if balance.period == "lifetime" else f" in {balance.period}"
        raise AttemptsError(
            f"the private data of dataset {dataset!r} stay closed: the granted number of attempts "
            f"to open them{period} did not end well, or paid nothing. A running attempt counts "
            "until it ends. Find out why the others failed, then acknowledge them: "
            f"`{acknowledge_command(location, dataset)}`. "
            "To allow more, grant the budget with --attempts N"
        )
    return append_access(
        connection,
        AccessKind.ATTEMPTED,
        **_named(release_id),
        attempt=secrets.token_hex(16),
        at=at,
        run_id=run_id,
    )


def end_attempt(connection: sa.Connection, attempt: Access, *, at: str) -> None:
    """Journal that an attempt ended well."""
    fields = {name: getattr(attempt, name) for name in (*_RELEASE, "attempt", "run_id", "by")}
    append_access(connection, AccessKind.ENDED, **fields, at=at)


def payments(connection: sa.Connection, release_id: ReleaseId) -> int:
    """Return how often a release has paid for an answer, or shown its public number of records."""
    paid = events.c.kind.in_([Kind.CHARGED.value, Kind.COUNTED.value])
    counted = sa.select(sa.func.count()).select_from(events).where(of_release(release_id), paid)
    return int(connection.execute(counted).scalar_one())


def _named(release_id: ReleaseId) -> dict[str, str]:
    return {name: value for name, value in id_fields(release_id).items() if name in _RELEASE}


@dataclass(frozen=True)
class AccessesVerification:
    """The result of an audit of the journal of attempts that found no fault.

    `not_ended` counts the attempts that have not ended well, acknowledged or not.
    """

    lines: int
    attempts: int
    not_ended: int
    head: str


def verify_accesses(
    journal: Iterable[Access], granted: Collection[str], location: str
) -> AccessesVerification:
    """Replay the journal of attempts against its rules.

    `granted` are the datasets that have a budget. A line that is missing, altered or against the
    rules is a `LedgerIntegrityError`.
    """
    previous, number = GENESIS, 0
    attempts: dict[str, Access] = {}
    ended: set[str] = set()
    for number, line in enumerate(journal, start=1):
        wrong = chain_fault(line, number, previous, "line")
        wrong = wrong or _rule_fault(line, granted, attempts, ended)
        if wrong:
            raise LedgerIntegrityError(
                f"line {line.seq} of the journal of attempts in the ledger {location} {wrong}"
            )
        previous = line.hash
    return AccessesVerification(number, len(attempts), len(attempts) - len(ended), previous)


def _rule_fault(
    line: Access, granted: Collection[str], attempts: dict[str, Access], ended: set[str]
) -> str:
    """Return the fault of a line; without one, note the line and return an empty text."""
    if line.dataset not in granted:
        return f"is about dataset {line.dataset!r}, which was granted nothing"
    if line.kind == AccessKind.ACKNOWLEDGED:
        if line.attempt or line.release or not line.reason:
            return "is no acknowledgement of all attempts of a dataset, with a reason"
        return ""
    if line.kind == AccessKind.ATTEMPTED:
        if not line.attempt or not line.release:
            return "is an attempt without a name or a release"
        if line.attempt in attempts:
            return "has the name of another attempt"
        attempts[line.attempt] = line
        return ""
    begun = attempts.get(line.attempt)
    if begun is None:
        return "ends an attempt that never began"
    if line.attempt in ended:
        return "ends an attempt again"
    if any(getattr(line, name) != getattr(begun, name) for name in _RELEASE):
        return "ends an attempt of another release"
    ended.add(line.attempt)
    return ""
