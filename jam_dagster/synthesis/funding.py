"""Who pays for the draws: a ledger, or, in research, nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jam_dagster.errors import InputError
from jam_dagster.privacy import (
    DirectoryStore,
    Draws,
    ExactNoise,
    Ledger,
    MemoryStore,
    SeededNoise,
    UnledgeredAccount,
)

if TYPE_CHECKING:
    from jam_dagster.privacy import Account, Budget, Noise, OutcomeStore, ReleaseKey
    from jam_dagster.synthesis.folder import ReleaseFolder


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

    def draws(self, share: str) -> Draws:
        """Return the draws that a share pays; those that are stored already are free."""
        return Draws(self.noise, self.accounts[share], self.store)

    def close(self, share: str) -> None:
        """Return to the dataset what a share has not spent."""
        self.accounts[share].close()

    @property
    def spent(self) -> float:
        """The rho charged to the release, by this run and by earlier ones."""
        return sum(account.spent for account in self.accounts.values())


class Funding(Protocol):
    """What may pay for the draws of a release."""

    def check(self, folder: ReleaseFolder) -> None:
        """Raise as `open` would, without writing anything."""

    def open(self, folder: ReleaseFolder) -> Funds:
        """Reserve the shares."""


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
        self._shares = shares
        self._seed = seed

    def check(self, folder: ReleaseFolder) -> None:
        """Do nothing: research is refused nothing."""

    def open(self, folder: ReleaseFolder) -> Funds:
        """Return accounts that only count."""
        accounts = {share: UnledgeredAccount(rho) for share, rho in self._shares.items()}
        return Funds(SeededNoise(self._seed), accounts, MemoryStore())


class LedgerFunding:
    """Exact noise, charged to a ledger draw by draw.

    Parameters
    ----------
    url
        The ledger: a file or a SQLAlchemy URL.
    key
        Which release this is.
    budget
        What a ledger that does not exist yet is granted for the dataset.
    shares
        rho of each share.
    tell
        Is given a sentence where the user should know what was done.
    """

    def __init__(
        self,
        url: str,
        key: ReleaseKey,
        budget: Budget,
        shares: Mapping[str, float],
        tell: Callable[[str], None],
    ) -> None:
        self._url = url
        self._key = key
        self._budget = budget
        self._shares = shares
        self._tell = tell

    def check(self, folder: ReleaseFolder) -> None:
        """Check that the ledger knows the dataset and that the release fits.

        Raises
        ------
        InputError
            If the ledger cannot be written, does not know the dataset, or has charged this
            release for draws that the folder does not hold.
        BudgetExceededError
            If the release asks for more than the dataset has left.
        """
        ledger = self._existing()
        if ledger is None:
            return
        datasets = ledger.datasets()
        if self._key.dataset not in datasets:
            raise InputError(
                f"The ledger {self._url} does not know the dataset {self._key.dataset!r}, only "
                f"{', '.join(map(repr, datasets))}: name one of these, or grant it a budget with "
                f"`jam-dagster ledger grant --ledger {self._url} --dataset {self._key.dataset} "
                "--epsilon EPSILON --delta DELTA`."
            )
        release = ledger.release(self._key)
        if release is None:
            ledger.check(self._key, self._shares)
        elif not folder.draws.exists() and any(
            release.account(share).spent > 0 for share in self._shares
        ):
            raise InputError(
                f"The ledger {self._url} has already charged the release {self._key.release!r}, "
                f"edition {self._key.edition}, and --out {folder.path} does not hold its draws: "
                "give the folder that does, which costs nothing, or --edition with a new name, "
                "which is paid anew."
            )

    def open(self, folder: ReleaseFolder) -> Funds:
        """Reserve the shares, or find the reservation of an earlier run of this release.

        Raises
        ------
        BudgetExceededError
            If the release asks for more than the dataset has left.
        """
        # OpenDP must be there before anything is reserved.
        noise = ExactNoise()
        ledger = self._existing()
        if ledger is None:
            ledger = Ledger(self._url)
            ledger.grant(
                self._key.dataset,
                epsilon=self._budget.epsilon,
                delta=self._budget.delta,
                reason=f"new ledger, for the release {self._key.release}",
            )
            self._tell(
                f"The ledger {self._url} is new: the dataset {self._key.dataset!r} was granted "
                f"exactly what this release asks for, epsilon = {self._budget.epsilon:g} at "
                f"delta = {self._budget.delta:g}."
            )
        release = ledger.open_release(self._key, self._shares)
        accounts = {share: release.account(share) for share in self._shares}
        return Funds(noise, accounts, DirectoryStore(folder.draws))

    def _existing(self) -> Ledger | None:
        """Return the ledger if it holds something; a file is not made by looking for it."""
        if "://" not in self._url:
            path = Path(self._url)
            if path.is_dir():
                raise InputError(f"--ledger {path} is a folder: name a file in it.")
            if not path.parent.is_dir():
                raise InputError(f"--ledger {path}: the folder {path.parent} does not exist.")
            if not path.exists():
                return None
        ledger = Ledger(self._url)
        return None if ledger.is_empty else ledger
