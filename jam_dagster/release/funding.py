"""Who pays for the draws: a ledger, or, in research, nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.errors import InputError
from jam_dagster.privacy import (
    DirectoryStore,
    Draws,
    MemoryStore,
    UnledgeredAccount,
    make_noise,
)
from jam_dagster.privacy.draws import uncharged
from jam_dagster.privacy.ledger.key import COMMAND_LINE, command_line_run
from jam_dagster.privacy.private_store import (
    CONTENTS_FOLDER,
    RECORDS_FOLDER,
    default_private_store,
    keyed_contents,
    stored_secret,
)
from jam_dagster.tables import keeping_details

if TYPE_CHECKING:
    from jam_dagster.privacy import (
        Account,
        Budget,
        Ledger,
        Neighbours,
        Noise,
        OutcomeStore,
        Protection,
        Release,
        ReleaseKey,
    )
    from jam_dagster.release.folder_place import ReleaseFolder


@dataclass(frozen=True)
class Funds:
    """An open reservation.

    Parameters
    ----------
    noise
        What draws.
    accounts
        Who pays, by share.
    store
        Where the outcomes are kept.
    """

    noise: Noise
    accounts: Mapping[str, Account]
    store: OutcomeStore

    def draws(self, share: str, protection: Protection) -> Draws:
        """Return the draws that a share pays; those that are stored already are free."""
        return Draws(
            self.noise,
            self.accounts[share],
            self.store,
            neighbours=protection.neighbours,
            records_share=protection.records_share,
        )

    def close(self, share: str) -> None:
        """Return to the dataset what a share has not spent."""
        self.accounts[share].close("ended")

    @property
    def spent(self) -> float:
        """The rho charged to the release, by this run and by earlier ones."""
        return sum(account.spent for account in self.accounts.values())


class Funding(Protocol):
    """What may pay for the draws of a release."""

    ledger: Ledger | None
    """The ledger that is charged; None in research."""

    def check(self, folder: ReleaseFolder) -> None:
        """Raise as `open` would, without writing anything."""

    def open(self, folder: ReleaseFolder) -> Funds:
        """Reserve the shares."""

    def alone(self) -> AbstractContextManager[None]:
        """Let no other run draw for this release at the same time."""

    def opening(
        self, folder: ReleaseFolder, described: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Open the private table within; whatever fails there is explained to its owner alone.

        Parameters
        ----------
        folder
            Where that is kept.
        described
            The release, as ``release.json`` has it.
        """

    def records(self) -> int | None:
        """Return how many private records the release began with, None where that is not kept."""

    def keep_records(self, records: int | None) -> None:
        """Keep it where the owner of the private data alone can read."""

    def began_with(self, contents: str) -> bool:
        """Whether the release began with these records, or it is not kept with which.

        Parameters
        ----------
        contents
            The plain digest of the private records, which must not be kept or shown.
        """

    def keep_contents(self, contents: str) -> None:
        """Keep, keyed, with which records the release begins; see `began_with`."""

    def ended(self) -> tuple[datetime, float] | None:
        """Return when the release ended, and what its dataset could still grant after it.

        As epsilon at the budget's delta; None where no ledger keeps it.
        """


class ResearchFunding:
    """Seeded noise that charges nobody, and makes nothing that may leave.

    Parameters
    ----------
    shares
        rho of each share.
    seed
        Of the noise.
    """

    def __init__(self, shares: Mapping[str, float], seed: int) -> None:
        self.ledger: Ledger | None = None
        self._shares = shares
        self._seed = seed

    def check(self, folder: ReleaseFolder) -> None:
        """Do nothing: research is refused nothing."""

    def open(self, folder: ReleaseFolder) -> Funds:
        """Return accounts that only count."""
        accounts = {share: UnledgeredAccount(rho, share) for share, rho in self._shares.items()}
        return Funds(make_noise("numpy", self._seed), accounts, MemoryStore())

    def alone(self) -> AbstractContextManager[None]:
        """Do nothing: research keeps no draws that another run could meet."""
        return nullcontext()

    def opening(
        self, folder: ReleaseFolder, described: Mapping[str, Any]
    ) -> AbstractContextManager[None]:
        """Keep why it fails; see `Funding.opening`. No attempt is journalled in research."""
        return keeping_details(partial(folder.keep_failure, described, uuid4().hex))

    def records(self) -> int | None:
        """Return None: research keeps no draws that other data could be mixed with."""
        return None

    def keep_records(self, records: int | None) -> None:
        """Do nothing; see `records`."""

    def began_with(self, contents: str) -> bool:
        """Return True; see `records`."""
        return True

    def keep_contents(self, contents: str) -> None:
        """Do nothing; see `records`."""

    def ended(self) -> tuple[datetime, float] | None:
        """Return None: no ledger keeps it."""
        return None


class LedgerFunding:
    """Exact noise, charged to a ledger draw by draw.

    Parameters
    ----------
    ledger
        The ledger; if nothing was ever granted in it, the dataset is granted `budget`.
    key
        Which release this is.
    budget
        The budget of the whole release.
    shares
        rho of each share.
    neighbours
        Whom the release protects.
    source
        The identity of what it reads.
    private_store
        The folder of the secret by which sources are bound; None for the default.
    tell
        Is given a sentence where the user should know what was done.
    """

    def __init__(
        self,
        ledger: Ledger,
        key: ReleaseKey,
        budget: Budget,
        shares: Mapping[str, float],
        neighbours: Neighbours,
        source: str,
        private_store: Path | None,
        tell: Callable[[str], None],
    ) -> None:
        self.ledger: Ledger | None = ledger
        self._ledger = ledger
        self._key = key
        self._budget = budget
        self._shares = shares
        self._neighbours = neighbours
        self._source = source
        self._given_store = private_store
        self._run_id = command_line_run()
        self._tell = tell

    @property
    def _where(self) -> str:
        return self._ledger.location

    def check(self, folder: ReleaseFolder) -> None:
        """Check that the ledger knows the dataset and that the release fits.

        Raises
        ------
        InputError
            If the ledger does not know the dataset, or if what it has charged for this release
            is not what the folder holds.
        BudgetError
            If the ledger cannot be read or written.
        BudgetExceededError
            If the release asks for more than the dataset has left.
        """
        datasets = self._ledger.datasets()
        if datasets and self._key.dataset not in datasets:
            raise InputError(
                f"The ledger {self._where} does not know the dataset {self._key.dataset!r}, "
                f"only {', '.join(map(repr, datasets))}: name one of these, or grant it a budget "
                f"with `jam-dagster ledger grant --ledger {self._where} "
                f"--dataset {self._key.dataset} --epsilon EPSILON --delta DELTA`."
            )
        # What is stored is listed first: another run of this release charges, and then stores.
        stored = DirectoryStore(folder.draws).files
        release = self._ledger.release(self._key)
        charged = frozenset() if release is None else release.charged_steps
        if uncharged(stored, charged):
            raise InputError(
                f"{folder.draws} holds draws that the ledger {self._where} never charged: it is "
                "another ledger, or an older copy of the one that did. Give the ledger that did, "
                "or another folder (--out)."
            )
        if release is not None and charged and not folder.keeps_draws:
            raise InputError(
                f"The ledger {self._where} has already charged the {self._key}, and the "
                f"release's folder {folder.path} (--out) does not hold its draws: "
                f"{_whereabouts(release)}give the folder that does, which costs nothing, or "
                "another edition (--edition), which is drawn and paid anew."
            )
        if datasets:
            source = self._binding(make=False)
            self._ledger.check(self._key, self._shares, neighbours=self._neighbours, source=source)
        self._ledger.check_writable()

    def open(self, folder: ReleaseFolder) -> Funds:
        """Reserve the shares, or find the reservation of an earlier run of this release.

        Raises
        ------
        BudgetError
            If the ledger cannot be written.
        BudgetExceededError
            If the release asks for more than the dataset has left.
        """
        # A backend that cannot be loaded must fail before anything is reserved.
        noise = make_noise("exact")
        if self._ledger.is_empty:
            self._ledger.grant(
                self._key.dataset,
                epsilon=self._budget.epsilon,
                delta=self._budget.delta,
                reason="new ledger: what its first release asks for",
            )
            self._tell(
                f"The ledger {self._where} is new: the dataset {self._key.dataset!r} was "
                f"granted exactly what this release asks for, epsilon {self._budget.epsilon:g} at "
                f"delta {self._budget.delta:g}."
            )
        release = self._ledger.open_release(
            self._key,
            self._shares,
            neighbours=self._neighbours,
            source=self._binding(make=True),
            run_id=self._run_id,
        )
        accounts = {share: release.account(share) for share in self._shares}
        return Funds(noise, accounts, DirectoryStore(folder.draws))

    @cached_property
    def _private(self) -> Path:
        """The private store, a folder that only its owner may read; one for all of a ledger."""
        if self._given_store is not None:
            return self._given_store
        return default_private_store(self._ledger.file, self._ledger.place)

    def _binding(self, *, make: bool) -> str:
        """Return the source's keyed digest; see `stored_secret`."""
        from jam_dagster.privacy.ledger.bindings import source_binding

        return source_binding(stored_secret(self._private, make=make), self._source)

    def _kept(self, folder: str) -> Path:
        return self._private / folder / f"{self._key.digest}.json"

    def _keep(self, folder: str, value: Any) -> None:
        path = self._kept(folder)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, json.dumps(value).encode(), mode=OWNER_ONLY)

    def records(self) -> int | None:
        """Return how many private records the release began with; see `Funding.records`."""
        path = self._kept(RECORDS_FOLDER)
        if not path.exists():
            return None
        records: int | None = json.loads(path.read_text())
        return records

    def keep_records(self, records: int | None) -> None:
        """Keep it in the private store: it is shown nowhere before a draw is paid."""
        self._keep(RECORDS_FOLDER, records)

    def began_with(self, contents: str) -> bool:
        """Whether the release began with these records; see `Funding.began_with`."""
        path = self._kept(CONTENTS_FOLDER)
        return not path.exists() or bool(json.loads(path.read_text()) == self._keyed(contents))

    def keep_contents(self, contents: str) -> None:
        """Keep it in the private store, keyed."""
        self._keep(CONTENTS_FOLDER, self._keyed(contents))

    def _keyed(self, contents: str) -> str:
        return keyed_contents(stored_secret(self._private, make=False), contents)

    def alone(self) -> AbstractContextManager[None]:
        """Let no other run draw for this release; see `jam_dagster.privacy.Ledger.claim`."""
        return self._ledger.claim(self._key)

    @contextmanager
    def opening(self, folder: ReleaseFolder, described: Mapping[str, Any]) -> Iterator[None]:
        """Journal the attempt, and keep why it fails; see `jam_dagster.privacy.Ledger.opening`."""
        with (
            self._ledger.opening(self._key, run_id=self._run_id) as attempt,
            keeping_details(partial(folder.keep_failure, described, attempt)),
        ):
            yield

    def ended(self) -> tuple[datetime, float] | None:
        """Return what `Funding.ended` says; made again, a release says what it said before."""
        last = self._ledger.ended(self._key)
        return datetime.fromisoformat(last.at), self._ledger.balance_after(last).remaining_epsilon


def _whereabouts(release: Release) -> str:
    """Return where the draws of a release lie that another tool has charged."""
    runs = sorted(release.charged_by - {COMMAND_LINE, ""})
    if not runs:
        return ""
    return f"Dagster charged it (run {runs[0]}), whose store holds them; "
