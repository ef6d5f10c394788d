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
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy.accounting import (
    Budget,
    describe_rho,
    rho_reserving,
    rho_within,
    units_down,
)
from jam_dagster.privacy.ledger.approval import (
    ApprovalName,
    approve,
    check_approval,
    not_reserved_yet,
    withdraw_approval,
)
from jam_dagster.privacy.ledger.attempts import (
    begin_attempt,
    check_attempts,
    end_attempt,
    open_attempts,
    verify_accesses,
)
from jam_dagster.privacy.ledger.audit import Verification, verify_journal
from jam_dagster.privacy.ledger.balance import (
    Balance,
    balance_of,
    holdings,
    known_balance,
    used_under,
)
from jam_dagster.privacy.ledger.bindings import check_binding, check_sources, rebind
from jam_dagster.privacy.ledger.clock import clock_fault, ledger_time
from jam_dagster.privacy.ledger.journal import (
    Access,
    AccessKind,
    Event,
    Kind,
    append,
    append_access,
    check_not_moved,
    events,
    instant,
    issued,
    moved_to,
    moves_an_amount,
    of_release,
    read,
    read_accesses,
    utc_now,
)
from jam_dagster.privacy.ledger.key import ReleaseKey, check_digest, check_name, key_fields
from jam_dagster.privacy.ledger.keys import LedgerKeys
from jam_dagster.privacy.ledger.location import backend_at
from jam_dagster.privacy.ledger.move import move_journal
from jam_dagster.privacy.ledger.opening import Opening, or_close, plan_opening, share_units
from jam_dagster.privacy.ledger.policy import PartitionsName, PeriodName, Policy, mixture_fault
from jam_dagster.privacy.ledger.reservation import Release, ShareState, share_states, states_of
from jam_dagster.privacy.ledger.sqlite import LedgerFile
from jam_dagster.privacy.ledger.withdrawal import withdraw
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours


class Ledger:
    """The budgets of protected datasets and what was done with them.

    Nothing is read or made until it is asked for; only `grant` makes the ledger. The object can
    be pickled and used in other processes at the same time.

    Parameters
    ----------
    url_or_path : str or path
        A file, or a ``sqlite:///`` or ``postgresql://`` URL; ``~`` and ``${VARIABLES}`` in it are
        expanded, and shown by their names. The password of a URL is shown nowhere and does not
        travel in a pickle; see `LedgerServer`.
    clock : callable returning datetime, optional
        What tells the time, and by it the period of a renewing budget. For the ledger it is never
        earlier than its last entry.

    Raises
    ------
    SpecificationError
        If the location names no file and no database, or another kind of database, or a variable
        that is not set.

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
        """Where the ledger lies, without a password, as it was given where that names variables."""
        return self._backend.location

    @property
    def place(self) -> str:
        """Where the ledger lies, without a password, with what variables hold: not to be shown."""
        return self._backend.place

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""
        return self._backend.exists

    @property
    def file(self) -> Path | None:
        """The file that it is; None for a database on a server."""
        return self._backend.path if isinstance(self._backend, LedgerFile) else None

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
        attempts: int | None = None,
        sources: str | None = None,
        approval: ApprovalName | None = None,
        by: str = "",
        reason: str = "",
    ) -> Balance:
        """Grant a protected dataset its whole budget, or replace the budget it has.

        Granting what is granted already writes nothing, unless the last entry's time lies ahead:
        then a grant with a reason puts the ledger's time right. A ledger that an earlier version
        made is upgraded.

        Parameters
        ----------
        dataset : str
            Identity of the protected dataset.
        epsilon, delta : float
            What all releases together may spend, in a period if it renews.
        period, partitions, ground
            How the budget counts; see `Policy`.
        attempts : int, optional
            How many attempts to open private data may end badly, in a period if the budget
            renews, before an operator has to acknowledge them.
        sources : {"", "any"}, optional
            Whether releases of replace-one neighbours may read several sources of one partition,
            though their numbers of records then tell an exact count.
        approval : {"none", "required"}, optional
            Whether releases wait for `approve` before they reserve. What is not given of these
            three stays as it was granted; at first it is 3, "" and "none".
        by, reason : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a value is out of range.
        BudgetError
            If the new budget, counted by its policy, is less than what is spent and reserved, the
            clock is behind the last entry and no reason is given, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason", required=False)
        check_attempts(attempts)
        check_sources(sources or "")
        by = _actor(by)
        granted = units_down(Budget(epsilon, delta).rho)
        policy = Policy(period, partitions, ground)
        waits = None if approval is None else check_approval(approval)
        self._backend.create()
        self._backend.upgrade()
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            late = clock_fault(connection, self._clock, self.location)
            before = balance_of(connection, dataset, at)
            # A first grant may be made by a machine, whose clock nobody has looked at.
            put_right = bool(late and reason and before is not None)
            if put_right:
                at = instant(self._clock())
            if before is not None:
                attempts = before.attempts if attempts is None else attempts
                sources = before.sources if sources is None else sources
                waits = before.approval if waits is None else waits
                same = (before.epsilon, before.delta, before.policy) == (epsilon, delta, policy)
                opened = (attempts, sources, waits)
                same = same and opened == (before.attempts, before.sources, before.approval)
                if same and not put_right:
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
            if late and not put_right:
                raise BudgetError(late)
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
                attempts=attempts,
                sources=sources or "",
                approval=waits or "",
                by=by,
                reason=reason,
            )
            return known_balance(connection, self.location, dataset, at)

    def approve(
        self, key: ReleaseKey, *, epsilon: float | None = None, by: str = "", reason: str = ""
    ) -> Event:
        """Let a release reserve, where the grant of its dataset asks for approval.

        Approving what is approved already, with the same limit, writes nothing.

        Parameters
        ----------
        key : ReleaseKey
            Exactly which release; the partition `ALL_PARTITIONS` stands for every one.
        epsilon : float, optional
            The most that it may reserve, at the delta of the dataset's grant; without it, what
            the specification asks for.
        by, reason : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If epsilon is out of range.
        BudgetError
            If the dataset has no budget, or its releases need no approval.
        """
        check_name(reason, "the reason", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            said = {"at": at, "by": by, "reason": reason}
            return approve(connection, self.location, key, epsilon=epsilon, **said)

    def withdraw_approval(self, key: ReleaseKey, *, by: str = "", reason: str = "") -> Event:
        """Take an approval back before its release has reserved.

        Parameters
        ----------
        key, by, reason
            As for `approve`.

        Raises
        ------
        BudgetError
            If exactly this key is not approved, or has reserved already.
        """
        check_name(reason, "the reason", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            return withdraw_approval(connection, key, at=at, by=by, reason=reason)

    def approved(self, dataset: str) -> tuple[Event, ...]:
        """Return the approvals of a dataset under which nothing is reserved yet, in their order.

        Those of all partitions of a release are always among them.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            return not_reserved_yet(connection, dataset)

    def withdraw(self, key: ReleaseKey, digest: str, *, by: str = "", reason: str = "") -> Event:
        """Withdraw a certificate, and with it every other of its release.

        Withdrawing the same certificate twice writes nothing.

        Parameters
        ----------
        key : ReleaseKey
            Its release.
        digest : str
            The certificate's, 64 hexadecimal digits.
        by, reason : str
            Written in the journal; the reason is shown to who verifies the certificate.

        Raises
        ------
        SpecificationError
            If the digest is none.
        BudgetError
            If the ledger knows no such release, or cannot be written.
        """
        check_digest(digest, "the certificate's digest")
        check_name(reason, "the reason", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            said = {"at": at, "by": by, "reason": reason}
            return withdraw(connection, self.location, key, digest, **said)

    def upgrade(self) -> None:
        """Bring a ledger that an earlier version made up to date; no event is rewritten.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        self._backend.upgrade()

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
                sa.select(events.c.dataset)
                .where(events.c.kind == Kind.GRANTED.value)
                .distinct()
                .order_by(events.c.dataset)
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
            at = ledger_time(connection, self._clock)
            return known_balance(connection, self.location, dataset, at)

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
        source: str = "",
    ) -> None:
        """Raise as `open_release` would, and write nothing.

        Raises
        ------
        SpecificationError, BudgetError, BudgetExceededError, SourceBindingError
            As for `open_release`.
        """
        units = share_units(shares)
        with self._backend.reading() as connection:
            self._plan(connection, key, units, neighbours, source)

    def check_source(
        self, key: ReleaseKey, source: str, *, neighbours: Neighbours = REPLACE_ONE
    ) -> None:
        """Raise unless a release that was reserved may read a source; write nothing.

        Raises
        ------
        SourceBindingError
            If it is bound to another one, or other releases of its partition are.
        BudgetError
            If the dataset has no budget.
        """
        with self._backend.reading() as connection:
            balance = known_balance(
                connection, self.location, key.dataset, ledger_time(connection, self._clock)
            )
            check_binding(
                connection,
                self.location,
                balance,
                key,
                source,
                neighbours,
                there=True,
                superseded=(),
            )

    def rebind(self, dataset: str, *, reason: str, partition: str = "", by: str = "") -> int:
        """Let the releases of a partition be bound to other sources, as after a file has moved.

        What they were bound to is forgotten; the next run of each binds it. Where none is bound,
        nothing is written.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        reason : str
            Written in the journal.
        partition : str
            Which slice of the data, if it is partitioned.
        by : str
            Defaults to the user's name.

        Returns
        -------
        int
            How many releases were bound.

        Raises
        ------
        SpecificationError
            If there is no reason, or the ledger could not hold such names.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(partition, "the partition", required=False)
        check_name(reason, "the reason")
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            known_balance(connection, self.location, dataset, at)
            return rebind(connection, dataset, partition, at=at, by=by, reason=reason)

    def check_writable(self) -> None:
        """Check that the ledger can be written, or made where it is not there; leave no trace.

        Raises
        ------
        BudgetError
            If it cannot, or has moved elsewhere.
        """
        if self.exists:
            with self._backend.reading() as connection:
                check_not_moved(connection)
        self._backend.check_writable()

    @property
    def moved_to(self) -> str:
        """Where the ledger goes on, without a password; empty where it goes on here."""
        if not self.exists:
            return ""
        with self._backend.reading() as connection:
            return moved_to(connection)

    def move(
        self, url_or_path: str | os.PathLike[str], *, by: str = "", reason: str = ""
    ) -> Verification:
        """Move the whole ledger to another place, and close this one.

        A move that was interrupted at any instant is finished by the same call; until then
        neither place can be written. A ledger moves back in the same way.

        Parameters
        ----------
        url_or_path : str or path
            To where: nothing is there yet, an empty ledger, or what this ledger left there.
        by, reason : str
            Written in the journal; `by` defaults to the user's name.

        Returns
        -------
        Verification
            Of the ledger at its new place.

        Raises
        ------
        LedgerIntegrityError
            If the journal does not add up: it is not moved.
        BudgetError
            If the ledger has moved elsewhere, another ledger is there, or either place cannot be
            written.
        """
        check_name(reason, "the reason", required=False)
        destination = Ledger(url_or_path, clock=self._clock)
        self.verify()
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
        move_journal(self._backend, destination._backend, at=at, by=_actor(by), reason=reason)
        return destination.verify()

    def open_release(
        self,
        key: ReleaseKey,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: str = "",
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
        source : str
            What the release reads, as `source_binding` has it. A new reservation is bound to it,
            and one that was made without is bound when it goes on; empty where nobody says.
        run_id, by : str
            Written in the journal; `by` defaults to the user's name.

        Raises
        ------
        SpecificationError
            If a share is not a positive amount, or the release was opened with other shares.
        BudgetExceededError
            If the shares do not fit into what is left; nothing is reserved.
        SourceBindingError
            If the release is bound to another source; or if, under replace-one neighbours, other
            releases of its dataset and partition are, and several were not granted.
        NotApprovedError
            If releases of the dataset wait for approval, and this one is not approved.
        BudgetError
            If there is no ledger, or the dataset has no budget, with how to grant one; if its
            releases protect other neighbours, whose amounts of rho do not add up with these; or if
            the clock is behind the last entry.
        """
        units = share_units(shares)
        check_name(run_id, "the run id", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at, opening = self._plan(connection, key, units, neighbours, source)
            opening.write(connection, key, at=at, run_id=run_id, by=by)
        reserved = {share: rho_reserving(amount) for share, amount in opening.units.items()}
        return Release(self._backend, key, reserved, run_id, by, self._clock)

    def _plan(
        self,
        connection: sa.Connection,
        key: ReleaseKey,
        units: Mapping[str, int],
        neighbours: Neighbours,
        source: str,
    ) -> tuple[str, Opening]:
        at = ledger_time(connection, self._clock)
        opening = plan_opening(connection, self.location, key, units, at, neighbours, source)
        late = clock_fault(connection, self._clock, self.location)
        # What is reserved already counts where it was, whatever the time.
        if late and not opening.there:
            raise BudgetError(late)
        return at, opening

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

    @contextmanager
    def opening(self, key: ReleaseKey, *, run_id: str = "", by: str = "") -> Iterator[str]:
        """Journal an attempt to open the private data of a release; it ends well, or counts.

        On entry the attempt is durable. It ends where the block does; an exception, an interrupt
        or a kill leaves it open, and after as many as the officer granted nothing of the dataset
        is opened until `acknowledge`. Attempts that are still running count as well.

        Parameters
        ----------
        key : ReleaseKey
            For which release.
        run_id, by : str
            Written in the journal of attempts; `by` defaults to the user's name.

        Yields
        ------
        str
            The attempt's random name.

        Raises
        ------
        AttemptsError
            If too many attempts have not ended well; nothing is written then.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(run_id, "the run id", required=False)
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, key.dataset, at)
            attempt = begin_attempt(
                connection, self.location, balance, key, at=at, run_id=run_id, by=by
            )
        yield attempt.attempt
        with self._backend.writing() as connection:
            end_attempt(connection, attempt, at=ledger_time(connection, self._clock))

    def open_attempts(self, dataset: str) -> list[Access]:
        """Return the attempts of a dataset that count: not ended well, nor acknowledged.

        Raises
        ------
        SpecificationError
            If the ledger could not hold a dataset of that name.
        BudgetError
            If there is no ledger, or the dataset has no budget.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, dataset, at)
            return open_attempts(connection, balance, at)

    def acknowledge(self, dataset: str, *, reason: str, by: str = "") -> int:
        """Let a dataset be opened again after attempts that did not end well.

        Where none counts, nothing is written.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        reason : str
            Written in the journal of attempts.
        by : str
            Defaults to the user's name.

        Returns
        -------
        int
            How many attempts counted; those that still run end as they would have.

        Raises
        ------
        SpecificationError
            If there is no reason, or the ledger could not hold a dataset of that name.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason")
        by = _actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, dataset, at)
            counted = len(open_attempts(connection, balance, at))
            if counted:
                append_access(
                    connection, AccessKind.ACKNOWLEDGED, dataset, at=at, reason=reason, by=by
                )
            return counted

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
            if event.key is not None and event.moves_amount:
                journals.setdefault(event.key, []).append(event)
        return tuple(self._release(key, states_of(said)) for key, said in journals.items())

    def _release(self, key: ReleaseKey, states: Mapping[str, ShareState]) -> Release:
        reserved = {share: rho_reserving(state.reserved) for share, state in states.items()}
        return Release(self._backend, key, reserved, by=_actor(""), clock=self._clock)

    def certify(self, key: ReleaseKey, digest: str, *, run_id: str, by: str = "") -> None:
        """Write down that a certificate was issued for a release, once for each digest.

        Parameters
        ----------
        key : ReleaseKey
            A release that was reserved here.
        digest : str
            Of the certificate; see `jam_dagster.certificates.Certificate.digest`.
        run_id, by : str
            Written in the journal; `by` defaults to the user's name. Where nothing in the run's
            name is random, the entry's hash tells when it was written.

        Raises
        ------
        BudgetError
            If the release was never opened here, or the ledger cannot be written.
        """
        check_name(run_id, "the run id")
        by = _actor(by)

        def written(connection: sa.Connection) -> bool:
            if not share_states(connection, key):
                raise BudgetError(
                    f"{key} was never reserved in the ledger {self.location}: issue its "
                    "certificate with the ledger that it was charged to"
                )
            return bool(issued(connection, key, digest))

        with self._backend.reading() as connection:
            if written(connection):
                return
        with self._backend.writing() as connection:
            if not written(connection):
                append(
                    connection,
                    Kind.CERTIFIED,
                    **key_fields(key),
                    digest=digest,
                    at=ledger_time(connection, self._clock),
                    run_id=run_id,
                    by=by,
                )

    def issued(self, key: ReleaseKey, digest: str) -> Event | None:
        """Return what was written down of a release's certificate; None if nothing was."""
        with self._backend.reading() as connection:
            return next(iter(issued(connection, key, digest)), None)

    def ended(self, key: ReleaseKey) -> Event:
        """Return the last event that moved an amount of a release.

        Raises
        ------
        BudgetError
            If the release was never opened here.
        """
        with self._backend.reading() as connection:
            journal = read(connection, of_release(key), moves_an_amount())
        if not journal:
            raise BudgetError(f"{key} was never reserved in the ledger {self.location}")
        return journal[-1]

    def balance_after(self, event: Event) -> Balance:
        """Return the balance of an event's dataset as it was right after the event."""
        with self._backend.reading() as connection:
            return known_balance(
                connection, self.location, event.dataset, event.at, through=event.seq
            )

    @property
    def keys(self) -> LedgerKeys:
        """The public keys by which certificates may be signed."""
        return LedgerKeys(self._backend, _actor)

    def verify(self) -> Verification:
        """Prove that the journal was not altered and that the balances follow from it.

        Replays every event in Python against the ledger's rules, and compares the outcome with
        the balances that the database gives; so the journal of attempts. A journal whose last
        events were cut off is whole in itself: keep the returned `head` elsewhere to notice that.

        Raises
        ------
        LedgerIntegrityError
            At the first event that does not fit, with its number.
        BudgetError
            If there is no ledger.
        """
        with self._backend.reading() as connection:
            now = ledger_time(connection, self._clock)
            journal = read(connection)
            verified = verify_journal(
                journal,
                lambda dataset: balance_of(connection, dataset, now),
                self.location,
                now,
            )
            granted = {event.dataset for event in journal if event.kind == Kind.GRANTED}
            opened = verify_accesses(read_accesses(connection), granted, self.location)
            return replace(verified, accesses=opened)


def _actor(by: str) -> str:
    if by:
        return check_name(by, "by")
    try:
        return check_name(getpass.getuser(), "the user")
    except (OSError, KeyError, SpecificationError):
        # A container may run under a user that has no name, or none that can be written.
        return ""
