"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from jam_dagster.common.operating_system import sync_file, sync_folder
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath


OWNER_ONLY = 0o600
"""The mode of a file with private values or their exact statistics: readable by its owner only."""


_COPIED_BYTES = 2**22

MOST_TEXT_BYTES = 2**26
"""The most bytes that are read of a file of JSON, YAML or HTML, which a stranger may have made."""


WITHOUT_ROOM = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Errors of the system where a file finds no room."""


def name_without_room(error: BaseException, path: Path) -> None:
    """Have an error of the system that a file finds no room name the file: writing names none."""
    if isinstance(error, OSError) and error.errno in WITHOUT_ROOM:
        error.filename = str(path)


@contextmanager
def owner_only() -> Iterator[None]:
    """Let files and folders that are made meanwhile be their owner's only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


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


def check_plain(root: Path, path: Path) -> None:
    """Raise InputError if a path, what leads to it from `root`, or what is in it is a link.

    Devices and pipes are refused, too. Who may write among the files of releases could have a run
    read or overwrite what is elsewhere.
    """
    leading = path.relative_to(root).parts
    below = [root.joinpath(*leading[: number + 1]) for number in range(len(leading))]
    inside = (
        Path(folder, name)
        for folder, *names in os.walk(path)
        for name in chain.from_iterable(names)
    )
    for one in chain(below, inside):
        try:
            mode = one.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _not_plain(one)


def open_plain(root: Path | UPath, path: Path | UPath) -> BinaryIO:
    """Open a file below a root for reading; a link below the root that leads there is an error.

    Each folder is opened from the one that holds it, so a link that is put there meanwhile is not
    followed either. On an object store there are no links.
    """
    if not (isinstance(path, Path) and isinstance(root, Path)):
        return path.open("rb")
    if not hasattr(os, "O_NOFOLLOW"):
        check_plain(root, path)
        return path.open("rb")
    *leading, name = path.relative_to(root).parts
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in leading:
            within = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = within
        # A pipe without a writer would be waited for.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise _not_plain(path) from None
        raise
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_plain(path)
    return os.fdopen(file, "rb")


def read_plain(root: Path | UPath, path: Path | UPath) -> bytes:
    """Return the content of a file, as `open_plain` opens it."""
    with open_plain(root, path) as file:
        return file.read()


def _not_plain(path: Path) -> InputError:
    return InputError(
        f"{path} is a link or a device, and files of a release are neither: somebody who can write "
        "there put it there. Remove it, and look at who can."
    )


def real_path(path: str) -> str:
    """Return the path of a file by its own names, whatever links or spelling lead to it.

    If the file system ignores case, or how a letter with an accent is composed, each name is as
    its folder lists it.
    """
    folder, name = os.path.split(os.path.realpath(path))
    if not name:
        return folder
    folder = real_path(folder)
    return os.path.join(folder, _listed(folder, name))


def _listed(folder: str, name: str) -> str:
    """Return the name by which a folder lists what it has under another spelling of it."""
    try:
        own = os.lstat(os.path.join(folder, name))
        if name.isascii() and not _is_same(own, os.path.join(folder, name.swapcase())):
            return name
        names = os.listdir(folder)
    except OSError:
        return name
    if name in names:
        return name
    others = (one for one in names if _is_same(own, os.path.join(folder, one)))
    return next(others, name)


def _is_same(one: os.stat_result, path: str) -> bool:
    try:
        return os.path.samestat(one, os.lstat(path))
    except OSError:
        return False


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


def copy_whole(source: Path | UPath, path: Path | UPath) -> None:
    """Copy a file, of which little is held in memory, as `write_whole` writes one."""
    with source.open("rb") as file:
        write_whole(path, iter(partial(file.read, _COPIED_BYTES), b""))


def write_whole(path: Path | UPath, content: bytes | Iterator[bytes], *, mode: int = 0o666) -> None:
    """Write a file so that a crash leaves either the whole file, synced to disk, or none."""
    parts = (content,) if isinstance(content, bytes) else content
    if not isinstance(path, Path):
        with path.open("wb") as file:
            file.writelines(parts)
        return
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.writelines(parts)
            file.flush()
            sync_file(file.fileno())
        draft.replace(path)
    except BaseException as error:
        # On a full disk, an unfinished draft would take the remaining room.
        draft.unlink(missing_ok=True)
        name_without_room(error, path)
        raise
    sync_folder(path.parent)
