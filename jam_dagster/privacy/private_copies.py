"""Private copies in a store: their release, and when they may be removed.

A copy is known by what its own release wrote, never by its name alone. Other files are listed and
never removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jam_dagster.errors import BudgetError, InputError

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy.ledger.journal import Event
    from jam_dagster.privacy.ledger.ledger import Ledger

FAILURES = "failures"
"""The folder of the causes of failed attempts to open private data, in a private store."""

KEPT_DAYS = 30
"""Days for which a private copy is kept after its release has ended and it was written."""

CopyKind = Literal["statistics", "failure", "unfinished", "other"]

_FAILURE = b"jam_dagster.failure "
_FAILURE_LINE = 4096
"""Bytes read of the cause of a failure: only the line that names its release."""

_PARTIAL = re.compile(r"\..+\.[0-9a-f]{32}")
_PARTIAL_AGE = timedelta(days=1)
"""A file that is still being written is younger than this."""

_RELEASE_FIELDS = ("dataset", "release", "partition", "edition")

_STATISTICS = ("errors.json", "report.html")


@dataclass(frozen=True)
class PrivateCopy:
    """One file of a private store, for readers of the private table only.

    Of `kind`, ``statistics`` are exact statistics of a private table; ``failure`` is the cause of a
    failed attempt to open it, which quotes values; ``unfinished`` the remains of a run that was
    killed while it wrote; ``other`` anything else, such as the keys that choose rows, which is
    never removed. The release is empty if the file does not name it. Research with seeded noise has
    no ledger and never resumes.
    """

    path: Path | UPath
    name: str
    kind: CopyKind
    size: int
    written: datetime
    dataset: str = ""
    release: str = ""
    partition: str = ""
    edition: str = ""
    research: bool = False


@dataclass(frozen=True)
class Judged:
    """A private copy, and whether it may be removed.

    `kept_because` is empty if it may be removed; it is due at the time `due`.
    """

    copy: PrivateCopy
    due: datetime | None = None
    kept_because: str = ""

    def is_due(self, now: datetime) -> bool:
        """Whether it may be removed and has been kept for `KEPT_DAYS`."""
        return not self.kept_because and self.due is not None and self.due <= now

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for ``private list --json``."""
        one = self.copy
        return {
            "path": str(one.path),
            "kind": one.kind,
            "bytes": one.size,
            "written": one.written.isoformat(timespec="seconds"),
            "dataset": one.dataset,
            "release": one.release,
            "partition": one.partition,
            "edition": one.edition,
            "due": None if self.due is None else self.due.isoformat(timespec="seconds"),
            "removable": not self.kept_because,
            "kept_because": self.kept_because,
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
    """Return the restricted copies in the release folder of a command-line run.

    `folder` is what ``--out`` named.
    """
    restricted = folder / "restricted"
    try:
        key = json.loads((folder / "release.json").read_text())["key"] or {}
        fields: dict[str, Any] = {name: str(key.get(name, "")) for name in _RELEASE_FIELDS}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # A release that never read its private table has left the cause, and nothing else.
        if not (restricted / FAILURES).is_dir():
            raise InputError(
                f"{folder} holds no release.json that can be read: name the --out of a release."
            ) from None
        return [_copy(path, f"{restricted.name}/{name}") for path, name in _files(restricted)]
    if not key:
        fields["release"] = folder.name
    found = []
    for path, name in _files(restricted) if restricted.is_dir() else ():
        one = _copy(path, f"{restricted.name}/{name}")
        if one.kind == "other" and name in _STATISTICS and not _is_link(path):
            one = replace(one, kind="statistics", **fields, research=not key)
        found.append(one)
    return found


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
        size, written = int(path.fs.size(path.path) or 0), _modified(path)
    one = PrivateCopy(path, name, "other", size, written)
    if _is_link(path):
        # The target of a link is elsewhere, and may belong to another owner.
        return one
    if _PARTIAL.fullmatch(path.name):
        return replace(one, kind="unfinished", release=name.split("/")[0])
    fields = _failed_release(path) if path.name.endswith(".txt") else None
    return one if fields is None else replace(one, kind="failure", **fields)


def _failed_release(path: Path | UPath) -> dict[str, Any] | None:
    """Return the release that a failure's file names, None if it is not such a file."""
    try:
        with path.open("rb") as file:
            line = file.readline(_FAILURE_LINE)
        fields = json.loads(line.removeprefix(_FAILURE)) if line.startswith(_FAILURE) else None
    except (OSError, ValueError):
        return None
    if not isinstance(fields, Mapping):
        return None
    return {field: str(fields.get(field, "")) for field in _RELEASE_FIELDS}


def _modified(path: UPath) -> datetime:
    found: datetime = path.fs.modified(path.path)
    # Some file systems return it without a zone, in UTC.
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def judged(copies: Iterable[PrivateCopy], ledger: Ledger | None, now: datetime) -> list[Judged]:
    """Return for each copy whether it may be removed.

    Without a ledger, no copy that a release may still need is removable. Of a ledger that has
    moved, only the moved one knows which copies are needed: a `BudgetError`.
    """
    ends = {} if ledger is None else _ends(ledger)
    return [_judge(one, None if ledger is None else ends, now) for one in copies]


_Which = tuple[str, str, str, str]


def _ends(ledger: Ledger) -> dict[_Which, datetime | None]:
    """Return when each release ended, under all its specifications; None while one is open."""
    if place := ledger.moved_to:
        raise BudgetError(
            f"the ledger {ledger.location} has moved to {place}: name that one, which knows "
            "which copies are still needed"
        )
    from jam_dagster.privacy.ledger.journal import Kind
    from jam_dagster.privacy.ledger.state import states_of

    journals: dict[Any, list[Event]] = {}
    for event in ledger.events():
        if event.key is not None and event.moves_amount:
            journals.setdefault(event.key, []).append(event)
    ends: dict[_Which, datetime | None] = {}
    for key, journal in journals.items():
        which = (key.dataset, key.release, key.partition, key.edition)
        closed = all(share.closed for share in states_of(journal).values())
        at = max(event.at for event in journal if event.kind == Kind.CLOSED) if closed else ""
        ended = datetime.fromisoformat(at) if at else None
        before = ends.get(which, ended)
        ends[which] = None if ended is None or before is None else max(ended, before)
    return ends


def _judge(
    copy: PrivateCopy, ends: Mapping[_Which, datetime | None] | None, now: datetime
) -> Judged:
    ended: datetime | None = copy.written
    if copy.kind == "other":
        return Judged(copy, kept_because="it is not a private copy that a release left here")
    if copy.kind == "unfinished" and copy.written + _PARTIAL_AGE > now:
        return Judged(copy, kept_because="a process may be writing it")
    # No release resumes from the cause of a failure.
    if copy.kind == "statistics" and not copy.research:
        if ends is None:
            return Judged(copy, kept_because="only its ledger knows whether it is still needed")
        which = (copy.dataset, copy.release, copy.partition, copy.edition)
        if which not in ends:
            return Judged(copy, kept_because="the ledger knows no such release")
        ended = ends[which]
    if ended is None:
        return Judged(copy, kept_because="its release has not ended, and needs it to resume")
    # A copy that was written later, for a repeat, is kept as long.
    return Judged(copy, max(ended, copy.written) + timedelta(days=KEPT_DAYS))


def remove(one: Judged) -> bool:
    """Remove a copy unless it was written again meanwhile; return whether it was removed."""
    if one.kept_because:
        raise InputError(f"{one.copy.path} is kept: {one.kept_because}.")
    path = one.copy.path
    if not path.exists():
        return False
    now = _copy(path, one.copy.name)
    if (now.size, now.written) != (one.copy.size, one.copy.written):
        return False
    path.unlink()
    return True
