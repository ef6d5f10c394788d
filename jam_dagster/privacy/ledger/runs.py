"""The entries that a run makes: its reservation, its attempts to open data, its certificate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.accounting import rho_reserving
from jam_dagster.privacy.ledger.attempts import begin_attempt, end_attempt, payments
from jam_dagster.privacy.ledger.balance import Balance, known_balance
from jam_dagster.privacy.ledger.bindings import bind, check_binding
from jam_dagster.privacy.ledger.clock import clock_fault, ledger_time
from jam_dagster.privacy.ledger.journal import Kind, append
from jam_dagster.privacy.ledger.key import ReleaseKey, check_name, key_fields
from jam_dagster.privacy.ledger.opening import Opening, plan_opening, share_units
from jam_dagster.privacy.ledger.reader import LedgerReader, issued, last_run
from jam_dagster.privacy.ledger.reservation import Release
from jam_dagster.privacy.ledger.state import share_states
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours


class RunEntries(LedgerReader):
    """The ledger entries of a run; see `Ledger`."""

    def open_release(
        self,
        key: ReleaseKey,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: str = "",
        run_id: str = "",
        takes_over: Collection[ReleaseKey] = (),
    ) -> Release:
        """Reserve the whole price of a release, or return its earlier reservation.

        A release that was closed without a charge is opened again, unless it published the number
        of records. An uncharged reservation of the same release under another specification is
        returned and closed, with the same exception, so that correcting a mistake costs nothing;
        charged amounts are never touched.

        Parameters
        ----------
        key : ReleaseKey
            The release. The reservation of a key that was opened before is returned, free.
        shares : mapping of str to float
            Rho to reserve for each part of the release, such as ``"mechanism"`` and
            ``"evaluation"``; a reservation is a budget and is rounded down.
        neighbours : Neighbours
            The neighbours that the release protects: the same for all releases of a dataset.
        source : str
            The `source_binding` of the table it reads, to which a new reservation is bound; empty
            if the source is not given.
        run_id : str
            Written in the journal, beside the user's name.
        takes_over : collection of ReleaseKey
            Other releases of the dataset whose uncharged reservations are returned and closed too.

        Raises
        ------
        SpecificationError
            If a share is not a positive amount, or the release was opened with other shares.
        BudgetExceededError
            If the shares do not fit into the remaining budget; nothing is reserved.
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
            at, opening = self._plan(connection, key, units, neighbours, source, takes_over)
            opening.write(connection, key, at=at, run_id=run_id)
        reserved = {share: rho_reserving(amount) for share, amount in opening.units.items()}
        return Release(self._backend, key, reserved, run_id, self._clock)

    def check(
        self,
        key: ReleaseKey,
        shares: Mapping[str, float],
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: str = "",
        takes_over: Collection[ReleaseKey] = (),
    ) -> None:
        """Raise the errors of `open_release`, and write nothing.

        Raises
        ------
        SpecificationError, BudgetError, BudgetExceededError, SourceBindingError
            As for `open_release`.
        """
        units = share_units(shares)
        with self._backend.reading() as connection:
            self._plan(connection, key, units, neighbours, source, takes_over)

    def _plan(
        self,
        connection: sa.Connection,
        key: ReleaseKey,
        units: Mapping[str, int],
        neighbours: Neighbours,
        source: str,
        takes_over: Collection[ReleaseKey],
    ) -> tuple[str, Opening]:
        at = ledger_time(connection, self._clock)
        opening = plan_opening(
            connection, self.location, key, units, at, neighbours, source, takes_over
        )
        late = clock_fault(connection, self._clock, self.location)
        # An existing reservation keeps its period, whatever the time.
        if late and not opening.there:
            raise BudgetError(late)
        return at, opening

    @contextmanager
    def claim(self, key: ReleaseKey) -> Iterator[None]:
        """Let one run at a time draw for a release.

        A killed run releases its claim at once, or with the last process that it has forked.

        Two concurrent runs could not overspend the reservation, but each would take the other's
        draws for lost, and neither would end with a whole transcript.

        Parameters
        ----------
        key : ReleaseKey
            The release.

        Raises
        ------
        BudgetError
            If another run holds it, or the ledger cannot be reached.
        """
        with self._backend.claim(key.digest) as taken:
            if not taken:
                raise BudgetError(
                    f"another run is drawing for {key} of dataset {key.dataset!r}. Wait until it "
                    "has ended and run again: its paid draws are then reused without a charge"
                )
            yield

    @contextmanager
    def opening(
        self,
        key: ReleaseKey,
        *,
        neighbours: Neighbours = REPLACE_ONE,
        source: str = "",
        run_id: str = "",
    ) -> Iterator[str]:
        """Journal an attempt to open the private data of a release; it counts until it ends well.

        On entry the attempt is durable. It ends with the block; an exception, an interrupt or a
        kill leaves it open. So does the end of an opening that neither pays nor journals the public
        number of records: that it ended well is an answer, and nothing pays for it. Once the
        granted number of attempts is open, the dataset stays closed until `acknowledge`. Running
        attempts count as well.

        A release that is bound to no source, as after `rebind`, is bound with the attempt: a run
        that is refused before it opens anything binds nothing. One that has ended draws nothing
        more, so its repeat binds it once it ended well: a repeat that is refused binds nothing.

        Parameters
        ----------
        key : ReleaseKey
            The release.
        neighbours, source
            As for `open_release`.
        run_id : str
            Written in the journal of attempts, beside the user's name.

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
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, key.dataset, at)
            attempt = begin_attempt(connection, self.location, balance, key, at=at, run_id=run_id)
            # Another run may have bound it since the reservation was found.
            unbound = self._is_unbound(connection, balance, key, source, neighbours)
            shares = share_states(connection, key).values()
            ended = bool(shares) and all(share.closed for share in shares)
            if unbound and not ended:
                bind(connection, key, source, at=at, run_id=run_id)
            before = payments(connection, key)
        yield attempt.attempt
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            if ended and self._is_unbound(connection, balance, key, source, neighbours):
                bind(connection, key, source, at=at, run_id=run_id)
            if payments(connection, key) > before:
                end_attempt(connection, attempt, at=at)

    def _is_unbound(
        self,
        connection: sa.Connection,
        balance: Balance,
        key: ReleaseKey,
        source: str,
        neighbours: Neighbours,
    ) -> bool:
        """Return whether a release must be bound to a source; raise if it must not read it."""
        return check_binding(
            connection,
            self.location,
            balance,
            key,
            source,
            neighbours,
            there=True,
            superseded=(),
        )

    def ran(self, key: ReleaseKey, digest: str, *, run_id: str = "") -> None:
        """Journal the digest of a run that this process made from its draws, unless it is the last.

        A run that is made again on another machine may have another model; the last one counts.

        Parameters
        ----------
        key : ReleaseKey
            A release that was reserved here.
        digest : str
            See `jam_dagster.certificates.run_digest`; empty over a domain from private data, where
            a plain digest would let readers of the ledger distinguish neighbours.
        run_id : str
            Written in the journal, beside the user's name.

        Raises
        ------
        BudgetError
            If the release was never opened here, or the ledger cannot be written.
        """
        check_name(run_id, "the run id", required=False)
        with self._backend.writing() as connection:
            self._check_reserved(connection, key, "run it")
            if last_run(connection, key) != digest:
                append(
                    connection,
                    Kind.RAN,
                    **key_fields(key),
                    digest=digest,
                    at=ledger_time(connection, self._clock),
                    run_id=run_id,
                )

    def _check_reserved(self, connection: sa.Connection, key: ReleaseKey, what: str) -> None:
        if not share_states(connection, key):
            raise BudgetError(
                f"{key} was never reserved in the ledger {self.location}: {what} with the ledger"
                " that it was charged to"
            )

    def certify(self, key: ReleaseKey, digest: str, *, run_id: str) -> None:
        """Journal that a certificate was issued for a release, once for each digest.

        Parameters
        ----------
        key : ReleaseKey
            A release that was reserved here.
        digest : str
            The certificate's digest; see `jam_dagster.certificates.Certificate.digest`.
        run_id : str
            Written in the journal, beside the user's name. A run id without a random
            part lets the entry's hash reveal its time.

        Raises
        ------
        BudgetError
            If the release was never opened here, or the ledger cannot be written.
        """
        check_name(run_id, "the run id")
        with self._backend.writing() as connection:
            self._check_reserved(connection, key, "issue its certificate")
            if not issued(connection, key, digest):
                append(
                    connection,
                    Kind.CERTIFIED,
                    **key_fields(key),
                    digest=digest,
                    at=ledger_time(connection, self._clock),
                    run_id=run_id,
                )
