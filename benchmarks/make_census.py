"""Simulated tables as large as a census: mixed columns in blocks that depend on each other.

    python -m benchmarks.make_census FOLDER --rows 5000000 --columns 30
    python -m benchmarks.make_census FOLDER --rows 132000000 --columns 80 --duckdb

Columns are texts, integers, numbers with decimals and months, of 2 to 200 cells. Each block of ten
has a hidden class that follows that of the block before. A column depends on the class of its
block, and on the column before it if that has few values. In a quarter of the columns a thirtieth
of the cells is missing.

The private table is a folder of Parquet files, each from a seed of its own, and on request a DuckDB
file, too. The public table is a sample of a moved distribution: in each block the lower half of the
classes is more likely. Memory is that of a chunk of rows, whatever the size.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SIZES = (2, 3, 5, 8, 2, 12, 6, 4, 20, 3, 100, 9, 2, 16, 7, 4, 200, 5, 10, 30)
"""Values of the columns, over and over. All pairs of 80 columns have 1.5 million cells."""

INTEGERS, NUMBERS, MONTHS = (5, 8, 10), (16, 18), (19,)
"""The columns that are no texts, by their places among the sizes."""

CHUNK = 100_000
"""Rows simulated at a time: a row group."""

BLOCK, CLASSES, FEW = 10, 8, 20
STEPS = 4096
"""Shares of values are multiples of 1 / 4096, so that drawing one is a look into a table."""

STAYS = 0.5
MISSING_OF_256 = 8
MOVED = 2.0
"""How many times more likely the lower half of the classes is in the public table."""

WIDTH, FIRST_YEAR = 5, 1990


@dataclass(frozen=True)
class Column:
    """A column: where it is, how many values it has, and the value of each step of each group.

    Parameters
    ----------
    steps
        Shape (groups, STEPS): a group is a class, or one with a value of the column before.
    follows
        Whether groups have the value of the column before.
    """

    number: int
    size: int
    steps: np.ndarray
    follows: bool

    @property
    def name(self) -> str:
        """The name."""
        return f"c{self.number:02d}"

    @property
    def place(self) -> int:
        """Its place among the sizes, which decides its kind."""
        return self.number % len(SIZES)

    @property
    def has_gaps(self) -> bool:
        """Whether cells are missing."""
        return self.number % 4 == 3

    def entry(self) -> dict[str, Any]:
        """Return its entry of a domain file."""
        gaps = {"nullable": True} if self.has_gaps else {}
        if self.place in (*INTEGERS, *NUMBERS):
            edges = [WIDTH * code for code in range(self.size + 1)]
            kind = {"integer": True} if self.place in INTEGERS else {"decimals": 1}
            return {"edges": edges, **kind, "outside": "clip", **gaps}
        if self.place in MONTHS:
            bounds = [str(_month(0)), str(_month(self.size - 1).replace(day=28))]
            return {"bounds": bounds, "unit": "month", "outside": "clip", **gaps}
        return {"values": self.texts(), **gaps}

    def texts(self) -> list[str]:
        """Return the values of a column of texts."""
        return [f"{self.name} {code:03d}" for code in range(self.size)]

    def cells(self, codes: np.ndarray, rng: np.random.Generator) -> pa.Array:
        """Return the cells of codes: the places within bins are drawn."""
        import pyarrow as pa

        rows, mask = len(codes), None
        if self.has_gaps:
            mask = rng.integers(0, 256, rows, dtype=np.uint8) < MISSING_OF_256
        if self.place in INTEGERS:
            whole = codes.astype(np.int32) * WIDTH + rng.integers(0, WIDTH, rows, dtype=np.int32)
            return pa.array(whole, mask=mask)
        if self.place in NUMBERS:
            tenths = rng.integers(0, 10 * WIDTH, rows, dtype=np.int32)
            return pa.array((codes.astype(np.int32) * 10 * WIDTH + tenths) / 10, mask=mask)
        if self.place in MONTHS:
            epoch = date(1970, 1, 1)
            firsts = [(_month(code) - epoch).days for code in range(self.size)]
            days = np.array(firsts, np.int32)[codes] + rng.integers(0, 28, rows, dtype=np.int32)
            return pa.array(days, pa.int32(), mask=mask).cast(pa.date32())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=mask), self.texts())


@dataclass(frozen=True)
class Census:
    """The population: classes of blocks, and columns.

    Parameters
    ----------
    classes
        The steps of the class of each block, shape (CLASSES, STEPS), by the class before.
    columns
        The columns, by number.
    """

    classes: tuple[np.ndarray, ...]
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, columns: int, seed: int, *, moved: float = 1.0) -> Census:
        """Return a random population; the first columns of a larger one are the smaller one.

        Parameters
        ----------
        columns, seed
            How many, and what decides them.
        moved
            How many times more likely the lower half of the classes is.
        """
        rng = np.random.default_rng([seed, 0])
        classes: list[np.ndarray] = []
        made: list[Column] = []
        for number in range(columns):
            if number % BLOCK == 0:
                shares = rng.dirichlet(np.full(CLASSES, 2.0))
                follow = STAYS * np.eye(CLASSES) + (1.0 - STAYS) * shares
                follow[:, : CLASSES // 2] *= moved
                classes.append(_steps(follow))
            size = SIZES[number % len(SIZES)]
            before = made[-1].size if number % BLOCK else FEW + 1
            groups = CLASSES * (before if before <= FEW else 1)
            weights = rng.gamma(0.3, size=(groups, size)) + 1e-3
            # What all groups have in common keeps the column itself uneven.
            weights *= rng.gamma(0.6, size=size) + 1e-2
            made.append(Column(number, size, _steps(weights), before <= FEW))
        return cls(tuple(classes), tuple(made))

    def draw(self, rows: int, rng: np.random.Generator) -> pa.Table:
        """Return records."""
        import pyarrow as pa

        found = codes = np.zeros(rows, np.intp)
        cells: list[pa.Array] = []
        for column in self.columns:
            if column.number % BLOCK == 0:
                found = _drawn(self.classes[column.number // BLOCK], found, rng).astype(np.intp)
            group = found
            if column.follows:
                group = found * self.columns[column.number - 1].size + codes
            codes = _drawn(column.steps, group, rng)
            cells.append(column.cells(codes, rng))
        return pa.table(cells, names=[column.name for column in self.columns])


def _steps(weights: np.ndarray) -> np.ndarray:
    """Return the value of each step of each row of weights."""
    cumulative = np.cumsum(weights, axis=1)
    cumulative /= cumulative[:, -1:]
    middles = (np.arange(STEPS) + 0.5) / STEPS
    found = [np.searchsorted(row, middles, side="right") for row in cumulative]
    steps: np.ndarray = np.minimum(found, weights.shape[1] - 1).astype(np.uint8)
    return steps


def _drawn(steps: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    places = rng.integers(0, STEPS, len(group), dtype=np.uint16)
    drawn: np.ndarray = steps.ravel()[group * STEPS + places]
    return drawn


def _month(code: int) -> date:
    return date(FIRST_YEAR + code // 12, code % 12 + 1, 1)


def write_parquet(path: Path, census: Census, rows: int, rng: np.random.Generator) -> None:
    """Write records as a Parquet file of plain types, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, rows, CHUNK):
        table = census.draw(min(CHUNK, rows - start), rng)
        # Texts are written from their dictionaries, and read as texts.
        writer = writer or pq.ParquetWriter(path, table.schema, store_schema=False)
        writer.write_table(table)
    if writer is None:
        pq.write_table(census.draw(0, rng), path, store_schema=False)
    else:
        writer.close()
    pa.default_memory_pool().release_unused()


def write_census(
    folder: Path,
    *,
    rows: int,
    columns: int,
    files: int = 200,
    public_rows: int = 50_000,
    duckdb: bool = False,
    seed: int = 0,
) -> None:
    """Write the folder ``priv``, ``pub.parquet`` and ``domain.json``; ``priv.duckdb`` on request.

    Parameters
    ----------
    folder
        Where they are written.
    rows, columns, files
        Of the private table.
    public_rows
        Rows of the public table.
    duckdb
        Whether the table ``people`` of a DuckDB file has the private rows, too.
    seed
        Decides the population, and each file's rows.
    """
    (folder / "priv").mkdir(parents=True, exist_ok=True)
    census = Census.of(columns, seed)
    for number in range(files):
        here = rows * (number + 1) // files - rows * number // files
        rng = np.random.default_rng([seed, 1, number])
        write_parquet(folder / "priv" / f"part-{number:03d}.parquet", census, here, rng)
    moved = Census.of(columns, seed, moved=MOVED)
    write_parquet(folder / "pub.parquet", moved, public_rows, np.random.default_rng([seed, 2]))
    if duckdb:
        _write_duckdb(folder)
    # Written last: if it is there, the tables are whole.
    entries = {column.name: column.entry() for column in census.columns}
    (folder / "domain.json").write_text(json.dumps({"attributes": entries}))


def _write_duckdb(folder: Path) -> None:
    import duckdb

    with duckdb.connect(str(folder / "priv.duckdb")) as made:
        made.execute("set memory_limit = '2GB'")
        found = str(folder / "priv" / "*.parquet").replace("'", "''")
        made.execute(f"create or replace table people as from read_parquet('{found}')")


def main(given: Sequence[str] | None = None) -> int:
    """Write the tables; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.make_census",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--columns", type=int, default=30)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--public-rows", type=int, default=50_000)
    parser.add_argument("--duckdb", action="store_true", help="a DuckDB file, too")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    write_census(
        arguments.folder,
        rows=arguments.rows,
        columns=arguments.columns,
        files=arguments.files,
        public_rows=arguments.public_rows,
        duckdb=arguments.duckdb,
        seed=arguments.seed,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
