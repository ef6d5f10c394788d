"""CPU time and memory of reading, encoding and counting a private table, by its source.

    python -m benchmarks.ingestion --rows 1000000
    python -m benchmarks.ingestion --rows 10000000 --sources parquet
    python -m benchmarks.ingestion --sources postgres --database postgresql://tester@server/scratch

The simulated table has 15 attributes (see `benchmarks.simulated`) and `seen`, a timestamp that
occurs once. All marginals of one and two attributes are counted. Each source is read in a process
of its own; what imports take is measured by a process that reads nothing, and taken off. The peak
is that of the process, imports and all, with the whole table for sources of a frame.

CPU-seconds are the process's own: a database's server spends others. `--label` names the version of
the code in the rows that are added to a CSV file (`--out`).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

# Nothing else: this process hands its own peak memory on to those that it starts.
from benchmarks.process import RunFailedError, measure

if TYPE_CHECKING:
    from jam_dagster.tables import Domain, Source

ATTRIBUTES = 15
CHUNK = 1_000_000
DATABASE = "JAM_INGESTION_DATABASE"


def domain() -> Domain:
    """Return the domain: the simulated attributes, and days."""
    from benchmarks.counting import domain_of
    from jam_dagster.tables import Domain

    seen = {"bounds": ["2020-01-01", "2022-12-31"], "unit": "day", "outside": "clip"}
    days = Domain.from_dict({"attributes": {"seen": seen}})
    return Domain((*domain_of(ATTRIBUTES).attributes, *days.attributes))


def write(folder: Path, rows: int) -> None:
    """Write the table as Parquet, in row groups of a million rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.counting import write_parquet

    write_parquet(folder / "plain.parquet", rows, ATTRIBUTES, CHUNK)
    stored, writer = pq.ParquetFile(folder / "plain.parquet"), None
    for group in range(stored.num_row_groups):
        table = stored.read_row_group(group)
        place = np.arange(len(table), dtype=np.int64) + group * CHUNK
        # A multiplier without a common factor: each millisecond occurs once.
        seen = 1_577_836_800_000 + place * 9_467_009 % 94_608_000_000
        table = table.append_column("seen", pa.array(seen).cast(pa.timestamp("ms")))
        writer = writer or pq.ParquetWriter(folder / "table.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def csv_source(folder: Path) -> Source:
    """Return the table as CSV; the file is made first."""
    import pyarrow.parquet as pq
    from pyarrow import csv as writer

    from jam_dagster.tables import CsvSource

    path = folder / "table.csv"
    if not path.exists():
        stored = pq.ParquetFile(folder / "table.parquet")
        with writer.CSVWriter(path, stored.schema_arrow) as file:
            for group in range(stored.num_row_groups):
                file.write_table(stored.read_row_group(group))
    return CsvSource(str(path))


def parquet_source(folder: Path) -> Source:
    """Return the table as Parquet."""
    from jam_dagster.tables import ParquetSource

    return ParquetSource(str(folder / "table.parquet"))


def duckdb_source(folder: Path) -> Source:
    """Return the table in DuckDB; the file is made first."""
    import duckdb

    from jam_dagster.tables import DuckDbSource

    path = folder / "table.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as made:
            made.execute(f"create table people as from '{folder / 'table.parquet'}'")
    return DuckDbSource(str(path), "from people")


def pandas_source(folder: Path) -> Source:
    """Return the table as a frame of pandas."""
    import pandas as pd

    from jam_dagster.tables import FrameSource

    return FrameSource(pd.read_parquet(folder / "table.parquet"), "people")


def polars_source(folder: Path) -> Source:
    """Return the table as a frame of polars."""
    import polars as pl

    from jam_dagster.tables import FrameSource

    return FrameSource(pl.read_parquet(folder / "table.parquet"), "people")


def postgres_source(folder: Path) -> Source:
    """Return the table in PostgreSQL; it is loaded first."""
    import psycopg

    from jam_dagster.tables import SqlSource

    url = os.environ[DATABASE]
    with psycopg.connect(url) as connection:
        there = connection.execute("select to_regclass('ingestion')").fetchone()
    if there == (None,):
        _load(url, folder)
    return SqlSource(url, "select * from ingestion")


def _load(url: str, folder: Path) -> None:
    from io import BytesIO

    import psycopg
    import pyarrow.parquet as pq
    from pyarrow import csv as writer
    from pyarrow import types

    stored = pq.ParquetFile(folder / "table.parquet")
    kinds = [
        "bigint" if types.is_integer(one.type) else "timestamp" if one.name == "seen" else "text"
        for one in stored.schema_arrow
    ]
    columns = ", ".join(map(" ".join, zip(stored.schema_arrow.names, kinds, strict=True)))
    with psycopg.connect(url) as connection:
        connection.execute(f"create table ingestion ({columns})")
        with connection.cursor().copy("copy ingestion from stdin (format csv)") as copy:
            for group in range(stored.num_row_groups):
                text = BytesIO()
                plain = writer.WriteOptions(include_header=False)
                writer.write_csv(stored.read_row_group(group), text, plain)
                copy.write(text.getbuffer())


SOURCES: dict[str, Callable[[Path], Source]] = {
    "csv": csv_source,
    "parquet": parquet_source,
    "duckdb": duckdb_source,
    "pandas": pandas_source,
    "polars": polars_source,
    "postgres": postgres_source,
}


def count(source: Source) -> int:
    """Count all marginals of one and two attributes, and return the number of records."""
    from jam_dagster.tables import Workload

    over = domain()
    cliques = Workload.all_k_way(over, 2).downward_closure()
    table = source.counted(over, None, None, cliques)
    assert all(one.sum() == table.records for one in table.marginals(cliques).values())
    return table.records


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ingestion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    kinds = [*SOURCES]
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sources", nargs="+", choices=kinds, default=kinds[:-1])
    parser.add_argument("--database", default="", help="the URL of `postgres`, postgresql://...")
    parser.add_argument("--folder", type=Path, help="where the tables are kept for next time")
    parser.add_argument("--label", default="now", help="the version of the code")
    parser.add_argument("--out", type=Path, help="a CSV file to which rows are added")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.run == "write":
            write(folder, arguments.rows)
            return 0
        if arguments.run:
            name, _, counted = arguments.run.partition("+")
            source = SOURCES[name](folder)
            if counted:
                assert count(source) == arguments.rows
            else:
                domain()
            return 0
        command = [sys.executable, "-m", "benchmarks.ingestion", "--folder", str(folder)]
        command += ["--rows", str(arguments.rows), "--run"]
        environment = {DATABASE: arguments.database, "OMP_NUM_THREADS": "1"}
        try:
            if not (folder / "table.parquet").exists():
                measure([*command, "write"])
            for name in arguments.sources:
                # The file or table of a source is made in a process that is not measured.
                measure([*command, name], environment=environment)
                opened = measure([*command, name], environment=environment)
                counted = measure([*command, f"{name}+count"], environment=environment)
                row = {
                    "code": arguments.label,
                    "source": name,
                    "rows": arguments.rows,
                    "cpu_seconds": round(counted.cpu_seconds - opened.cpu_seconds, 2),
                    "peak_mb": round(counted.peak_bytes / 1e6),
                    "peak_before_mb": round(opened.peak_bytes / 1e6),
                }
                print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
                if arguments.out is not None:
                    new = not arguments.out.exists()
                    with arguments.out.open("a", newline="") as file:
                        writer = csv.DictWriter(file, list(row), lineterminator="\n")
                        if new:
                            writer.writeheader()
                        writer.writerow(row)
        except RunFailedError as error:
            print(f"failed: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
