"""The place where a release keeps its draws: a folder, Dagster's stores, or memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.json_text import DAMAGE, check_keys, damaged
from jam_dagster.errors import BudgetError, InputError, JamError
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import DirectoryStore, MemoryStore, ReleaseId
from jam_dagster.privacy.private_store import (
    CONTENTS_FOLDER,
    FAILURES,
    failure_of,
    keyed_contents,
)
from jam_dagster.release.run import ReleaseRun, identity_in, read_run, write_run
from jam_dagster.tables.codes.privacy_unit import SECRET_BYTES, new_secret
from jam_dagster.tables.codes.table import digest_of

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy.ledger.source_binding import SourceBinding
    from jam_dagster.privacy.outcome_store import OutcomeStore
    from jam_dagster.release.files import ReleaseFiles
    from jam_dagster.release.folder import ReleaseFolder
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain, EncodedTable

    Tables = Mapping[str, EncodedTable]


ANOTHER_EDITION = (
    "give another edition (privacy.edition or --edition, or privacy.editions for one partition), "
    "which is drawn and paid again"
)
"""The remedy if a release cannot continue."""

DRAWS = "draws"
"""Name of the folder with the outcomes of a release's draws."""

DESCRIPTION = "release.json"
"""Name of the file that describes a release, in its folder."""

_DESCRIBED = frozenset({"noise", "key", "specification", "public", "restricted_domain"})
"""The keys of that file."""


@cache
def archive_name(release_id: ReleaseId) -> str:
    """Return the name of a release's folder in a store, which no other release has."""
    text = json.dumps(asdict(release_id), sort_keys=True)
    return f"edition-{release_id.edition}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class StoredDraws:
    """The stored draws of one release, which a ledger must have charged."""

    folder: Path | UPath
    files: frozenset[str]
    where: str = ""

    def release_id(self, charged: Collection[ReleaseId]) -> ReleaseId | None:
        """Return the charged release that the folder is named after, or the described one."""
        known = {archive_name(release_id): release_id for release_id in charged}
        return known.get(self.folder.name) or self.read_id()

    def read_id(self) -> ReleaseId | None:
        """Return the release of the description; None if that is missing, or of research."""
        path = self.folder / DESCRIPTION
        if not path.exists():
            return None
        try:
            release_id = json.loads(path.read_text())["key"]
            return None if release_id is None else ReleaseId(**release_id)
        except (ValueError, KeyError, TypeError):
            where = self.where or str(self.folder)
            raise BudgetError(
                f"{where}/{DESCRIPTION} cannot be read, so the ledger cannot be compared with the"
                f" draws next to it: restore it, or move {where} away."
            ) from None


class Place:
    """The place of one release's draws: memory, and files in `FilePlace`."""

    def __init__(
        self, keep_failure: Callable[[str, str], None] = lambda attempt, text: None
    ) -> None:
        self.outcomes: OutcomeStore = MemoryStore()
        self._keep_failure = keep_failure
        self._kept: ReleaseRun | None = None

    @property
    def name(self) -> str:
        """How messages name the place."""
        return "memory"

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

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the stored draws of every release here, including this one's."""
        return iter(())

    def binding(
        self, identity: str, template: str, table: str, *, make: bool
    ) -> SourceBinding | None:
        """Return the binding to a source by its identity; None if no ledger binds sources.

        Without `make` a missing secret is not made, and the binding matches no other.
        """
        return None

    @property
    def has_row_secret(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""
        return True

    def row_secret(self) -> bytes:
        """Return the secret that decides which rows of a person are kept, made the first time."""
        return new_secret()

    def begin(self, public: Tables, contents: str | None, *, opened: bool, drawn: bool) -> None:
        """Record the inputs of the release, or check that they are still the same.

        Parameters
        ----------
        public
            The encoded public tables; empty if there are none, or their encoding comes from private
            data.
        contents
            A digest of the private records, if only they show that a table changed. It is private,
            and is kept with a key.
        opened
            Whether the private table was opened; one that was not is neither known nor compared.
        drawn
            Whether a draw of the release was paid for before.
        """

    def finished(self) -> ReleaseRun | None:
        """Return the run, if it has ended; None if the mechanism must still run."""
        return self._kept

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run, for a repeat of the release."""
        self._kept = run

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep the reason why an attempt to open the private table failed, for its owner alone."""
        self._keep_failure(attempt, text)

    def modes(self) -> AbstractContextManager[None]:
        """Make new files of a private place readable for their owner only."""
        return nullcontext()


@dataclass(kw_only=True, eq=False)
class FilePlace(Place):
    """The files of one release as the place of its draws.

    ==================  ==========================================================================
    ``draws/``          the outcomes of its draws; research keeps them in memory
    ``release.json``    which release it is, and the digest of its public tables
    ==================  ==========================================================================

    Parameters
    ----------
    store
        The files that these are among.
    release_id
        The release.
    root
        The folder of the draws.
    run, run_files
        The folder of the run, which is stored once, and the files that it is among: those of the
        folder of the release, or of its asset.
    spec, domain
        The release that may begin here; None for a step that only reads.
    private
        The private store, with the digest of the table of each release.
    restricted
        The release's own files that only readers of the private table may see: the causes of its
        failures, and the secret that chooses rows.
    """

    store: ReleaseFiles
    release_id: ReleaseId
    root: UPath
    run: UPath
    run_files: ReleaseFiles
    spec: ReleaseSpec | None = None
    domain: Domain | None = None
    private: ReleaseFiles | None = None
    restricted: ReleaseFiles | None = None

    def __post_init__(self) -> None:
        """Keep the draws of research in memory."""
        super().__init__()
        self._exact = self.spec is None or self.spec.exact
        if self._exact:
            self.outcomes = self._directory

    @property
    def name(self) -> str:
        """How messages name the place."""
        return f"the store ({self.store.place})"

    def modes(self) -> AbstractContextManager[None]:
        """Make new files of a private store readable for their owner only."""
        return self.store.modes()

    @property
    def _directory(self) -> DirectoryStore:
        return DirectoryStore(self.root / DRAWS)

    @property
    def _description(self) -> UPath:
        return self.root / DESCRIPTION

    @property
    def files(self) -> frozenset[str]:
        """The names of the outcomes' files."""
        return self._directory.files

    @property
    def has_begun(self) -> bool:
        """Whether charged draws are kept here, even if none was stored yet.

        A run that was killed after its first charge and before its first outcome leaves an empty
        folder, and resumes there. A removed folder does not count.
        """
        folder = self.root / DRAWS
        begun = folder.is_dir() if self.store.is_local else self._description.exists()
        return bool(begun)

    @property
    def has_drawn(self) -> bool:
        """Whether the outcome of any charged draw is here, or a run that made none."""
        if self.files:
            return True
        # A release is described before its run is written.
        described = self._description.exists()
        return described and self._has_run and not Transcript.load(self.run / "transcript").calls

    @property
    def _has_run(self) -> bool:
        """Whether the stored run is this release's."""
        found = identity_in(self.run) if self._exact else None
        return found is not None and found.release_id == self.release_id

    @property
    def has_contents(self) -> bool:
        """Whether a digest of the private records is kept; see `Place.has_contents`."""
        return self._kept_inputs().get("contents") is not None

    @property
    def specification(self) -> Mapping[str, Any]:
        """The specification of the release when it began; empty if it is not kept."""
        found = self._described_before().get("specification") if self._description.exists() else {}
        return dict(found or {})

    def binding(
        self, identity: str, template: str, table: str, *, make: bool
    ) -> SourceBinding | None:
        """Return the binding to a source by its identity; see `Place.binding`."""
        from jam_dagster.privacy.ledger.source_binding import SourceBinding

        secret = _given(self.private).secret(make=make)
        return SourceBinding.of(secret, identity, template=template, table=table)

    @property
    def has_row_secret(self) -> bool:
        """Whether the secret that decides which rows of a person are kept is here."""
        return self._kept_row_secret() is not None

    def row_secret(self) -> bytes:
        """Return the secret that decides which rows of a person are kept.

        It is kept for the edition and partition from the start of the release, so that a resumed
        release keeps the same rows.
        """
        return self._row_secret

    @cached_property
    def _row_secret(self) -> bytes:
        return self._kept_row_secret() or new_secret()

    def _kept_row_secret(self) -> bytes | None:
        secret = _given(self.restricted).read(self._row_secret_file) or b""
        # A damaged secret is not used: an empty one could be guessed.
        return secret if len(secret) == SECRET_BYTES else None

    @property
    def _row_secret_file(self) -> UPath:
        which = json.dumps([self.release_id.edition, self.release_id.partition])
        name = f"{hashlib.sha256(which.encode()).hexdigest()[:16]}.key"
        return _given(self.restricted).path_of("row_limit", name)

    def begin(self, public: Tables, contents: str | None, *, opened: bool, drawn: bool) -> None:
        """Record the inputs of the release, or check that they are still the same.

        With exact noise, digests of the inputs are kept in the private store: everybody who may
        write to the place could forge them there.
        """
        spec, domain, private = self.spec, self.domain, self.private
        if spec is None:
            raise AssertionError("a step that only reads outcomes begins no release")
        known, drawn = self._exact and opened, drawn if self._exact else self.has_drawn
        if known and contents is not None:
            secret = _given(private).secret()
            contents = keyed_contents(secret, self.release_id.digest, contents)
        described: dict[str, Any] = {
            "noise": spec.privacy.noise,
            "key": asdict(self.release_id) if spec.exact else None,
            "specification": spec.specified(domain),
            "public": digest_of(public) if public else None,
        }
        if domain is not None and domain.restricted:
            # The release's id covers any other.
            described["restricted_domain"] = json.loads(json.dumps(domain.to_dict()))
        content = (json.dumps(described, indent=2) + "\n").encode()
        if drawn:
            # A crash after the hash was kept leaves no description, or an older one.
            same = self.store.has_written(self._description, content)
            before = described if same else self._described_before()
            self._check_unchanged(before, described, contents, opened=opened)
        if known:
            kept = {"contents": contents, "public": described["public"]}
            _given(private).write(self._inputs_file, json.dumps(kept).encode())
        if known and spec.privacy.protection.unit is not None:
            # The release is claimed by this run, so no other run brings another secret meanwhile.
            _given(self.restricted).write(self._row_secret_file, self._row_secret)
        self.store.write(self._description, content)
        if self._exact:
            with self.modes():
                (self.root / DRAWS).mkdir(parents=True, exist_ok=True)

    @property
    def _inputs_file(self) -> UPath:
        return _given(self.private).path_of(CONTENTS_FOLDER, f"{self.release_id.digest}.json")

    def _kept_inputs(self) -> dict[str, Any]:
        """Return the digests of private records and of public tables; empty if they are lost."""
        private = _given(self.private)
        kept = private.read(self._inputs_file)
        if kept is None:
            return {}
        try:
            found = dict(json.loads(kept))
            check_keys(found, ("contents", "public"))
        except DAMAGE as fault:
            raise damaged(private.shown(self._inputs_file), fault) from None
        return found

    def check_public(self, digest: str | None) -> None:
        """Raise if the stored draws were made on another public table."""
        if self.has_drawn and self._described_before().get("public") != digest:
            raise self._changed(["public table"])

    def _check_unchanged(
        self,
        before: Mapping[str, Any],
        described: Mapping[str, Any],
        contents: str | None,
        *,
        opened: bool,
    ) -> None:
        changed = []
        # A private store can be lost. The ledger compares the number of records.
        kept = {"contents": contents, "public": before.get("public"), **self._kept_inputs()}
        if opened and kept["contents"] != contents:
            changed.append("private table")
        if kept["public"] != described["public"]:
            changed.append("public table")
        if before.get("restricted_domain") != described.get("restricted_domain"):
            changed.append("domain")
        if changed:
            raise self._changed(changed)

    def _described_before(self) -> dict[str, Any]:
        try:
            found = dict(json.loads(self.store.read(self._description) or b""))
        except JamError:
            raise
        except (OSError, ValueError, TypeError):
            raise InputError(
                f"{self.name} holds draws, and {DESCRIPTION}, which says of what, cannot be read:"
                " restore it from a copy. Nothing was charged."
            ) from None
        try:
            check_keys(found, _DESCRIBED)
        except TypeError as fault:
            raise damaged(self.store.shown(self._description), fault) from None
        return found

    def _changed(self, what: list[str]) -> InputError:
        return InputError(
            f"{self.name} holds draws of release {self.release_id.release}, edition "
            f"{self.release_id.edition}, with another {' and another '.join(what)}: "
            f"restore the old data, or {ANOTHER_EDITION}."
        )

    def finished(self) -> ReleaseRun | None:
        """Return the run if the mechanism has ended, None if it must still run.

        A run of another release, or one without its draws, does not count: running the mechanism
        again reuses the draws that are stored, and pays for the rest.
        """
        return read_run(self.run) if self._has_run and self.has_drawn else None

    def keep(self, run: ReleaseRun) -> None:
        """Keep the run, for a repeat of the release."""
        with self.run_files.modes():
            write_run(run, self.run)

    def keep_failure(self, attempt: str, text: str) -> None:
        """Keep why an attempt to open the private table failed, for its owner alone."""
        release_id = (
            asdict(self.release_id) if self._exact else {"release": self.release_id.release}
        )
        keep_failure(_given(self.restricted), failure_of(release_id), attempt, text)


def keep_failure(files: ReleaseFiles, header: bytes, attempt: str, text: str) -> None:
    """Append the reason why an attempt to open private data failed to the attempt's file.

    The file begins with `header`; see `jam_dagster.privacy.private_store.failure_of`.
    """
    path = files.path_of(FAILURES, f"{attempt}.txt")
    before = files.read(path) or header
    files.write(path, before + text.encode("utf-8", "backslashreplace"))


def _given(files: ReleaseFiles | None) -> ReleaseFiles:
    if files is None:
        raise AssertionError("a step that only reads outcomes has no secrets")
    return files


@dataclass(kw_only=True, eq=False)
class FolderPlace(FilePlace):
    """The folder of one release, which may already hold research and other files.

    `siblings` has the folders of other releases of the same ledger, as ``RELEASE/EDITION``.
    """

    folder: ReleaseFolder
    siblings: Path | None = None

    @property
    def name(self) -> str:
        """How messages name the place."""
        return self.folder.name

    def stored(self) -> Iterator[StoredDraws]:
        """Yield the stored draws of every release here; see `Place.stored`."""
        folders = {self.folder.path}
        if self.siblings is not None:
            folders |= {path.parent.resolve() for path in self.siblings.glob(f"*/*/{DESCRIPTION}")}
        for folder in sorted(folders):
            files = DirectoryStore(folder / DRAWS).files
            if files and (folder / DESCRIPTION).exists():
                yield StoredDraws(folder, files, str(folder / DRAWS))

    def check_free(self, public_digest: str | None) -> None:
        """Check that nothing of another release would be overwritten.

        Research can be repeated, so its folder may be reused. The folder of a charged release holds
        draws that were paid for, and belongs to that release alone.
        """
        # Outputs are looked for first: a concurrent run writes the description before them.
        name = self.folder.holds_output()
        if not self.folder.release.exists():
            if name is not None:
                raise InputError(
                    f"The release's folder {self.folder.path} (--out) already holds {name} and no "
                    f"{DESCRIPTION}, which a release has: name an empty or a new folder, or restore"
                    " that file from a copy."
                )
            return
        there = self.folder.described()
        if there["noise"] != "exact":
            return
        if not self._belongs:
            release_id = there["key"]
            partition = (
                f", partition {release_id['partition']}" if release_id.get("partition") else ""
            )
            raise InputError(
                f"The release's folder {self.folder.path} (--out) holds the charged release "
                f"{release_id['release']!r}, edition {release_id['edition']}{partition}, of "
                f"{release_id['dataset']!r}, made with "
                "other parameters, another domain or under another name: name a new folder or, "
                "where none was named, another release."
            )
        self.check_public(public_digest)

    @property
    def _belongs(self) -> bool:
        if not self._exact or not self.folder.release.exists():
            return False
        there = self.folder.described()
        return there["noise"] == "exact" and bool(there["key"] == asdict(self.release_id))

    def begin(self, public: Tables, contents: str | None, *, opened: bool, drawn: bool) -> None:
        """Claim the folder for this release, if its data are those of earlier draws.

        Only draws of this very release stay; other outputs are research, which must not be mistaken
        for paid results.
        """
        folder = self.folder
        with self.modes():
            folder.path.mkdir(parents=True, exist_ok=True)
        # A folder with other files that is named as --out keeps its mode.
        if not self._exact and (folder.release.exists() or not any(folder.path.iterdir())):
            folder.path.chmod(0o700)
        if not self._belongs:
            folder.discard()
        super().begin(public, contents, opened=opened, drawn=drawn)
        if self.domain is not None:
            folder.write_domain(self.domain)
