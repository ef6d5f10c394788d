"""The privacy budget ledger: who spent what on which protected dataset.

An append-only journal in one SQLite file, or in a PostgreSQL database. A budget belongs to a
protected dataset. A release reserves its whole price before it opens private data, charges each
draw before it draws, and returns the rest at its end. Every balance follows from the journal alone,
and every event carries the hash of the one before.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.accounting import (
    UNITS_PER_DELTA,
    Budget,
    delta_units_up,
    rho_reserving,
    units_down,
)
from jam_dagster.privacy.ledger.approval import (
    approvals_of,
    has_reserved,
)
from jam_dagster.privacy.ledger.attempts import (
    begin_attempt,
    check_attempts,
    end_attempt,
    open_attempts,
    payments,
)
from jam_dagster.privacy.ledger.audit import Verification
from jam_dagster.privacy.ledger.balance import Balance, balance_of, known_balance
from jam_dagster.privacy.ledger.bindings import (
    bind,
    check_binding,
    check_sources,
    check_table,
    rebind,
)
from jam_dagster.privacy.ledger.clock import clock_fault, ledger_time
from jam_dagster.privacy.ledger.commands import grant_command
from jam_dagster.privacy.ledger.journal import (
    AccessKind,
    Event,
    Kind,
    append,
    append_access,
    check_not_moved,
    events,
    instant,
    last,
    of_release,
)
from jam_dagster.privacy.ledger.move import move_journal
from jam_dagster.privacy.ledger.opening import Opening, check_granted, plan_opening, share_units
from jam_dagster.privacy.ledger.policy import (
    REQUIRED,
    ApprovalName,
    Policy,
    check_approval,
)
from jam_dagster.privacy.ledger.reader import LedgerReader, is_by_hand, issued, last_run
from jam_dagster.privacy.ledger.release_id import ReleaseId, check_digest, check_name, id_fields
from jam_dagster.privacy.ledger.reservation import Reservation
from jam_dagster.privacy.ledger.signing_keys import SigningKeys
from jam_dagster.privacy.ledger.source_binding import SourceBinding
from jam_dagster.privacy.ledger.state import release_state
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours


class Ledger(LedgerReader):
    """The budgets of protected datasets and the journal of their use.

    Constructing the object reads and writes nothing; only `grant` creates a ledger. The object can
    be pickled and used in several processes at the same time.

    Parameters
    ----------
    url_or_path : str or path
        A file, or a ``sqlite:///`` or ``postgresql://`` URL; ``~`` and ``${VARIABLES}`` in it are
        expanded, and shown by their names. The password of a URL is shown nowhere and does not
        travel in a pickle; see `LedgerServer`.
    clock : callable returning datetime, optional
        Returns the time, which decides the period of a renewing budget. The ledger's time is never
        earlier than its last entry.

    Raises
    ------
    SpecificationError
        If the location is no file or supported database, or names a variable that is not set.

    Examples
    --------
    >>> ledger = Ledger("ledger.db")
    >>> ledger.grant("people", epsilon=3.0, delta=1e-9, reason="policy of 2026")
    >>> release_id = ReleaseId("people", "yearly", specification="3f9a...")
    >>> release = ledger.open_release(release_id, Budget(1.0, 1e-9).shares(evaluation=0.05))
    >>> release.account("mechanism").charge("round-000/select", 1e-4)
    >>> release.close("done")
    """

    @contextmanager
    def _writing(self) -> Iterator[tuple[sa.Connection, str]]:
        with self._backend.writing() as connection:
            yield connection, ledger_time(connection, self._clock)

    def upgrade(self) -> None:
        """Upgrade a ledger of an earlier version; no event is rewritten.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        self._backend.upgrade()

    def check_writable(self) -> None:
        """Check that the ledger can be written or created, without writing anything.

        Raises
        ------
        BudgetError
            If it cannot, or has moved elsewhere.
        """
        if self.exists:
            with self._backend.reading() as connection:
                check_not_moved(connection)
        self._backend.check_writable()

    def move(self, url_or_path: str | os.PathLike[str], *, reason: str = "") -> Verification:
        """Move the whole ledger to another place, and close this one.

        A move that was interrupted at any instant is finished by the same call; until then
        neither place can be written. A ledger moves back in the same way.

        Parameters
        ----------
        url_or_path : str or path
            The new place: empty, an empty ledger, or the remains of an interrupted move.
        reason : str
            Written in the journal with the user's name.

        Returns
        -------
        Verification
            Of the ledger at its new place.

        Raises
        ------
        LedgerIntegrityError
            If the journal does not add up; nothing is moved then.
        BudgetError
            If the ledger has moved elsewhere, another ledger is there, or either place cannot be
            written.
        """
        check_name(reason, "the reason", required=False)
        destination = Ledger(url_or_path, clock=self._clock)
        self.verify()
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
        move_journal(self._backend, destination._backend, at=at, reason=reason)
        return destination.verify()

    @property
    def signing_keys(self) -> SigningKeys:
        """The public keys by which certificates may be signed."""
        return SigningKeys(self._backend)

    def grant(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        policy: Policy | None = None,
        attempts: int | None = None,
        sources: str | None = None,
        approval: ApprovalName | None = None,
        selections: float | None = None,
        reason: str = "",
        by_definitions: bool = False,
    ) -> Balance:
        """Grant a protected dataset its whole budget, or replace the budget it has.

        An unchanged grant writes nothing, unless the last entry's time is in the future: then a
        grant with a reason corrects the ledger's time. A ledger of an earlier revision is upgraded.

        Parameters
        ----------
        dataset : str
            Identity of the protected dataset.
        epsilon, delta : float
            The budget of all releases together, per period if it renews.
        policy : Policy, optional
            How the budget counts, and whether the number of records is public; by default what is
            granted, at first `Policy`.
        attempts : int, optional
            How many attempts to open private data may fail, per period if the budget renews,
            before an operator must acknowledge them.
        sources : str, optional
            Digests of queries, assets, folders and URLs, as a refusal shows them, separated by
            commas: partitions that are disjoint, or releases whose number of records is public, may
            read what these are of.
        approval : {"none", "required"}, optional
            Whether releases wait for `approve` before they reserve. `attempts`, `sources` and
            `approval` keep their granted value if they are not given; at first 3, "" and "none".
        selections : float, optional
            How much of delta selections of values may have, in [0, delta); the rest converts rho.
            If it is not given, it stays as it is granted, at first 0.
        reason : str
            Written in the journal with the user's name.
        by_definitions : bool
            Whether Dagster's definitions grant it, which `grant_by_hand` ends for new datasets.

        Raises
        ------
        SpecificationError
            If a value is out of range.
        BudgetError
            If the new budget, counted by its policy, is less than the spent and reserved amount,
            the clock is behind the last entry and no reason is given, definitions grant no new
            dataset, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason", required=False)
        check_attempts(attempts)
        check_sources(sources or "")
        # An error of these alone comes before anything is made.
        _ = Budget(epsilon, delta, selections or 0.0)
        waits = None if approval is None else check_approval(approval)
        self._backend.create()
        self._backend.upgrade()
        with self._writing() as (connection, at):
            late = clock_fault(connection, self._clock, self.location)
            before = balance_of(connection, dataset, at)
            if by_definitions and before is None and is_by_hand(connection):
                raise BudgetError(
                    f"dataset {dataset!r} has a configured budget, which is not granted: in the "
                    f"ledger {self.location} the officer grants each new dataset by hand, since a "
                    "new name for the same people would have a budget beyond theirs. Name the "
                    "dataset that has these people, or, if none has, let the officer grant it: "
                    f"{grant_command(self.location, dataset)}"
                )
            # A first grant may come from a machine with an unchecked clock.
            put_right = bool(late and reason and before is not None)
            if put_right:
                at = instant(self._clock())
            if policy is None:
                policy = Policy() if before is None else before.policy
            held = 0 if before is None else before.granted_selections
            deltas = held if selections is None else delta_units_up(selections)
            granted = units_down(Budget(epsilon, delta, deltas / UNITS_PER_DELTA).rho)
            if before is not None:
                attempts = before.attempts if attempts is None else attempts
                sources = before.sources if sources is None else sources
                waits = before.approval if waits is None else waits
                stated = before.epsilon, before.granted_delta, before.policy
                same = stated == (epsilon, delta, policy) and held == deltas
                opened = (before.attempts, before.sources, before.approval)
                if same and opened == (attempts, sources, waits) and not put_right:
                    return before
                check_granted(
                    *(connection, self.location, before, granted, policy, delta, deltas),
                    sources=sources,
                    at=at,
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
                **vars(policy),
                attempts=attempts,
                selections=deltas or None,
                sources=sources or "",
                approval=waits or "",
                reason=reason,
            )
            return known_balance(connection, self.location, dataset, at)

    def grant_by_hand(self, *, reason: str) -> None:
        """End grants of new datasets by definitions: the officer grants each by hand.

        A new name for the same people would have a budget beyond theirs. A second call writes
        nothing.

        Parameters
        ----------
        reason : str
            Written in the journal with the user's name.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        check_name(reason, "the reason")
        with self._writing() as (connection, at):
            if not is_by_hand(connection):
                append(connection, Kind.BY_HAND, "", at=at, reason=reason)

    def adopt(self, *, reason: str) -> str:
        """Journal that releases name this ledger as theirs, and return its identity.

        A ledger that is not there is made, by this event as its first.

        Parameters
        ----------
        reason : str
            Written in the journal with the user's name.

        Returns
        -------
        str
            The hash of the first event: 64 hexadecimal digits.

        Raises
        ------
        BudgetError
            If the ledger cannot be written, or has moved elsewhere.
        """
        check_name(reason, "the reason")
        self._backend.create()
        self._backend.upgrade()
        with self._writing() as (connection, at):
            append(connection, Kind.ADOPTED, "", at=at, reason=reason)
        return self.identity

    def approve(
        self, release_id: ReleaseId, *, epsilon: float | None = None, reason: str = ""
    ) -> Event:
        """Approve a release, so that it may reserve where the dataset's grant requires approval.

        Approving the same id again, with the same limit, writes nothing.

        Parameters
        ----------
        release_id : ReleaseId
            The exact release; the partition `ALL_PARTITIONS` stands for every partition.
        epsilon : float, optional
            The most that it may reserve, at the delta of the dataset's grant; by default the
            amount in the specification.
        reason : str
            Written in the journal with the user's name.

        Raises
        ------
        SpecificationError
            If epsilon is out of range.
        BudgetError
            If the dataset has no budget, or its releases need no approval.
        """
        check_name(reason, "the reason", required=False)
        with self._writing() as (connection, at):
            balance = known_balance(connection, self.location, release_id.dataset, at)
            if balance.approval != REQUIRED:
                raise BudgetError(
                    f"releases of dataset {release_id.dataset!r} need no approval. To let them "
                    "wait for it, grant the dataset its budget with `--approval required`"
                )
            limit = 0 if epsilon is None else units_down(Budget(epsilon, balance.delta).rho)
            before = approvals_of(connection, release_id.dataset).standing(release_id)
            if before is not None and before.units == limit:
                return before
            details: dict[str, Any] = {"at": at, "units": limit, "epsilon": epsilon}
            return append(
                connection, Kind.APPROVED, **id_fields(release_id), **details, reason=reason
            )

    def withdraw_approval(self, release_id: ReleaseId, *, reason: str = "") -> Event:
        """Withdraw an approval before its release has reserved.

        Parameters
        ----------
        release_id, reason
            As for `approve`.

        Raises
        ------
        BudgetError
            If this exact id is not approved, or has reserved already.
        """
        check_name(reason, "the reason", required=False)
        with self._writing() as (connection, at):
            if approvals_of(connection, release_id.dataset).standing(release_id) is None:
                raise BudgetError(
                    f"{release_id} of dataset {release_id.dataset!r} is not approved under the "
                    f"specification {release_id.specification}: there is nothing to withdraw"
                )
            if has_reserved(connection, release_id):
                raise BudgetError(
                    f"{release_id} of dataset {release_id.dataset!r} has reserved its budget, so "
                    "its approval cannot be withdrawn; end it with `jam-dagster ledger close`"
                )
            details = {"at": at, "reason": reason}
            return append(connection, Kind.APPROVAL_WITHDRAWN, **id_fields(release_id), **details)

    def withdraw(self, release_id: ReleaseId, digest: str, *, reason: str = "") -> Event:
        """Withdraw a certificate, together with all other certificates of its release.

        Withdrawing the same certificate twice writes nothing.

        Parameters
        ----------
        release_id : ReleaseId
            The release of the certificate.
        digest : str
            The certificate's digest, 64 hexadecimal digits.
        reason : str
            Written in the journal; the verification of the certificate shows the reason.

        Raises
        ------
        SpecificationError
            If the digest is malformed.
        BudgetError
            If the ledger knows no such release, or cannot be written.
        """
        check_digest(digest, "the certificate's digest")
        check_name(reason, "the reason", required=False)
        with self._writing() as (connection, at):
            if not release_state(connection, release_id).shares:
                raise BudgetError(
                    f"the ledger {self.location} knows no {release_id} of dataset "
                    f"{release_id.dataset!r} under this specification: name the ledger that was "
                    "charged for it"
                )
            withdrawn = events.c.kind == Kind.WITHDRAWN.value, events.c.digest == digest
            details = {"at": at, "reason": reason, "digest": digest}
            return last(connection, of_release(release_id), *withdrawn) or append(
                connection, Kind.WITHDRAWN, **id_fields(release_id), **details
            )

    def rebind(self, dataset: str, *, reason: str, partition: str = "", table: str = "") -> int:
        """Drop the source bindings of a partition's releases, as after a file has moved.

        The next run of each release binds it again. Each keeps the table that it is of, with which
        disjoint partitions of one table are compared, unless `table` names another. If that
        changes no release, nothing is written.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        reason : str
            Written in the journal.
        partition : str
            The slice of the data, if it is partitioned.
        table : str
            The table of which all releases of the partition are, by its digest as a refusal shows
            it: those that were never bound, too.

        Returns
        -------
        int
            How many releases were bound, or were not known to be of that table.

        Raises
        ------
        SpecificationError
            If there is no reason, or a name or the table is invalid.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(partition, "the partition", required=False)
        check_name(reason, "the reason")
        check_table(table)
        with self._writing() as (connection, at):
            known_balance(connection, self.location, dataset, at)
            return rebind(connection, dataset, partition, table, at=at, reason=reason)

    def acknowledge(self, dataset: str, *, reason: str) -> int:
        """Let a dataset be opened again after attempts that did not end well.

        If no attempt counts, nothing is written.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        reason : str
            Written in the journal of attempts.

        Returns
        -------
        int
            How many attempts counted; running ones end as before.

        Raises
        ------
        SpecificationError
            If there is no reason, or a dataset cannot have that name.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(reason, "the reason")
        with self._writing() as (connection, at):
            balance = known_balance(connection, self.location, dataset, at)
            counted = len(open_attempts(connection, balance, at))
            if counted:
                append_access(connection, AccessKind.ACKNOWLEDGED, dataset, at=at, reason=reason)
            return counted

    def open_release(
        self,
        release_id: ReleaseId,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: SourceBinding | None = None,
        run_id: str = "",
        takes_over: Collection[ReleaseId] = (),
        selections: Mapping[str, float] | None = None,
    ) -> Reservation:
        """Reserve the whole price of a release, or return its earlier reservation.

        A release that was closed without a charge is opened again, unless it published the number
        of records. An uncharged reservation of the same release under another specification is
        returned and closed, with the same exception, so that correcting a mistake costs nothing;
        charged amounts are never touched.

        Parameters
        ----------
        release_id : ReleaseId
            The release. The reservation of an id that was opened before is returned, free.
        shares : mapping of str to float
            Rho to reserve for each part of the release, such as ``"mechanism"`` and
            ``"evaluation"``; a reservation is a budget and is rounded down.
        neighbours : Neighbours
            The neighbours that the release protects: the same for all releases of a dataset.
        source : SourceBinding, optional
            What it reads, to which a new reservation is bound.
        run_id : str
            Written in the journal with the user's name.
        takes_over : collection of ReleaseId
            Other releases of the dataset whose uncharged reservations are returned and closed too.
        selections : mapping of str to float, optional
            The delta that a share has for selections of values, of those that select any. It counts
            as a whole, unless the share ends without a charge.

        Raises
        ------
        SpecificationError
            If a share is not a positive amount, or the release was opened with other shares.
        BudgetExceededError
            If the shares, or the delta of selections, do not fit into the remaining budget; nothing
            is reserved.
        SourceBindingError
            If the release is bound to another source; or if single records are protected under
            replace-one neighbours, and other releases of its dataset and partition are bound to
            another one, or no grant says that the number of records is public.
        NotApprovedError
            If releases of the dataset wait for approval, and this one is not approved.
        BudgetError
            If there is no ledger, or the dataset has no budget, with the command that grants one;
            if its releases protect other neighbours, so that amounts of rho do not add up; or if
            the clock is behind the last entry.
        """
        units = share_units(shares)
        check_name(run_id, "the run id", required=False)
        with self._backend.writing() as connection:
            at, opening = self._plan(
                connection, release_id, units, neighbours, source, takes_over, selections
            )
            opening.write(connection, release_id, at=at, run_id=run_id)
        reserved = {share: rho_reserving(amount) for share, amount in opening.units.items()}
        return Reservation(self._backend, release_id, reserved, run_id, self._clock)

    def check(
        self,
        release_id: ReleaseId,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: SourceBinding | None = None,
        takes_over: Collection[ReleaseId] = (),
        selections: Mapping[str, float] | None = None,
    ) -> None:
        """Raise the errors of `open_release`, and write nothing.

        Raises
        ------
        SpecificationError, BudgetError, BudgetExceededError, SourceBindingError
            As for `open_release`.
        """
        units = share_units(shares)
        with self._backend.reading() as connection:
            self._plan(connection, release_id, units, neighbours, source, takes_over, selections)

    def _plan(
        self,
        connection: sa.Connection,
        release_id: ReleaseId,
        units: Mapping[str, int],
        neighbours: Neighbours,
        source: SourceBinding | None,
        takes_over: Collection[ReleaseId],
        selections: Mapping[str, float] | None,
    ) -> tuple[str, Opening]:
        at = ledger_time(connection, self._clock)
        deltas = {share: delta_units_up(delta) for share, delta in (selections or {}).items()}
        opening = plan_opening(
            *(connection, self.location, release_id, units, at, neighbours, source, takes_over),
            selections={share: units for share, units in deltas.items() if units},
        )
        late = clock_fault(connection, self._clock, self.location)
        # An existing reservation keeps its period, whatever the time.
        if late and not opening.there:
            raise BudgetError(late)
        return at, opening

    @contextmanager
    def claim(self, release_id: ReleaseId) -> Iterator[None]:
        """Lock a release, so that one run at a time draws for it.

        A killed run releases its claim at once, or with the last process that it has forked.

        Two concurrent runs could not overspend the reservation, but each would take the other's
        draws for lost, and neither would end with a whole transcript.

        Parameters
        ----------
        release_id : ReleaseId
            The release.

        Raises
        ------
        BudgetError
            If another run holds it, or the ledger cannot be reached.
        """
        with self._backend.claim(release_id.digest) as taken:
            if not taken:
                raise BudgetError(
                    f"another run is drawing for {release_id} of dataset {release_id.dataset!r}. "
                    "Wait until it has ended and run again: its paid draws are then reused without "
                    "a charge"
                )
            yield

    @contextmanager
    def attempt(
        self,
        release_id: ReleaseId,
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: SourceBinding | None = None,
        run_id: str = "",
    ) -> Iterator[str]:
        """Journal an attempt to open the private data of a release; it counts until it ends well.

        On entry the attempt is durable. It ends with the block; an exception, an interrupt or a
        kill leaves it open. So does an attempt that neither pays nor journals the public
        number of records: that it ended well is an answer, and nothing pays for it. Once the
        granted number of attempts is open, the dataset stays closed until `acknowledge`. Running
        attempts count as well.

        A release that is bound to no source, as after `rebind`, is bound with the attempt: a run
        that is refused before it opens anything binds nothing. One that has ended draws nothing
        more, so its repeat binds it once it ended well: a repeat that is refused binds nothing.

        Parameters
        ----------
        release_id : ReleaseId
            The release.
        neighbours, source
            As for `open_release`.
        run_id : str
            Written in the journal of attempts with the user's name.

        Yields
        ------
        str
            The attempt's random name.

        Raises
        ------
        AttemptsError
            If too many attempts have not ended well; nothing is written then.
        SourceBindingError
            As for `open_release`; nothing is written then. At the end, if another run has bound an
            ended release to another source meanwhile.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(run_id, "the run id", required=False)
        with self._writing() as (connection, at):
            balance = known_balance(connection, self.location, release_id.dataset, at)
            reads = balance, release_id, source, neighbours
            attempt = begin_attempt(
                connection, self.location, balance, release_id, at=at, run_id=run_id
            )
            # Another run may have bound it since the reservation was found.
            unbound = check_binding(connection, self.location, *reads, there=True)
            release = release_state(connection, release_id)
            ended = bool(release.shares) and release.closed
            if unbound and not release.closed:
                bind(connection, release_id, unbound, at=at, run_id=run_id)
            before = payments(connection, release_id)
        yield attempt.attempt
        with self._writing() as (connection, at):
            late = check_binding(connection, self.location, *reads, there=True) if ended else None
            if late:
                bind(connection, release_id, late, at=at, run_id=run_id)
            if payments(connection, release_id) > before:
                end_attempt(connection, attempt, at=at)

    def ran(self, release_id: ReleaseId, digest: str, *, run_id: str = "") -> None:
        """Journal the digest of a run that this process made from its draws, unless it is the last.

        A run that is repeated on another machine may have another model; the last one counts.

        Parameters
        ----------
        release_id : ReleaseId
            A release that was reserved here.
        digest : str
            See `jam_dagster.certificates.run_digest`; empty over a domain from private data, where
            a plain digest would let readers of the ledger distinguish neighbours.
        run_id : str
            Written in the journal with the user's name.

        Raises
        ------
        BudgetError
            If the release was never opened here, or the ledger cannot be written.
        """
        check_name(run_id, "the run id", required=False)
        with self._writing() as (connection, at):
            self._check_reserved(connection, release_id, "run it")
            if last_run(connection, release_id) != digest:
                append(
                    connection,
                    Kind.RAN,
                    **id_fields(release_id),
                    digest=digest,
                    at=at,
                    run_id=run_id,
                )

    def _check_reserved(self, connection: sa.Connection, release_id: ReleaseId, what: str) -> None:
        if not release_state(connection, release_id).shares:
            raise BudgetError(
                f"{release_id} was never reserved in the ledger {self.location}: {what} with the "
                "ledger that it was charged to"
            )

    def certify(self, release_id: ReleaseId, digest: str, *, run_id: str) -> None:
        """Journal that a certificate was issued for a release, once for each digest.

        Parameters
        ----------
        release_id : ReleaseId
            A release that was reserved here.
        digest : str
            The certificate's digest; see `jam_dagster.certificates.Certificate.digest`.
        run_id : str
            Written in the journal with the user's name. A run id without a random
            part lets the entry's hash reveal its time.

        Raises
        ------
        BudgetError
            If the release was never opened here, or the ledger cannot be written.
        """
        check_name(run_id, "the run id")
        with self._writing() as (connection, at):
            self._check_reserved(connection, release_id, "issue its certificate")
            if issued(connection, release_id, digest) is None:
                append(
                    connection,
                    Kind.CERTIFIED,
                    **id_fields(release_id),
                    digest=digest,
                    at=at,
                    run_id=run_id,
                )
