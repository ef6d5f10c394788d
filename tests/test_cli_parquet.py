"""`jam-dagster synthesize` with a private table in a Parquet file, held or left there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.tables import ParquetSource
from jam_dagster.tables.codes.parquet_counting import encode_parquet
from jam_dagster.tables.sources import parquet as parquet_source
from tests.cli_bench import RESEARCH, Run, synthesize
from tests.test_cli_privacy_unit import UNIT, persons

LIMITS = pytest.mark.parametrize("limit", [0, 1_000_000], ids=["streamed", "held"])


def _limit(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(
        "jam_dagster.tables.sources.parquet.encode_parquet", partial(encode_parquet, limit=limit)
    )
    monkeypatch.setattr(parquet_source, "READ_ROWS", 30)


@pytest.mark.slow
@LIMITS
@pytest.mark.parametrize("options", [(), UNIT], ids=["records", "persons"])
def test_the_release_is_that_of_the_same_table_in_a_csv_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, limit: int, options: tuple[str, ...]
) -> None:
    _limit(monkeypatch, limit)
    persons().to_parquet("priv.parquet", row_group_size=50)
    asked = (*RESEARCH, *options, "--json")
    wanted = json.loads(run(*synthesize(*asked)).stdout)

    result = run(*synthesize(*asked, "--out", "again", private="priv.parquet"))

    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert (made["rows"] == 200) == (options == ())
    assert made["workload_error"] == wanted["workload_error"]
    assert Path("again/synthetic.csv").read_bytes() == Path("out/synthetic.csv").read_bytes()


@pytest.mark.slow
def test_a_large_table_is_never_read_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, 0)
    passes = []
    chunks = ParquetSource.chunks

    def counted(source: ParquetSource, *given: Any, **named: Any) -> Iterator[pd.DataFrame]:
        passes.append(source)
        return chunks(source, *given, **named)

    monkeypatch.setattr(ParquetSource, "chunks", counted)
    monkeypatch.setattr(ParquetSource, "read", lambda *_, **__: pytest.fail("read whole"))

    pd.read_csv("priv.csv").to_parquet("priv.parquet", row_group_size=50)
    result = run(*synthesize(*RESEARCH, private="priv.parquet"))

    assert result.exit_code == 0, result.output
    # Validated, then counted for the mechanism, for the independent table, for the errors, for
    # those of columns and pairs, and for the sample that the table is as good as.
    assert len(passes) <= 6
