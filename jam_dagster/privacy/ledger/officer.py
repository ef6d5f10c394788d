"""The entries that a privacy officer makes: grants, approvals, withdrawals, acknowledgements."""

from __future__ import annotations

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.accounting import Budget, describe_rho, rho_within, units_down
from jam_dagster.privacy.ledger.approval import (
    ApprovalName,
    approve,
    check_approval,
    withdraw_approval,
)
from jam_dagster.privacy.ledger.attempts import check_attempts, open_attempts
from jam_dagster.privacy.ledger.balance import (
    Balance,
    balance_of,
    holdings,
    known_balance,
    used_under,
)
from jam_dagster.privacy.ledger.bindings import check_sources, rebind
from jam_dagster.privacy.ledger.clock import clock_fault, ledger_time
from jam_dagster.privacy.ledger.journal import (
    AccessKind,
    Event,
    Kind,
    append,
    append_access,
    instant,
)
from jam_dagster.privacy.ledger.key import ReleaseKey, check_digest, check_name
from jam_dagster.privacy.ledger.opening import or_close
from jam_dagster.privacy.ledger.policy import PartitionsName, PeriodName, Policy, mixture_fault
from jam_dagster.privacy.ledger.reader import LedgerReader, actor
from jam_dagster.privacy.ledger.withdrawal import withdraw


class OfficerEntries(LedgerReader):
    """What a privacy officer does with a ledger."""

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
        by = actor(by)
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
        by = actor(by)
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
        by = actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            return withdraw_approval(connection, key, at=at, by=by, reason=reason)

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
        by = actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            said = {"at": at, "by": by, "reason": reason}
            return withdraw(connection, self.location, key, digest, **said)

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
        by = actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            known_balance(connection, self.location, dataset, at)
            return rebind(connection, dataset, partition, at=at, by=by, reason=reason)

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
        by = actor(by)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, dataset, at)
            counted = len(open_attempts(connection, balance, at))
            if counted:
                append_access(
                    connection, AccessKind.ACKNOWLEDGED, dataset, at=at, reason=reason, by=by
                )
            return counted
