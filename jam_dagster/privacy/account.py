"""Accounts that pay for draws: the protocol, and an account in memory without a ledger."""

from __future__ import annotations

from typing import Protocol

from jam_dagster.errors import BudgetExceededError, ChargedBeforeError, ReleaseClosedError
from jam_dagster.privacy.accounting import (
    check_rho,
    delta_units_up,
    describe_rho,
    epsilon_from_rho,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.shares import MECHANISM


class Account(Protocol):
    """One share of a release's reservation, from which its draws are paid.

    All amounts are rho, rounded so that charging `remaining` always fits and `spent` is never
    more than `reserved`.
    """

    @property
    def share(self) -> str:
        """Which share this is, such as ``"mechanism"``."""

    @property
    def reserved(self) -> float:
        """Rho of the whole share."""

    @property
    def selections(self) -> int:
        """Delta that the share has for selections of values, in units of 1e-18."""

    @property
    def spent(self) -> float:
        """Rho charged so far."""

    @property
    def remaining(self) -> float:
        """Rho that can still be charged; 0.0 once closed."""

    @property
    def closed(self) -> bool:
        """Whether the account has ended."""

    def charged(self, step: str) -> float | None:
        """Return the rho charged for `step`, or None if it was never charged."""

    def charge(self, step: str, rho: float) -> None:
        """Charge `rho` for `step`; the charge is durable on return.

        Parameters
        ----------
        step : str
            Which draw of the release this pays for; each is paid once.
        rho : float
            Positive; rounded up to whole units of 1e-15.

        Raises
        ------
        SpecificationError
            If `rho` is not a positive, finite number.
        ChargedBeforeError
            If `step` was charged before, even if the account is closed.
        ReleaseClosedError
            If the account is closed.
        BudgetExceededError
            If less than `rho` is left.
        """

    def confirm(self, step: str, digest: str) -> None:
        """Note that the outcome of `step` is stored, once; the note is durable on return.

        Parameters
        ----------
        step : str
            A draw that was charged.
        digest : str
            Of its outcome; see `outcome_digest`.

        Raises
        ------
        LedgerIntegrityError
            If another outcome of the step was noted, or the step was never charged.
        ReleaseClosedError
            If the account was closed between the charge and this.
        """

    def confirmed(self, step: str) -> bool:
        """Return whether an outcome of `step` was noted."""

    def derive(self, step: str, digest: str) -> None:
        """Note what follows from outcomes, once; the note is durable on return.

        Parameters
        ----------
        step : str
            A decision, or the records of a solver.
        digest : str
            Of it; see `derived_digest`.

        Raises
        ------
        LedgerIntegrityError
            If another one was noted.
        """

    def derived(self, step: str, digest: str) -> bool:
        """Return whether what follows from outcomes was noted with this digest."""

    def publish_records(self, records: int) -> None:
        """Note the number of records where it is public, once; the note is durable on return.

        Parameters
        ----------
        records : int
            n, of the table that was opened.

        Raises
        ------
        SourceBindingError
            If another number was noted, of this release or of others of its dataset and partition.
        ReleaseClosedError
            If the release ended before.
        """

    def close(self, reason: str = "") -> float:
        """Close the account and return the rho that it did not spend; 0.0 if it was closed."""


class UnledgeredAccount:
    """An account in memory, for research with seeded noise: it has a limit and records nothing.

    Parameters
    ----------
    rho : float
        What may be spent.
    share : str
        Name of the share.
    selections : float
        Delta that it has for selections of values.

    Raises
    ------
    SpecificationError
        If `rho` is not a positive, finite number.
    """

    def __init__(self, rho: float, share: str = MECHANISM, selections: float = 0.0) -> None:
        self._share = share
        self._selections = delta_units_up(selections)
        self._reserved = units_down(check_rho(rho))
        self._charges: dict[str, int] = {}
        self._spent = 0
        self._closed = False

    @property
    def share(self) -> str:
        """Which share this is."""
        return self._share

    @property
    def reserved(self) -> float:
        """Rho of the whole share."""
        return rho_within(self._reserved)

    @property
    def selections(self) -> int:
        """Delta that the share has for selections of values, in units of 1e-18."""
        return self._selections

    @property
    def spent(self) -> float:
        """Rho charged so far."""
        return rho_within(self._spent)

    @property
    def remaining(self) -> float:
        """Rho that can still be charged; 0.0 once closed."""
        return 0.0 if self._closed else rho_within(self._left)

    @property
    def closed(self) -> bool:
        """Whether the account has ended."""
        return self._closed

    @property
    def _left(self) -> int:
        return self._reserved - self._spent

    def charged(self, step: str) -> float | None:
        """Return the rho charged for `step`, or None if it was never charged."""
        units = self._charges.get(step)
        return None if units is None else rho_within(units)

    def charge(self, step: str, rho: float) -> None:
        """Charge `rho` for `step`; see `Account.charge`."""
        units = units_up(check_rho(rho))
        check_charge(
            step, units, left=self._left, already=step in self._charges, closed=self._closed
        )
        self._charges[step] = units
        self._spent += units

    def confirm(self, step: str, digest: str) -> None:
        """Do nothing: no ledger vouches for research."""

    def confirmed(self, step: str) -> bool:
        """Return True: nobody but the process itself stores what research draws."""
        return True

    def derive(self, step: str, digest: str) -> None:
        """Do nothing: no ledger vouches for research."""

    def derived(self, step: str, digest: str) -> bool:
        """Return True, as `confirmed` does."""
        return True

    def publish_records(self, records: int) -> None:
        """Do nothing: what research makes may not leave."""

    def close(self, reason: str = "") -> float:
        """End the account; see `Account.close`."""
        unspent = self.remaining
        self._closed = True
        return unspent


def check_charge(
    step: str,
    units: int,
    *,
    left: int,
    already: bool,
    closed: bool,
    account: str = "this account",
    delta: float | None = None,
) -> None:
    """Raise if a charge of `units` for `step` may not be made.

    `units` and `left` are in 1e-15 rho. It raises as `Account.charge` does, and `delta` lets the
    error speak of epsilon.
    """
    if already:
        raise ChargedBeforeError(
            f"{account} has already paid for step {step!r}: read its outcome from the store of "
            "outcomes, or draw again under a step of its own"
        )
    if closed:
        raise ReleaseClosedError(
            f"{account} is closed and cannot pay for step {step!r}; to draw again, run the "
            "release under a new edition or partition, which reserves a budget of its own"
        )
    if units > left:
        raise BudgetExceededError(
            f"step {step!r} {shortfall(units, left, delta)}: {account} was reserved less than "
            "its draws need"
        )


def shortfall(units: int, left: int, delta: float | None) -> str:
    """Return "asks for ..., has left ..., short of ..." for amounts in units of 1e-15 rho.

    The gap in epsilon is the difference of the two shown epsilons: rho adds up, epsilon does not.
    """
    requested, remaining = rho_within(units), rho_within(max(left, 0))
    missing = rho_within(units - max(left, 0))
    if delta is None:
        return (
            f"asks for rho {requested:.6g}, but only rho {remaining:.6g} is left, "
            f"rho {missing:.6g} too little"
        )
    gap = epsilon_from_rho(requested, delta) - epsilon_from_rho(remaining, delta)
    return (
        f"asks for {describe_rho(requested, delta)}, but only {describe_rho(remaining, delta)} is "
        f"left, rho {missing:.6g} (epsilon {gap:.4g}) too little"
    )
