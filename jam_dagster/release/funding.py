"""Payment for the draws of a release: from a ledger, or, in research, none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING
from uuid import uuid4

from jam_dagster.common.operating_system import check_locks
from jam_dagster.common.redaction import keeping_details
from jam_dagster.errors import BudgetError, SourceBindingError, SpecificationError
from jam_dagster.privacy import Draws, MemoryStore, UnledgeredAccount, make_noise
from jam_dagster.privacy.ledger.history import history_sentences
from jam_dagster.privacy.ledger.identity import new_ledger_remark
from jam_dagster.privacy.ledger.release_id import COMMAND_LINE
from jam_dagster.privacy.outcome_store import uncharged
from jam_dagster.release.place import ANOTHER_EDITION

if TYPE_CHECKING:
    from jam_dagster.certificates.signing import Signer
    from jam_dagster.privacy import Budget, Event, Ledger, Protection, ReleaseId, Reservation
    from jam_dagster.privacy.ledger.source_binding import SourceBinding
    from jam_dagster.release.place import Place, StoredDraws
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.release.spec import ReleaseSpec


@dataclass
class ResearchFunding:
    """Seeded noise: free, kept nowhere, not releasable."""

    shares: Mapping[str, float]
    protection: Protection
    seed: int
    place: Place
    run_id: str = ""
    selections: Mapping[str, float] = field(default_factory=dict)
    ledger: None = field(default=None, init=False)
    signer: None = field(default=None, init=False)
    _accounts: dict[str, UnledgeredAccount] = field(default_factory=dict, init=False)

    def check(self) -> None:
        """Do nothing: research is refused nothing."""

    def reserve(self) -> None:
        """Do nothing: research reserves nothing."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Do nothing: research keeps no draws that another run could meet."""
        return nullcontext()

    def attempt(self) -> AbstractContextManager[None]:
        """Keep the reason of a failure; no attempt is journalled in research."""
        return keeping_details(partial(self.place.keep_failure, uuid4().hex))

    def draws(self, share: str) -> Draws:
        """Return the draws of a share, from an account that only counts."""
        selections = self.selections.get(share, 0.0)
        account = self._accounts.setdefault(
            share, UnledgeredAccount(self.shares[share], share, selections)
        )
        return Draws(
            make_noise("numpy", self.seed),
            account,
            MemoryStore(),
            neighbours=self.protection.neighbours,
            records_share=self.protection.records_share,
        )

    def close(self, share: str, reason: str) -> None:
        """Close the account of a share."""
        if share in self._accounts:
            self._accounts[share].close(reason)

    def keep_digest(self, run: ReleaseRun) -> None:
        """Do nothing: results of research may not leave."""

    def has_made(self, run: ReleaseRun) -> bool:
        """Return True: research takes any stored run."""
        return True

    def after_interrupt(self, again: str) -> str:
        """Return that nothing is kept."""
        return f"Interrupted. Nothing was charged or kept: {again} begins from the start."

    def kept_reservation(self) -> str:
        """Return nothing: research reserves nothing."""
        return ""

    @property
    def spent(self) -> float:
        """The rho that a ledger would have been charged."""
        return sum(account.spent for account in self._accounts.values())

    @property
    def has_drawn(self) -> bool:
        """False: research begins anew each time."""
        return False

    def ended(self) -> tuple[datetime, float] | None:
        """Return None: no ledger keeps it."""
        return None


@dataclass(frozen=True)
class LedgerFunding:
    """Exact noise: every draw is charged to the ledger before it is made, and then stored.

    `ledger` is one object, which knows its claims. `identity` is empty if the step reads no private
    source. `template` is the identity with an open partition, if an officer has to vouch for it,
    and `table` what all partitions of the source are of, if it is a partition.
    `linked` describes the source if it is a file with a second name. `grants` is the budget that a
    new ledger grants the dataset, and `records_public` whether that grant says that the number of
    records is public; None: the dataset must have a grant. `selections` is the part of delta that
    shares have for selections of values.
    """

    ledger: Ledger
    release_id: ReleaseId
    shares: Mapping[str, float]
    protection: Protection
    place: Place
    run_id: str
    identity: str = ""
    template: str = ""
    table: str = ""
    linked: str = ""
    signer: Signer | None = None
    grants: Budget | None = None
    records_public: bool = False
    selections: Mapping[str, float] = field(default_factory=dict)
    notify: Callable[[str], None] = lambda sentence: None

    def __post_init__(self) -> None:
        check_locks()

    def history(self, spec: ReleaseSpec) -> tuple[list[str], str]:
        """Return what a person should know of earlier draws, and that the ledger is a new one.

        `spec` is that of all partitions. Each is empty if there is nothing to say.
        """
        ledger, release_id = self.ledger, self.release_id
        journal = ledger.events(release_id.dataset) if ledger.exists else []
        said = history_sentences(journal, release_id, spec.edition_of, spec.budget.delta)
        its = ledger.location, spec.ledger_id, release_id.dataset
        return said, new_ledger_remark(journal, *its, but=release_id)

    def check(self) -> None:
        """Raise if the release could not be paid for; write nothing.

        A release also cannot be paid for if its charged draws are not in its place, or its place
        has draws that the ledger does not know.
        """
        if self._check_draws():
            self.ledger.check(
                self.release_id,
                self.shares,
                neighbours=self.protection.neighbours,
                source=self._binding(),
                takes_over=self._abandoned,
                selections=self.selections,
            )
        self.ledger.check_writable()

    def _check_draws(self) -> bool:
        """Raise unless ledger and place know the same draws; return whether there is a budget.

        The stored draws are listed before the ledger is read: a concurrent run charges, and then
        stores.
        """
        # Importing SQLAlchemy takes time, and research does not need it.
        from jam_dagster.privacy import Kind

        if self.protection.unit is not None and self.protection.neighbours.records_public:
            # The author of the release chooses which rows have a person, by the name of the column.
            raise SpecificationError(
                "privacy.unit with max_rows: 1 under replace_one neighbours would show how many "
                "persons a column names: protect add_remove neighbours (privacy.neighbours), which "
                "measure that number, or leave the unit out if each record is a person."
            )
        ledger, release_id = self.ledger, self.release_id
        # A key that could not sign the certificate in the end is refused before anything is drawn.
        if self.signer is not None:
            ledger.signing_keys.check(self.signer.public)
        stored = self.place.files
        journal = ledger.events(release_id.dataset) if ledger.exists else []
        if not journal:
            self._check_grants()
        of_release = [one for one in journal if one.release_id == release_id]
        charges = [one for one in of_release if one.kind == Kind.CHARGED]
        if uncharged(stored, [one.step for one in charges]):
            raise BudgetError(
                f"{self.place.name} holds draws of release {release_id.release}, edition "
                f"{release_id.edition}, that this ledger never charged: it is another ledger, or "
                f"an older copy of the one that did ({ledger.location}). Use the ledger that did, "
                f"or {ANOTHER_EDITION}."
            )
        # A release that was charged, and whose shares are all closed, draws nothing more.
        if not charges or not _has_ended(of_release):
            self._check_memory()
        if charges and not self.place.has_begun:
            raise BudgetError(
                f"The ledger {ledger.location} has already charged {release_id}, but its draws are "
                f"not in {self.place.name}. {_whereabouts(charges)}Bring them back, which costs "
                f"nothing, or {ANOTHER_EDITION}."
            )
        if journal:
            self._check_links()
        return bool(journal)

    def _check_grants(self) -> None:
        """Raise if the dataset has no budget, unless a new ledger grants it one."""
        ledger, dataset = self.ledger, self.release_id.dataset
        datasets = ledger.datasets()
        if datasets or self.grants is None or (ledger.exists and ledger.by_hand()):
            from jam_dagster.privacy.ledger.commands import grant_command

            raise BudgetError(
                f"The ledger {ledger.location} does not know the dataset {dataset!r}; it knows "
                f"{', '.join(map(repr, datasets)) or 'none'}. Name one of them, or grant it: "
                f"`{grant_command(ledger.location, dataset)}`."
            )
        if self.protection.neighbours.records_public and not self.records_public:
            from jam_dagster.privacy.ledger.bindings import records_shown

            # After a grant without records_public, the ledger is not new for a run that adds it.
            raise SourceBindingError(
                f"{records_shown(self.release_id)}, and their number is no secret, let the new "
                "ledger's grant say so: --records-public (records_public=True in Python)"
            )

    def _check_links(self) -> None:
        """Raise if partitions are disjoint and another one could read the file by a link."""
        if not (self.linked and self.release_id.partition):
            return
        if self.ledger.balance(self.release_id.dataset).policy.parallel:
            raise SourceBindingError(
                f"{self.linked} has another name, by a hard link, and partitions of "
                f"{self.release_id.dataset!r} are granted as disjoint: another partition could "
                "read the same people by that name. Copy the file, and name the copy"
            )

    def _check_memory(self) -> None:
        """Raise if the ledger has forgotten draws of any release of the dataset.

        An older copy of a ledger would spend the same budget twice.
        """
        from jam_dagster.privacy import Kind

        # Draws are listed before the ledger is read: a concurrent run charges, and then stores.
        stored = [one for one in self.place.stored() if one.files]
        charged: dict[ReleaseId, set[str]] = {}
        for event in self.ledger.events(self.release_id.dataset) if stored else ():
            if event.release_id is not None and event.kind == Kind.CHARGED:
                charged.setdefault(event.release_id, set()).add(event.step)
        for one in stored:
            release_id = one.release_id(charged)
            if release_id is not None and release_id.dataset == self.release_id.dataset:
                self._check_charged(one, release_id, charged)

    def _check_charged(
        self, stored: StoredDraws, release_id: ReleaseId, charged: Mapping[ReleaseId, set[str]]
    ) -> None:
        if forgotten := uncharged(stored.files, charged.get(release_id, ())):
            raise BudgetError(
                f"There are {len(forgotten)} draws of {release_id} of protected dataset "
                f"{release_id.dataset!r} that this ledger never charged ({stored.where}): it is an "
                "older copy of the ledger that did. Restore the newer one. If that is gone for "
                f"good, lower the dataset's budget by what it spent, then move {stored.where} away."
            )

    def reserve(self) -> None:
        """Reserve the whole release, before anything private is opened; a repeat changes nothing.

        The reservation stays if a later step fails, until this release resumes, its specification
        is changed before the first draw, or an operator closes it.
        """
        # A backend that cannot be loaded must fail before anything is reserved.
        make_noise("exact")
        # Opening the release repeats the ledger's part of `check` in the transaction that writes.
        if not self._check_draws() and self.grants is not None:
            self._grant(self.grants)
        _ = self._reservation
        for other in self._abandoned:
            self.notify(
                f"The {other} of dataset {other.dataset!r} had the same specification, and no "
                f"draw: its reservation is taken over by release {self.release_id.release!r}."
            )

    def _grant(self, budget: Budget) -> None:
        from jam_dagster.privacy import Policy

        self.ledger.grant(
            self.release_id.dataset,
            epsilon=budget.epsilon,
            delta=budget.delta,
            selections=budget.selections,
            policy=Policy(records="public" if self.records_public else "private"),
            reason="new ledger: what its first release asks for",
        )
        self.notify(
            f"The ledger {self.ledger.location} is new: the dataset {self.release_id.dataset!r} "
            f"was granted exactly what this release asks for, epsilon {budget.epsilon:g} at delta "
            f"{budget.delta:g}."
        )

    @cached_property
    def _reservation(self) -> Reservation:
        return self.ledger.open_release(
            self.release_id,
            self.shares,
            neighbours=self.protection.neighbours,
            source=self._binding(make=True),
            run_id=self.run_id,
            takes_over=self._abandoned,
            selections=self.selections,
        )

    @cached_property
    def _abandoned(self) -> tuple[ReleaseId, ...]:
        """The same release under other names, which the command line reserved and never drew.

        It names a release after its folder by default. No running process claims these releases.
        """
        # Importing SQLAlchemy takes time, and research does not need it.
        from jam_dagster.privacy import Kind

        if not (self.run_id.startswith(COMMAND_LINE) and self.ledger.exists):
            return ()
        reserved = {
            event.release_id: event.run_id
            for event in self.ledger.events(self.release_id.dataset)
            if event.release_id is not None and event.kind == Kind.RESERVED
        }
        found = []
        for release_id, run_id in reserved.items():
            same = (
                replace(release_id, release=self.release_id.release) == self.release_id
                and release_id != self.release_id
            )
            if same and run_id.startswith(COMMAND_LINE) and self._is_abandoned(release_id):
                found.append(release_id)
        return tuple(found)

    def _is_abandoned(self, release_id: ReleaseId) -> bool:
        reservation = self.ledger.reservation(release_id)
        if reservation is None or reservation.closed or self._has_begun(reservation):
            return False
        try:
            with self.ledger.claim(release_id):
                return True
        except BudgetError:
            return False

    def _has_begun(self, reservation: Reservation) -> bool:
        """Return whether a release was charged, or has counted its records."""
        return reservation.spent > 0 or self.ledger.records(reservation.release_id) is not None

    def _binding(self, *, make: bool = False) -> SourceBinding | None:
        """Return the source's binding; None if the step reads no source."""
        if not self.identity:
            return None
        # A refusal shows the digests of template and table, so their secret must stay.
        make = make or bool(self.template or self.table)
        return self.place.binding(self.identity, self.template, self.table, make=make)

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other runs from drawing for this release; see `jam_dagster.privacy.Ledger.claim`."""
        return self.ledger.claim(self.release_id)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Journal the attempt, and keep why it fails; see `jam_dagster.privacy.Ledger.attempt`."""
        with (
            self.ledger.attempt(
                self.release_id,
                neighbours=self.protection.neighbours,
                source=self._binding(make=True),
                run_id=self.run_id,
            ) as attempt,
            keeping_details(partial(self.place.keep_failure, attempt)),
        ):
            yield

    def draws(self, share: str) -> Draws:
        """Return the draws that a share pays for, from the reservation of the whole release."""
        # A backend that cannot be loaded must fail before anything is reserved.
        noise = make_noise("exact")
        return Draws(
            noise,
            self._reservation.account(share),
            self.place.outcomes,
            neighbours=self.protection.neighbours,
            records_share=self.protection.records_share,
        )

    def close(self, share: str, reason: str) -> None:
        """Return the unspent part of a share to the dataset's budget."""
        self._reservation.account(share).close(reason=reason)

    def keep_digest(self, run: ReleaseRun) -> None:
        """Journal the digest of a run; see `jam_dagster.privacy.Ledger.ran`."""
        self.ledger.ran(self.release_id, run.known_by, run_id=self.run_id)

    @property
    def has_drawn(self) -> bool:
        """Whether the ledger was charged for the release; see `Ledger.has_drawn`."""
        return self.ledger.has_drawn(self.release_id)

    def has_made(self, run: ReleaseRun) -> bool:
        """Return whether the ledger has the digest of a run as its release's last."""
        return self.ledger.last_run(run.release.release_id) == run.known_by

    def after_interrupt(self, again: str) -> str:
        """Return how to resume, or who must first acknowledge the failed attempts."""
        from jam_dagster.privacy.ledger.commands import acknowledge_command

        ledger, dataset = self.ledger, self.release_id.dataset
        allowed = ledger.balance(dataset).attempts
        left = allowed - len(ledger.open_attempts(dataset))
        resumes = f"{again} resumes where this run stopped: no stored draw is paid for again."
        if left > 0:
            return (
                f"Interrupted. {resumes[:1].upper()}{resumes[1:]} An interrupt is a failed attempt:"
                f" {left} of {allowed} attempts to open the private data can still fail."
            )
        return (
            f"Interrupted. All {allowed} attempts to open the private data are used up. Once an"
            f" operator acknowledges them (`{acknowledge_command(ledger.location, dataset)}`),"
            f" {resumes}"
        )

    def kept_reservation(self) -> str:
        """Return which reservation stays, how to use it and how to close it; empty if none does."""
        from jam_dagster.privacy import describe_rho
        from jam_dagster.privacy.ledger.commands import close_command

        ledger, release_id = self.ledger, self.release_id
        reservation = ledger.reservation(release_id)
        if reservation is None or reservation.closed or self._has_begun(reservation):
            return ""
        reserved = describe_rho(
            sum(reservation.shares.values()), ledger.balance(release_id.dataset).delta
        )
        return (
            f"The {release_id} of dataset {release_id.dataset!r} keeps its reservation of "
            f"{reserved}, and was charged nothing. The same specification uses it, in any folder. "
            f"To return it, run `{close_command(ledger.location, release_id)}`."
        )

    @property
    def spent(self) -> float:
        """The rho charged to the release, by this run and by earlier ones."""
        reservation = self.ledger.reservation(self.release_id)
        return 0.0 if reservation is None else reservation.spent

    def ended(self) -> tuple[datetime, float] | None:
        """Return when the release ended, with the budget left then: a repeat states the same."""
        at, balance = self.ledger.ended(self.release_id)
        return datetime.fromisoformat(at), balance.remaining_epsilon


Funding = LedgerFunding | ResearchFunding
"""Payment for the draws of one release."""


def _has_ended(journal: Sequence[Event]) -> bool:
    """Return whether all shares of a release are closed."""
    from jam_dagster.privacy.ledger.state import ReleaseState

    return ReleaseState(journal).closed


def _whereabouts(charges: Sequence[Event]) -> str:
    """Return which tool charged a release, and so where its draws are; empty if not known."""
    runs = sorted({event.run_id for event in charges} - {""})
    if any(run.startswith(COMMAND_LINE) for run in runs):
        return f"`{COMMAND_LINE}` charged it: its folder holds them. "
    return f"Dagster charged it (run {runs[0]}): its store holds them. " if runs else ""
