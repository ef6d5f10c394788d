"""Synthetic tables in a Parquet file, a chunk of rows at a time."""

from __future__ import annotations

import errno
import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables import Domain, EncodedTable, decode
from jam_dagster.tables.domain.text_dtype import name_of
from jam_dagster.tables.sources.table_file import ChunkFormat, TableFile, first_rows
from tests.dtypes import EVERY_DTYPE, rows_of_every_dtype
from tests.full_disk import files_of_at_most

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "job": {"values": ["baker", "pilot"], "nullable": True},
            "kind": {"values": [1, "two"], "dtype": "object", "nullable": True},
            "flag": {"values": [True, False], "dtype": "object", "nullable": True},
            "group": {"values": ["a", "b"], "dtype": "category", "nullable": True},
            "age": {"edges": [0, 10, 20], "integer": True, "nullable": True, "dtype": "Int64"},
            "day": {"edges": ["2020-01-01", "2020-02-01", "2020-03-01"], "unit": "day"},
        },
        "derived": {"number": "row()", "upper": {"expression": "job", "dtype": "object"}},
    }
)


def chunk(code: int, rows: int = 3, before: int = 0) -> pd.DataFrame:
    columns = tuple(np.full(rows, min(code, size - 1)) for size in DOMAIN.shape)
    table = EncodedTable(DOMAIN, columns)
    return decode(table, np.random.default_rng(0), before=before)


def test_every_dtype_comes_back(tmp_path: Path) -> None:
    table, path = rows_of_every_dtype(100), tmp_path / "table.parquet"
    with ChunkFormat(EVERY_DTYPE).writing(path) as write:
        write(table[:40])
        write(table[40:].reset_index(drop=True))
    again = TableFile(path).read()
    assert {name: name_of(one) for name, one in again.dtypes.items()} == EVERY_DTYPE.columns
    pd.testing.assert_frame_equal(again, table)


def test_a_file_without_room_is_named_and_not_there(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    with files_of_at_most(1000), pytest.raises(OSError, match="too large") as caught:  # noqa: SIM117
        with ChunkFormat(EVERY_DTYPE).writing(path) as write:
            write(rows_of_every_dtype(1000))
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert not list(tmp_path.iterdir())


def test_no_chunk_decides_a_type(tmp_path: Path) -> None:
    """The first chunk has one value a column, the second nothing but missing values."""
    form = ChunkFormat(DOMAIN, {"mark": "ours"})
    given = [chunk(0), chunk(2, rows=2, before=3), chunk(1, before=5)]
    with form.writing(tmp_path / "table.parquet") as write:
        for one in given:
            write(one)
    table = TableFile(tmp_path / "table.parquet")
    found = list(table.chunks())
    assert (len(table), table.sizes) == (8, [3, 2, 3])
    assert table.attrs == {"mark": "ours"}
    assert first_rows(table).equals(found[0])
    assert all(one.dtypes.equals(found[0].dtypes) for one in found)
    assert form.holds(table, given)
    again = BytesIO()
    form.write(given, again)
    assert again.getvalue() == table.path.read_bytes()
    whole = table.read()
    assert whole["number"].tolist() == list(range(1, 9))
    assert whole["flag"].dropna().tolist() == [True] * 3 + [False] * 3
    assert whole["kind"].dropna().tolist() == [1] * 3 + ["two"] * 3
    assert whole["job"].isna().tolist() == [False] * 3 + [True] * 2 + [False] * 3


def test_a_table_that_is_not_whole_is_not_there(tmp_path: Path) -> None:
    def interrupted() -> None:
        with ChunkFormat(DOMAIN).writing(tmp_path / "table.parquet") as write:
            write(chunk(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["a link", "a hanging link", "a killed run's file", "a pipe"])
def test_what_is_in_the_way_of_a_table_is_not_written_to(tmp_path: Path, there: str) -> None:
    """Whoever may write among the releases could have a run overwrite the ledger."""
    ledger = tmp_path / "ledger.sqlite"
    (folder := tmp_path / "release").mkdir()
    path, part = folder / "table.parquet", folder / "table.parquet.part"
    if there == "a pipe":
        os.mkfifo(part)
    elif there == "a killed run's file":
        part.write_bytes(b"half a table" * 1000)
    else:
        part.symlink_to(ledger)
    if there == "a link":
        ledger.write_text("all that was spent")
    with ChunkFormat(DOMAIN).writing(path) as write:
        write(chunk(0))
    assert [one.name for one in folder.iterdir()] == ["table.parquet"]
    assert not path.is_symlink()
    assert TableFile(path).sizes == [3]
    assert ledger.exists() == (there == "a link")
    if there == "a link":
        assert ledger.read_text() == "all that was spent"


def test_a_link_that_is_put_there_meanwhile_is_not_written_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, unlink = tmp_path / "ledger.sqlite", Path.unlink
    ledger.write_text("all that was spent")

    def raced(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        path.symlink_to(ledger)

    def written() -> None:
        with ChunkFormat(DOMAIN).writing(tmp_path / "table.parquet") as write:
            write(chunk(0))

    monkeypatch.setattr(Path, "unlink", raced)
    with pytest.raises(FileExistsError):
        written()
    assert ledger.read_text() == "all that was spent"
