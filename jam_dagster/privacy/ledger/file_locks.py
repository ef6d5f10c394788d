"""Locks on a file itself, independent of its name and of the container that sees it.

They are open file description locks on bytes far beyond the file's end. SQLite's own locks are
below 2 GiB, so the two never meet. A lock file next to the ledger depends on a name, and so does
one that is named after the inode: two hard links need not share a folder, and two containers need
not share a temporary folder.

A lock needs a descriptor, and a process that closes any descriptor of a file loses all its POSIX
locks on that file, which SQLite uses. So a descriptor stays open until the last use of its file in
this process ends, and is used again until then; each connection to the file counts as a use.

A forked process shares the descriptions that its parent opened, and so their locks. It unlocks
none of them and takes no lock by them.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jam_dagster.common.operating_system import check_locks, lock_byte, unlock_bytes

_BEYOND = 1 << 62

FileId = tuple[int, int]
"""Device and inode: the system's own name of a file."""


@dataclass
class _Uses:
    count: int = 0
    descriptors: list[int] = field(default_factory=list)
    """Those that hold no lock."""


_guard = threading.Lock()
_uses: dict[FileId, _Uses] = {}


def file_id(path: Path) -> FileId:
    """Return the file that a path leads to."""
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def in_use(file: FileId) -> Iterator[None]:
    """Keep this process from closing a descriptor of a file; for connections to it."""
    with _guard:
        _uses.setdefault(file, _Uses()).count += 1
    try:
        yield
    finally:
        _end(file)


@contextmanager
def lockable(path: Path) -> Iterator[tuple[FileId, Callable[[str], bool]]]:
    """Open a file to lock it by names; the end of the block or of the process releases all locks.

    A process that was forked in the block also keeps them, until both have ended.

    It yields the file and a function that takes the lock of a name and returns whether it
    succeeded. Other openings, also of this process, cannot take a held lock.
    """
    check_locks()
    owner = os.getpid()
    with _guard:
        spare = _uses.get(file_id(path), _Uses()).descriptors
        descriptor = spare.pop() if spare else os.open(path, os.O_RDWR | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        file = found.st_dev, found.st_ino
        _uses.setdefault(file, _Uses()).count += 1
    try:
        yield file, lambda name: _take(descriptor, name)
    finally:
        if os.getpid() == owner:
            # Explicitly, since a forked process may hold the description open.
            unlock_bytes(descriptor)
            _end(file, descriptor)


def _leave_to_parent() -> None:
    for uses in _uses.values():
        uses.descriptors.clear()


if hasattr(os, "register_at_fork"):  # Windows has no forks.
    os.register_at_fork(after_in_child=_leave_to_parent)


def _take(descriptor: int, name: str) -> bool:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    return lock_byte(descriptor, _BEYOND + place)


def _end(file: FileId, *descriptors: int) -> None:
    with _guard:
        uses = _uses[file]
        uses.count -= 1
        uses.descriptors.extend(descriptors)
        if uses.count:
            return
        del _uses[file]
        for descriptor in uses.descriptors:
            os.close(descriptor)
