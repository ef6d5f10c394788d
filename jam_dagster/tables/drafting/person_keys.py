"""Columns of a public table that look like the key of a person who has several rows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from jam_dagster.common.deferred import pd

_PERSONS = (
    "person|client|patient|customer|cust|user|member|subject|respondent|participant|employee"
    "|student|pupil|insured|citizen|donor|voter|tenant|player|driver|owner|beneficiary|claimant"
    "|household|visitor|worker|applicant|borrower|holder|account|subscriber|kunde|kunden"
)
_KEYS = "id|key|nr|no|num|number|code|uuid|guid"
_PERSON = re.compile(rf"[a-z]*({_PERSONS})s?({_KEYS})?|p({_KEYS})|ssn|e?mail")
_KEY = re.compile(_KEYS)

_LEAST = 20
"""A key of fewer values is more likely one of groups."""
_ROWS_A_PERSON, _ROWS_A_KEY = 200, 20
"""The most rows that a person has on average, by how plainly a name says so."""


def person_keys(public: pd.DataFrame) -> Iterator[tuple[str, int]]:
    """Yield the columns that repeat and look like a person's key, with their number of values.

    Parameters
    ----------
    public
        A public table. Its columns are judged by their names and by how often values repeat.
    """
    rows = len(public)
    for name, column in public.items():
        letters = re.sub("[^a-z]", "", str(name).lower())
        persons, keys = _PERSON.fullmatch(letters), _KEY.fullmatch(letters)
        if not (persons or keys) or not _may_be_key(column):
            continue
        values = column.nunique()
        most = _ROWS_A_PERSON if persons else _ROWS_A_KEY
        if values >= max(_LEAST, rows / most) and values < column.count():
            yield str(name), values


def unit_remark(public: pd.DataFrame) -> str:
    """Return the question who is protected, if columns look like a person's key; else empty."""
    found = [f"{name} ({values:,} values)" for name, values in person_keys(public)]
    if not found:
        return ""
    named, rows = ", ".join(found), len(public)
    look = "looks like a person's key" if len(found) == 1 else "look like keys of persons"
    return (
        f"{named} {look}, and repeat{'s' if len(found) == 1 else ''} in the {rows:,} rows of the"
        " public table. If a person may have several rows, protect all of them by privacy.unit"
        " (--privacy-unit), and leave that column out of the public table. If each row is a person,"
        " a release's file says so once: privacy: {unit: row}."
    )


def _may_be_key(column: pd.Series) -> bool:
    """Return whether cells may be keys: texts or whole numbers."""
    first = column.dropna().head(1)
    if any(hasattr(cell, "__len__") and not isinstance(cell, str) for cell in first):
        # Lists and structs.
        return False
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return False
    if pd.api.types.is_float_dtype(column):
        # A whole number with a missing cell next to it is a float.
        known = column.dropna().to_numpy()
        return bool(np.all(known == np.floor(known)))
    return True
