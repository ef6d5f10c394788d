"""The keys of a table's rows, remembered from chunk to chunk to find those that repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd

_Hashes = npt.NDArray[np.uint64]


@dataclass
class KeysSeen:
    """The different keys of the rows so far, as sorted hashes of 8 bytes each.

    Among n different keys two have the same hash with a probability of n² / 2^65 at most: 3 in
    10,000 for 100 million. A row is then counted that repeats nothing.
    """

    runs: list[_Hashes] = field(default_factory=list)

    def repeated(self, keys: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Return the next rows whose values an earlier row has, by the columns of their keys.

        A row with a missing value repeats nothing.
        """
        repeated: npt.NDArray[np.bool_] = keys.notna().all(axis=1).to_numpy(copy=True)
        known = np.flatnonzero(repeated)
        new, first = np.unique(_hashes(keys.iloc[known]), return_index=True)
        for run in self.runs:
            fresh = run[np.minimum(np.searchsorted(run, new), len(run) - 1)] != new
            new, first = new[fresh], first[fresh]
        repeated[known[first]] = False
        # Each run is more than twice as long as the next: few are searched, and few merged.
        while self.runs and len(self.runs[-1]) <= 2 * len(new):
            new = np.concatenate([self.runs.pop(), new])
            new.sort(kind="stable")
        if len(new):
            self.runs.append(new)
        return repeated


def _hashes(keys: pd.DataFrame) -> _Hashes:
    alike = pd.DataFrame({name: _alike(column) for name, column in keys.items()})
    return np.asarray(pd.util.hash_pandas_object(alike, index=False), dtype=np.uint64)


def _alike(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column without gaps in a type that other chunks' gaps and categories leave as it is.

    Arrow reads whole numbers as floats if some are missing, and booleans as objects. A float that
    is not whole becomes the integer of its bits.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    column = column.infer_objects()
    numbers: npt.NDArray[Any]
    if pd.api.types.is_float_dtype(column.dtype):
        floats = column.to_numpy(np.float64)
        whole = (np.trunc(floats) == floats) & (np.abs(floats) < 2.0**63)
        numbers = np.where(whole, floats, 0.0).astype(np.int64)
        numbers = np.where(whole, numbers, floats.view(np.int64))
    elif pd.api.types.is_integer_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        numbers = column.to_numpy().astype(np.int64)
    else:
        return column
    return pd.Series(numbers, index=column.index)
