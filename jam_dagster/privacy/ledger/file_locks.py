"""Locks on a file itself: whatever its name is, and wherever a container sees it.

They are open file description locks on bytes far beyond the file's end, where SQLite, whose own
locks lie below 2 GiB, never looks. A lock file beside the ledger would go by a name, and so would
one that is named after the inode: two hard links need not share a folder, nor two containers a
temporary one.

A lock needs a descriptor, and a process that closes any descriptor of a file loses all the POSIX
locks it has on that file: those of SQLite. So a descriptor is closed no sooner than the last use of
its file in this process ends, and each connection to the file counts as one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_BEYOND = 1 << 62

FileId = tuple[int, int]
"""Device and inode: what a file is called by the system alone."""


@dataclass
class _Uses:
    count: int = 0
    descriptors: list[int] = field(default_factory=list)


_guard = threading.Lock()
_uses: dict[FileId, _Uses] = {}


def file_id(path: Path) -> FileId:
    """Return which file a path leads to.

    Raises
    ------
    OSError
        If it leads to none.
    """
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
    """Open a file to lock it by names; all locks are let go at the end, or with the process.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    tuple of FileId and callable
        Which file it is, and what takes the lock of a name and returns whether it could be had.
        Other openings, of this process too, cannot have it meanwhile.

    Raises
    ------
    OSError
        If the file cannot be opened for writing.
    """
    with _guard:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        found = os.fstat(descriptor)
        file = found.st_dev, found.st_ino
        _uses.setdefault(file, _Uses()).count += 1
    try:
        yield file, lambda name: _take(descriptor, name)
    finally:
        # By word, since a forked process may hold the description open.
        _set(descriptor, fcntl.F_UNLCK, 0, 0)
        _end(file, descriptor)


def _take(descriptor: int, name: str) -> bool:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    try:
        _set(descriptor, fcntl.F_WRLCK, _BEYOND + place, 1)
    except BlockingIOError:
        return False
    return True


def _set(descriptor: int, kind: int, start: int, length: int) -> None:
    """Lock or unlock bytes; length 0 stands for all."""
    if sys.platform == "darwin":
        # Its headers have the lock, Python's module does not.
        asked = struct.pack("qqihh", start, length, 0, kind, os.SEEK_SET)
        fcntl.fcntl(descriptor, 90, asked)
    else:
        # struct flock of Linux, padded to its size.
        asked = struct.pack("hhqqi0q", kind, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, asked)


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
