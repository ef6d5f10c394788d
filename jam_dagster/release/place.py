"""The place where a release keeps its draws: a folder, Dagster's stores, or memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import MemoryStore, ReleaseKey
from jam_dagster.tables.codes.privacy_unit import secret_key
from jam_dagster.tables.codes.table import EncodedTable, digest_of
from jam_dagster.tables.sources.public import encoded_tables

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.privacy import OutcomeStore
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.tables import Domain, MarginalSource

ANOTHER_EDITION = (
    "give another edition (privacy.edition, or --edition), which is drawn and paid again"
)
"""The remedy where a release cannot go on."""

DRAWS = "draws"
"""The folder, in a release's, of the outcomes of its draws."""

DESCRIPTION = "release.json"
"""The file, in a release's folder, that says which release it is."""


@dataclass(frozen=True)
class Fingerprint:
    """The inputs of a release, from public facts only, to detect that they changed between runs.

    `public` is empty where there are no public
    tables, or their encoding comes from private data. `restricted_domain` is a domain that comes
    from private data, for the release's key has any other. `contents` is a digest of private
    records, where only they show that a table changed: of a table in memory. It is private, and
    must be keyed before it is kept. `counted_by` is that of `Documents`. Where the private table
    was not `opened`, nothing of it is known or compared.
    """

    public: dict[str, EncodedTable]
    restricted_domain: Domain | None = None
    contents: str | None = None
    counted_by: str | None = None
    opened: bool = True

    @classmethod
    def of(
        cls,
        domain: Domain,
        private: MarginalSource | None,
        public: MarginalSource | None,
        *,
        contents: str | None = None,
        counted_by: str | None = None,
    ) -> Fingerprint:
        """Take the fingerprint of two encoded tables."""
        opened = private is not None
        if domain.restricted:
            return cls({}, domain, contents, counted_by, opened)
        tables = {} if public is None else encoded_tables(public)
        return cls(dict(tables), None, contents, counted_by, opened)

    @property
    def public_digest(self) -> str | None:
        """SHA-256 of the public tables; None where there are none."""
        return digest_of(self.public) if self.public else None


@cache
def archive_name(key: ReleaseKey) -> str:
    """Return the name of a release's folder in a store, which no other release has."""
    text = json.dumps(asdict(key), sort_keys=True)
    return f"edition-{key.edition}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class StoredDraws:
    """The stored draws of one release, which a ledger must have charged."""

    folder: Path | UPath
    files: frozenset[str]
    where: str = ""

    def key(self, charged: Collection[ReleaseKey]) -> ReleaseKey | None:
        """Return the release; its folder's name may say which of the charged ones it is."""
        known = {archive_name(key): key for key in charged}
        return known.get(self.folder.name) or self.read_key()

    def read_key(self) -> ReleaseKey | None:
        """Return the release, as its description says; None of research, or if there is none."""
        path = self.folder / DESCRIPTION
        if not path.exists():
            return None
        try:
            key = json.loads(path.read_text())["key"]
            return None if key is None else ReleaseKey(**key)
        except (ValueError, KeyError, TypeError):
            raise BudgetError(
                f"{path} cannot be read, so the ledger cannot be compared with the draws beside"
                f" it: restore it, or move {self.folder} away."
            ) from None


class Place:
    """Where one release keeps what it has drawn: memory, for research and simulations.

    `FilePlace` keeps it in files, for as long as they lie there.
    """

    name = "memory"
    """How messages name the place."""

    def __init__(
        self, keep_failure: Callable[[str, str], None] = lambda attempt, text: None
    ) -> None:
        self.outcomes: OutcomeStore = MemoryStore()
        self._keep_failure = keep_failure
        self._kept: ReleaseRun | None = None

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""
        return frozenset()

    @property
    def has_begun(self) -> bool:
        """Whether the release began to draw here, even if no outcome was stored yet."""
        return False

    @property
    def has_contents(self) -> bool:
        """Whether a digest is kept of the private records that the release was drawn on."""
        return False

    @property
    def counted_by(self) -> str | None:
        """What counted the private table when the release began; None where it does not say."""
        return None

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws of every release that lies here, this one's among them."""
        return iter(())

    def binding(self, identity: str, *, make: bool) -> str:
        """Return the keyed digest of a source's identity; empty where no ledger binds sources.

        Without `make` a missing secret is not made, and the digest matches no other.
        """
        return ""

    @property
    def has_row_key(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""
        return True

    def row_key(self) -> bytes:
        """Return the secret that decides which rows of a person are kept, made the first time."""
        return secret_key()

    def begin(self, data: Fingerprint, *, drawn: bool) -> None:
        """Keep the fingerprint of the inputs, or check that they are still the same.

        `drawn` says whether a draw of the release was paid for before.
        """

    def finished(self) -> ReleaseRun | None:
        """Return the run, if it has ended; None if the mechanism must still run."""
        return self._kept

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run; the same release made again gets it from here."""
        self._kept = run

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep the reason why an attempt to open the private table failed, for its owner alone."""
        self._keep_failure(attempt, text)

    def modes(self) -> AbstractContextManager[None]:
        """Let new files of a private place be their owner's only."""
        return nullcontext()
