"""A release's reservation in the ledger, and the accounts of its shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from jam_dagster.privacy.accounting import check_rho, rho_within, units_up
from jam_dagster.privacy.ledger.backend import LedgerBackend, rebind_command
from jam_dagster.privacy.ledger.clock import Clock, ledger_time
from jam_dagster.privacy.ledger.journal import (
    Event,
    Kind,
    append,
    events,
    moves_an_amount,
    of_release,
    read,
    utc_now,
)
from jam_dagster.privacy.ledger.key import ReleaseKey, check_name, key_fields


@dataclass(frozen=True)
class Release:
    """The reservation of one release; `Ledger.open_release` and `Ledger.release` return it.

    It can be pickled, and its accounts see the charges of other processes.

    Parameters
    ----------
    backend : LedgerBackend
        The backend of the journal.
    key : ReleaseKey
        The release.
    shares : mapping of str to float
        Rho reserved for each share.
    run_id : str
        Written with each charge.
    clock : callable returning datetime
        Returns the time.
    """

    backend: LedgerBackend = field(repr=False)
    key: ReleaseKey
    shares: Mapping[str, float]
    run_id: str = ""
    clock: Clock = field(default=utc_now, repr=False, compare=False)

    def _details(self, connection: sa.Connection) -> dict[str, str]:
        at = ledger_time(connection, self.clock)
        return {"at": at, "run_id": self.run_id}

    def account(self, share: str) -> LedgerAccount:
        """Return the account of a share.

        Raises
        ------
        SpecificationError
            If nothing was reserved under that name.
        """
        if share not in self.shares:
            raise SpecificationError(
                f"{self.key} has no share {share!r}; its shares are {sorted(self.shares)}"
            )
        return LedgerAccount(self, share)

    @property
    def spent(self) -> float:
        """Rho charged to all shares so far."""
        with self.backend.reading() as connection:
            states = share_states(connection, self.key)
        return rho_within(sum(state.spent for state in states.values()))

    @property
    def closed(self) -> bool:
        """Whether all shares are closed."""
        with self.backend.reading() as connection:
            states = share_states(connection, self.key)
        return all(state.closed for state in states.values())

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
        with self.backend.writing() as connection:
            details = self._details(connection)
            return rho_within(
                sum(
                    close_share(connection, self.key, share, state, **details, reason=reason)
                    for share, state in share_states(connection, self.key).items()
                )
            )


@dataclass(frozen=True)
class LedgerAccount:
    """The account of one share of a release; an `Account` that survives the process.

    A draw takes two transactions, `charge` and `confirm`, each of which reads the share before it
    writes: what another process, an officer, a move or a restored ledger did is noticed there. So
    no read precedes them, and nothing that can change is kept between them.

    Parameters
    ----------
    release : Release
        The release.
    share : str
        The name of the share.
    """

    release: Release
    share: str

    @cached_property
    def reserved(self) -> float:
        """Rho of the whole share.

        It is read once: no event changes the amount of a reservation. A share that ended is
        noticed by the charge, and what is left is counted there.
        """
        return rho_within(self._state().reserved)

    @property
    def spent(self) -> float:
        """Rho charged so far."""
        return rho_within(self._state().spent)

    @property
    def remaining(self) -> float:
        """Rho that can still be charged; 0.0 once closed."""
        state = self._state()
        return 0.0 if state.closed else rho_within(state.left)

    @property
    def closed(self) -> bool:
        """Whether the account has ended."""
        return self._state().closed

    def charged(self, step: str) -> float | None:
        """Return the rho charged for `step`, or None if it was never charged."""
        units = self._state().charges.get(step)
        return None if units is None else rho_within(units)

    def charge(self, step: str, rho: float) -> None:
        """Charge `rho` for `step`; see `Account.charge`. Durable on return.

        Raises
        ------
        SpecificationError, ChargedBeforeError, ReleaseClosedError, BudgetExceededError
            As `Account.charge` says.
        BudgetError
            If the ledger cannot be written. Nothing was charged then, except perhaps where the
            message says that the connection was lost during the commit: the draw must not be made,
            and counts as lost if it was charged.
        """
        check_name(step, "the step")
        units = units_up(check_rho(rho))
        key = self.release.key
        with self.release.backend.writing() as connection:
            state = share_states(connection, key)[self.share]
            check_charge(
                step,
                units,
                left=state.left,
                already=step in state.charges,
                closed=state.closed,
                account=f"share {self.share!r} of {key}",
                delta=_granted_delta(connection, key.dataset),
            )
            write(
                connection,
                Kind.CHARGED,
                key,
                self.share,
                state,
                units=units,
                step=step,
                **self.release._details(connection),
            )

    def confirm(self, step: str, digest: str) -> None:
        """Journal the digest of a stored outcome; see `Account.confirm`. Durable on return.

        Raises
        ------
        LedgerIntegrityError, ReleaseClosedError, BudgetError
            As `Account.confirm` says; BudgetError if the ledger cannot be written.
        """
        # No read comes first: a transaction that finds the digest there writes nothing.
        with self.release.backend.writing() as connection:
            # No other run draws for this release, but an operator may have closed it meanwhile.
            state = self._unconfirmed(connection, step, digest)
            if state is not None:
                key, details = self.release.key, self.release._details(connection)
                write(
                    connection,
                    Kind.STORED,
                    key,
                    self.share,
                    state,
                    step=step,
                    digest=digest,
                    **details,
                )

    def confirmed(self, step: str) -> bool:
        """Return whether the ledger has a digest of the outcome of `step`."""
        with self.release.backend.reading() as connection:
            noted = events.c.kind == Kind.STORED.value, events.c.share == self.share
            where = of_release(self.release.key), *noted, events.c.step == step
            return bool(read(connection, *where))

    def _unconfirmed(self, connection: sa.Connection, step: str, digest: str) -> ShareState | None:
        """Return the share's state if the digest must be written, else None."""
        key = self.release.key
        journal = read(connection, of_release(key))
        paid = False
        for event in journal:
            if (event.share, event.step) != (self.share, step):
                continue
            paid |= event.kind == Kind.CHARGED
            if event.kind == Kind.STORED:
                if event.digest == digest:
                    return None
                raise LedgerIntegrityError(
                    f"the stored outcome of {step} of {key} does not match its digest in the "
                    "ledger: it was changed after it was drawn. Restore the stored outcomes "
                    "from a copy; nothing was charged"
                )
        if not paid:
            raise LedgerIntegrityError(
                f"the outcome of {step} of {key} is stored and was never charged; give the "
                "ledger that charged it"
            )
        state = states_of([event for event in journal if event.moves_amount])[self.share]
        if state.closed:
            raise ReleaseClosedError(
                f"share {self.share!r} of {key} was closed before the outcome of {step} was "
                "journalled; it counts as spent, and cannot be used"
            )
        return state

    def publish_records(self, records: int) -> None:
        """Journal the public number of records; see `Account.publish_records`. Durable on return.

        Raises
        ------
        SourceBindingError, ReleaseClosedError, BudgetError
            As `Account.publish_records` says; BudgetError if the ledger cannot be written.
        """
        backend, key = self.release.backend, self.release.key
        with backend.writing() as connection:
            details = self.release._details(connection)
            count_records(connection, backend.location, key, records, **details)

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
        with self.release.backend.writing() as connection:
            key = self.release.key
            state = share_states(connection, key)[self.share]
            details = self.release._details(connection)
            return rho_within(
                close_share(connection, key, self.share, state, **details, reason=reason)
            )

    def _state(self) -> ShareState:
        with self.release.backend.reading() as connection:
            return share_states(connection, self.release.key)[self.share]


@dataclass(frozen=True)
class ShareState:
    """The state of a share since its last opening; amounts in units of 1e-15 rho.

    `charges` are by step.
    """

    reserved: int
    charges: Mapping[str, int]
    closed: bool
    reservation: Event

    @property
    def spent(self) -> int:
        """The charged amount."""
        return sum(self.charges.values())

    @property
    def left(self) -> int:
        """The amount that was not charged."""
        return self.reserved - self.spent


def share_states(connection: sa.Connection, key: ReleaseKey) -> dict[str, ShareState]:
    """Return the shares of a release's last opening, by name; none if it was never opened."""
    return states_of(read(connection, of_release(key), moves_an_amount()))


def states_of(journal: Sequence[Event]) -> dict[str, ShareState]:
    """Return the shares of a release's last opening, from its events of `SHARE_KINDS`."""
    if not journal:
        return {}
    opening = journal[-1].opening
    by_share: dict[str, list[Event]] = {}
    for event in journal:
        if event.opening == opening:
            by_share.setdefault(event.share, []).append(event)
    return {
        share: ShareState(
            reserved=lines[0].units,
            charges={event.step: event.units for event in lines if event.kind == Kind.CHARGED},
            # A returned amount pays for no further draw, whoever wrote the return.
            closed=any(event.kind in (Kind.CLOSED, Kind.RETURNED) for event in lines),
            reservation=lines[0],
        )
        for share, lines in sorted(by_share.items())
    }


def close_share(
    connection: sa.Connection, key: ReleaseKey, share: str, state: ShareState, **details: str
) -> int:
    """Return a share's unspent amount to the dataset and close it; do nothing if it is closed."""
    if state.closed:
        return 0
    if state.left:
        write(connection, Kind.RETURNED, key, share, state, units=state.left, **details)
    write(connection, Kind.CLOSED, key, share, state, **details)
    return state.left


def write(
    connection: sa.Connection,
    kind: Kind,
    key: ReleaseKey,
    share: str,
    state: ShareState,
    **details: Any,
) -> Event:
    """Append an event of a share; it counts in the period of the share's reservation."""
    return append(
        connection,
        kind,
        **key_fields(key),
        share=share,
        counts_in=state.reservation.counts_in,
        opening=state.reservation.opening,
        **details,
    )


def count_records(
    connection: sa.Connection, location: str, key: ReleaseKey, records: int, **details: str
) -> None:
    """Journal the public number of records of an open release; once is enough.

    The release stays bound to its source then, even if it ends without a charge. It is a
    `SourceBindingError` if this release, or another one of its dataset and partition since that
    was last bound, has another number.
    """
    its = counted(connection, of_release(key)).get(key)
    of_partition = sa.and_(
        events.c.dataset == key.dataset, events.c.partition == key.partition, _since_rebound(key)
    )
    known = {its} if its else {*counted(connection, of_partition).values()}
    if known - {str(records)}:
        other = "" if its else " of another release"
        again = rebind_command(location, key.dataset, key.partition)
        raise SourceBindingError(
            f"{key} of dataset {key.dataset!r} reads another number of records than the ledger "
            f"{location} has{other}. It is public for one fixed set of people, so it cannot "
            "change: read the same table, or protect add_remove neighbours. If these are other "
            f"people, whose number may be known too, let the officer rebind: "
            f"`{again}`, and give the release another edition"
        )
    if its:
        return
    if all(state.closed for state in share_states(connection, key).values()):
        raise ReleaseClosedError(
            f"{key} of dataset {key.dataset!r} is not open in the ledger {location}: its number of "
            "records cannot be read"
        )
    append(connection, Kind.COUNTED, **key_fields(key), records=str(records), **details)


def counted(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> dict[ReleaseKey, str]:
    """Return the public numbers of records, of the releases that meet all conditions."""
    found = read(connection, *conditions, events.c.kind == Kind.COUNTED.value)
    return {event.key: event.records for event in found if event.key is not None}


def _since_rebound(key: ReleaseKey) -> sa.ColumnElement[bool]:
    """Return the condition that an event came after its partition was last bound anew."""
    last = (
        sa.select(sa.func.coalesce(sa.func.max(events.c.seq), 0))
        .where(events.c.dataset == key.dataset, events.c.partition == key.partition)
        .where(events.c.kind == Kind.BOUND.value, events.c.release == "")
    )
    return events.c.seq > last.scalar_subquery()


def _granted_delta(connection: sa.Connection, dataset: str) -> float | None:
    return connection.execute(
        sa.select(events.c.delta)
        .where(events.c.dataset == dataset, events.c.kind == Kind.GRANTED.value)
        .order_by(events.c.seq.desc())
        .limit(1)
    ).scalar()
