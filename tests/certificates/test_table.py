"""A table of many chunks: it is sampled again chunk by chunk, and a change of any is noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jam_dagster.certificates.table import RUN_ATTRIBUTE
from jam_dagster.mechanisms.loops import rows
from jam_dagster.tables import Domain
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC
from jam_dagster.tables.sources.table_file import ChunkFormat, TableFile
from tests.certificates.conftest import Released, copied, released
from tests.tiers import slow


@pytest.fixture(scope="module")
def chunks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of 200 rows, sampled 100 at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "MOST_AT_ONCE", 150)
        patch.setattr(rows, "CHUNK_ROWS", 100)
        return released(tmp_path_factory.mktemp("chunks"))


@pytest.fixture
def chunks(tmp_path: Path, chunks_folder: Path) -> Released:
    return copied(chunks_folder, tmp_path)


def test_a_table_in_chunks_is_sampled_again(chunks: Released) -> None:
    sampling = chunks.document()["sampling"]
    assert (sampling["rows"], sampling["chunk_rows"]) == (200, 100)
    assert "search" not in sampling
    assert chunks.failed() == set()
    table = TableFile(chunks.folder / "synthetic.parquet")
    assert table.sizes == [100, 100]
    assert not (chunks.folder / "synthetic.csv").exists()


def _one_cell(folder: Path) -> None:
    table = TableFile(folder / "synthetic.parquet")
    first, second = table.chunks()
    second.loc[99, "sex"] = 1 - second.loc[99, "sex"]
    with ChunkFormat(Domain.load(folder / "domain.yaml")).writing(table.path) as write:
        for chunk in (first, second):
            write(chunk)


def test_a_file_of_chunks_says_that_it_is_synthetic(chunks: Released) -> None:
    table = TableFile(chunks.folder / "synthetic.parquet")
    with table.path.open("rb") as file:
        assert pq.read_schema(file).metadata[b"synthetic"] == SAYS_SYNTHETIC.encode()
    assert table.attrs["synthetic"] == SAYS_SYNTHETIC


def test_a_file_of_an_earlier_version_does_not_say_it_and_verifies(chunks: Released) -> None:
    table = TableFile(chunks.folder / "synthetic.parquet")
    given = list(table.chunks())
    domain = Domain.load(chunks.folder / "domain.yaml")
    form = ChunkFormat(domain, {RUN_ATTRIBUTE: table.attrs[RUN_ATTRIBUTE]})
    with form.writing(table.path) as write:
        for one in given:
            write(one)
    assert not table.says_synthetic
    chunks.forge()
    assert chunks.failed(ledger=False) == set()


def _one_chunk(folder: Path) -> None:
    table = TableFile(folder / "synthetic.parquet")
    table.read().to_parquet(table.path)


def _again(folder: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    path = folder / "synthetic.parquet"
    pq.write_table(change(pq.read_table(path)), path, row_group_size=100, **options)


def _more_metadata(folder: Path) -> None:
    _again(folder, lambda it: it.replace_schema_metadata({**it.schema.metadata, b"more": b"said"}))


def _other_marks(folder: Path) -> None:
    def marked(table: pa.Table) -> pa.Table:
        said = json.loads(table.schema.metadata[b"pandas"]) | {"attributes": {"more": "said"}}
        return table.replace_schema_metadata({b"pandas": json.dumps(said).encode()})

    _again(folder, marked)


def _other_type(folder: Path) -> None:
    _again(folder, lambda it: it.set_column(1, it.column_names[1], it[1].cast(pa.int32())))


def _another_compression(folder: Path) -> None:
    _again(folder, lambda it: it, compression="zstd")


FOREIGN = {"pyarrow": "0"}


@pytest.mark.parametrize("made_with", [{}, *slow(FOREIGN)], ids=["", "by another pyarrow"])
@pytest.mark.parametrize(
    "change",
    [
        _one_cell,
        *slow(_one_chunk, _more_metadata),
        _other_marks,
        *slow(_other_type, _another_compression),
    ],
)
def test_another_table_in_chunks(
    chunks: Released, change: Callable[[Path], None], made_with: dict[str, str]
) -> None:
    change(chunks.folder)
    chunks.forge(lambda it: replace(it, made_with={**it.made_with, **made_with}))
    assert chunks.failed(ledger=False) == {"the table, sampled again"}


def test_chunks_that_another_pyarrow_wrote(chunks: Released) -> None:
    _again(chunks.folder, lambda it: it, data_page_version="2.0")
    chunks.forge(lambda it: replace(it, made_with={**it.made_with, **FOREIGN}))
    assert chunks.failed(ledger=False) == set()


@pytest.mark.slow
def test_a_file_that_would_take_more_memory_than_the_table(tmp_path: Path) -> None:
    """A value of twenty million letters in each row of a file of two megabytes."""
    form = ChunkFormat(Domain.from_dict({"attributes": {"a": {"values": ["x", "y"]}}}))
    chunks = [pd.DataFrame({"a": ["x"] * 100})] * 2
    codes = pa.array(np.zeros(200, np.int32))
    long = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 20_000_000]))
    table = pa.table({"a": long}).replace_schema_metadata(form._schema.metadata)
    path = tmp_path / "table.parquet"
    pq.write_table(table, path, row_group_size=100, store_schema=False)
    assert path.stat().st_size < 3_000_000
    before = pa.default_memory_pool().max_memory()
    assert not form.holds(TableFile(path), chunks)
    assert pa.default_memory_pool().max_memory() <= max(before, 10**8)


@pytest.mark.parametrize("asked", [99, *slow(200, 10**7)])
def test_chunks_of_other_rows(chunks: Released, asked: int) -> None:
    chunks.rewrite("transcript/transcript.json", lambda it: it.update(chunk_rows=asked))
    chunks.forge()
    assert chunks.failed(ledger=False) == {"the table, sampled again"}
    chunks.forge(lambda it: replace(it, sampling=replace(it.sampling, chunk_rows=asked)))
    assert "the table, sampled again" in chunks.failed(ledger=False)
