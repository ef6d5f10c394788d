"""Attempts to open private data: journalled before they are made, and counted until they end well.

Whether reading a private table fails can depend on its values, so each failure answers a question
about them, at no price. The officer says how many a dataset bears; after that an operator has to
look. The journal holds no cause: that lies with the owner of the data.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from jam_dagster.errors import AttemptsError, LedgerIntegrityError, SpecificationError
from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.journal import (
    GENESIS,
    Access,
    AccessKind,
    accesses,
    append_access,
    read_accesses,
)
from jam_dagster.privacy.ledger.key import ReleaseKey, key_fields

_RELEASE = ("dataset", "release", "partition", "edition")


def check_attempts(attempts: int | None) -> None:
    """Raise SpecificationError unless it is a number of attempts that can be granted, or None."""
    if attempts is None:
        return
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise SpecificationError(
            f"attempts of a budget must be a whole number of 1 or more, got {attempts!r}: it is "
            "how many attempts to open private data may end badly before an operator has to look"
        )


def acknowledge_command(location: str, dataset: str = "ID") -> str:
    """Return the command that acknowledges attempts, as errors tell it."""
    return f"jam-dagster ledger acknowledge --ledger {location} --dataset {dataset} --reason REASON"


def open_attempts(connection: sa.Connection, balance: Balance, at: str) -> list[Access]:
    """Return the attempts of a dataset that count against what it was granted.

    Those of the period of an instant, or of a later one where a clock was set back, that have not
    ended and that no operator has acknowledged; where the budget is for a lifetime, of all time.
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
    key: ReleaseKey,
    *,
    at: str,
    run_id: str,
    by: str,
) -> Access:
    """Journal that private data are about to be opened.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        In a transaction that no other writer can interleave with.
    location : str
        How errors call the ledger.
    balance : Balance
        Of the dataset.
    key : ReleaseKey
        For which release.
    at, run_id, by : str
        Written in the journal.

    Raises
    ------
    AttemptsError
        If as many attempts as were granted have not ended well.
    """
    dataset, allowed = balance.dataset, balance.attempts
    if len(open_attempts(connection, balance, at)) >= allowed:
        period = "" if balance.period == "lifetime" else f" in {balance.period}"
        raise AttemptsError(
            f"the private data of dataset {dataset!r} stay closed: as many attempts to open them"
            f"{period} as are granted did not end well. An attempt that still runs counts until it "
            "ends. Look why the others failed, then acknowledge them: "
            f"`{acknowledge_command(location, dataset)}`. "
            "For more at a time, grant the budget with --attempts N"
        )
    return append_access(
        connection,
        AccessKind.ATTEMPTED,
        **_named(key),
        attempt=secrets.token_hex(16),
        at=at,
        run_id=run_id,
        by=by,
    )


def end_attempt(connection: sa.Connection, attempt: Access, *, at: str) -> None:
    """Journal that an attempt ended well."""
    said = {name: getattr(attempt, name) for name in (*_RELEASE, "attempt", "run_id", "by")}
    append_access(connection, AccessKind.ENDED, **said, at=at)


def _named(key: ReleaseKey) -> dict[str, str]:
    return {name: value for name, value in key_fields(key).items() if name in _RELEASE}


@dataclass(frozen=True)
class AccessesVerification:
    """What an audit of the journal of attempts found in order.

    Parameters
    ----------
    lines : int
        How many lines it holds.
    attempts, not_ended : int
        How many attempts, and of these how many have not ended well, acknowledged or not.
    head : str
        Hash of the last line.
    """

    lines: int
    attempts: int
    not_ended: int
    head: str


def verify_accesses(
    journal: Iterable[Access], granted: Collection[str], location: str
) -> AccessesVerification:
    """Replay the journal of attempts against its rules.

    Parameters
    ----------
    journal : iterable of Access
        All lines, in order of their number.
    granted : collection of str
        The datasets that have a budget.
    location : str
        How errors call the ledger.

    Raises
    ------
    LedgerIntegrityError
        If a line is missing, altered or against the rules.
    """
    previous, number = GENESIS, 0
    attempts: dict[str, Access] = {}
    ended: set[str] = set()
    for number, line in enumerate(journal, start=1):
        wrong = _chain_fault(line, number, previous) or _rule_fault(line, granted, attempts, ended)
        if wrong:
            raise LedgerIntegrityError(
                f"line {line.seq} of the journal of attempts in the ledger {location} {wrong}"
            )
        previous = line.hash
    return AccessesVerification(number, len(attempts), len(attempts) - len(ended), previous)


def _chain_fault(line: Access, number: int, previous: str) -> str:
    if line.seq != number:
        return f"should be line {number}: one is missing"
    if line.previous != previous:
        return "does not carry the hash of the line before it"
    if line.hash != line.seal():
        return "was altered: its hash does not fit what it says"
    return ""


def _rule_fault(
    line: Access, granted: Collection[str], attempts: dict[str, Access], ended: set[str]
) -> str:
    """Return what is wrong with a line, or note it and return nothing."""
    if line.dataset not in granted:
        return f"is about dataset {line.dataset!r}, which was granted nothing"
    if line.kind == AccessKind.ACKNOWLEDGED:
        if line.attempt or line.release or not line.reason:
            return "acknowledges something else than all attempts of a dataset, for a reason"
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
