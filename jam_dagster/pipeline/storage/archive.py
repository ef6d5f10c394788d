"""What a release has drawn, kept so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import InputError
from jam_dagster.pipeline.storage.formats import CodesFormat, RunFormat
from jam_dagster.privacy import DirectoryStore, ReleaseKey
from jam_dagster.tables.sources.public import encoded_tables

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.pipeline.storage.identity import ReleaseRun
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore
    from jam_dagster.privacy import Neighbours
    from jam_dagster.tables import EncodedTable, MarginalSource


@dataclass(frozen=True)
class DataFingerprint:
    """What must stay as it was while one release draws; it tells changed data by what is public.

    Parameters
    ----------
    private_rows
        n, where it is public; None where the number of private records is private itself.
    public_table
        A hash of the encoded public table, or None where its encoding comes from private data.
    restricted_domain
        The domain where it comes from private data, whose archive is in the private store; else
        None: a public domain is part of the release's key.
    """

    private_rows: int | None
    public_table: str | None = None
    restricted_domain: dict[str, Any] | None = None

    @classmethod
    def of(
        cls, private: EncodedTable, public: MarginalSource | None, *, neighbours: Neighbours
    ) -> DataFingerprint:
        """Take the fingerprint of two encoded tables, for a release with these neighbours."""
        private_rows = private.records if neighbours.records_public else None
        if private.domain.restricted:
            return cls(private_rows, restricted_domain=private.domain.to_dict())
        if public is None:
            return cls(private_rows)
        hashed = hashlib.sha256()
        for called, table in encoded_tables(public).items():
            # What is alone has no name, and the hash that it always had.
            hashed.update(called.encode())
            for name in table.domain.names:
                column = table.column(name)
                hashed.update(f"{name} {column.dtype} {column.size}\n".encode())
                hashed.update(column.tobytes())
        return cls(private_rows, public_table=hashed.hexdigest())


def archive_name(key: ReleaseKey) -> str:
    """Return the name of a release's archive, which no other release has."""
    text = json.dumps(asdict(key), sort_keys=True)
    return f"edition-{key.edition}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


class ReleaseArchive:
    """The outcomes of one release's draws, and the whole run once it has ended.

    It is filed under the release's key in the ledger: the same release finds it again in any run
    and any process, another edition, partition or specification has an archive of its own.

    Parameters
    ----------
    store
        Where the release's outcomes may lie: the releasable store, or the private one for what is
        not releasable.
    key
        The release.
    private
        The private store, which keeps the number of private records: it is shown nowhere before a
        draw is paid. None for whoever only reads outcomes.
    """

    def __init__(
        self, store: ReleaseStore, key: ReleaseKey, private: ReleaseStore | None = None
    ) -> None:
        self._store = store
        self._key = key
        self._private = private
        self._parts = (key.release, "archive", archive_name(key))
        self._directory: UPath = store.root.joinpath(*self._parts)

    @property
    def exists(self) -> bool:
        """Whether the release has begun to draw."""
        return bool(self._fingerprint.exists())

    @property
    def has_draws(self) -> bool:
        """Whether the outcome of any draw is here."""
        return bool(self.outcomes.files)

    @property
    def outcomes(self) -> DirectoryStore:
        """Where the outcomes of single draws go."""
        return DirectoryStore(self._directory / _OUTCOMES)

    def begin(self, data: DataFingerprint) -> None:
        """Note what data the release draws on, or make sure that it is still the same.

        Raises
        ------
        InputError
            If earlier draws of this release were made on other data.
        """
        self._store.directory(*self._parts, _OUTCOMES)
        now = json.loads(json.dumps(asdict(data)))
        if self.has_draws:
            before = json.loads(self._fingerprint.read_text())
            # Earlier versions kept the number beside the rest; a private store can be lost.
            rows = before["private_rows"]
            rows = self._kept_rows() if rows is None else rows
            before["private_rows"] = now["private_rows"] if rows is None else rows
            changed = [_MEANINGS[name] for name in now if now[name] != before[name]]
            if changed:
                raise InputError(
                    f"{' and '.join(changed)} of release {self._key.release} changed since edition"
                    f" {self._key.edition} was drawn. Raise privacy.edition to draw, and pay for, a"
                    f" release of the new data, or restore the old."
                )
        key = json.dumps(asdict(self._key), sort_keys=True)
        self._store.write(self._directory / _KEY_FILE, key.encode())
        if self._private is not None and data.private_rows is not None:
            self._private.write(self._rows(self._private), json.dumps(data.private_rows).encode())
        self._store.write(self._fingerprint, json.dumps({**now, "private_rows": None}).encode())

    def _kept_rows(self) -> int | None:
        if self._private is None or not self._rows(self._private).exists():
            return None
        rows: int = json.loads(self._rows(self._private).read_text())
        return rows

    def _rows(self, private: ReleaseStore) -> UPath:
        name = archive_name(self._key)
        return private.root.joinpath(self._key.release, "records", f"{name}.json")

    def keep_public(self, public: EncodedTable) -> None:
        """Keep the public table that the release draws on, once nothing can change it any more.

        For a table that need not stay as it is by itself: the release before may be made anew.
        """
        if not self.has_draws:
            with self._store.modes():
                CodesFormat().write(public, self._public)

    @property
    def keeps_public(self) -> bool:
        """Whether the public table that the release was drawn on is kept here."""
        return self.has_draws and bool(self._public.exists())

    def public(self) -> EncodedTable | None:
        """Return the public table that the release was drawn on, if it is kept here."""
        if not self.keeps_public:
            return None
        return CodesFormat().read(self._public)

    def run(self) -> ReleaseRun | None:
        """Return the whole run, if it has ended."""
        if not (self._run / RunFormat.marker).exists():
            return None
        return RunFormat().read(self._run)

    def keep(self, result: ReleaseRun) -> None:
        """Keep the whole run; the same release made again gets it from here."""
        with self._store.modes():
            RunFormat().write(result, self._run)

    @property
    def _fingerprint(self) -> UPath:
        return self._directory / "data.json"

    @property
    def _public(self) -> UPath:
        return CodesFormat().path(self._directory / "public")

    @property
    def _run(self) -> UPath:
        return self._directory / "run"


@dataclass(frozen=True)
class StoredDraws:
    """The files of one release's draws.

    Parameters
    ----------
    directory
        Its archive.
    files
        The names of the outcomes' files.
    """

    directory: UPath
    files: frozenset[str]

    def read_key(self) -> ReleaseKey | None:
        """Return which release it is, as the archive says; None if it does not."""
        described = self.directory / _KEY_FILE
        return ReleaseKey(**json.loads(described.read_text())) if described.exists() else None


def stored_draws(store: ReleaseStore) -> Iterator[StoredDraws]:
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
            yield StoredDraws(archives / name, frozenset(files))


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
