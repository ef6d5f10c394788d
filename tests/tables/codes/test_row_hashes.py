from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.tables.codes import row_hashes
from jam_dagster.tables.codes.row_hashes import RowsDigest

CODES = np.random.default_rng(0).integers(0, 300, (200, 3))


def digest_of(*chunks: np.ndarray) -> str:
    digest = RowsDigest()
    for rows in chunks:
        digest.add([rows[:, 0].astype("u1"), rows[:, 1].astype("u2"), rows[:, 2].astype("u2")])
    return digest.hexdigest()


def test_a_digest_is_of_the_rows_in_any_order_and_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = digest_of(CODES)
    assert digest_of(CODES[::-1]) == whole
    assert digest_of(CODES[120:], CODES[:0], CODES[:120]) == whole
    monkeypatch.setattr(row_hashes, "_ROWS", 7)
    assert digest_of(CODES) == whole


def test_other_rows_have_another_digest() -> None:
    swapped, one = CODES.copy(), CODES.copy()
    # Each column has the values that it had.
    swapped[:2, 1] = CODES[1::-1, 1]
    one[0, 2] += 1
    zeros = np.zeros((1, 3), int)
    tables = [
        *([rows] for rows in (CODES, swapped, one, CODES[1:], CODES[:0], zeros)),
        [CODES, zeros],
        [CODES, CODES[:1]],
        [CODES, CODES[:1], CODES[:1]],
        [CODES[:, [1, 0, 2]]],
    ]
    assert len({digest_of(*chunks) for chunks in tables}) == len(tables)
