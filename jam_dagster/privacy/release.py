"""A release's reservation in the ledger, and the accounts of its shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.account import check_charge
from jam_dagster.privacy.accounting import check_rho, rho_within, units_up
from jam_dagster.privacy.ledger_backend import LedgerBackend
from jam_dagster.privacy.ledger_schema import (
    Event,
    Kind,
    append,
    events,
    of_release,
    read,
)
from jam_dagster.privacy.release_key import ReleaseKey, check_name, key_fields


@dataclass(frozen=True)
class Release:
    """What was reserved for one release; `Ledger.open_release` and `Ledger.release` give it.

    It can be pickled, and its accounts see what other processes have charged.

    Parameters
    ----------
    backend : LedgerBackend
        Where the journal lies.
    key : ReleaseKey
        Which release.
    shares : mapping of str to float
        Rho reserved for each share.
    run_id, by : str
        Written beside each charge.
    """

    backend: LedgerBackend = field(repr=False)
    key: ReleaseKey
    shares: Mapping[str, float]
    run_id: str = ""
    by: str = ""

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
            journal = read(connection, of_release(self.key), events.c.kind == Kind.CHARGED.value)
        return rho_within(sum(event.units for event in journal))

    @property
    def closed(self) -> bool:
        """Whether all shares are closed."""
        with self.backend.reading() as connection:
            journal = read(connection, of_release(self.key), events.c.kind == Kind.CLOSED.value)
        return len(journal) == len(self.shares)

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
            return rho_within(
                sum(_close(connection, self, share, reason) for share in sorted(self.shares))
            )


@dataclass(frozen=True)
class LedgerAccount:
    """The account of one share of a release; an `Account` that survives the process.

    Each property reads the ledger.

    Parameters
    ----------
    release : Release
        Whose account.
    share : str
        Which share.
    """

    release: Release
    share: str

    @property
    def reserved(self) -> float:
        """Rho of the whole share."""
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
        SpecificationError, BudgetExceededError, ReleaseClosedError, BudgetError
            As `Account.charge` says; BudgetError also if the ledger cannot be written. Nothing
            was charged then.
        """
        check_name(step, "the step")
        units = units_up(check_rho(rho))
        key = self.release.key
        with self.release.backend.writing() as connection:
            state = _share_state(connection, key, self.share)
            check_charge(
                step,
                units,
                left=state.left,
                already=step in state.charges,
                closed=state.closed,
                account=f"share {self.share!r} of {key}",
                delta=_granted_delta(connection, key.dataset),
            )
            _write(connection, self.release, Kind.CHARGED, self.share, units=units, step=step)

    def close(self, reason: str = "") -> float:
        """End the account and return what it did not spend to the dataset; idempotent.

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
            return rho_within(_close(connection, self.release, self.share, reason))

    def _state(self) -> _ShareState:
        with self.release.backend.reading() as connection:
            return _share_state(connection, self.release.key, self.share)


@dataclass(frozen=True)
class _ShareState:
    """A share as its events say; amounts in units of 1e-15 rho."""

    reserved: int
    charges: Mapping[str, int]
    closed: bool

    @property
    def spent(self) -> int:
        return sum(self.charges.values())

    @property
    def left(self) -> int:
        return self.reserved - self.spent


def _share_state(connection: sa.Connection, key: ReleaseKey, share: str) -> _ShareState:
    journal = read(connection, of_release(key), events.c.share == share)
    return _ShareState(
        reserved=sum(event.units for event in journal if event.kind == Kind.RESERVED),
        charges={event.step: event.units for event in journal if event.kind == Kind.CHARGED},
        closed=any(event.kind == Kind.CLOSED for event in journal),
    )


def _close(connection: sa.Connection, release: Release, share: str, reason: str) -> int:
    state = _share_state(connection, release.key, share)
    if state.closed:
        return 0
    if state.left:
        _write(connection, release, Kind.RETURNED, share, units=state.left, reason=reason)
    _write(connection, release, Kind.CLOSED, share, reason=reason)
    return state.left


def _write(
    connection: sa.Connection, release: Release, kind: Kind, share: str, **said: Any
) -> Event:
    return append(
        connection,
        kind,
        share=share,
        run_id=release.run_id,
        by=release.by,
        **key_fields(release.key),
        **said,
    )


def _granted_delta(connection: sa.Connection, dataset: str) -> float | None:
    return connection.execute(
        sa.select(events.c.delta)
        .where(events.c.dataset == dataset, events.c.kind == Kind.GRANTED.value)
        .order_by(events.c.seq.desc())
        .limit(1)
    ).scalar()
