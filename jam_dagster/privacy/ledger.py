"""The privacy budget ledger: who spent what on which protected dataset.

An append-only journal in one SQLite file, or in a PostgreSQL database. A budget belongs to a
protected dataset. That it has room for a release is checked before private data are opened; the
release reserves all it may spend before its first draw, each draw is charged before it is made, and
what was not used is returned. Every balance follows from the journal alone, and every event carries
the hash of the one before.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy.accounting import (
    Budget,
    describe_rho,
    rho_reserving,
    rho_within,
    units_down,
)
from jam_dagster.privacy.balance import Balance, balance_of, holdings, known_balance, used_under
from jam_dagster.privacy.ledger_audit import Verification, verify_journal
from jam_dagster.privacy.ledger_location import backend_at
from jam_dagster.privacy.ledger_schema import (
    Event,
    Kind,
    append,
    events,
    instant,
    read,
    utc_now,
)
from jam_dagster.privacy.policy import PartitionsName, PeriodName, Policy, mixture_fault
from jam_dagster.privacy.release import Release, ShareState, share_states, states_of
from jam_dagster.privacy.release_key import ReleaseKey, check_name
from jam_dagster.privacy.reservations import or_close, plan_opening, share_units
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours


class Ledger:
    """The budgets of protected datasets and what was done with them.

    Nothing is read or made until it is asked for; only `grant` makes the ledger. The object can
    be pickled and used in other processes at the same time.

    Parameters
    ----------
    url_or_path : str or path
        A file, or a ``sqlite:///`` or ``postgresql://`` URL. The password of a URL is shown
        nowhere and does not travel in a pickle; see `LedgerServer`.
    clock : callable returning datetime, optional
        What tells the time, and by it the period of a renewing budget.

    Raises
    ------
    SpecificationError
        If the location names no file and no database, or another kind of database.

    Examples
    --------
    >>> ledger = Ledger("ledger.db")
    >>> ledger.grant("people", epsilon=3.0, delta=1e-9, reason="policy of 2026")
    >>> key = ReleaseKey("people", "yearly", specification="3f9a...")
    >>> release = ledger.open_release(key, Budget(1.0, 1e-9).shares(evaluation=0.05))
    >>> release.account("mechanism").charge("round-000/select", 1e-4)
    >>> release.close("done")
    """

    def __init__(
        self, url_or_path: str | os.PathLike[str], *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._backend = backend_at(url_or_path)
        self._clock = clock

    def __repr__(self) -> str:
        return f"Ledger({self.location!r})"

    @property
    def location(self) -> str:
        """Where the ledger lies, without a password."""
        return self._backend.location

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""
        return self._backend.exists

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever granted here, be it that there is no ledger."""
        return not self.datasets()

    def grant(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        period: PeriodName = "lifetime",
        partitions: PartitionsName = "add",
        ground: str = "",
        by: str = "",
        reason: str = "",
    ) -> Balance:
        """Grant a protected dataset its whole budget, or replace the budget it has.

        Granting what is granted already writes nothing. A ledger that an earlier version made is
        upgraded.

        Parameters
        ----------
        dataset : str
            Identity of the protected dataset.
        epsilon, delta : float
            What all releases together may spend, in a period if it renews.
        period, partitions, ground
            How the budget counts; see `Policy`.
        by, reason : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a value is out of range.
        BudgetError
            If the new budget, counted by its policy, is less than what is spent and reserved, or
            the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason", required=False)
        by = _actor(by)
        granted = units_down(Budget(epsilon, delta).rho)
        policy = Policy(period, partitions, ground)
        self._backend.create()
        self._backend.upgrade()
        with self._backend.writing() as connection:
            at = self._now()
            before = balance_of(connection, dataset, at)
            if before is not None:
                same = (before.epsilon, before.delta, before.policy) == (epsilon, delta, policy)
                if same:
                    return before
                fault = mixture_fault(policy, holdings(connection, dataset))
                if fault:
                    raise BudgetError(f"the budget of dataset {dataset!r} cannot be: it {fault}")
                used = used_under(connection, dataset, policy, at)
                if granted < used.spent + used.reserved:
                    raise BudgetError(
                        f"the budget of dataset {dataset!r} cannot be lowered to "
                        f"{describe_rho(rho_within(granted), delta)}: "
                        f"{describe_rho(rho_within(used.spent), delta)} is spent and "
                        f"{describe_rho(rho_within(used.reserved), delta)} is reserved; grant at "
                        f"least {describe_rho(rho_within(used.spent + used.reserved), delta)}"
                        f"{or_close(before, self.location)}"
                    )
            append(
                connection,
                Kind.GRANTED,
                dataset,
                at=at,
                units=granted,
                epsilon=float(epsilon),
                delta=float(delta),
                period=period,
                partitions=partitions,
                ground=ground,
                by=by,
                reason=reason,
            )
            return known_balance(connection, self.location, dataset, at)

    def upgrade(self) -> None:
        """Bring a ledger that an earlier version made up to date; no event is rewritten.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        self._backend.upgrade()

    def _now(self) -> str:
        return instant(self._clock())

    def datasets(self) -> tuple[str, ...]:
        """Return the protected datasets that have a budget; none if there is no ledger.

        Raises
        ------
        BudgetError
            If it is no ledger, or cannot be read.
        """
        if not self.exists:
            return ()
        with self._backend.reading() as connection:
            names = connection.execute(
                sa.select(events.c.dataset).distinct().order_by(events.c.dataset)
            )
            return tuple(names.scalars())

    def balance(self, dataset: str) -> Balance:
        """Return what a dataset was granted and where it went.

        Raises
        ------
        SpecificationError
            If the ledger could not hold a dataset of that name.
        BudgetError
            If there is no ledger, or the dataset has no budget.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            return known_balance(connection, self.location, dataset, self._now())

    def events(self, dataset: str | None = None) -> list[Event]:
        """Return the journal in its order, of one dataset or of all.

        Raises
        ------
        SpecificationError
            If the ledger could not hold a dataset of that name.
        BudgetError
            If there is no ledger.
        """
        if dataset is not None:
            check_name(dataset, "the protected dataset")
        conditions = () if dataset is None else (events.c.dataset == dataset,)
        with self._backend.reading() as connection:
            return read(connection, *conditions)

    def check(
        self,
        key: ReleaseKey,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
    ) -> None:
        """Raise as `open_release` would, and write nothing.

        Raises
        ------
        SpecificationError, BudgetError, BudgetExceededError
            As for `open_release`.
        """
        units = share_units(shares)
        with self._backend.reading() as connection:
            plan_opening(connection, self.location, key, units, self._now(), neighbours)

    def check_writable(self) -> None:
        """Check that the ledger can be written, or made where it is not there; leave no trace.

        Raises
        ------
        BudgetError
            If it cannot.
        """
        self._backend.check_writable()

    def open_release(
        self,
        key: ReleaseKey,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        run_id: str = "",
        by: str = "",
    ) -> Release:
        """Reserve all that a release may spend, or return what was reserved for it before.

        A release that was closed before anything was charged is opened again. A reservation for
        the same release under another specification is returned and closed if nothing was charged
        to it, so that correcting a mistake strands nothing; what was charged is never touched.

        Parameters
        ----------
        key : ReleaseKey
            Which release. A key that was opened before is returned as it is, free.
        shares : mapping of str to float
            Rho to reserve for each part of the release, such as ``"mechanism"`` and
            ``"evaluation"``; a reservation is a budget and is rounded down.
        neighbours : Neighbours
            Whom the release protects: the same for all releases of a dataset.
        run_id, by : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a share is not a positive amount, or the release was opened with other shares.
        BudgetExceededError
            If the shares do not fit into what is left; nothing is reserved.
        BudgetError
            If there is no ledger, or the dataset has no budget, with how to grant one; or if its
            releases protect other neighbours, whose amounts of rho do not add up with these.
        """
        units = share_units(shares)
        check_name(run_id, "the run id", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at = self._now()
            opening = plan_opening(connection, self.location, key, units, at, neighbours)
            opening.write(connection, key, at=at, run_id=run_id, by=by)
        reserved = {share: rho_reserving(amount) for share, amount in opening.units.items()}
        return Release(self._backend, key, reserved, run_id, by)

    @contextmanager
    def claim(self, key: ReleaseKey) -> Iterator[None]:
        """Let one run at a time draw for a release; a run that was killed lets go at once.

        Two runs at once could pay for nothing that was not reserved, but each would take the
        other's draws for lost, and neither would end with a whole transcript.

        Parameters
        ----------
        key : ReleaseKey
            Which release.

        Raises
        ------
        BudgetError
            If another run holds it, or the ledger cannot be reached.
        """
        with self._backend.claim(key.digest) as taken:
            if not taken:
                raise BudgetError(
                    f"another run is drawing for {key} of dataset {key.dataset!r}. Wait until it "
                    "has ended and run again: what it paid for is then there for nothing"
                )
            yield

    def release(self, key: ReleaseKey) -> Release | None:
        """Return what was last reserved for a release, or None if it was never opened here."""
        if not self.exists:
            return None
        with self._backend.reading() as connection:
            states = share_states(connection, key)
        return self._release(key, states) if states else None

    def releases(self, dataset: str | None = None) -> tuple[Release, ...]:
        """Return all releases ever opened, of one dataset or of all, in their order.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        journals: dict[ReleaseKey, list[Event]] = {}
        for event in self.events(dataset):
            if event.key is not None:
                journals.setdefault(event.key, []).append(event)
        return tuple(self._release(key, states_of(said)) for key, said in journals.items())

    def _release(self, key: ReleaseKey, states: Mapping[str, ShareState]) -> Release:
        reserved = {share: rho_reserving(state.reserved) for share, state in states.items()}
        return Release(self._backend, key, reserved, by=_actor(""))

    def verify(self) -> Verification:
        """Prove that the journal was not altered and that the balances follow from it.

        Replays every event in Python against the ledger's rules, and compares the outcome with
        the balances that the database gives. A journal whose last events were cut off is whole in
        itself: keep the returned `head` elsewhere to notice that.

        Raises
        ------
        LedgerIntegrityError
            At the first event that does not fit, with its number.
        BudgetError
            If there is no ledger.
        """
        with self._backend.reading() as connection:
            now = self._now()
            return verify_journal(
                read(connection),
                lambda dataset: balance_of(connection, dataset, now),
                self.location,
                now,
            )


def _actor(by: str) -> str:
    if by:
        return check_name(by, "by")
    try:
        return check_name(getpass.getuser(), "the user")
    except (OSError, KeyError, SpecificationError):
        # A container may run under a user that has no name, or none that can be written.
        return ""
