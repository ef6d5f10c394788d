"""The entries that a privacy officer makes: grants, approvals, withdrawals, acknowledgements."""

from __future__ import annotations

import sqlalchemy as sa

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
from jam_dagster.privacy.ledger.policy import Policy, mixture_fault
from jam_dagster.privacy.ledger.reader import LedgerReader
from jam_dagster.privacy.ledger.withdrawal import withdraw


class OfficerEntries(LedgerReader):
    """The ledger entries of a privacy officer; see `Ledger`."""

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
        reason: str = "",
    ) -> Balance:
        """Grant a protected dataset its whole budget, or replace the budget it has.

        An unchanged grant writes nothing, unless the last entry's time lies in the future: then a
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
        reason : str
            Written in the journal, beside the user's name.

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
        granted = units_down(Budget(epsilon, delta).rho)
        waits = None if approval is None else check_approval(approval)
        self._backend.create()
        self._backend.upgrade()
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            late = clock_fault(connection, self._clock, self.location)
            before = balance_of(connection, dataset, at)
            # A first grant may come from a machine with an unchecked clock.
            put_right = bool(late and reason and before is not None)
            if put_right:
                at = instant(self._clock())
            if policy is None:
                policy = Policy() if before is None else before.policy
            if before is not None:
                attempts = before.attempts if attempts is None else attempts
                sources = before.sources if sources is None else sources
                waits = before.approval if waits is None else waits
                same = (before.epsilon, before.delta, before.policy) == (epsilon, delta, policy)
                opened = (before.attempts, before.sources, before.approval)
                if same and opened == (attempts, sources, waits) and not put_right:
                    return before
                self._check_granted(connection, before, granted, policy, delta, at)
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
                sources=sources or "",
                approval=waits or "",
                reason=reason,
            )
            return known_balance(connection, self.location, dataset, at)

    def _check_granted(
        self,
        connection: sa.Connection,
        before: Balance,
        granted: int,
        policy: Policy,
        delta: float,
        at: str,
    ) -> None:
        """Raise BudgetError unless a new budget covers what is spent and reserved of the old."""
        if fault := mixture_fault(policy, holdings(connection, before.dataset)):
            raise BudgetError(
                f"the budget of dataset {before.dataset!r} cannot be granted: it {fault}"
            )
        used = used_under(connection, before.dataset, policy, at)
        if granted < used.spent + used.reserved:
            raise BudgetError(
                f"the budget of dataset {before.dataset!r} cannot be lowered to "
                f"{describe_rho(rho_within(granted), delta)}: "
                f"{describe_rho(rho_within(used.spent), delta)} is spent and "
                f"{describe_rho(rho_within(used.reserved), delta)} is reserved; grant at "
                f"least {describe_rho(rho_within(used.spent + used.reserved), delta)}"
                f"{or_close(connection, before, self.location)}"
            )

    def approve(self, key: ReleaseKey, *, epsilon: float | None = None, reason: str = "") -> Event:
        """Approve a release, so that it may reserve where the dataset's grant requires approval.

        Approving the same key again, with the same limit, writes nothing.

        Parameters
        ----------
        key : ReleaseKey
            The exact release; the partition `ALL_PARTITIONS` stands for every partition.
        epsilon : float, optional
            The most that it may reserve, at the delta of the dataset's grant; by default the
            amount in the specification.
        reason : str
            Written in the journal, beside the user's name.

        Raises
        ------
        SpecificationError
            If epsilon is out of range.
        BudgetError
            If the dataset has no budget, or its releases need no approval.
        """
        check_name(reason, "the reason", required=False)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            details = {"at": at, "reason": reason}
            return approve(connection, self.location, key, epsilon=epsilon, **details)

    def withdraw_approval(self, key: ReleaseKey, *, reason: str = "") -> Event:
        """Withdraw an approval before its release has reserved.

        Parameters
        ----------
        key, reason
            As for `approve`.

        Raises
        ------
        BudgetError
            If this exact key is not approved, or has reserved already.
        """
        check_name(reason, "the reason", required=False)
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            return withdraw_approval(connection, key, at=at, reason=reason)

    def withdraw(self, key: ReleaseKey, digest: str, *, reason: str = "") -> Event:
        """Withdraw a certificate, together with all other certificates of its release.

        Withdrawing the same certificate twice writes nothing.

        Parameters
        ----------
        key : ReleaseKey
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
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            details = {"at": at, "reason": reason}
            return withdraw(connection, self.location, key, digest, **details)

    def rebind(self, dataset: str, *, reason: str, partition: str = "") -> int:
        """Drop the source bindings of a partition's releases, as after a file has moved.

        The next run of each release binds it again. If none is bound, nothing is written.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        reason : str
            Written in the journal.
        partition : str
            The slice of the data, if it is partitioned.

        Returns
        -------
        int
            How many releases were bound.

        Raises
        ------
        SpecificationError
            If there is no reason, or a name is invalid.
        BudgetError
            If the dataset has no budget, or the ledger cannot be written.
        """
        check_name(dataset, "the protected dataset")
        check_name(partition, "the partition", required=False)
        check_name(reason, "the reason")
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            known_balance(connection, self.location, dataset, at)
            return rebind(connection, dataset, partition, at=at, reason=reason)

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
        with self._backend.writing() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, dataset, at)
            counted = len(open_attempts(connection, balance, at))
            if counted:
                append_access(connection, AccessKind.ACKNOWLEDGED, dataset, at=at, reason=reason)
            return counted
