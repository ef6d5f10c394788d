"""The folder of a release that is made without Dagster, as the place of its draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jam_dagster.errors import InputError
from jam_dagster.privacy import DirectoryStore
from jam_dagster.privacy.private_store import default_private_store, stored_secret
from jam_dagster.release.file_place import FilePlace, LocalShelf, Secrets
from jam_dagster.release.place import DESCRIPTION, DRAWS, Fingerprint, StoredDraws

if TYPE_CHECKING:
    from jam_dagster.privacy import Ledger, ReleaseKey
    from jam_dagster.release.folder import ReleaseFolder
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain


class FolderPlace(FilePlace):
    """The folder of one release, which may hold research and other things before.

    Folders of other releases of the same ledger lie in `siblings` as ``RELEASE/EDITION``.
    """

    def __init__(
        self,
        folder: ReleaseFolder,
        spec: ReleaseSpec,
        domain: Domain,
        key: ReleaseKey,
        *,
        ledger: Ledger | None,
        private_store: Path | None = None,
        siblings: Path | None = None,
    ) -> None:
        self.folder = folder
        self._siblings = siblings
        if private_store is None:
            # Research has no private store, and asks for none.
            private_store = (
                folder.restricted
                if ledger is None
                else default_private_store(ledger.file, ledger.place)
            )
        secrets = Secrets(
            LocalShelf(private_store, private=True),
            private_store,
            lambda make: stored_secret(private_store, make=make),
            LocalShelf(folder.restricted, private=True),
            folder.restricted,
        )
        super().__init__(
            LocalShelf(folder.path),
            folder.path,
            key,
            run=folder.path,
            spec=spec,
            domain=domain,
            secrets=secrets,
        )
        self.name = folder.name

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws of every release that lies here; see `Place.stored`."""
        folders = {self.folder.path}
        if self._siblings is not None:
            folders |= {path.parent.resolve() for path in self._siblings.glob(f"*/*/{DESCRIPTION}")}
        for folder in sorted(folders):
            files = DirectoryStore(folder / DRAWS).files
            if files and (folder / DESCRIPTION).exists():
                yield StoredDraws(folder, files, str(folder / DRAWS))

    def check_free(self, public_digest: str | None) -> None:
        """Check that nothing of another release would be overwritten.

        A folder of research may be used again, for its content can be made again. The folder of a
        charged release holds draws that were paid for, and belongs to that release alone.
        """
        if not self.folder.release.exists():
            if (name := self.folder.holds_output()) is not None:
                raise InputError(
                    f"The release's folder {self.folder.path} (--out) already holds {name}, which "
                    "is not of a release: name an empty or a new folder."
                )
            return
        there = self.folder.described()
        if there["noise"] != "exact":
            return
        if not self._belongs:
            key = there["key"]
            partition = f", partition {key['partition']}" if key.get("partition") else ""
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds the charged release "
                f"{key['release']!r}, edition {key['edition']}{partition}, of {key['dataset']!r}, "
                "made with "
                "other parameters, another domain or under another name: name a new folder or, "
                "where none was named, another release."
            )
        self.check_public(public_digest)

    @property
    def _belongs(self) -> bool:
        if not self._exact or not self.folder.release.exists():
            return False
        there = self.folder.described()
        return there["noise"] == "exact" and bool(there["key"] == asdict(self._key))

    def begin(self, data: Fingerprint, *, drawn: bool) -> None:
        """Make the folder this release's, once its data are those of earlier draws.

        Only what this very release has drawn stays; everything else that lies there is research,
        and must not be taken for what was paid for.
        """
        folder = self.folder
        folder.path.mkdir(parents=True, exist_ok=True)
        # A folder of other things that somebody named as --out stays as open as it is.
        if not self._exact and (folder.release.exists() or not any(folder.path.iterdir())):
            folder.path.chmod(0o700)
        if not self._belongs:
            folder.discard()
        super().begin(data, drawn=drawn)
        if self._domain is not None:
            self._domain.save(folder.domain)
