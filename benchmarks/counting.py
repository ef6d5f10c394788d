"""How long all marginals take to count, and how much memory: from codes, and from a Parquet file.

    python -m benchmarks.counting --rows 10000000 --attributes 15
    python -m benchmarks.counting --rows 32000 --attributes 60
    python -m benchmarks.counting --table census --degree 2

Tables are simulated (see `benchmarks.simulated`): the marginals are all of one to three attributes,
575 of 15 attributes and 36,050 of 60. Every case is a process of its own:

memory      the table's codes are in memory, and the counts are held;
blocks      the same, but the counts are looked at block by block and let go;
encoded     a Parquet file of texts and numbers is encoded in chunks, then as `memory`;
streamed    the same file is checked and counted in one pass, of which no record is kept;
whole       the same file is read whole, then encoded, then as `memory`;
database    the file is loaded into the PostgreSQL server of `--database`, which counts it.

The peak is that of the process, with about 110 MB for Python and its libraries. A server spends its
own. Seconds are those of the processor, in this process.

With `--table`, a folder of `benchmarks.make_census`, its Parquet files are encoded, and all
marginals of `--degree` attributes counted, block by block: nanoseconds a cell of the table, and a
row and marginal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

# Nothing else: this process hands its own peak memory on to those that it starts.
from benchmarks.process import RunFailedError, measure

if TYPE_CHECKING:
    from jam_dagster.tables import Clique, Domain, EncodedTable, MarginalSource, ParquetSource

DEGREE = 3
DATABASE = "JAM_COUNTING_DATABASE"
NUMERIC = 32
"""Attributes of this many values are numbers in the file, and all others texts."""


def domain_of(attributes: int) -> Domain:
    """Return the domain of the simulated table, as values."""
    from benchmarks.simulated import Population
    from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute

    population = Population.of(attributes, seed=0)
    return Domain(
        tuple(
            NumericAttribute(name, tuple(range(0, 3 * NUMERIC + 1, 3)), integer=True)
            if size == NUMERIC
            else CategoricalAttribute(name, tuple(f"value {code:02d}" for code in range(size)))
            for name, size in zip(population.names, population.sizes, strict=True)
        )
    )


def cliques_of(domain: Domain) -> tuple[Clique, ...]:
    """Return all marginals of one to three attributes."""
    from jam_dagster.tables import Workload

    return Workload.all_k_way(domain, DEGREE).downward_closure()


def simulate(rows: int, attributes: int) -> EncodedTable:
    """Return the simulated table as codes."""
    import numpy as np

    from benchmarks.simulated import CHUNK, Population
    from jam_dagster.tables import EncodedTable

    population = Population.of(attributes, seed=0)
    rng = np.random.default_rng(0)
    columns = [np.empty(rows, dtype=np.uint8) for _ in population.names]
    for start in range(0, rows, CHUNK):
        chunk = population.draw(min(CHUNK, rows - start), rng)
        for column, name in zip(columns, population.names, strict=True):
            column[start : start + len(chunk)] = chunk[name]
    return EncodedTable(domain_of(attributes), tuple(columns))


def write_parquet(path: Path, rows: int, attributes: int, group_rows: int) -> None:
    """Write the simulated table as values, in row groups of some rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.simulated import Population
    from jam_dagster.tables import CategoricalAttribute

    population = Population.of(attributes, seed=0)
    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, group_rows):
        codes = population.draw(min(group_rows, rows - start), rng)
        arrays = [
            pa.DictionaryArray.from_arrays(codes[one.name], list(one.values)).cast(pa.string())
            if isinstance(one, CategoricalAttribute)
            else pa.array(codes[one.name].to_numpy().astype(np.int64) * 3 + 1)
            for one in domain_of(attributes).attributes
        ]
        table = pa.table(arrays, list(population.names))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=group_rows)
    if writer is not None:
        writer.close()


def count_in_memory(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of counting what is in memory."""
    return _counting(lambda: simulate(rows, attributes), "simulate")


def count_in_blocks(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of counting what is in memory, holding one block of marginals."""
    from jam_dagster.tables import marginal_blocks

    table = simulate(rows, attributes)
    started = time.process_time()
    for counts in marginal_blocks(table, cliques_of(table.domain)):
        assert all(one.sum() == rows for one in counts.values())
    return {"count": time.process_time() - started}


def count_encoded(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of encoding a file in chunks and counting."""
    from jam_dagster.tables.sources import parquet

    parquet.ENCODED_BYTES = sys.maxsize
    domain = domain_of(attributes)
    return _counting(lambda: _source(path).counted(domain, None, None), "encode")


def count_streamed(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of checking and counting a file in one pass, and of all marginals then."""
    from jam_dagster.tables.sources import parquet

    parquet.ENCODED_BYTES = 0
    domain = domain_of(attributes)
    asked = cliques_of(domain)
    return _counting(lambda: _source(path).counted(domain, None, None, asked), "pass")


def count_whole(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of reading a file whole, encoding and counting."""
    from jam_dagster.tables import encode

    domain = domain_of(attributes)
    return _counting(lambda: encode(_source(path).read(private=True), domain), "encode")


def count_table(folder: Path, degree: int) -> dict[str, float]:
    """Return the nanoseconds of encoding a cell of a folder, and of counting a row and marginal."""
    from jam_dagster.tables import Domain, ParquetSource, Workload, marginal_blocks

    domain = Domain.load(folder / "domain.json")
    asked = Workload.all_k_way(domain, degree).cliques
    started = time.process_time()
    table = ParquetSource(str(folder / "priv")).counted(domain, None, None)
    encoded = time.process_time()
    for counts in marginal_blocks(table, asked):
        assert all(one.sum() == table.records for one in counts.values())
    counted = time.process_time()
    return {
        "to encode a cell": (encoded - started) / (table.records * len(domain.names)) * 1e9,
        "to count a row and marginal": (counted - encoded) / (table.records * len(asked)) * 1e9,
    }


def load(database: str, path: Path) -> None:
    """Copy a file into the table `people` of a database, in place of what it held."""
    import psycopg
    import pyarrow.parquet as pq
    from pyarrow import csv, types

    file = pq.ParquetFile(path)
    columns = ", ".join(
        f"{one.name} {'bigint' if types.is_integer(one.type) else 'text'}"
        for one in file.schema_arrow
    )
    with psycopg.connect(database) as connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute(f"CREATE TABLE people ({columns})")
        with connection.cursor().copy("COPY people FROM STDIN (FORMAT csv, HEADER)") as copy:
            for group in range(file.num_row_groups):
                text = BytesIO()
                csv.write_csv(
                    file.read_row_group(group), text, csv.WriteOptions(include_header=not group)
                )
                copy.write(text.getbuffer())


def count_by_database(rows: int, attributes: int, path: Path) -> dict[str, float]:
    """Return the seconds of counting what `load` put into a database."""
    from jam_dagster.tables import SqlSource

    domain = domain_of(attributes)
    source = SqlSource(os.environ[DATABASE], "select * from people")
    return _counting(lambda: source.counted(domain, None, None, cliques_of(domain)), "pass")


CASES: dict[str, Callable[[int, int, Path], dict[str, float]]] = {
    "memory": count_in_memory,
    "blocks": count_in_blocks,
    "encoded": count_encoded,
    "streamed": count_streamed,
    "whole": count_whole,
    "database": count_by_database,
}
DEFAULT_CASES = ("memory", "blocks", "encoded", "streamed")


def _source(path: Path) -> ParquetSource:
    from jam_dagster.tables import ParquetSource

    return ParquetSource(str(path))


def _counting(open_table: Callable[[], MarginalSource], opening: str) -> dict[str, float]:
    started = time.process_time()
    table = open_table()
    opened = time.process_time()
    counts = table.marginals(cliques_of(table.domain))
    ended = time.process_time()
    assert all(one.sum() == table.records for one in counts.values())
    return {opening: opened - started, "count": ended - opened}


def _print_table(folder: Path, degree: int) -> int:
    command = [sys.executable, "-m", "benchmarks.counting", "--run", "table"]
    try:
        measured = measure([*command, "--table", str(folder), "--degree", str(degree)])
    except RunFailedError as error:
        print(error, file=sys.stderr)
        return 1
    took = json.loads(measured.output)
    said = ", ".join(f"{nanoseconds:.2f} ns {name}" for name, nanoseconds in took.items())
    print(f"{said}; peak memory {measured.peak_bytes / 2**20:,.0f} MB", flush=True)
    return 0


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counting",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--attributes", type=int, default=15)
    parser.add_argument("--group-rows", type=int, default=1_000_000, help="rows of a row group")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=DEFAULT_CASES)
    parser.add_argument("--folder", type=Path, help="where the Parquet file is kept for next time")
    parser.add_argument("--table", type=Path, help="a folder of make_census, counted alone")
    parser.add_argument("--degree", type=int, default=2, help="attributes a marginal of --table")
    parser.add_argument("--database", default="", help="the URL of `database`, postgresql://...")
    parser.add_argument("--run", choices=["write", "load", "table", *CASES], help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    sizes = f"{arguments.rows}-{arguments.attributes}-{arguments.group_rows}"
    if arguments.run == "table":
        print(json.dumps(count_table(arguments.table, arguments.degree)))
        return 0
    if arguments.run is not None:
        path = arguments.folder / f"people-{sizes}.parquet"
        if arguments.run == "write":
            write_parquet(path, arguments.rows, arguments.attributes, arguments.group_rows)
        elif arguments.run == "load":
            load(os.environ[DATABASE], path)
        else:
            took = CASES[arguments.run](arguments.rows, arguments.attributes, path)
            print(json.dumps(took))
        return 0
    if arguments.table is not None:
        return _print_table(arguments.table, arguments.degree)
    print(f"{arguments.rows:,} rows, {arguments.attributes} attributes", flush=True)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.counting", "--folder", str(folder)]
        for name in ("rows", "attributes", "group_rows"):
            command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
        try:
            reads_file = set(arguments.cases) - {"memory", "blocks"}
            if reads_file and not (folder / f"people-{sizes}.parquet").exists():
                measure([*command, "--run", "write"])
            if "database" in arguments.cases:
                os.environ[DATABASE] = arguments.database
                measure([*command, "--run", "load"])
            for case in arguments.cases:
                measured = measure([*command, "--run", case])
                steps = ", ".join(
                    f"{name} {seconds:.1f} s"
                    for name, seconds in json.loads(measured.output).items()
                )
                peak = measured.peak_bytes / 2**20
                print(
                    f"{case:9} {steps}; {measured.cpu_seconds:.1f} s CPU in all,"
                    f" peak memory {peak:,.0f} MB",
                    flush=True,
                )
        except RunFailedError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
