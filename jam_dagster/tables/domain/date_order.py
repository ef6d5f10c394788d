"""Texts of dates: which formats read them."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from jam_dagster.tables.domain.clock import moment_in


def reads(written: str, text: str) -> bool:
    """Return whether a format reads a text."""
    try:
        moment = moment_in(text, written)
    except ValueError:
        return False
    # %z reads Z too.
    return moment.tzinfo is None or not text.endswith("Z")


def is_day_first(written: str | None) -> bool | None:
    """Return whether a format has the day before the month; None for those that begin with a year.

    ``1/2/2024`` is read by both of the others.
    """
    found = re.match(r"%-?([dm])[/-]%-?[dm]", written or "")
    return None if found is None else found[1] == "d"


def other_order(written: str, column: pd.Series[Any]) -> str | None:
    """Return the format of the other order of day and month, where it reads all dates as well."""
    if is_day_first(written) is None:
        return None
    swapped = written.replace("d", "\0").replace("m", "d").replace("\0", "m")
    if all(reads(swapped, text) for text in column.dropna().unique() if reads(written, text)):
        return swapped
    return None


def has_fractions(written: str, column: pd.Series[Any]) -> bool:
    """Return whether a public column has fractions of a second, which are not counted."""
    if str(column.dtype).startswith("datetime64"):
        return bool((column.dt.microsecond.fillna(0) != 0).any())
    fractions = "f" in written
    return fractions and any(re.search(r"\.0*[1-9]", one) for one in column.dropna().unique())
