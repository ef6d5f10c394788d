"""Private copies in a store: their kind, their age, and their removal.

A copy is known by what its own release wrote, never by its name alone. Other files, such as the
keys that a release needs to resume, are listed and never removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath

FAILURES = "failures"
"""The folder of the causes of failed attempts to open private data, in a private store."""

KEPT_DAYS = 30
"""Days for which a private copy is kept after it was written."""

CopyKind = Literal["statistics", "failure", "unfinished", "other"]

_FAILURE = b"jam_dagster.failure "
_FAILURE_LINE = 4096
"""Bytes read of the cause of a failure: only the line that names its release."""

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}")
_RELEASE_FIELDS = ("dataset", "release", "partition", "edition")
_STATISTICS = ("errors.json", "report.html")


@dataclass(frozen=True)
class PrivateCopy:
    """One file of a private store, for readers of the private table only.

    A `kind` of ``statistics`` is exact statistics of a private table; ``failure`` is the cause of a
    failed attempt to open it, which quotes values; ``unfinished`` is what a killed run was writing;
    ``other`` is anything else, which is never removed. A release that needs one of the others makes
    it again. `release` says whose the copy is, by field of its key; it may be empty.
    """

    path: Path | UPath
    name: str
    kind: CopyKind
    size: int
    written: datetime
    release: Mapping[str, str]

    @property
    def due(self) -> datetime | None:
        """When it has been kept for `KEPT_DAYS`; None if it is never removed."""
        return None if self.kind == "other" else self.written + timedelta(days=KEPT_DAYS)

    def is_removable(self, now: datetime, *, due: bool) -> bool:
        """Whether it may be removed; with `due`, only if it is due.

        A process may still be writing an unfinished file that is young.
        """
        if self.due is None:
            return False
        return self.due <= now or not (due or self.kind == "unfinished")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``private list --json``."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "bytes": self.size,
            "written": self.written.isoformat(timespec="seconds"),
            **{field: self.release.get(field, "") for field in _RELEASE_FIELDS},
            "due": None if self.due is None else self.due.isoformat(timespec="seconds"),
        }


def failure_of(key: Mapping[str, str]) -> bytes:
    """Return the first line of a failure's file, which names the release."""
    fields = {name: key[name] for name in _RELEASE_FIELDS if name in key}
    return _FAILURE + json.dumps(fields).encode() + b"\n\n"


def copies_in_store(root: Path | UPath) -> list[PrivateCopy]:
    """Return the copies in a private store of Dagster, in the order of their paths.

    Links are not followed.
    """
    if not root.is_dir():
        raise InputError(f"{root} is no folder: name the root of the private store.")
    return [_copy(path, name) for path, name in _files(root)]


def copies_in_folder(folder: Path) -> list[PrivateCopy]:
    """Return the restricted copies in the release folder that ``--out`` of a command named."""
    restricted = folder / "restricted"
    try:
        key = _strings(json.loads((folder / "release.json").read_text())["key"] or {})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A release that never read its private table has left the cause, and nothing else.
        key = None
        if not (restricted / FAILURES).is_dir():
            raise InputError(
                f"{folder} holds no release.json that can be read: name the --out of a release."
            ) from None
    found = []
    for path, name in _files(restricted):
        one = _copy(path, f"{restricted.name}/{name}")
        if key is not None and name in _STATISTICS and not _is_link(path):
            one = replace(one, kind="statistics", release=key)
        found.append(one)
    return found


def _strings(key: Mapping[str, Any]) -> dict[str, str]:
    return {field: str(key.get(field, "")) for field in _RELEASE_FIELDS}


def _files(root: Path | UPath) -> Iterator[tuple[Path | UPath, str]]:
    """Yield the files below a folder, each with its path below it; links are not followed."""
    if isinstance(root, Path):
        for folder, inner, names in os.walk(root):
            inner.sort()
            for name in sorted(names):
                path = Path(folder) / name
                yield path, path.relative_to(root).as_posix()
        return
    # The listing must include the latest changes of other processes.
    root.fs.invalidate_cache()
    within = root.fs._strip_protocol(root.path).strip("/")
    for found in sorted(root.fs.find(root.path)):
        name = str(found).strip("/").removeprefix(within).strip("/")
        yield root / name, name


def _is_link(path: Path | UPath) -> bool:
    return isinstance(path, Path) and path.is_symlink()


def _copy(path: Path | UPath, name: str) -> PrivateCopy:
    if isinstance(path, Path):
        status = path.lstat()
        size, written = status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)
    else:
        size, written = int(path.fs.size(path.path) or 0), path.fs.modified(path.path)
        # Some file systems return it without a zone, in UTC.
        written = written if written.tzinfo else written.replace(tzinfo=UTC)
    one = PrivateCopy(path, name, "other", size, written, {})
    if _is_link(path):
        # The target of a link is elsewhere, and may belong to another owner.
        return one
    if _PARTIAL.fullmatch(path.name):
        return replace(one, kind="unfinished")
    release = _failed_release(path) if path.name.endswith(".txt") else None
    return one if release is None else replace(one, kind="failure", release=release)


def _failed_release(path: Path | UPath) -> dict[str, str] | None:
    """Return the release that a failure's file names, None if it is not such a file."""
    try:
        with path.open("rb") as file:
            line = file.readline(_FAILURE_LINE)
        fields = json.loads(line.removeprefix(_FAILURE)) if line.startswith(_FAILURE) else None
    except (OSError, ValueError):
        return None
    return _strings(fields) if isinstance(fields, Mapping) else None


def remove(one: PrivateCopy) -> bool:
    """Remove a copy unless it was written again meanwhile; return whether it was removed."""
    if one.kind == "other":
        raise InputError(f"{one.path} is kept: it is not a private copy that a release left here.")
    if not one.path.exists():
        return False
    now = _copy(one.path, one.name)
    if (now.size, now.written) != (one.size, one.written):
        return False
    one.path.unlink()
    return True
