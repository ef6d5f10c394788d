"""The files of releases below one root: written whole, with their modes, and read as written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from copy import copy
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.files import (
    OWNER_ONLY,
    WITHOUT_ROOM,
    check_plain,
    copy_whole,
    open_plain,
    owner_only,
    write_whole,
)
from jam_dagster.common.redaction import redacted
from jam_dagster.common.variables import with_names
from jam_dagster.errors import FullDiskError, InputError, JamError, SourceError, SpecificationError
from jam_dagster.privacy.private_store import stored_secret, unusable

if TYPE_CHECKING:
    from upath import UPath

PRIVATE_DIRECTORY = 0o700

_REMEDY = "Materialize {asset} again, which costs nothing."


class ReleaseFiles:
    """The files below a root, on a local disk or in an object store.

    The SHA-256 of what is written is kept in another root, which the writers of this one cannot
    change: that of ``<root>/<path>`` in ``<hashes_in>/<path>.sha256``. It is kept before the file
    is written: a crash leaves a file that is missing or has another hash, never an unknown one.

    Parameters
    ----------
    root
        The folder or URL.
    private
        Whether only its owner may see it: on a local disk folders get mode 0700 and files 0600, and
        errors are stripped of what they quote.
    configured
        The root where it names environment variables: messages show their names. Empty: it names
        none.
    hashes_in
        The private files that keep the hashes; None: this process alone knows what it wrote, and
        nothing vouches for what others did.
    """

    def __init__(
        self,
        root: UPath,
        *,
        private: bool,
        configured: str = "",
        hashes_in: ReleaseFiles | None = None,
    ) -> None:
        self.root = root
        self.private = private
        self.hashes_in = hashes_in
        self._configured = configured
        self._closed_from = root
        # A private root is its owner's alone, and on an object store there are no links.
        self._plain_from = root if self.is_local and not private else None
        self._written: dict[Path | UPath, dict[str, str]] = {}

    def below(self, *parts: str, private: bool = False) -> ReleaseFiles:
        """Return the files of a folder below; `private` closes it to others from there down."""
        inner = copy(self)
        inner.root, inner.hashes_in, inner._written = self.path_of(*parts), None, {}
        if private and not self.private:
            inner.private, inner._closed_from = True, inner.root
        return inner

    @property
    def place(self) -> str:
        """The root as messages show it."""
        return self._configured or str(self.root)

    def shown(self, text: object) -> str:
        """Return a path, or a message, with the names of the variables that the root names."""
        return with_names(str(text), self._configured)

    @property
    def is_local(self) -> bool:
        """Whether the root is on a local disk, where files have modes."""
        return isinstance(self.root, Path)

    @property
    def closed_to_others(self) -> bool:
        """Whether folders and files get the modes of their owner alone."""
        return self.private and self.is_local

    def path_of(self, *parts: str) -> UPath:
        """Return a path below the root, which no part leads out of."""
        return self.root.joinpath(*map(safe_part, parts))

    def plain(self, path: UPath) -> UPath:
        """Return a path below the root, once neither it nor what is in it leads elsewhere."""
        if self._plain_from is not None:
            try:
                check_plain(Path(str(self._plain_from)), Path(str(path)))
            except InputError as error:
                raise InputError(self.shown(error)) from None
        return path

    def write(self, path: UPath, content: bytes) -> None:
        """Write a file, whole or not at all, with the modes of this root."""
        self.plain(path)
        if not self.private:
            self.vouch(path, {path.name: sha256(content).hexdigest()})
        with self.guarded(f"writing {path.name} to {self.place}"):
            self.make_directory(path.parent)
            with self.modes():
                write_whole(path, content)
        self.close(path)

    def read(self, path: UPath) -> bytes | None:
        """Return the content of a file as it was written; None if there is none.

        Raises
        ------
        InputError
            If its hash is kept, and is another one.
        """
        self.plain(path)
        root = self._plain_from
        try:
            with path.open("rb") if root is None else open_plain(root, path) as file:
                content = bytes(file.read())
        except (FileNotFoundError, NotADirectoryError):
            return None
        if self.hashes_of(path) and not self.has_written(path, content):
            raise InputError(
                f"{self.shown(path)} is not what was written there: somebody changed it since."
                " Restore it from a copy. Nothing was charged."
            )
        return content

    def has_written(self, path: UPath, content: bytes) -> bool:
        """Whether the kept hash of a file is that of a content."""
        return self.hashes_of(path).get(path.name) == sha256(content).hexdigest()

    def write_made(self, path: UPath, made: UPath, *, last: str) -> None:
        """Copy a file or a folder that this process has made to where it belongs, next to `path`.

        `last` is the file of a folder that is not there unless all others are; empty for a file.
        """
        inside = sorted(one for one in made.rglob("*") if one.is_file()) if last else [made]
        inside.sort(key=lambda one: one.name == last)
        files = {str(one.relative_to(made.parent)): one for one in inside}
        stale = [name for name in self.hashes_of(path) if name not in files]
        self.vouch(path, {name: sha256_of(file) for name, file in files.items()})
        for name in [*stale, *([f"{made.name}/{last}"] if last else [])]:
            (path.parent / name).unlink(missing_ok=True)
        for name, file in files.items():
            (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
            copy_whole(file, path.parent / name)

    def copy(self, path: UPath, folder: Path, asset: str) -> str:
        """Copy what was written at `path` to a folder of this process; return its name there.

        Other files below the root count for nothing.

        Raises
        ------
        InputError
            If a file is missing or another one, or no hash of it is kept.
        """
        again = _REMEDY.format(asset=asset)
        hashes = self.hashes_of(path)
        if not hashes:
            raise InputError(
                f"{asset} in the store of releases has no hash in the private store: an earlier"
                " version or another code location made it, or somebody put it there."
                f" {again}"
            )
        if not next(iter(hashes)).startswith(path.name):
            raise InputError(
                f"{asset} in the store of releases is not of {path.name!r}: the store ignores case,"
                " and another release or partition has the same name but for that. Name them apart,"
                " or give them stores of their own."
            )
        for name, kept in hashes.items():
            own = folder / name
            own.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open_plain(self.root, path.parent / name) as file, own.open("wb") as copied:
                    shutil.copyfileobj(file, copied)
                found = sha256_of(own)
            except (FileNotFoundError, NotADirectoryError):
                found = ""
            if found != kept:
                raise InputError(
                    f"{asset} in the store of releases is not what its step wrote: {name} was"
                    f" changed since. {again}"
                )
        return next(iter(hashes)).partition("/")[0]

    def hashes_of(self, path: Path | UPath) -> dict[str, str]:
        """Return the SHA-256 of each file at `path`, by its path from the folder of `path`."""
        if self.hashes_in is None:
            return self._written.get(path, {})
        kept = self._kept(self.hashes_in, path)
        with redacted("reading the hashes of released files"):
            return dict(json.loads(kept.read_text())) if kept.exists() else {}

    def vouch(self, path: UPath, hashes: Mapping[str, str]) -> None:
        """Keep the hashes of what is written at `path`, in place of those of what was there."""
        if self.hashes_in is None:
            self._written[path] = dict(hashes)
        else:
            kept = self._kept(self.hashes_in, path)
            self.hashes_in.write(kept, json.dumps(dict(hashes)).encode())

    def _kept(self, keeper: ReleaseFiles, path: Path | UPath) -> UPath:
        """Return the file that keeps the hashes of what is at `path`."""
        below = keeper.root.joinpath(*path.parts[len(self.root.parts) :])
        return below.with_name(f"{below.name}.sha256")

    def secret(self, *, make: bool = True) -> bytes:
        """Return the secret that binds sources; see `stored_secret`."""
        try:
            if make:
                self.make_directory(self.root)
            return stored_secret(self.root, make=make)
        except OSError as error:
            raise SpecificationError(self.shown(unusable(self.root, error))) from None
        except SpecificationError as error:
            raise SpecificationError(self.shown(error)) from None

    def make_directory(self, path: UPath) -> None:
        """Make a folder; a private one is closed to others from the root down."""
        with self._named("making a folder"):
            if not self.closed_to_others:
                path.mkdir(parents=True, exist_ok=True)
                return
            below = [path, *path.parents]
            for folder in reversed(below[: below.index(self._closed_from) + 1]):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(PRIVATE_DIRECTORY)

    @contextmanager
    def modes(self) -> Iterator[None]:
        """Let new private files be their owner's only, from the moment they exist.

        For code that writes files below the root by itself. If one that may leave finds no room,
        the error names the root.
        """
        try:
            with owner_only() if self.closed_to_others else nullcontext():
                yield
        except OSError as error:
            self._check_room(error)
            raise

    def _check_room(self, error: Exception) -> None:
        """Raise in place of an error if a file below the root, which may leave, found no room."""
        if self.private or not isinstance(error, OSError) or error.errno not in WITHOUT_ROOM:
            return
        # Not every function says which file it was.
        if error.filename is not None and Path(str(error.filename)).is_relative_to(str(self.root)):
            # The original, with the path in it, is not chained.
            raise FullDiskError(
                f"There is no room in {self.place} ({os.strerror(error.errno)}): free some, and run"
                " again. No stored draw is paid for again."
            ) from None

    def close(self, path: Any) -> None:
        """Close a private file or folder that was there before with other modes."""
        if not self.closed_to_others:
            return
        for one in (path, *(path.iterdir() if path.is_dir() else ())):
            one.chmod(PRIVATE_DIRECTORY if one.is_dir() else OWNER_ONLY)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Withhold what errors say while something private is in hand.

        For what may leave they show the names of variables, not their values.
        """
        # Arrow's error about a column that it cannot write quotes a value of it.
        if self.private:
            with redacted(what):
                yield
            return
        with self._named(what):
            yield

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Make errors show the names of the root's variables, not their values."""
        try:
            yield
        except JamError:
            raise
        except Exception as error:
            self._check_room(error)
            said = self.shown(error)
            if said == str(error):
                raise
            # The original, with the place in it, is not chained.
            raise SourceError(f"{what} failed: {said}") from None


def safe_part(part: str) -> str:
    """Return a part of a path that neither begins at the root nor leads upward."""
    below = "%2F" + part[1:] if part.startswith("/") else part
    return "/".join("%2E%2E" if one == ".." else one for one in below.split("/"))
