"""The files of releases below one root: written whole, with their modes, and read as written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.files import (
    OWNER_ONLY,
    check_plain,
    copy_whole,
    open_plain,
    owner_only,
    write_once,
    write_whole,
)
from jam_dagster.common.redaction import redacted
from jam_dagster.common.variables import with_names
from jam_dagster.errors import InputError, JamError, SourceError
from jam_dagster.tables.codes.privacy_unit import new_secret

if TYPE_CHECKING:
    from upath import UPath

PRIVATE_DIRECTORY = 0o700

_REMEDY = "Materialize {asset} again, which costs nothing."


class ReleaseFiles:
    """The files below a root, on a local disk or in an object store.

    The SHA-256 of what is written is kept in another root, which the writers of this one cannot
    change: that of ``<root>/<path>`` in ``<hashes_in>/<path>.sha256``.

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
        The private files that keep the hashes; None: nobody vouches for what is read.
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
        """Return a path below the root, once neither it nor what is in it leads elsewhere.

        A private root is its owner's alone, and on an object store there are no links.
        """
        if self.is_local and not self.private:
            try:
                check_plain(Path(str(self.root)), Path(str(path)))
            except InputError as error:
                raise InputError(self.shown(error)) from None
        return path

    def write(self, path: UPath, content: bytes) -> None:
        """Write a file, whole or not at all, with the modes of this root."""
        self.plain(path)
        with self.guarded(f"writing {path.name}"):
            self.make_directory(path.parent)
            with self.modes():
                write_whole(path, content)
        self.close(path)
        if self.hashes_in is not None:
            self._keep(path, {path.name: sha256(content).hexdigest()})

    def write_made(self, path: UPath, made: UPath, *, last: str) -> None:
        """Copy a file or a folder that this process has made to where it belongs, next to `path`.

        `last` is the file of a folder that is not there unless all others are; empty for a file.
        """
        inside = sorted(one for one in made.rglob("*") if one.is_file()) if last else [made]
        inside.sort(key=lambda one: one.name == last)
        files = {str(one.relative_to(made.parent)): one for one in inside}
        stale = [name for name in self.hashes_of(path) if name not in files]
        for name in [*stale, *([f"{made.name}/{last}"] if last else [])]:
            (path.parent / name).unlink(missing_ok=True)
        for name, file in files.items():
            (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
            copy_whole(file, path.parent / name)
        self._keep(path, {name: sha256_of(file) for name, file in files.items()})

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

    def hashes_of(self, path: UPath) -> dict[str, str]:
        """Return the SHA-256 of each file at `path`, by its path from the folder of `path`."""
        _, kept = self._kept(path)
        with redacted("reading the hashes of released files"):
            return dict(json.loads(kept.read_text())) if kept.exists() else {}

    def _keep(self, path: UPath, hashes: Mapping[str, str]) -> None:
        """Keep the hashes of what is written at `path`, in place of those of what was there."""
        keeper, kept = self._kept(path)
        keeper.write(kept, json.dumps(dict(hashes)).encode())

    def _kept(self, path: UPath) -> tuple[ReleaseFiles, UPath]:
        """Return who keeps the hashes of what is at `path`, and the file."""
        if self.hashes_in is None:
            raise AssertionError("nobody keeps hashes of these files")
        below = self.hashes_in.root.joinpath(*path.parts[len(self.root.parts) :])
        return self.hashes_in, below.with_name(f"{below.name}.sha256")

    def secret(self, *parts: str) -> bytes:
        """Return a random secret of private files: made the first time, and then kept there."""
        path = self.path_of(*parts)
        if not path.exists():
            self.make_directory(path.parent)
            with self.modes():
                write_once(path, new_secret())
        with self._named("reading a secret"):
            found = bytes(path.read_bytes())
        if len(found) != len(new_secret()):
            raise SourceError(
                f"The secret {'/'.join(parts)} of the private store is damaged: restore it from a"
                " copy. Nothing was opened and nothing charged."
            )
        return found

    def make_directory(self, path: UPath) -> None:
        """Make a folder; a private one is closed to others from the root down."""
        with self._named("making a folder"):
            if not self.closed_to_others:
                path.mkdir(parents=True, exist_ok=True)
                return
            below = [path, *path.parents]
            for folder in reversed(below[: below.index(self.root) + 1]):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(PRIVATE_DIRECTORY)

    def modes(self) -> AbstractContextManager[None]:
        """Let new private files be their owner's only, from the moment they exist.

        For code that writes files below the root by itself.
        """
        return owner_only() if self.closed_to_others else nullcontext()

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
            said = self.shown(error)
            if said == str(error):
                raise
            # The original, with the place in it, is not chained.
            raise SourceError(f"{what} failed: {said}") from None


def safe_part(part: str) -> str:
    """Return a part of a path that neither begins at the root nor leads upward."""
    below = "%2F" + part[1:] if part.startswith("/") else part
    return "/".join("%2E%2E" if one == ".." else one for one in below.split("/"))
