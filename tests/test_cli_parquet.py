"""`jam-dagster synthesize` with a private table in a Parquet file that is left there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from jam_dagster.tables import ParquetSource
from jam_dagster.tables.sources import parquet as parquet_source
from tests.cli_bench import RESEARCH, Run, synthesize


@pytest.mark.slow
def test_a_large_table_is_never_read_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_source, "ENCODED_BYTES", 0)
    monkeypatch.setattr(parquet_source, "READ_ROWS", 30)
    passes = []
    batches = ParquetSource.batches

    def counted(source: ParquetSource, *given: Any, **named: Any) -> Iterator[Any]:
        passes.append(source)
        return batches(source, *given, **named)

    monkeypatch.setattr(ParquetSource, "batches", counted)
    monkeypatch.setattr(ParquetSource, "read", lambda *_, **__: pytest.fail("read whole"))

    pd.read_csv("priv.csv").to_parquet("priv.parquet", row_group_size=50)
    result = run(*synthesize(*RESEARCH, private="priv.parquet"))

    assert result.exit_code == 0, result.output
    # Validated, then counted for the mechanism, for the independent table, for the errors, for
    # those of columns and pairs, and for the sample that the table is as good as.
    assert len(passes) <= 6
