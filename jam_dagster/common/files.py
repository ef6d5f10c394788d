"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upath import UPath


OWNER_ONLY = 0o600
"""The mode of a file of private values or exact statistics of them: its owner's alone."""


def check_folder(folder: Path) -> None:
    """Check that files can be made in a folder, or that it can be made; leave no trace.

    It tries: permissions alone do not tell of read-only disks, nor bind a superuser.

    Parameters
    ----------
    folder
        The folder; neither it nor those above it need exist.

    Raises
    ------
    OSError
        If it cannot, with the folder that refuses.
    """
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(folder)) from error


def write_once(path: Path | UPath, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole, as `write_whole` does, unless somebody else was first.

    Parameters
    ----------
    path
        The file, in a folder that exists. Of two writers at once to an object store the last one
        stays.
    content
        All that the file is to hold.
    mode
        As for `write_whole`.
    """
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
    """Write a file so that a crash leaves the whole of it, synced to the disk, or none of it.

    Parameters
    ----------
    path
        The file, in a folder that exists. Object stores write an object whole or not at all
        anyway.
    content
        All that the file is to hold.
    mode
        Of the file, less what the process's mask takes away; object stores know none.
    """
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
        # On a full disk, what was begun would take the room that is left.
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
