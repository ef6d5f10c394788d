"""Formats of texts that write moments, as `datetime.strftime` knows them, and more."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    import pyarrow as pa

_UNPADDED = re.compile(r"%-([dmHIMS])")
_DIRECTIVE = re.compile(r"(%-?[YymdHMS])")
_FINER = re.compile(r"(\.[0-9]{6})[0-9]{1,3}(?![0-9])")
_FRACTION = r"(?:\.(?:\d{3}|\d{6}))?"
# Like strptime's reading of two digits.
_CENTURY = 69


def text_at(moment: datetime, written: str) -> str:
    """Return the text of a moment in a format."""
    offset = moment.strftime("%z")
    # Python pads no year.
    written = written.replace("%:z", f"{offset[:3]}:{offset[3:]}")
    written = written.replace("%3f", moment.strftime("%f")[:3])
    # No digit of a fraction counts, and Python has six.
    written = written.replace("%7f", "%f0").replace("%9f", "%f000")
    written = written.replace("%Y", f"{moment.year:04}")
    written = _UNPADDED.sub(lambda one: str(int(moment.strftime(f"%{one[1]}"))), written)
    return moment.strftime(written)


def moment_in(text: str, written: str) -> datetime:
    """Return the moment of a text in a format, or raise ValueError."""
    pattern, indices = _digits_of(written)
    if pattern is not None and (found := pattern.fullmatch(text)):
        parts = [1900, 1, 1, 0, 0, 0]
        for index, part in zip(indices, found.groups(), strict=True):
            parts[index] = int(part)
        if "%y" in written:
            parts[0] += 1900 if parts[0] >= _CENTURY else 2000
        return datetime(*parts)  # type: ignore[arg-type]
    if "%7f" in written or "%9f" in written:
        text = _FINER.sub(r"\1", text)
    return datetime.strptime(
        text, re.sub("%[379]f", "%f", written.replace("%:z", "%z").replace("%-", "%"))
    )


@lru_cache(maxsize=1000)
def _digits_of(written: str) -> tuple[re.Pattern[str] | None, tuple[int, ...]]:
    """Return what reads the plainest texts of a format as strptime does, several times as fast."""
    pieces = _DIRECTIVE.split(written)
    names = [one[-1] for one in pieces[1::2]]
    year = len({"Y", "y"} & {*names})
    if len({*names}) < len(names) or year != ("m" in names) or ("d" in names) > year:
        return None, ()
    pattern = "".join(
        (r"(\d{4})" if one == "%Y" else r"(\d\d)") if index % 2 else re.escape(one)
        for index, one in enumerate(pieces)
    )
    if "%" in pattern:
        return None, ()
    return re.compile(pattern, re.ASCII), tuple(
        "YmdHMS".index(one.upper() if one == "y" else one) for one in names
    )


def plain_moments(
    texts: Iterable[str], written: str, *, fractions: bool = False
) -> npt.NDArray[np.datetime64] | None:
    """Return the moments of texts, NaT for those that are not written as digits of a format.

    Each moment is the second of what `moment_in` returns; `fractions` says whether three or six
    digits of it may follow. The result is None for a format of other parts, and if
    a text cannot be written in UTF-8.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern, indices = _digits_of(written)
    if pattern is None or "%y" in written:
        return None
    try:
        given = pa.array(texts, pa.string())
    except UnicodeError:
        return None
    parts = iter(f"p{index}" for index in indices)
    named = re.sub(r"\((?=\\d)", lambda _: f"(?P<{next(parts)}>", pattern.pattern)
    found = pc.extract_regex(given, f"^(?:{named}{_FRACTION if fractions else ''})$")
    fits = found.is_valid().to_numpy(zero_copy_only=False)
    year, month, day, hour, minute, second = (
        _whole(pc.struct_field(found, f"p{index}"))
        if index in indices
        else np.full(len(fits), absent, dtype=np.int64)
        for index, absent in enumerate((1900, 1, 1, 0, 0, 0))
    )
    fits &= (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    fits &= (hour < 24) & (minute < 60) & (second < 60)
    months: npt.NDArray[Any] = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + (day - 1)
    # A month has its own number of days.
    fits &= days.astype("datetime64[M]") == months
    moments: npt.NDArray[Any] = days.astype("datetime64[s]") + (3600 * hour + 60 * minute + second)
    moments[~fits] = np.datetime64("NaT")
    return moments


def _whole(digits: pa.Array) -> npt.NDArray[np.int64]:
    """Return numbers of digits, 0 where there are none."""
    import pyarrow as pa

    numbers: npt.NDArray[np.int64] = digits.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


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
