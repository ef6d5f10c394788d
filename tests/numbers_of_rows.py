"""A private table with a telling number of rows, and a search for that number in what leaves."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pandas as pd

KEPT, READ = 104_729, 115_249
"""How many rows of the table are kept, at most two a person, and how many it has; both prime."""


def telling(table: pd.DataFrame) -> pd.DataFrame:
    """Return `READ` rows of a table with a column ``who``: persons of three rows and of one."""
    threes = READ - KEPT
    who = np.concatenate([np.repeat(np.arange(threes), 3), np.arange(threes, KEPT - threes)])
    rows = np.random.default_rng(9).integers(0, len(table), READ)
    return table.iloc[rows].reset_index(drop=True).assign(who=[f"p{number}" for number in who])


def files_telling_rows(*folders: Path) -> list[Path]:
    """Return the files that hold either number, with what is packed in them unpacked."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if tells_rows(_contents(path))]


def _contents(path: Path) -> bytes:
    held = path.read_bytes()
    if path.suffix == ".parquet":
        # Without the numbers of its rows, which count past any number.
        held += pd.read_parquet(path).to_csv(index=False).encode()
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            for array in arrays.values():
                held += str(array).encode() if array.dtype.kind == "U" else array.tobytes()
    return held


def tells_rows(held: bytes) -> bool:
    """Whether something holds either number: as text, or as a number of eight bytes.

    As text it must stand alone: six digits are found within longer numbers and hashes by chance,
    but as a number of their own in less than one file in a million.
    """
    return bool(_TEXT.search(held)) or any(one in held for one in _BYTES)


_TEXT = re.compile(
    rb"(?<![\w.,-])(?:%s)(?![\w-])"
    % b"|".join(f"{n // 1000},?{n % 1000:03}".encode() for n in (KEPT, READ))
)
_BYTES = [struct.pack(form, n) for form in ("<q", "<d") for n in (KEPT, READ)]
