"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upath import UPath


def write_whole(path: Path | UPath, content: bytes) -> None:
    """Write a file so that a crash leaves the whole of it, synced to the disk, or none of it.

    Parameters
    ----------
    path
        The file, in a folder that exists. Object stores write an object whole or not at all
        anyway.
    content
        All that the file is to hold.
    """
    if not isinstance(path, Path):
        path.write_bytes(content)
        return
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
