"""The folder of a release that is made without Dagster."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.errors import BudgetError, InputError
from jam_dagster.mechanisms import Transcript, load_model
from jam_dagster.privacy import DirectoryStore, MemoryStore, OutcomeStore, ReleaseKey
from jam_dagster.privacy.private_copies import FAILURES, failure_of
from jam_dagster.privacy.private_store import (
    CONTENTS_FOLDER,
    RECORDS_FOLDER,
    default_private_store,
    keyed_contents,
    stored_secret,
)
from jam_dagster.release.folder import ReleaseFolder
from jam_dagster.release.place import ANOTHER_EDITION, Fingerprint, StoredDraws
from jam_dagster.release.run import ReleaseIdentity, ReleaseRun
from jam_dagster.tables import secret_key
from jam_dagster.tables.codes.privacy_unit import KEY_BYTES

if TYPE_CHECKING:
    from jam_dagster.privacy import Ledger
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain


@dataclass(frozen=True)
class FolderDraws:
    """The draws in a release's folder; see `StoredDraws`."""

    folder: ReleaseFolder
    files: frozenset[str]

    @property
    def where(self) -> str:
        """The folder of the draws."""
        return str(self.folder.draws)

    def key(self, charged: Collection[ReleaseKey]) -> ReleaseKey | None:
        """Return the release, as its description says; None of research."""
        try:
            key = self.folder.described()["key"]
        except InputError:
            raise BudgetError(
                f"{self.folder.release} cannot be read, so the ledger cannot be compared with the"
                f" draws beside it: restore it, or move {self.folder.path} away."
            ) from None
        return None if key is None else ReleaseKey(**key)


class FolderPlace:
    """The folder of one release as the place of its draws; a `Place`.

    Parameters
    ----------
    folder
        The folder.
    spec, domain
        The release.
    key
        Its key in the ledger.
    public_digest
        The digest of its encoded public tables; None where there are none.
    ledger
        The ledger that is charged; None in research, which stores no draws.
    private_store
        The folder of the secret by which sources are bound; None: the ledger's default.
    siblings
        A folder in which folders of other releases of the same ledger lie, as
        ``RELEASE/EDITION``; None: it is not known.
    """

    def __init__(
        self,
        folder: ReleaseFolder,
        spec: ReleaseSpec,
        domain: Domain,
        key: ReleaseKey,
        *,
        public_digest: str | None,
        ledger: Ledger | None,
        private_store: Path | None = None,
        siblings: Path | None = None,
    ) -> None:
        self.folder = folder
        self._spec = spec
        self._domain = domain
        self._key = key
        self._ledger = ledger
        self._given_store = private_store
        self._siblings = siblings
        self._described: dict[str, Any] = {
            "noise": spec.privacy.noise,
            "key": asdict(key) if spec.exact else None,
            "specification": spec.specified(domain),
            "public": public_digest,
        }
        if spec.privacy.retention_days is not None:
            self._described["retention_days"] = spec.privacy.retention_days
        if spec.exact:
            self.outcomes: OutcomeStore = DirectoryStore(folder.draws)
        else:
            self.outcomes = MemoryStore()

    @property
    def name(self) -> str:
        """How messages name the folder."""
        return self.folder.name

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""
        return DirectoryStore(self.folder.draws).files

    @property
    def has_begun(self) -> bool:
        """Whether charged draws are kept here, even if none was stored yet.

        A run that was killed after its first charge and before its first outcome leaves an empty
        folder, and goes on there. A folder that someone removed is another matter.
        """
        return self.folder.draws.is_dir()

    @property
    def has_drawn(self) -> bool:
        """Whether the outcome of any charged draw is here, or a run that made none."""
        if self.files:
            return True
        run = self._belongs() and self._has_transcript
        return run and not Transcript.load(self.folder.transcript).calls

    @property
    def _has_transcript(self) -> bool:
        # The description is the last file that the mechanism's run writes.
        return (self.folder.transcript / "transcript.json").exists()

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the draws that lie here and in the folders of the same ledger's other releases."""
        folders = [self.folder]
        if self._siblings is not None:
            found = sorted(self._siblings.glob("*/*/release.json"))
            folders += [ReleaseFolder(path.parent) for path in found]
        for one in {folder.path: folder for folder in folders}.values():
            files = DirectoryStore(one.draws).files
            if files and one.release.exists():
                yield FolderDraws(one, files)

    def check_free(self) -> None:
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
        if there["noise"] == "exact" and there["key"] != self._described["key"]:
            key = there["key"]
            partition = f", partition {key['partition']}" if key.get("partition") else ""
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds the charged release "
                f"{key['release']!r}, edition {key['edition']}{partition}, of {key['dataset']!r}, "
                "made with "
                "other parameters, another domain or under another name: name a new folder or, "
                "where none was named, another release."
            )
        if (
            self.has_drawn
            and there["noise"] == "exact"
            and there.get("public") != self._described["public"]
        ):
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds draws with another public "
                f"table: restore it, or {ANOTHER_EDITION}, in a folder of its own."
            )

    @cached_property
    def private_store(self) -> Path:
        """The private store, a folder that only its owner may read; one for all of a ledger."""
        if self._given_store is not None:
            return self._given_store
        if self._ledger is None:
            raise AssertionError("research has no private store")
        return default_private_store(self._ledger.file, self._ledger.place)

    def binding(self, identity: str, *, make: bool) -> str:
        """Return the keyed digest of a source's identity; see `Place.binding`."""
        from jam_dagster.privacy.ledger.bindings import source_binding

        return source_binding(stored_secret(self.private_store, make=make), identity)

    @property
    def has_row_key(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""
        return self._kept_row_key() is not None

    def row_key(self) -> bytes:
        """Return the secret that decides which rows of a person are kept."""
        return self._row_key

    @cached_property
    def _row_key(self) -> bytes:
        return self._kept_row_key() or secret_key()

    def _kept_row_key(self) -> bytes | None:
        """Return the key that chose a person's rows for this very release, if there is one."""
        path = self.folder.row_key
        if not (self._belongs() and path.exists()):
            return None
        key = path.read_bytes()
        # What is left of a damaged key is none: an empty one could be guessed.
        return key if len(key) == KEY_BYTES else None

    def begin(self, data: Fingerprint) -> None:
        """Make the folder this release's, once its data are those of earlier draws.

        Only what this very release has drawn stays; everything else that lies there is research,
        and must not be taken for what was paid for.
        """
        unit = self._spec.privacy.protection.unit
        if self._ledger is not None:
            if data.contents is not None:
                self._check_contents(data.contents)
            self._check_records(data.records)
            # How many rows there are is shown once a draw is paid, and not before.
            self._keep(RECORDS_FOLDER, data.records)
            if data.contents is not None:
                self._keep(CONTENTS_FOLDER, self._keyed(data.contents))
        self._claim()
        if unit is not None and self._spec.exact:
            # The release is claimed by this run, so no other run brings another key meanwhile.
            self.folder.restricted.mkdir(mode=0o700, exist_ok=True)
            write_whole(self.folder.row_key, self._row_key, mode=OWNER_ONLY)
        self._domain.save(self.folder.domain)

    def _check_contents(self, contents: str) -> None:
        path = self._kept(CONTENTS_FOLDER)
        changed = path.exists() and json.loads(path.read_text()) != self._keyed(contents)
        if self.has_drawn and changed:
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds draws on another private "
                f"table: new data are a new release, {ANOTHER_EDITION}."
            )

    def _check_records(self, records: int | None) -> None:
        if not self.has_drawn:
            return
        path = self._kept(RECORDS_FOLDER)
        before = json.loads(path.read_text()) if path.exists() else None
        if before is not None and before != records:
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds draws on another private "
                f"table, of another number of records: new data are a new release, "
                f"{ANOTHER_EDITION}."
            )

    def _kept(self, folder: str) -> Path:
        return self.private_store / folder / f"{self._key.digest}.json"

    def _keep(self, folder: str, value: Any) -> None:
        path = self._kept(folder)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(path, json.dumps(value).encode(), mode=OWNER_ONLY)

    def _keyed(self, contents: str) -> str:
        secret = stored_secret(self.private_store, make=False)
        return keyed_contents(secret, self._key.digest, contents)

    def _claim(self) -> None:
        folder = self.folder
        folder.path.mkdir(parents=True, exist_ok=True)
        # A folder of other things that somebody named as --out stays as open as it is.
        if not self._spec.exact and (folder.release.exists() or not any(folder.path.iterdir())):
            folder.path.chmod(0o700)
        if not self._belongs():
            folder.discard()
        # Whole or not at all: a release without a whole description could not go on.
        described = {**self._described, "records": None}
        write_whole(folder.release, (json.dumps(described, indent=2) + "\n").encode())
        if self._spec.exact:
            folder.draws.mkdir(exist_ok=True)

    def _belongs(self) -> bool:
        if not self._spec.exact or not self.folder.release.exists():
            return False
        there = self.folder.described()
        return there["noise"] == "exact" and bool(there["key"] == self._described["key"])

    def finished(self) -> ReleaseRun | None:
        """Return the run if the mechanism has ended, None if it must still run.

        A transcript of something else than this release, or without the draws that it was made
        from, counts for nothing: running the mechanism again takes what was paid for from the
        draws, and pays for the rest.
        """
        if not (self.has_drawn and self._has_transcript):
            return None
        transcript = Transcript.load(self.folder.transcript)
        spec = self._spec
        mechanism = spec.mechanism.build()
        wanted = (
            spec.privacy.noise,
            mechanism.name,
            dict(mechanism.parameters()),
            self._domain.digest,
            spec.neighbours,
        )
        found = (
            transcript.noise,
            transcript.mechanism,
            dict(transcript.parameters),
            transcript.domain_digest,
            transcript.neighbours,
        )
        if found != wanted:
            return None
        identity = ReleaseIdentity.of(spec, self._domain, self._key.partition)
        return ReleaseRun(load_model(self.folder.model), transcript, identity)

    def keep(self, run: ReleaseRun) -> None:
        """Write the model and the transcript."""
        run.model.save(self.folder.model)
        run.transcript.save(self.folder.transcript)

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep why an attempt to open the private table failed, closed to others."""
        folder = self.folder.restricted / FAILURES
        self.folder.restricted.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        path, flags = folder / f"{attempt}.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with os.fdopen(os.open(path, flags, OWNER_ONLY), "ab") as file:
            if file.tell() == 0:
                key = self._described["key"] or {"release": self.folder.path.name}
                days = self._described.get("retention_days")
                file.write(failure_of(key, days, research=self._described["key"] is None))
            file.write(text.encode("utf-8", "backslashreplace"))

    @contextmanager
    def modes(self) -> Iterator[None]:
        """Leave modes as they are: of research the whole run is closed to others."""
        yield
