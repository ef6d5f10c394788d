"""Conditions on numbers in bins, as a domain file has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.validation import as_list, check_keys, is_integer
from jam_dagster.errors import DomainError, SpecificationError

_MAX_BINS = 1_000_000


def bins_in(
    what: str,
    item: Mapping[Any, Any],
    limits: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]],
    number: Callable[[str, str, object], float],
) -> list[int]:
    """Return the bins, of such limits, that meet a condition ``{from: x, below: y}`` or on bins."""
    check_keys(what, item, ("from", "below", "bins"))
    low, high = limits
    if "bins" in item:
        if len(item) > 1:
            raise SpecificationError(
                f"{what} has 'bins' in addition to other keys: make it two items"
            )
        bins = as_list(what, "bins", item["bins"])
        if not all(is_integer(code) and 0 <= code < len(low) for code in bins):
            raise DomainError(f"{what} has bins outside 0 to {len(low) - 1}")
        return bins
    chosen = np.ones(len(low), dtype=bool)
    for key in ("from", "below"):
        if key not in item:
            continue
        bound = number(what, key, item[key])
        if ((low < bound) & (bound <= high)).any():
            raise DomainError(
                f"{what}: {key} {item[key]!r} cuts through a bin: use an edge of the bin, or change"
                " the edges"
            )
        chosen &= (low >= bound) if key == "from" else (high < bound)
    return np.flatnonzero(chosen).tolist()


def intervals(
    codes: list[int], low: npt.NDArray[np.float64], written: Callable[[float], Any]
) -> Iterator[dict[str, Any]]:
    """Yield the condition of each run of consecutive bins."""
    for _, run in groupby(enumerate(codes), lambda one: one[1] - one[0]):
        bins = [code for _, code in run]
        interval = {}
        if bins[0] > 0 or bins[-1] + 1 == len(low):
            interval["from"] = written(float(low[bins[0]]))
        if bins[-1] + 1 < len(low):
            interval["below"] = written(float(low[bins[-1] + 1]))
        yield interval


def checked_bins(what: str, bins: object) -> int:
    """Return a number of bins of a domain file, or raise SpecificationError."""
    if not is_integer(bins) or not 1 <= bins <= _MAX_BINS:
        raise SpecificationError(
            f"{what}: bins must be an integer from 1 to {_MAX_BINS:,}, got {bins!r}"
        )
    return bins
