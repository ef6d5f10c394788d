"""The clock that counts the values of an attribute of dates, times of day or durations."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain import durations, instants, times_of_day
from jam_dagster.tables.domain.durations import DURATION_FORMATS, DurationClock
from jam_dagster.tables.domain.instants import InstantClock
from jam_dagster.tables.domain.times_of_day import TimeOfDayClock
from jam_dagster.tables.domain.units import DATE, DURATION, TIME, UNITS, Clock, Unit, is_text

_DATE_PARTS = re.compile(r"%[aAwdbBmyYjUWcxGuV]")


def clock_of(
    name: str,
    unit: Unit,
    zone: str | None = None,
    form: str | None = None,
    dtype: str | None = None,
) -> Clock:
    """Return the clock of an attribute's unit, zone, format and dtype, or raise DomainError.

    Without a dtype values are texts if there is a format, else timestamps.
    """
    what = f"attribute {name!r}"
    if unit not in UNITS:
        raise DomainError(f"{what}: unit must be one of {', '.join(UNITS)}, got {unit!r}")
    for key, value in (("zone", zone), ("format", form), ("dtype", dtype)):
        if not isinstance(value, str | None):
            raise DomainError(f"{what}: {key} must be a text, got {value!r}")
    if zone is not None:
        try:
            ZoneInfo(zone)
        except Exception:  # A path, a folder, or a name that no database has.
            raise DomainError(
                f"{what}: zone {zone!r} is unknown: use a name such as America/New_York"
            ) from None
    if dtype is None:
        plain = f"datetime64[us, {zone}]" if zone else "datetime64[us]"
        dtype = "str" if form else plain
    made, dtypes = _kind(dtype, form)
    if is_text(dtype, form):
        if form and "%" not in form and made is not DurationClock:
            raise DomainError(
                f"{what}: format {form!r} has no part such as %Y, and durations are written as one"
                f" of {', '.join(DURATION_FORMATS)}"
            )
    elif form or not dtypes.fullmatch(dtype) or not _is_dtype(dtype):
        raise DomainError(
            f"{what} cannot be decoded to dtype {dtype!r}: use datetime64[us], datetime64[us,"
            f" UTC] or {DATE}, {TIME} for times of day, {DURATION} for durations, or str with a"
            " format"
        )
    return made(name, unit, zone, form, dtype)


def _kind(dtype: str, form: str | None) -> tuple[type[Clock], re.Pattern[str]]:
    """Return the class of the clock of a dtype and a format, and the dtypes that it has."""
    text = is_text(dtype, form)
    if dtype.startswith("timedelta") or (text and form in DURATION_FORMATS):
        return DurationClock, durations.DTYPES
    if dtype.startswith("time") or (text and not _DATE_PARTS.search(form or "%Y")):
        return TimeOfDayClock, times_of_day.DTYPES
    return InstantClock, instants.DTYPES


def _is_dtype(name: str) -> bool:
    try:
        pd.api.types.pandas_dtype(name)
    except Exception:  # An unknown zone raises what its database raises.
        return False
    return True
