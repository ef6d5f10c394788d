"""Dagster's stores as the place of a release's draws."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from jam_dagster.common.json_text import parse_json
from jam_dagster.pipeline.storage.formats import CODES, codes_file, codes_of
from jam_dagster.privacy.private_store import failure_of
from jam_dagster.release.place import (
    DRAWS,
    FilePlace,
    Place,
    StoredDraws,
    archive_name,
    keep_failure,
)

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy import ReleaseId
    from jam_dagster.release.files import ReleaseFiles
    from jam_dagster.release.place import Tables
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import EncodedTable


@dataclass(kw_only=True, eq=False)
class StorePlace(FilePlace):
    """The draws of one release in a store, filed under its id in the ledger.

    The same release finds them again in any run and any process; another edition, partition or
    specification has a folder of its own. `stores` are all that may hold draws, and `before` is the
    partition that the release would be drawn on.
    """

    stores: tuple[ReleaseFiles, ...] = ()
    before: str | None = None

    @classmethod
    def of(
        cls,
        store: ReleaseFiles,
        release_id: ReleaseId,
        run: UPath,
        private: ReleaseFiles | None = None,
        **given: Any,
    ) -> Self:
        """Return the place in a store, and in the private one if a run may begin there."""
        root = store.path_of(release_id.release, "archive", archive_name(release_id))
        restricted = None if private is None else private.below(release_id.release)
        given = {"run_files": store, "private": private, "restricted": restricted, **given}
        return cls(store=store, release_id=release_id, root=store.plain(root), run=run, **given)

    @property
    def _public(self) -> UPath:
        path: UPath = CODES.path(self.root / "public")
        return path

    @property
    def _before_file(self) -> UPath:
        return self.root / "before.json"

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws of every release that is stored here; see `Place.stored`."""
        for store in self.stores:
            yield from stored_draws(store)

    def begin(self, public: Tables, contents: str | None, *, opened: bool, drawn: bool) -> None:
        """Note what data the release draws on; keep the public table, where that may change.

        The release before may be rerun, so the table need not stay as it is by itself.
        """
        super().begin(public, contents, opened=opened, drawn=drawn)
        if not drawn and self.spec is not None and self.spec.previous is not None and public:
            self.store.write(self._public, codes_file(public[""]))
            self.store.write(self._before_file, json.dumps({"partition": self.before}).encode())

    @property
    def keeps_public(self) -> bool:
        """Whether the public table that the release was drawn on is kept here."""
        return self.has_drawn and bool(self._public.exists())

    def drawn_on(self, configured: str | None) -> str | None:
        """Return the partition that the release was drawn on, whatever the file says by now.

        It is the configured one if none is noted here; None: the given table.
        """
        kept = self.store.read(self._before_file)
        if kept is None:
            return configured
        noted: str | None = parse_json(kept)["partition"]
        return noted

    def public(self) -> EncodedTable | None:
        """Return the public table that the release was drawn on, if it is kept here."""
        content = self.store.read(self._public) if self.has_drawn else None
        return None if content is None else codes_of(content)


def research_place(private: ReleaseFiles, spec: ReleaseSpec) -> Place:
    """Return the place of research: draws in memory, causes of failures in the private store."""
    header = failure_of({"release": spec.release})
    return Place(partial(keep_failure, private.below(spec.release), header))


def stored_draws(store: ReleaseFiles) -> Iterator[StoredDraws]:
    """Yield the archives of a store that hold draws; one listing for all editions of a release.

    A release of many partitions has as many archives, and on an object store each look at one of
    them is a request.
    """
    for release in store.root.iterdir() if store.root.exists() else ():
        archives = release / "archive"
        found: dict[str, set[str]] = {}
        for path in _files_below(archives, local=store.is_local):
            parts = str(path).split("/")
            if parts[-2:-1] == [DRAWS] and not parts[-1].startswith("."):
                found.setdefault(parts[-3], set()).add(parts[-1])
        for name, files in sorted(found.items()):
            yield StoredDraws(archives / name, frozenset(files), store.shown(archives / name))


def _files_below(archives: UPath, *, local: bool) -> Iterator[object]:
    if local:
        # Unlike a listing by fsspec, this follows links: an archive may have been moved elsewhere.
        yield from archives.glob(f"*/{DRAWS}/*")
        return
    # Files that another process has stored since must be seen.
    archives.fs.invalidate_cache()
    yield from archives.fs.find(archives.path)


def holds_draws_of(dataset: str, store: ReleaseFiles) -> bool:
    """Whether a store holds draws of any release of a protected dataset."""
    ids = (draws.read_id() for draws in stored_draws(store))
    return any(release_id is not None and release_id.dataset == dataset for release_id in ids)
