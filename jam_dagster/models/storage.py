"""The storage of models: ``model.json`` and an archive of arrays beside it.

An archive may come from a stranger, so what it unpacks to is bounded before it is unpacked.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.files import read_text_bytes, write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath

DESCRIPTION = "model.json"

MOST_UNPACKED, MOST_TIMES_PACKED = 2**30, 32
"""An archive unpacks to at most so many bytes, or so many times its own size if that is more."""

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions from reading a damaged archive, array or model."""


def write_model(
    directory: Path | UPath,
    description: Mapping[str, Any],
    archive: str,
    arrays: Mapping[str, np.ndarray],
) -> None:
    """Write a model to a folder, the description last: where it stands, the model is whole."""
    directory.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_whole(directory / archive, buffer.getvalue())
    write_whole(directory / DESCRIPTION, json.dumps(description, indent=1).encode())


@contextmanager
def stored_model(
    directory: Path | UPath, archive: str
) -> Iterator[tuple[dict[str, Any], Mapping[str, np.ndarray]]]:
    """Give the description and the arrays of a model that `write_model` wrote.

    Whatever goes wrong while a model is made of them counts as damage.
    """
    for name in (DESCRIPTION, archive):
        if not (directory / name).exists():
            raise InputError(f"{directory} holds no {name}; give a folder that save() wrote.")
    text = read_text_bytes(directory / DESCRIPTION)
    arrays = read_arrays(directory / archive)
    try:
        yield parse_json(text), arrays
    except _DAMAGE as damaged:
        raise InputError(
            f"The model in {directory} is damaged ({type(damaged).__name__}); refit it from "
            "its transcript, or restore the folder."
        ) from damaged


def read_arrays(path: Path | UPath) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file by name, each unpacked once."""
    packed = path.read_bytes()
    most = max(MOST_UNPACKED, MOST_TIMES_PACKED * len(packed))
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if unpacked <= most:
                return dict(_array(archive, member) for member in members)
    except _DAMAGE as damaged:
        raise InputError(
            f"{path} is damaged ({type(damaged).__name__}); restore it, or refit the model from "
            "its transcript."
        ) from damaged
    raise InputError(
        f"{path} unpacks to {unpacked:,} bytes, more than the {most:,} that are read: it is no "
        "file of a release. Restore it."
    )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[str, np.ndarray]:
    """Return the name and the array of a member, which takes as many bytes as the archive lists."""
    # By another method, one block of a few bytes may unpack to any number of them.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is packed by another method")
    with archive.open(member) as file:
        shape, _, kind = _HEADERS[np.lib.format.read_magic(file)](file)
        # Of values without a byte, a file of any length holds any number.
        whole = file.tell() + math.prod(shape) * kind.itemsize == member.file_size
        if not (whole and kind.itemsize):
            raise ValueError(f"{member.filename} is not as long as its header says")
        file.seek(0)
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return member.filename.removesuffix(".npy"), array


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""The readers of an array's header, by the version of its format."""
