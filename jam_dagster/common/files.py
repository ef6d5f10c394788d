"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath


OWNER_ONLY = 0o600
"""The mode of a file with private values or their exact statistics: readable by its owner only."""


MOST_TEXT_BYTES = 2**26
"""The most bytes that are read of a file of JSON, YAML or HTML, which a stranger may have made."""


def read_text_bytes(path: Path | UPath) -> bytes:
    """Return the content of a file that is to be parsed."""
    with path.open("rb") as file:
        content: bytes = file.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise InputError(
            f"{path} is larger than the {MOST_TEXT_BYTES:,} bytes that are read: it is no file of "
            "a release. Restore it."
        )
    return content


def check_folder(folder: Path) -> None:
    """Check that a folder can be written or created, without leaving a trace.

    It writes a test file: permissions alone do not show read-only disks, and do not bind a
    superuser.
    """
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(folder)) from error


def write_once(path: Path | UPath, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole, as `write_whole` does, unless it exists already."""
    if not isinstance(path, Path):
        write_whole(path, content)
        return
    mine = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    write_whole(mine, content, mode=mode)
    try:
        os.link(mine, path)
    except FileExistsError:
        pass
    except OSError:
        # Not every file system has links.
        mine.replace(path)
    mine.unlink(missing_ok=True)


def write_whole(path: Path | UPath, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that a crash leaves either the whole file, synced to disk, or none."""
    if not isinstance(path, Path):
        path.write_bytes(content)
        return
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        # On a full disk, an unfinished draft would take the remaining room.
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
