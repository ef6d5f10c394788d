"""The place where a release keeps its draws: a folder, Dagster's stores, or memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jam_dagster.privacy import MemoryStore
from jam_dagster.tables.codes.privacy_unit import secret_key
from jam_dagster.tables.codes.table import EncodedTable, digest_of
from jam_dagster.tables.sources.public import encoded_tables

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours, OutcomeStore, ReleaseKey
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.tables import Domain, MarginalSource

ANOTHER_EDITION = (
    "give another edition (privacy.edition, or --edition), which is drawn and paid again"
)
"""The remedy where a release cannot go on."""


@dataclass(frozen=True)
class Fingerprint:
    """The inputs of a release, from public facts only, to detect that they changed between runs.

    Parameters
    ----------
    records
        n, where it is public; None where the number of private records is private itself.
    public
        The encoded public tables by name; empty where there are none, or where their encoding
        comes from private data.
    restricted_domain
        The domain where it comes from private data; else None, for the release's key has it.
    contents
        A digest of the private records, where only they show that a table changed: of a table in
        memory. It is private, and must be keyed before it is kept.
    """

    records: int | None
    public: dict[str, EncodedTable]
    restricted_domain: Domain | None = None
    contents: str | None = None

    @classmethod
    def of(
        cls,
        private: MarginalSource,
        public: MarginalSource | None,
        *,
        neighbours: Neighbours,
        contents: str | None = None,
    ) -> Fingerprint:
        """Take the fingerprint of two encoded tables, for a release with these neighbours."""
        records = private.records if neighbours.records_public else None
        if private.domain.restricted:
            return cls(records, {}, private.domain, contents)
        tables = {} if public is None else encoded_tables(public)
        return cls(records, dict(tables), None, contents)

    @property
    def public_digest(self) -> str | None:
        """SHA-256 of the public tables; None where there are none."""
        return digest_of(self.public) if self.public else None


class StoredDraws(Protocol):
    """The stored draws of one release, which a ledger must have charged."""

    @property
    def where(self) -> str:
        """The folder, as messages show it."""

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""

    def key(self, charged: Collection[ReleaseKey]) -> ReleaseKey | None:
        """Return the release, None where the folder does not say.

        Parameters
        ----------
        charged
            The releases that the ledger has charged: one of them may be known by the folder's
            name, without a look inside.
        """


class Place(Protocol):
    """Where one release keeps what it has drawn."""

    @property
    def name(self) -> str:
        """How messages name the place."""

    @property
    def outcomes(self) -> OutcomeStore:
        """The store of single draws' outcomes."""

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""

    @property
    def has_begun(self) -> bool:
        """Whether the release began to draw here, even if no outcome was stored yet."""

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws of every release that lies here, this one's among them."""

    def binding(self, identity: str, *, make: bool) -> str:
        """Return the keyed digest of a source's identity.

        Parameters
        ----------
        identity
            The source's identity.
        make
            Whether to make the secret where there is none.
        """

    @property
    def has_row_key(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""

    def row_key(self) -> bytes:
        """Return the secret that decides which rows of a person are kept, made the first time."""

    def begin(self, data: Fingerprint) -> None:
        """Keep the fingerprint of the inputs, or check that they are still the same.

        Raises
        ------
        InputError
            If earlier draws of this release were made on other data.
        """

    def finished(self) -> ReleaseRun | None:
        """Return the run, if it has ended; None if the mechanism must still run."""

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run; the same release made again gets it from here."""

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep the reason why an attempt to open the private table failed, for its owner alone."""

    def modes(self) -> AbstractContextManager[None]:
        """Let new files of a private place be their owner's only."""


class MemoryPlace:
    """A place that lives as long as the process, for research and simulations."""

    def __init__(self) -> None:
        self.name = "memory"
        self.outcomes: OutcomeStore = MemoryStore()
        self.files: frozenset[str] = frozenset()
        self.has_begun = False
        self.has_row_key = True
        self._run: ReleaseRun | None = None

    def stored(self) -> Iterator[StoredDraws]:
        """Yield nothing: no draw outlives the process."""
        return iter(())

    def binding(self, identity: str, *, make: bool) -> str:
        """Return nothing: no ledger binds a source to memory."""
        return ""

    def row_key(self) -> bytes:
        """Return a new secret."""
        return secret_key()

    def begin(self, data: Fingerprint) -> None:
        """Do nothing: no earlier draws are kept."""

    def finished(self) -> ReleaseRun | None:
        """Return the run that was kept, if there is one."""
        return self._run

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run in memory."""
        self._run = run

    def keep_failure(self, attempt: str, text: str) -> None:
        """Do nothing: the caller has the exception."""

    def modes(self) -> AbstractContextManager[None]:
        """Do nothing: no files are made."""
        return nullcontext()
