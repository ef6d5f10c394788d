"""A table in chunks is held by a few of its rows, however many it has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from jam_dagster.evaluation.expectations.checked_table import SHOWN_ROWS, CheckedTable
from jam_dagster.tables import Domain
from jam_dagster.tables.sources.table_file import ChunkFormat, TableFile
from tests.evaluation.conftest import SmallRelease

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "town": {"values": ["A", "B", "C"]},
            "rooms": {"edges": [0, 5, 10], "integer": True},
            "floors": {"edges": [0, 5, 10], "integer": True},
            "tail": {"values": [str(number) for number in range(100)]},
        },
        "derived": {"double": "rooms * 2"},
        "repairs": [{"unique": ["town", "rooms"]}, {"order": "rooms <= floors"}],
    }
)
CHUNK = 500


def checked(release: SmallRelease, folder: Path, chunks: int) -> CheckedTable:
    """Return a table whose rows are nearly all at fault, in one way or several."""
    file = TableFile(folder / "table.parquet")
    rng = np.random.default_rng(0)
    with ChunkFormat(DOMAIN).writing(folder / "table.parquet") as write:
        for number in range(chunks):
            # Each chunk has a new value.
            tail = rng.integers(0, number + 2, CHUNK).astype(str)
            table = {
                "town": rng.choice(np.array(["A", "B", "D", None], dtype=object), CHUNK),
                "rooms": rng.integers(0, 12, CHUNK),
                "floors": rng.integers(0, 10, CHUNK),
                "tail": tail,
                "double": rng.integers(0, 20, CHUNK),
            }
            write(pd.DataFrame(table).astype(DOMAIN.columns))
    rows = chunks * CHUNK
    return CheckedTable.of(file, DOMAIN, rows, release.transcript, release.model, None)


def test_rows_at_fault_are_counted_and_few_of_them_are_held(
    release: SmallRelease, tmp_path: Path
) -> None:
    # Three rules, three ways in which values are at fault, and a row of each cell.
    most = 6 * SHOWN_ROWS + sum(DOMAIN.shape)
    for chunks in (2, 8, 40):
        table = checked(release, tmp_path, chunks)
        counted = table.counted
        assert counted is not None
        assert len(table.synthetic) == len(counted.broken) < most
        assert table.synthetic["tail"].nunique() == chunks + 1
        assert min(counted.faults[rule] for rule in range(3)) > 0.4 * counted.rows
        assert min(counted.faults["town"], counted.nulls["town"]) > 0.2 * counted.rows
        assert counted.faults["rooms"] > 0.05 * counted.rows
