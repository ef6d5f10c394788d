"""The privacy budget ledger: who spent what on which protected dataset.

An append-only journal in one SQLite file, or in a PostgreSQL database. A budget belongs to a
protected dataset. That it has room for a release is checked before private data are opened; the
release reserves all it may spend before its first draw, each draw is charged before it is made, and
what was not used is returned. Every balance follows from the journal alone, and every event carries
the hash of the one before.
"""

from __future__ import annotations

import getpass
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, BudgetExceededError, SpecificationError
from jam_dagster.privacy.account import shortfall
from jam_dagster.privacy.accounting import (
    Budget,
    check_rho,
    describe_rho,
    rho_reserving,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.balance import Balance, balance_of, known_balance
from jam_dagster.privacy.ledger_audit import Verification, verify_journal
from jam_dagster.privacy.ledger_backend import close_command, grant_command
from jam_dagster.privacy.ledger_location import backend_at
from jam_dagster.privacy.ledger_schema import (
    Event,
    Kind,
    append,
    events,
    of_release,
    read,
)
from jam_dagster.privacy.release import Release
from jam_dagster.privacy.release_key import ReleaseKey, check_name, key_fields


class Ledger:
    """The budgets of protected datasets and what was done with them.

    Nothing is read or made until it is asked for; only `grant` makes the ledger. The object can
    be pickled and used in other processes at the same time.

    Parameters
    ----------
    url_or_path : str or path
        A file, or a ``sqlite:///`` or ``postgresql://`` URL. The password of a URL is shown
        nowhere and does not travel in a pickle; see `LedgerServer`.

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

    def __init__(self, url_or_path: str | os.PathLike[str]) -> None:
        self._backend = backend_at(url_or_path)

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
        self, dataset: str, *, epsilon: float, delta: float, by: str = "", reason: str = ""
    ) -> Balance:
        """Grant a protected dataset its whole budget, or replace the budget it has.

        Granting what is granted already writes nothing.

        Parameters
        ----------
        dataset : str
            Identity of the protected dataset.
        epsilon, delta : float
            What all releases together may spend.
        by, reason : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a value is out of range.
        BudgetError
            If the new budget is less than what is spent and reserved, or the ledger cannot be
            written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason", required=False)
        by = _actor(by)
        granted = units_down(Budget(epsilon, delta).rho)
        self._backend.create()
        with self._backend.writing() as connection:
            before = balance_of(connection, dataset)
            if before is not None:
                if (before.epsilon, before.delta) == (epsilon, delta):
                    return before
                used = before.spent_units + before.reserved_units
                if granted < used:
                    raise BudgetError(
                        f"the budget of dataset {dataset!r} cannot be lowered to "
                        f"{describe_rho(rho_within(granted), delta)}: "
                        f"{describe_rho(before.spent, delta)} is spent and "
                        f"{describe_rho(before.reserved, delta)} is reserved; grant at least "
                        f"{describe_rho(rho_within(used), delta)}"
                        f"{_or_close(before, self.location)}"
                    )
            append(
                connection,
                Kind.GRANTED,
                dataset,
                units=granted,
                epsilon=float(epsilon),
                delta=float(delta),
                by=by,
                reason=reason,
            )
            return known_balance(connection, self.location, dataset)

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
        BudgetError
            If there is no ledger, or the dataset has no budget.
        """
        with self._backend.reading() as connection:
            return known_balance(connection, self.location, dataset)

    def events(self, dataset: str | None = None) -> list[Event]:
        """Return the journal in its order, of one dataset or of all.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        conditions = () if dataset is None else (events.c.dataset == dataset,)
        with self._backend.reading() as connection:
            return read(connection, *conditions)

    def check(self, key: ReleaseKey, shares: Mapping[str, float]) -> None:
        """Raise as `open_release` would, and write nothing.

        Raises
        ------
        SpecificationError, BudgetError, BudgetExceededError
            As for `open_release`.
        """
        units = _share_units(shares)
        with self._backend.reading() as connection:
            if not _matches(connection, key, units):
                _check_fit(connection, self.location, key, units)

    def check_writable(self) -> None:
        """Check that the ledger can be written, or made where it is not there; leave no trace.

        Raises
        ------
        BudgetError
            If it cannot.
        """
        self._backend.check_writable()

    def open_release(
        self, key: ReleaseKey, shares: Mapping[str, float], *, run_id: str = "", by: str = ""
    ) -> Release:
        """Reserve all that a release may spend, or return what was reserved for it before.

        Parameters
        ----------
        key : ReleaseKey
            Which release. A key that was opened before is returned as it is, free.
        shares : mapping of str to float
            Rho to reserve for each part of the release, such as ``"mechanism"`` and
            ``"evaluation"``; a reservation is a budget and is rounded down.
        run_id, by : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a share is not a positive amount, or the release was opened with other shares.
        BudgetExceededError
            If the shares do not fit into what is left; nothing is reserved.
        BudgetError
            If there is no ledger, or the dataset has no budget, with how to grant one.
        """
        units = _share_units(shares)
        check_name(run_id, "the run id", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            if _matches(connection, key, units):
                units = _reserved_units(connection, key)
            else:
                _check_fit(connection, self.location, key, units)
                for share, amount in units.items():
                    append(
                        connection,
                        Kind.RESERVED,
                        **key_fields(key),
                        share=share,
                        units=amount,
                        run_id=run_id,
                        by=by,
                    )
        reserved = {share: rho_reserving(amount) for share, amount in units.items()}
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
        """Return what was reserved for a release, or None if it was never opened here."""
        if not self.exists:
            return None
        with self._backend.reading() as connection:
            units = _reserved_units(connection, key)
        if not units:
            return None
        reserved = {share: rho_reserving(amount) for share, amount in units.items()}
        return Release(self._backend, key, reserved, by=_actor(""))

    def releases(self, dataset: str | None = None) -> tuple[Release, ...]:
        """Return all releases ever opened, of one dataset or of all, in their order.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        shares: dict[ReleaseKey, dict[str, float]] = {}
        for event in self.events(dataset):
            if event.kind == Kind.RESERVED and event.key is not None:
                shares.setdefault(event.key, {})[event.share] = rho_reserving(event.units)
        by = _actor("")
        return tuple(
            Release(self._backend, key, reserved, by=by) for key, reserved in shares.items()
        )

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
            journal = read(connection)
            names = sorted({event.dataset for event in journal})
            balances = {name: balance_of(connection, name) for name in names}
        return verify_journal(journal, balances, self.location)


def _actor(by: str) -> str:
    if by:
        return check_name(by, "by")
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a user that has no name.
        return ""


def _share_units(shares: Mapping[str, float]) -> dict[str, int]:
    if not shares:
        raise SpecificationError("a release must reserve at least one share, got none")
    units = {}
    for share in sorted(shares):
        check_name(share, "the share")
        units[share] = units_down(check_rho(shares[share], name=f"rho of share {share!r}"))
        if units[share] == 0:
            raise SpecificationError(
                f"rho of share {share!r} must be at least 1e-15, got {shares[share]!r}"
            )
    return units


def _reserved_units(connection: sa.Connection, key: ReleaseKey) -> dict[str, int]:
    journal = read(connection, of_release(key), events.c.kind == Kind.RESERVED.value)
    return {event.share: event.units for event in journal}


def _matches(connection: sa.Connection, key: ReleaseKey, units: Mapping[str, int]) -> bool:
    """Return whether the release is there with these shares, False if it is not there."""
    reserved = _reserved_units(connection, key)
    # A share may lose a little on its way from units to a float and back.
    same = reserved.keys() == units.keys() and all(
        abs(reserved[share] - amount) <= 1 + units_up(math.ulp(rho_within(amount)))
        for share, amount in units.items()
    )
    if reserved and not same:
        raise SpecificationError(
            f"{key} of dataset {key.dataset!r} was opened with shares {_told(reserved)}, not "
            f"{_told(units)}, under the same specification; give it a new edition to reserve anew"
        )
    return bool(reserved)


def _told(units: Mapping[str, int]) -> str:
    return ", ".join(f"{share} = {rho_within(amount):.6g}" for share, amount in units.items())


def _check_fit(
    connection: sa.Connection, location: str, key: ReleaseKey, units: Mapping[str, int]
) -> None:
    balance = known_balance(connection, location, key.dataset)
    asked = sum(units.values())
    if asked <= balance.remaining_units:
        return
    raise BudgetExceededError(
        f"{key} {shortfall(asked, balance.remaining_units, balance.delta)} in the budget of "
        f"dataset {key.dataset!r}{_changed(connection, key)}. Ask for less, or raise the budget: "
        f"{grant_command(location, key.dataset)}{_or_close(balance, location)}"
    )


def _or_close(balance: Balance, location: str) -> str:
    """Return how to free what releases hold, empty where none holds anything."""
    if not balance.reserved_units:
        return ""
    return (
        f"; or close a release that will not go on, of the "
        f"{describe_rho(balance.reserved, balance.delta)} that is reserved: "
        f"{close_command(location, balance.dataset)}"
    )


def _changed(connection: sa.Connection, key: ReleaseKey) -> str:
    """Return a hint if the release was paid for under another specification."""
    same = connection.execute(
        sa.select(events.c.seq)
        .where(
            events.c.dataset == key.dataset,
            events.c.release == key.release,
            events.c.partition == key.partition,
            events.c.edition == key.edition,
            events.c.specification != key.specification,
        )
        .limit(1)
    ).first()
    if same is None:
        return ""
    return (
        " (it was released before with another specification; a changed specification is a new "
        "release and pays anew)"
    )
