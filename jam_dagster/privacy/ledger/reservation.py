"""A release's reservation in the ledger, and the accounts of its shares."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from jam_dagster.errors import (
    LedgerIntegrityError,
    ReleaseClosedError,
    SourceBindingError,
    SpecificationError,
)
from jam_dagster.privacy.account import check_charge
from jam_dagster.privacy.accounting import check_rho, delta_left, rho_within, units_up
from jam_dagster.privacy.ledger.approval import Approvals, approvals_of
from jam_dagster.privacy.ledger.backend import LedgerBackend
from jam_dagster.privacy.ledger.balance import Balance, balance_of
from jam_dagster.privacy.ledger.clock import Clock, time_after
from jam_dagster.privacy.ledger.commands import rebind_command
from jam_dagster.privacy.ledger.holdings import holdings, last_grant
from jam_dagster.privacy.ledger.journal import (
    Event,
    Kind,
    append,
    append_after,
    events,
    of_release,
    read,
    utc_now,
)
from jam_dagster.privacy.ledger.policy import REQUIRED, Holding, mixture_fault
from jam_dagster.privacy.ledger.release_id import ReleaseId, check_name, id_fields
from jam_dagster.privacy.ledger.state import KeptView, ReleaseView, ShareState


@dataclass(frozen=True)
class Reservation:
    """The reservation of one release; `Ledger.open_release` and `Ledger.reservation` return it.

    It can be pickled, and its accounts see the charges of other processes: each transaction reads
    what was added to the journal since the one before, and all of it if the journal does not
    continue what was read. A transaction that writes raises if the journal has less than was read.

    Parameters
    ----------
    backend : LedgerBackend
        The backend of the journal.
    release_id : ReleaseId
        The release.
    shares : mapping of str to float
        Rho reserved for each share.
    run_id : str
        Written with each charge.
    clock : callable returning datetime
        Returns the time.
    """

    backend: LedgerBackend = field(repr=False)
    release_id: ReleaseId
    shares: Mapping[str, float]
    run_id: str = ""
    clock: Clock = field(default=utc_now, repr=False, compare=False)
    _kept: KeptView = field(default_factory=KeptView, init=False, repr=False, compare=False)

    @contextmanager
    def _reading(self) -> Iterator[ReleaseView]:
        with (
            self.backend.reading() as connection,
            self._kept.through(connection, self.release_id) as view,
        ):
            yield view

    @contextmanager
    def _writing(self) -> Iterator[tuple[sa.Connection, ReleaseView]]:
        with (
            self.backend.writing() as connection,
            self._kept.through(connection, self.release_id, writing=True) as view,
        ):
            yield connection, view
        view.committed()

    def _check_covered(self, connection: sa.Connection, view: ReleaseView) -> None:
        """Raise unless a grant covers the reservation; look only if it is not the one before."""
        reserved = [state.reservation for state in view.shares.values()]
        hashes = frozenset(event.hash for event in reserved)
        if hashes != view.covered:
            check_covered(connection, self.backend.location, self.release_id, reserved)
            view.covered = hashes

    def _details(self, view: ReleaseView) -> dict[str, str]:
        return {"at": time_after(view.tail, self.clock), "run_id": self.run_id}

    def account(self, share: str) -> LedgerAccount:
        """Return the account of a share.

        Raises
        ------
        SpecificationError
            If nothing was reserved under that name.
        """
        if share not in self.shares:
            raise SpecificationError(
                f"{self.release_id} has no share {share!r}; its shares are {sorted(self.shares)}"
            )
        return LedgerAccount(self, share)

    @property
    def spent(self) -> float:
        """Rho charged to all shares so far."""
        with self._reading() as view:
            return rho_within(sum(state.spent for state in view.opened.values()))

    @property
    def closed(self) -> bool:
        """Whether all shares are closed."""
        with self._reading() as view:
            return all(state.closed for state in view.opened.values())

    def close(self, reason: str = "") -> float:
        """Close all shares and return the rho that went back to the dataset; idempotent.

        Parameters
        ----------
        reason : str
            Written in the journal.

        Raises
        ------
        BudgetError
            If the ledger cannot be written.
        """
        check_name(reason, "the reason", required=False)
        with self._writing() as (connection, view):
            details = self._details(view)
            return rho_within(
                sum(
                    close_share(connection, self.release_id, share, state, **details, reason=reason)
                    for share, state in view.opened.items()
                )
            )


@dataclass(frozen=True)
class LedgerAccount:
    """The account of one share of a release; an `Account` that survives the process.

    A draw takes two transactions, `charge` and `confirm`. Each one reads what was added to the
    journal since the transaction before, and then writes: what another process, an officer, a move
    or a restored ledger did is noticed there. So no read precedes them.

    Parameters
    ----------
    reservation : Reservation
        The reservation of its release.
    share : str
        The name of the share.
    """

    reservation: Reservation
    share: str

    @cached_property
    def reserved(self) -> float:
        """Rho of the whole share.

        It is read once, so that a run divides one amount. If the share ended meanwhile, or was
        opened again with another amount, the charge notices, which counts what is left.
        """
        with self._state() as state:
            return rho_within(state.reserved)

    @property
    def selections(self) -> int:
        """Delta that the share has for selections of values, in units of 1e-18."""
        with self._state() as state:
            return state.reservation.selections or 0

    @property
    def spent(self) -> float:
        """Rho charged so far."""
        with self._state() as state:
            return rho_within(state.spent)

    @property
    def remaining(self) -> float:
        """Rho that can still be charged; 0.0 once closed."""
        with self._state() as state:
            return 0.0 if state.closed else rho_within(state.left)

    @property
    def closed(self) -> bool:
        """Whether the account has ended."""
        with self._state() as state:
            return state.closed

    def charged(self, step: str) -> float | None:
        """Return the rho charged for `step`, or None if it was never charged."""
        with self._state() as state:
            units = state.charges.get(step)
        return None if units is None else rho_within(units)

    def charge(self, step: str, rho: float) -> None:
        """Charge `rho` for `step`; see `Account.charge`. Durable on return.

        Raises
        ------
        SpecificationError, ChargedBeforeError, ReleaseClosedError, BudgetExceededError
            As `Account.charge` says.
        LedgerIntegrityError
            If no grant covers the reservation: somebody else wrote it; or if the ledger did not
            take the outcome of an earlier draw of this process.
        BudgetError
            If the ledger cannot be written. Nothing was charged then, except perhaps where the
            message says that the connection was lost during the commit: the draw must not be made,
            and counts as lost if it was charged.
        """
        check_name(step, "the step")
        units = units_up(check_rho(rho))
        release_id = self.reservation.release_id
        with self.reservation._writing() as (connection, view):
            if self.reservation._kept.failed:
                raise LedgerIntegrityError(
                    f"the ledger did not take the outcome of an earlier draw of {release_id}, so "
                    "this process draws nothing more for it: run the release again, which resumes "
                    "it"
                )
            state = view.share(self.share)
            grant = last_grant(connection, release_id.dataset) if units > state.left else None
            check_charge(
                step,
                units,
                left=state.left,
                already=step in state.charges,
                closed=state.closed,
                account=f"share {self.share!r} of {release_id}",
                delta=None
                if grant is None
                else delta_left(grant.delta or 0.0, grant.selections or 0),
            )
            self.reservation._check_covered(connection, view)
            self._write(connection, view, Kind.CHARGED, units=units, step=step)

    def confirm(self, step: str, digest: str) -> None:
        """Journal the digest of a stored outcome; see `Account.confirm`. Durable on return.

        Raises
        ------
        LedgerIntegrityError, ReleaseClosedError, BudgetError
            As `Account.confirm` says; BudgetError if the ledger cannot be written.
        """
        try:
            # No read comes first: a transaction that finds the digest there writes nothing.
            with self.reservation._writing() as (connection, view):
                # No other run draws for this release, but an operator may have closed it meanwhile.
                if self._is_unconfirmed(view, step, digest):
                    self._write(connection, view, Kind.STORED, step=step, digest=digest)
        except ReleaseClosedError:
            raise
        except BaseException:
            # The digest may not be durable, or the ledger is another one.
            self.reservation._kept.failed = True
            raise

    def confirmed(self, step: str) -> bool:
        """Return whether the ledger has a digest of the outcome of `step`."""
        with self.reservation._reading() as view:
            return view.digest(self.share, step) is not None

    def derive(self, step: str, digest: str) -> None:
        """Journal the digest of what follows from outcomes, durably; see `Account.derive`.

        A share that has ended takes it too: nothing is charged on it.

        Raises
        ------
        LedgerIntegrityError, BudgetError
            As `Account.derive` says; BudgetError if the ledger cannot be written.
        """
        with self.reservation._writing() as (connection, view):
            noted = view.derived(self.share, step)
            if noted is None:
                self._write(connection, view, Kind.DERIVED, step=step, digest=digest)
            elif noted != digest:
                raise LedgerIntegrityError(
                    f"{step} of {self.reservation.release_id} was changed or lost after the ledger "
                    "had its digest, and this machine, or its software, finds another one. Restore "
                    "that file of the stored outcomes from a copy, run it on the machine that "
                    "drew, or give the release another edition. All charges stay"
                )

    def derived(self, step: str, digest: str) -> bool:
        """Return whether the ledger has this digest of what follows from outcomes."""
        with self.reservation._reading() as view:
            return view.derived(self.share, step) == digest

    def _is_unconfirmed(self, view: ReleaseView, step: str, digest: str) -> bool:
        """Return whether the digest must be written; raise if it cannot be."""
        release_id, stored = self.reservation.release_id, view.digest(self.share, step)
        if stored == digest:
            return False
        if stored is not None:
            raise LedgerIntegrityError(
                f"the stored outcome of {step} of {release_id} does not match its digest in the "
                "ledger: it was changed after it was drawn. Restore the stored outcomes "
                "from a copy; nothing was charged"
            )
        state = view.share(self.share)
        if step not in state.charges:
            raise LedgerIntegrityError(
                f"the outcome of {step} of {release_id} is stored and was never charged; give the "
                "ledger that charged it"
            )
        if state.closed:
            raise ReleaseClosedError(
                f"share {self.share!r} of {release_id} was closed before the outcome of {step} was "
                "journalled; it counts as spent, and cannot be used"
            )
        return True

    def _write(
        self, connection: sa.Connection, view: ReleaseView, kind: Kind, **details: Any
    ) -> None:
        """Append an event of the share to the journal that the view was read from."""
        view.check_not_moved()
        state = view.share(self.share)
        fields = _fields(
            self.reservation.release_id, self.share, state, **self.reservation._details(view)
        )
        view.wrote = append_after(connection, view.tail, kind, **fields, **details)

    def publish_records(self, records: int) -> None:
        """Journal the public number of records; see `Account.publish_records`. Durable on return.

        Raises
        ------
        SourceBindingError, ReleaseClosedError, BudgetError
            As `Account.publish_records` says; BudgetError if the ledger cannot be written.
        """
        location, release_id = self.reservation.backend.location, self.reservation.release_id
        with self.reservation._writing() as (connection, view):
            details = self.reservation._details(view)
            count_records(connection, location, release_id, records, view.opened, **details)

    def close(self, reason: str = "") -> float:
        """Close the account and return its unspent rho to the dataset; idempotent.

        Parameters
        ----------
        reason : str
            Written in the journal.

        Returns
        -------
        float
            Rho that went back to the dataset, 0.0 if the account was closed before.

        Raises
        ------
        BudgetError
            If the ledger cannot be written.
        """
        check_name(reason, "the reason", required=False)
        with self.reservation._writing() as (connection, view):
            release_id, state = self.reservation.release_id, view.share(self.share)
            details = self.reservation._details(view)
            return rho_within(
                close_share(connection, release_id, self.share, state, **details, reason=reason)
            )

    @contextmanager
    def _state(self) -> Iterator[ShareState]:
        with self.reservation._reading() as view:
            yield view.share(self.share)


def close_share(
    connection: sa.Connection, release_id: ReleaseId, share: str, state: ShareState, **details: str
) -> int:
    """Return a share's unspent amount to the dataset and close it; do nothing if it is closed."""
    if state.closed:
        return 0
    fields = _fields(release_id, share, state, **details)
    if state.left:
        append(connection, Kind.RETURNED, **fields, units=state.left)
    append(connection, Kind.CLOSED, **fields)
    return state.left


def _fields(release_id: ReleaseId, share: str, state: ShareState, **details: str) -> dict[str, str]:
    """Return the fields of an event of a share, which counts in its reservation's period."""
    opened = {"counts_in": state.reservation.counts_in, "opening": state.reservation.opening}
    return {**id_fields(release_id), "share": share, **opened, **details}


def count_records(
    connection: sa.Connection,
    location: str,
    release_id: ReleaseId,
    records: int,
    shares: Mapping[str, ShareState],
    **details: str,
) -> None:
    """Journal the public number of records of an open release with these shares; once is enough.

    The release stays bound to its source then, even if it ends without a charge. It is a
    `SourceBindingError` if this release, or another one of its dataset and partition since that
    was last bound, has another number.
    """
    its = counted(connection, of_release(release_id)).get(release_id)
    of_partition = sa.and_(
        events.c.dataset == release_id.dataset,
        events.c.partition == release_id.partition,
        _since_rebound(release_id),
    )
    known = {its} if its else {*counted(connection, of_partition).values()}
    if known - {str(records)}:
        other = "" if its else " of another release"
        again = rebind_command(location, release_id.dataset, release_id.partition)
        raise SourceBindingError(
            f"{release_id} of dataset {release_id.dataset!r} reads another number of records than "
            f"the ledger {location} has{other}. It is public for one fixed set of people, so it "
            "cannot change: read the same table, or protect add_remove neighbours. If these are "
            f"other people, whose number may be known too, let the officer rebind: "
            f"`{again}`, and give the release another edition"
        )
    if its:
        return
    if all(state.closed for state in shares.values()):
        raise ReleaseClosedError(
            f"{release_id} of dataset {release_id.dataset!r} is not open in the ledger {location}: "
            "its number of records cannot be read"
        )
    append(connection, Kind.COUNTED, **id_fields(release_id), records=str(records), **details)


def counted(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> dict[ReleaseId, str]:
    """Return the public numbers of records, of the releases that meet all conditions."""
    found = read(connection, *conditions, events.c.kind == Kind.COUNTED.value)
    return {event.release_id: event.records for event in found if event.release_id is not None}


def _since_rebound(release_id: ReleaseId) -> sa.ColumnElement[bool]:
    """Return the condition that an event came after its partition was last bound anew."""
    last = (
        sa.select(sa.func.coalesce(sa.func.max(events.c.seq), 0))
        .where(events.c.dataset == release_id.dataset, events.c.partition == release_id.partition)
        .where(events.c.kind == Kind.BOUND.value, events.c.release == "")
    )
    return events.c.seq > last.scalar_subquery()


def check_covered(
    connection: sa.Connection, location: str, release_id: ReleaseId, reserved: Collection[Event]
) -> None:
    """Raise LedgerIntegrityError unless a grant covered a release's reservation as it was written.

    `reserved` are the reservations of the shares of its last opening. Entries that came later do
    not count, so the answer never changes.
    """
    latest = max(reserved, key=lambda event: event.seq)
    through = latest.seq
    balance = balance_of(connection, release_id.dataset, latest.at, through=through)
    held = holdings(connection, release_id.dataset, through=through)
    approvals = approvals_of(connection, release_id.dataset, through=through)
    if fault := cover_fault(balance, held, approvals, release_id, reserved):
        raise LedgerIntegrityError(
            f"the reservation of {release_id} of dataset {release_id.dataset!r} in the ledger "
            f"{location} {fault}: jam-dagster did not write it, and it pays for no draw. Run "
            "`jam-dagster ledger verify`; only the ledger's owner can repair it, from a backup"
        )


def cover_fault(
    balance: Balance | None,
    held: Collection[Holding],
    approvals: Approvals,
    release_id: ReleaseId,
    reserved: Collection[Event],
) -> str:
    """Return why no grant covers a release's reservation; empty if one does.

    `balance`, `held` and `approvals` are those of its dataset right after `reserved`, the
    reservations of its shares. The audit asks the same of what it replays.
    """
    if balance is None:
        return "is of a dataset that was granted nothing"
    if balance.remaining_units < 0:
        return "is of more than the grant had left"
    if balance.used_selections > balance.granted_selections:
        return "has more delta for selections than the grant had left"
    if any(one.counts_in != balance.policy.period_of(one.at) for one in reserved):
        return "counts in another period than its own"
    if fault := mixture_fault(balance.policy, held):
        return f"is of a budget that {fault}"
    if balance.approval != REQUIRED:
        return ""
    fault = approvals.fault(release_id, sum(one.units for one in reserved))
    return f"is of a release that {fault}" if fault else ""
