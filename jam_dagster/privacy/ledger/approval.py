"""Releases that wait for a privacy officer's approval before they reserve.

An approval covers exactly one specification of one release, for one partition or all of them. It
may limit the amount that is reserved under it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal

import sqlalchemy as sa

from jam_dagster.errors import NotApprovedError
from jam_dagster.privacy.accounting import Budget, describe_rho, rho_within, units_down
from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.commands import ledger_command, release_options
from jam_dagster.privacy.ledger.holdings import up_to
from jam_dagster.privacy.ledger.journal import Event, Kind, events, read
from jam_dagster.privacy.ledger.policy import REQUIRED
from jam_dagster.privacy.ledger.release_id import ReleaseId
from jam_dagster.privacy.ledger.state import release_state

ALL_PARTITIONS = "*"
"""Stands for every partition of a release in an approval: no partition can have this name."""

KINDS = (Kind.APPROVED, Kind.APPROVAL_WITHDRAWN)


@dataclass
class Approvals:
    """The approved releases of one dataset, from the journal's events in their order."""

    _last: dict[ReleaseId, Event] = field(default_factory=dict)

    @classmethod
    def of(cls, journal: Iterable[Event]) -> Approvals:
        """Return the approvals in a journal; events of other kinds are skipped."""
        made = cls()
        for event in journal:
            made.apply(event)
        return made

    def apply(self, event: Event) -> None:
        """Apply one more event."""
        if event.release_id is not None and event.kind in KINDS:
            self._last[event.release_id] = event

    def standing(self, release_id: ReleaseId) -> Event | None:
        """Return the approval of exactly this release, unless it was withdrawn."""
        last = self._last.get(release_id)
        return last if last is not None and last.kind == Kind.APPROVED else None

    def __iter__(self) -> Iterator[Event]:
        return (one for one in self._last.values() if one.kind == Kind.APPROVED)

    def fault(self, release_id: ReleaseId, units: int) -> str:
        """Return why a release may not reserve an amount in units of 1e-15 rho; empty if it may."""
        found = [
            self.standing(release_id),
            self.standing(replace(release_id, partition=ALL_PARTITIONS)),
        ]
        approved = [one for one in found if one is not None]
        if not approved:
            return "is not approved"
        # Without a limit, the specification alone bounds what is reserved.
        if any(not one.units or units <= one.units for one in approved):
            return ""
        return "asks for more than was approved"


def approvals_of(
    connection: sa.Connection, dataset: str, *, through: int | None = None
) -> Approvals:
    """Return the approved releases of a dataset; see `balance_of` for `through`."""
    kinds = events.c.kind.in_([kind.value for kind in KINDS])
    return Approvals.of(read(connection, events.c.dataset == dataset, kinds, *up_to(through)))


def check_approved(
    connection: sa.Connection, location: str, release_id: ReleaseId, units: int, balance: Balance
) -> None:
    """Raise if a release still waits for approval.

    `units`, in 1e-15 rho, is the whole amount that it would reserve.
    """
    if balance.approval != REQUIRED:
        return
    fault = approvals_of(connection, release_id.dataset).fault(release_id, units)
    if fault:
        raise NotApprovedError(
            f"{release_id} of dataset {release_id.dataset!r} {fault}: it would reserve "
            f"{describe_rho(rho_within(units), balance.delta)} under the specification "
            f"{release_id.specification}, and releases of this dataset wait for approval. Nothing "
            "was reserved. Compare the digest with that of `jam-dagster plan`; the privacy officer "
            f"approves it by: {approve_command(location, release_id, units, balance)}"
        )


def approve_command(location: str, release_id: ReleaseId, units: int, balance: Balance) -> str:
    """Return the command that approves a release."""
    terms = {"specification": release_id.specification, "epsilon": _epsilon_above(units, balance)}
    return ledger_command(
        "approve", location, **release_options(release_id), **terms, reason="REASON"
    )


def _epsilon_above(units: int, balance: Balance) -> str:
    """Return an epsilon of few digits that covers an amount of rho."""
    exact = Decimal(balance.epsilon_of(rho_within(units)))
    for digits in (4, 6, 9, 12, 15):
        rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact)
        if units_down(Budget(float(rounded), balance.delta).rho) >= units:
            break
    return f"{float(rounded):g}" if digits <= 6 else f"{float(rounded)!r}"


def has_reserved(connection: sa.Connection, release_id: ReleaseId) -> bool:
    """Return whether a release holds or has spent an amount."""
    release = release_state(connection, release_id)
    return bool(release.spent) or not release.closed


def not_reserved_yet(connection: sa.Connection, dataset: str) -> tuple[Event, ...]:
    """Return the approvals under which nothing is reserved yet, and those of all partitions."""
    return tuple(
        one
        for one in approvals_of(connection, dataset)
        if one.release_id is not None and not has_reserved(connection, one.release_id)
    )
