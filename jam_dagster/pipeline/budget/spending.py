"""How a release pays for its draws: from the ledger, or in research from nobody."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import BudgetError
from jam_dagster.pipeline.storage.archive import ReleaseArchive, archive_name, stored_draws
from jam_dagster.privacy import Draws, MemoryStore, UnledgeredAccount, make_noise
from jam_dagster.privacy.draws import uncharged
from jam_dagster.privacy.ledger.key import COMMAND_LINE

if TYPE_CHECKING:
    from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
    from jam_dagster.pipeline.graph import ReleaseGraph
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore
    from jam_dagster.privacy import Ledger, Release, ReleaseKey


@dataclass(frozen=True)
class LedgerSpending:
    """Exact noise: every draw is charged to the ledger before it is made, and then archived.

    Parameters
    ----------
    graph
        The release.
    resource
        The ledger.
    store
        Where the archive of the release's draws lies.
    key
        The release's key in the ledger.
    stores
        Where draws of the dataset's releases may lie: a ledger that knows nothing of a dataset
        that was drawn from has lost its memory.
    source
        What the release reads, as a keyed digest; empty where the step reads nothing of it, or
        its private table does not say.
    """

    graph: ReleaseGraph
    resource: LedgerResource
    store: ReleaseStore
    key: ReleaseKey
    stores: tuple[ReleaseStore, ...]
    source: str = ""

    @cached_property
    def ledger(self) -> Ledger:
        """The ledger, which knows the dataset; one object, which knows what it has claimed."""
        return self.resource.open(self.key.dataset, stores=self.stores)

    @property
    def archive(self) -> ReleaseArchive:
        """The release's draws so far."""
        private = next((store for store in self.stores if store.private), None)
        return ReleaseArchive(self.store, self.key, private)

    def check(self) -> None:
        """Raise if the release could not be paid for; write nothing.

        Raises
        ------
        BudgetExceededError
            If it asks for more than is left, with what it asks for, what is left and what is
            missing.
        SourceBindingError
            If it reads another source than it was reserved for.
        BudgetError
            If it was paid for and its draws are not in the store, or they are there and the
            ledger does not know of them.
        """
        # What could not sign the certificate in the end is refused before anything is drawn.
        if (signer := self.resource.signer()) is not None:
            self.ledger.keys.check(signer.public)
        # What is stored is listed first: another run of this release charges, and then stores.
        stored = self.archive.outcomes.files
        release = self.ledger.release(self.key)
        charged = frozenset() if release is None else release.charged_steps
        if uncharged(stored, charged):
            raise BudgetError(
                f"The store ({self.store.place}) holds draws of release {self.key.release},"
                f" edition {self.key.edition}, that this ledger never charged: it is another"
                f" ledger, or an older copy of the one that did. Use the ledger that did, or raise"
                f" privacy.edition to draw, and pay, anew."
            )
        if release is None or not charged:
            self._check_memory()
            self.ledger.check(
                self.key, self.graph.shares, neighbours=self.graph.neighbours, source=self.source
            )
        elif not self.archive.exists:
            by_hand = (
                f" `{COMMAND_LINE}` charged it: its folder holds them."
                if COMMAND_LINE in release.charged_by
                else ""
            )
            raise BudgetError(
                f"The ledger has charged release {self.key.release}, edition {self.key.edition},"
                f" but its draws are not in the store ({self.store.place}).{by_hand} Bring the"
                f" store back, or raise privacy.edition to draw, and pay, anew."
            )

    def check_source(self) -> None:
        """Raise if the private table was read from another source than the release is bound to.

        Raises
        ------
        SourceBindingError
            With how to bind it once more.
        """
        self.ledger.check_source(self.key, self.source, neighbours=self.graph.neighbours)

    def _check_memory(self) -> None:
        """Raise if the ledger has forgotten draws of any release of the dataset.

        An older copy of a ledger would pay once more with what was spent since.
        """
        from jam_dagster.privacy import Kind

        # Listed before the ledger is read: a run that goes on meanwhile charges, and then stores.
        stored = [(store, draws) for store in self.stores for draws in stored_draws(store)]
        charged: dict[ReleaseKey, set[str]] = {}
        for event in self.ledger.events(self.key.dataset) if stored else ():
            if event.key is not None and event.kind == Kind.CHARGED:
                charged.setdefault(event.key, set()).add(event.step)
        # An archive's name says whose it is, where the ledger knows the release.
        known = {archive_name(key): key for key in charged}
        for store, draws in stored:
            key = known.get(draws.directory.name) or draws.read_key()
            if key is None or key.dataset != self.key.dataset:
                continue
            forgotten = uncharged(draws.files, charged.get(key, ()))
            if forgotten:
                where = store.shown(draws.directory)
                raise BudgetError(
                    f"The store holds {len(forgotten)} draws of {key} of protected dataset"
                    f" {key.dataset!r} that this ledger never charged ({where}):"
                    f" it is an older copy of the ledger that did. Restore the newer one. If that"
                    f" is gone for good, lower the dataset's budget by what it spent, then move"
                    f" {where} out of the store."
                )

    def reserve(self, *, run_id: str) -> None:
        """Reserve the whole release, before anything private is opened; once is enough.

        What is reserved stays so when a later step fails: until this release resumes, or is
        configured otherwise before its first draw, or an operator closes it.

        Raises
        ------
        BudgetExceededError, BudgetError
            As for `check`; nothing is reserved then.
        """
        # A backend that cannot be loaded must fail before anything is reserved.
        make_noise("exact")
        self.check()
        self._open(run_id)

    def check_drawn(self) -> None:
        """Raise unless the mechanism's run of this very release has ended; write nothing.

        What judges a release pays from its reservation, and must never open another one.

        Raises
        ------
        BudgetError
            If the ledger or the store knows of no such run.
        """
        if self.ledger.release(self.key) is None or self.archive.run() is None:
            raise BudgetError(
                f"Release {self.key.release}, edition {self.key.edition}, was not drawn yet as it"
                f" is configured now. Materialize {self.graph.spec.mechanism.name} first. Nothing"
                f" was charged."
            )
        self.check()

    def alone(self) -> AbstractContextManager[None]:
        """Let no other run draw for this release; see `jam_dagster.privacy.Ledger.claim`."""
        return self.ledger.claim(self.key)

    def draws(self, share: str, *, run_id: str) -> Draws:
        """Return the draws that a share pays for, from the reservation of the whole release.

        Raises
        ------
        BudgetExceededError
            If the release asks for more than is left.
        """
        # A backend that cannot be loaded must fail before anything is reserved.
        noise = make_noise("exact")
        account = self._open(run_id).account(share)
        return Draws(noise, account, self.archive.outcomes, **_protection(self.graph))

    def _open(self, run_id: str) -> Release:
        return self.ledger.open_release(
            self.key,
            self.graph.shares,
            neighbours=self.graph.neighbours,
            source=self.source,
            run_id=run_id,
        )

    def close(self, share: str, reason: str) -> None:
        """Return to the dataset's budget what a share has not spent."""
        release = self.ledger.release(self.key)
        if release is not None:
            release.account(share).close(reason=reason)


@dataclass(frozen=True)
class ResearchSpending:
    """Seeded noise: charged to nobody, kept nowhere, not releasable.

    Parameters
    ----------
    graph
        The release.
    """

    graph: ReleaseGraph

    def draws(self, share: str) -> Draws:
        """Return the draws of a share."""
        noise = make_noise("numpy", self.graph.spec.privacy.seed)
        account = UnledgeredAccount(self.graph.shares[share])
        return Draws(noise, account, MemoryStore(), **_protection(self.graph))


def _protection(graph: ReleaseGraph) -> dict[str, Any]:
    """Return whom the draws of a release protect."""
    return {"neighbours": graph.neighbours, "records_share": graph.spec.privacy.records_share}
