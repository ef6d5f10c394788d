"""Counts of the texts of private columns, for a selection of those that many persons have.

Each text is judged by itself: whether it may ever be published depends on no other cell.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.redaction import private_values
from jam_dagster.common.shown_text import one_line
from jam_dagster.errors import DomainError
from jam_dagster.tables.codes.privacy_unit import PersonNumbers, PrivacyUnit, kept_rows
from jam_dagster.tables.domain.columns import Batch, column_in, each_value, no_rows_of
from jam_dagster.tables.domain.values import is_formula, spelled, text_of

LONGEST = 200
"""The most characters of a text that may be published."""


def published_text(value: object) -> str | None:
    """Return the text of a cell if it is safe in CSV files, HTML and YAML; else None.

    It has at most `LONGEST` characters, all visible, and no spreadsheet runs it. Texts that look
    alike have one, by `spelled`.
    """
    try:
        text = spelled(text_of(value))
        text.encode()
    except Exception:  # A cell of an object column may be anything, and have no text.
        return None
    if not text or len(text) > LONGEST or one_line(text) != text:
        return None
    return None if is_formula(text, commas=True) else text


def counted_texts(
    batches: Iterable[Batch],
    names: Sequence[str],
    unit: PrivacyUnit | None,
    secret: bytes | None,
) -> dict[str, dict[str, int]]:
    """Return how many rows of a private table have each text, by column.

    Parameters
    ----------
    batches
        The rows of the private table, with the unit's column.
    names
        The columns.
    unit, secret
        The privacy unit, and the secret that decides which rows of a person count in a column: at
        most `PrivacyUnit.max_rows`, by a keyed hash of the person and the text.

    Returns
    -------
    dict
        Counts by text, in the order of the texts; texts that may not be published are left out.

    Raises
    ------
    DomainError, InputError, PrivateValuesError
        A column is missing, or a row has no person.
    """
    counts = (
        _counted(batches, names)
        if unit is None or secret is None
        else _counted_by_person(batches, names, unit, secret)
    )
    return {name: dict(sorted(held.items())) for name, held in counts.items()}


def _counted(batches: Iterable[Batch], names: Sequence[str]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    for batch in batches:
        for name in names:
            texts = _texts(batch, name)
            found, times = np.unique(texts[texts != None].astype(object), return_counts=True)  # noqa: E711
            for text, number in zip(found.tolist(), times.tolist(), strict=True):
                counts[name][text] += number
    return counts


def _counted_by_person(
    batches: Iterable[Batch], names: Sequence[str], unit: PrivacyUnit, secret: bytes
) -> dict[str, Counter[str]]:
    persons = PersonNumbers(unit)
    numbers: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    texts: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, object)] for name in names}
    for batch in batches:
        numbers.append(persons.of(batch))
        for name in names:
            texts[name].append(_texts(batch, name))
    person = np.concatenate(numbers)
    counts: dict[str, Counter[str]] = {}
    with private_values():
        for name in names:
            column = np.concatenate(texts[name])
            there = np.array([one is not None for one in column.tolist()], dtype=bool)
            contents = np.array([_hashed(one, secret) for one in column[there].tolist()])
            stays = kept_rows(
                person[there],
                contents.reshape(-1, 2).astype(np.uint64),
                persons.texts,
                unit.max_rows,
                secret,
            )
            counts[name] = Counter(column[there][stays].tolist())
    return counts


def _hashed(text: str, secret: bytes) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), key=secret, digest_size=16, person=b"jam text").digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def _texts(batch: Batch, name: str) -> npt.NDArray[Any]:
    """Return the publishable text of each cell; None if it has none."""
    found = list(no_rows_of(batch).columns).count(name)
    if found != 1:
        raise DomainError(
            f"the private table has {'no' if not found else 'more than one'} column {name!r}: name"
            " the columns of the domain as the table has them"
        )
    with private_values():
        return each_value(column_in(batch, name), published_text, None, object)
