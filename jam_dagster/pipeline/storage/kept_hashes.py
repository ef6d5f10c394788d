"""The hashes of released files, kept in the private store as the files are written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jam_dagster.certificates.issue import sha256_of
from jam_dagster.common.files import copy_whole, open_plain
from jam_dagster.common.redaction import redacted
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath


@dataclass(frozen=True)
class KeptHashes:
    """The SHA-256 of the files of a releasable store, where its writers cannot change them.

    The hashes of ``<root>/<path>`` are in ``<private root>/<path>.sha256``: that of a file, or that
    of each file of an asset, whose path has no suffix. `keep_file` writes to the private store,
    whose root is `at`.
    """

    keep_file: Callable[[UPath, bytes], None]
    at: UPath
    root: UPath

    def of(self, path: UPath) -> dict[str, str]:
        """Return the SHA-256 of each file at `path`, by its path from the folder of `path`."""
        kept = self._file(path)
        with redacted("reading the hashes of released files"):
            return dict(json.loads(kept.read_text())) if kept.exists() else {}

    def keep(self, path: UPath, hashes: Mapping[str, str]) -> None:
        """Keep the hashes of what is written at `path`, in place of those of what was there."""
        self.keep_file(self._file(path), json.dumps(dict(hashes)).encode())

    def write(self, path: UPath, made: UPath, *, last: str) -> None:
        """Copy a file or a folder that this process has made to where it belongs, next to `path`.

        `last` is the file of a folder that is not there unless all others are; empty for a file.
        """
        inside = sorted(one for one in made.rglob("*") if one.is_file()) if last else [made]
        inside.sort(key=lambda one: one.name == last)
        files = {str(one.relative_to(made.parent)): one for one in inside}
        stale = [name for name in self.of(path) if name not in files]
        for name in [*stale, *([f"{made.name}/{last}"] if last else [])]:
            (path.parent / name).unlink(missing_ok=True)
        for name, file in files.items():
            (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
            copy_whole(file, path.parent / name)
        self.keep(path, {name: sha256_of(file) for name, file in files.items()})

    def copy(self, path: UPath, folder: Path, asset: str) -> str:
        """Copy what was written at `path` to a folder of this process; return its name there.

        Other files in the store count for nothing. A file that is missing or another one, or of
        which no hash is kept, is an InputError.
        """
        hashes = self.of(path)
        if not hashes:
            raise InputError(
                f"{asset} in the store of releases has no hash in the private store: an earlier"
                " version or another code location made it, or somebody put it there. Materialize"
                f" {asset} again, which costs nothing."
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
                    f" changed since. Materialize {asset} again, which costs nothing."
                )
        return next(iter(hashes)).partition("/")[0]

    def _file(self, path: UPath) -> UPath:
        below = self.at.joinpath(*path.parts[len(self.root.parts) :])
        return below.with_name(f"{below.name}.sha256")
