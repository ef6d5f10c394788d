"""The storage of models: ``model.json`` and an archive of arrays beside it."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.files import write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from upath import UPath

DESCRIPTION = "model.json"

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
    """Write a model to a folder, the description last: where it stands, the model is whole.

    Parameters
    ----------
    directory
        The folder; it is made if it is not there.
    description
        Plain values.
    archive
        Name of the file of arrays.
    arrays
        By name.
    """
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

    Raises
    ------
    InputError
        If the folder does not hold a model, or a damaged one.
    """
    for name in (DESCRIPTION, archive):
        if not (directory / name).exists():
            raise InputError(f"{directory} holds no {name}; give a folder that save() wrote.")
    packed = io.BytesIO((directory / archive).read_bytes())
    text = (directory / DESCRIPTION).read_bytes()
    try:
        with np.load(packed, allow_pickle=False) as stored:
            yield parse_json(text), stored
    except _DAMAGE as damaged:
        raise InputError(
            f"The model in {directory} is damaged ({type(damaged).__name__}); refit it from "
            "its transcript, or restore the folder."
        ) from damaged
