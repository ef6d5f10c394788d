"""Dagster's two stores as the place of a release's draws."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import InputError
from jam_dagster.pipeline.storage.formats import CodesFormat, RunFormat
from jam_dagster.privacy import DirectoryStore, ReleaseKey
from jam_dagster.privacy.ledger.bindings import source_binding
from jam_dagster.privacy.ledger.key import key_fields
from jam_dagster.privacy.private_copies import failure_of
from jam_dagster.privacy.private_store import (
    CONTENTS_FOLDER,
    RECORDS_FOLDER,
    SOURCE_KEY_FILE,
    keyed_contents,
)
from jam_dagster.release.place import ANOTHER_EDITION, Fingerprint, MemoryPlace, StoredDraws

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.pipeline.storage.io_manager import ReleaseStore
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import EncodedTable


@cache
def archive_name(key: ReleaseKey) -> str:
    """Return the name of a release's archive, which no other release has."""
    text = json.dumps(asdict(key), sort_keys=True)
    return f"edition-{key.edition}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class StorePlace:
    """The stores of a code location as the place of one release's draws; a `Place`.

    The draws are filed under the release's key in the ledger: the same release finds them again in
    any run and any process; another edition, partition or specification has a folder of its own.

    Parameters
    ----------
    store
        The store of the release's outcomes: the releasable one, or the private one for what is not
        releasable.
    key
        The release.
    private
        The private store, which keeps secrets and the number of private records; None for a step
        that only reads outcomes.
    spec
        The release, where the step may begin it; None for a step that only reads outcomes.
    stores
        The stores in which draws of the dataset's releases may lie.
    """

    def __init__(
        self,
        store: ReleaseStore,
        key: ReleaseKey,
        private: ReleaseStore | None = None,
        *,
        spec: ReleaseSpec | None = None,
        stores: tuple[ReleaseStore, ...] = (),
    ) -> None:
        self._store = store
        self._key = key
        self._given_private = private
        self._spec = spec
        self._stores = stores
        self._parts = (key.release, "archive", archive_name(key))
        self._directory: UPath = store.root.joinpath(*self._parts)

    @property
    def name(self) -> str:
        """How messages name the place."""
        return f"the store ({self._store.place})"

    @property
    def _private(self) -> ReleaseStore:
        if self._given_private is None:
            raise AssertionError("a step that only reads outcomes has no private store")
        return self._given_private

    @property
    def has_begun(self) -> bool:
        """Whether the release began to draw here."""
        return bool(self._fingerprint.exists())

    @property
    def has_drawn(self) -> bool:
        """Whether the outcome of any draw is here, or a run that made none."""
        return bool(self.files) or self._has_run

    @property
    def outcomes(self) -> DirectoryStore:
        """The store of single draws' outcomes."""
        return DirectoryStore(self._directory / _OUTCOMES)

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""
        return self.outcomes.files

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws of every release that lie in the stores."""
        for store in self._stores:
            yield from stored_draws(store)

    def binding(self, identity: str, *, make: bool) -> str:
        """Return the keyed digest of a source's identity."""
        return source_binding(self._private.secret(SOURCE_KEY_FILE), identity)

    def row_key(self) -> bytes:
        """Return the secret that decides which rows of a person are kept.

        It is kept for the edition and partition: when the table is read again, the same rows stay,
        and a release that stopped goes on.
        """
        return self._private.secret(*self._row_key)

    @property
    def has_row_key(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""
        return bool(self._private.root.joinpath(*self._row_key).exists())

    @property
    def _row_key(self) -> tuple[str, ...]:
        which = json.dumps([self._key.edition, self._key.partition])
        name = f"{hashlib.sha256(which.encode()).hexdigest()[:16]}.key"
        return self._key.release, "row_limit", name

    def begin(self, data: Fingerprint) -> None:
        """Note what data the release draws on, or check that they are still the same."""
        self._store.directory(*self._parts, _OUTCOMES)
        restricted = data.restricted_domain
        now = {
            "private_rows": data.records,
            "public_table": data.public_digest,
            "restricted_domain": None
            if restricted is None
            else json.loads(json.dumps(restricted.to_dict())),
        }
        if self.has_drawn:
            self._check_unchanged(data, now)
        key = json.dumps(asdict(self._key), sort_keys=True)
        self._store.write(self._directory / _KEY_FILE, key.encode())
        for folder, value in self._private_facts(data).items():
            if value is not None:
                self._private.write(self._kept(folder), json.dumps(value).encode())
        self._store.write(self._fingerprint, json.dumps({**now, "private_rows": None}).encode())
        if self._spec is not None and self._spec.previous is not None and data.public:
            self._keep_public(data.public[""])

    def _check_unchanged(self, data: Fingerprint, now: dict[str, Any]) -> None:
        before = json.loads(self._fingerprint.read_text())
        # A private store can be lost.
        kept = self._read_kept()
        rows = kept[RECORDS_FOLDER]
        before["private_rows"] = now["private_rows"] if rows is None else rows
        changed = [_MEANINGS[name] for name in now if now[name] != before[name]]
        contents = self._private_facts(data)[CONTENTS_FOLDER]
        if kept[CONTENTS_FOLDER] not in (None, contents):
            changed.append("The private table")
        if changed:
            raise InputError(
                f"{' and '.join(changed)} of release {self._key.release} changed since edition"
                f" {self._key.edition} was drawn. Restore the old data, or {ANOTHER_EDITION}."
            )

    def _private_facts(self, data: Fingerprint) -> dict[str, Any]:
        """Return what is kept in the private store of what a release began with, by its folder."""
        keyed = None
        if data.contents is not None:
            secret = self._private.secret(SOURCE_KEY_FILE)
            keyed = keyed_contents(secret, self._key.digest, data.contents)
        return {RECORDS_FOLDER: data.records, CONTENTS_FOLDER: keyed}

    def _read_kept(self) -> dict[str, Any]:
        """Return what is there of it."""
        paths = {folder: self._kept(folder) for folder in (RECORDS_FOLDER, CONTENTS_FOLDER)}
        return {
            folder: json.loads(path.read_text()) if path.exists() else None
            for folder, path in paths.items()
        }

    def _kept(self, folder: str) -> UPath:
        name = archive_name(self._key)
        return self._private.root.joinpath(self._key.release, folder, f"{name}.json")

    def _keep_public(self, public: EncodedTable) -> None:
        """Keep the public table that the release draws on, before its first draw.

        The release before may be made again, so the table need not stay as it is by itself.
        """
        if not self.has_drawn:
            with self._store.modes():
                CodesFormat().write(public, self._public)

    @property
    def keeps_public(self) -> bool:
        """Whether the public table that the release was drawn on is kept here."""
        return self.has_drawn and bool(self._public.exists())

    def public(self) -> EncodedTable | None:
        """Return the public table that the release was drawn on, if it is kept here."""
        if not self.keeps_public:
            return None
        return CodesFormat().read(self._public)

    def finished(self) -> ReleaseRun | None:
        """Return the run, if it has ended."""
        if not self._has_run:
            return None
        return RunFormat().read(self._run)

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run; the same release made again gets it from here."""
        with self._store.modes():
            RunFormat().write(run, self._run)

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep why an attempt to open the private table failed, for its owner alone."""
        days = None if self._spec is None else self._spec.privacy.retention_days
        header = failure_of(key_fields(self._key), days, research=False)
        self._private.keep_failure(self._key.release, header, attempt, text)

    def modes(self) -> AbstractContextManager[None]:
        """Let new files of a private store be their owner's only."""
        return self._store.modes()

    @property
    def _fingerprint(self) -> UPath:
        return self._directory / "data.json"

    @property
    def _public(self) -> UPath:
        return CodesFormat().path(self._directory / "public")

    @property
    def _run(self) -> UPath:
        return self._directory / "run"

    @property
    def _has_run(self) -> bool:
        return bool((self._run / RunFormat.marker).exists())


class ResearchPlace(MemoryPlace):
    """The place of research in Dagster: draws in memory, reasons of failures in the private store.

    Parameters
    ----------
    private
        The private store.
    spec
        The release.
    """

    def __init__(self, private: ReleaseStore, spec: ReleaseSpec) -> None:
        super().__init__()
        self._private = private
        self._spec = spec

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep why an attempt to open the private table failed, for its owner alone."""
        release, days = self._spec.release, self._spec.privacy.retention_days
        header = failure_of({"release": release}, days, research=True)
        self._private.keep_failure(release, header, attempt, text)


@dataclass(frozen=True)
class ArchivedDraws:
    """The files of one release's draws.

    Parameters
    ----------
    directory
        Its archive.
    files
        The names of the outcomes' files.
    where
        The archive, as messages show it.
    """

    directory: UPath
    files: frozenset[str]
    where: str = ""

    def key(self, charged: Collection[ReleaseKey]) -> ReleaseKey | None:
        """Return the release; the archive's name says which of the charged ones it is."""
        known = {archive_name(key): key for key in charged}
        return known.get(self.directory.name) or self.read_key()

    def read_key(self) -> ReleaseKey | None:
        """Return which release it is, as the archive says; None if it does not."""
        described = self.directory / _KEY_FILE
        return ReleaseKey(**json.loads(described.read_text())) if described.exists() else None


def stored_draws(store: ReleaseStore) -> Iterator[ArchivedDraws]:
    """Yield the archives of a store that hold draws; one listing for all editions of a release.

    A release of many partitions has as many archives, and on an object store each look at one of
    them is a request.
    """
    for release in store.root.iterdir() if store.root.exists() else ():
        archives = release / "archive"
        found: dict[str, set[str]] = {}
        for parts in map(_parts, _files_below(archives, local=store.is_local)):
            if parts[-2:-1] == [_OUTCOMES] and not parts[-1].startswith("."):
                found.setdefault(parts[-3], set()).add(parts[-1])
        for name, files in sorted(found.items()):
            archive = archives / name
            yield ArchivedDraws(archive, frozenset(files), store.shown(archive))


def _files_below(archives: UPath, *, local: bool) -> Iterator[object]:
    if local:
        # Unlike a listing by fsspec, this follows links: an archive may have been moved elsewhere.
        yield from archives.glob(f"*/{_OUTCOMES}/*")
        return
    # What another process has stored since must be seen.
    archives.fs.invalidate_cache()
    yield from archives.fs.find(archives.path)


def _parts(path: object) -> list[str]:
    return str(path).split("/")


def holds_draws_of(dataset: str, store: ReleaseStore) -> bool:
    """Whether a store holds draws of any release of a protected dataset."""
    keys = (draws.read_key() for draws in stored_draws(store))
    return any(key is not None and key.dataset == dataset for key in keys)


_OUTCOMES = "outcomes"
_KEY_FILE = "key.json"

_MEANINGS = {
    "private_rows": "The number of private records",
    "public_table": "The public table",
    "restricted_domain": "The domain",
}
