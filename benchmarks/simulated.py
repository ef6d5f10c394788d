"""Simulated tables of any size, for growth: a private one and a biased public one.

    python -m benchmarks.simulated FOLDER --rows 100000 --attributes 15

The attributes have the numbers of values of UCI Adult's, over and over. Each depends on two of
those before it, so that marginals of two and three attributes say something that those of one do
not. The public table is a tenth as long, a million rows at most, and biased: the lower half of the
first attribute's values is three times as likely, which shifts the shares of everything that
depends on it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

SIZES = (16, 32, 9, 32, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
"""Values of UCI Adult's attributes in the JAM paper, which has 2.7 million cells in all triples."""

CHUNK = 100_000
"""Rows simulated at a time."""

PUBLIC_ROWS, PUBLIC_BIAS = 0.1, 3.0
MOST_PUBLIC_ROWS = 1_000_000


@dataclass(frozen=True)
class Population:
    """A network of attributes from which records are drawn.

    Parameters
    ----------
    sizes
        Number of values of each attribute.
    parents
        The attributes, none to two, on which each depends.
    tables
        Cumulative probabilities of each attribute's values, one row a combination of its parents'.
    """

    sizes: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, attributes: int, seed: int) -> Population:
        """Return a random network; the first attributes of a larger one are the smaller one."""
        rng = np.random.default_rng([seed, 0])
        sizes: list[int] = []
        parents: list[tuple[int, ...]] = []
        tables: list[np.ndarray] = []
        for number in range(attributes):
            size = SIZES[number % len(SIZES)]
            # Near ones, so that far-off attributes depend on each other only through many others.
            before = range(max(0, number - 6), number)
            chosen = tuple(sorted(rng.choice(before, size=min(2, len(before)), replace=False)))
            rows = int(np.prod([sizes[parent] for parent in chosen], dtype=np.int64))
            # Below one, a few values take most of the mass, and other ones for each combination.
            weights = rng.gamma(0.1, size=(rows, size)) + 1e-6
            # What all combinations have in common keeps marginals of one attribute uneven.
            weights *= rng.gamma(0.3, size=size) + 1e-3
            cumulative = np.cumsum(weights, axis=1)
            sizes.append(size)
            parents.append(tuple(int(parent) for parent in chosen))
            tables.append(cumulative / cumulative[:, -1:])
        return cls(tuple(sizes), tuple(parents), tuple(tables))

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(f"a{number:02d}" for number in range(len(self.sizes)))

    def draw(self, rows: int, rng: np.random.Generator, *, bias: float = 1.0) -> pd.DataFrame:
        """Return records, as codes.

        Parameters
        ----------
        rows
            How many.
        rng
            Draws them.
        bias
            How many times more likely the lower half of the first attribute's values is made.
        """
        columns: list[np.ndarray] = []
        for number, (size, parents) in enumerate(zip(self.sizes, self.parents, strict=True)):
            table = self.tables[number]
            if number == 0 and bias != 1.0:
                weights = np.diff(table, prepend=0.0)
                weights[:, : size // 2] *= bias
                table = np.cumsum(weights, axis=1)
                table /= table[:, -1:]
            group = np.zeros(rows, dtype=np.int64)
            for parent in parents:
                group = group * self.sizes[parent] + columns[parent]
            # All rows of the table one after another: row g covers the numbers from g to g + 1.
            line = (table + np.arange(len(table))[:, None]).ravel()
            cell = np.searchsorted(line, group + rng.random(rows), side="right")
            columns.append(np.minimum(cell - group * size, size - 1).astype(np.uint8))
        return pd.DataFrame(dict(zip(self.names, columns, strict=True)))


def write_tables(folder: Path, *, rows: int, attributes: int, seed: int = 0) -> None:
    """Write ``priv.parquet``, ``pub.parquet`` and ``domain.json``.

    They go to disk in row groups of 100,000, so their size is bounded by the disk only.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    population = Population.of(attributes, seed)
    folder.mkdir(parents=True, exist_ok=True)
    public_rows = min(max(1, round(PUBLIC_ROWS * rows)), MOST_PUBLIC_ROWS)
    parts = (("priv", rows, 1.0), ("pub", public_rows, PUBLIC_BIAS))
    for stream, (name, wanted, bias) in enumerate(parts, start=1):
        rng = np.random.default_rng([seed, stream])
        path = folder / f"{name}.parquet"
        schema = pa.schema([(attribute, pa.uint8()) for attribute in population.names])
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, wanted, CHUNK):
                chunk = population.draw(min(CHUNK, wanted - start), rng, bias=bias)
                writer.write_table(pa.Table.from_pandas(chunk, schema, preserve_index=False))
    sizes = dict(zip(population.names, population.sizes, strict=True))
    # Written last: where it stands, the tables are whole.
    (folder / "domain.json").write_text(json.dumps(sizes))


def main(given: Sequence[str] | None = None) -> int:
    """Write the tables; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--attributes", type=int, default=15)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    write_tables(
        arguments.folder,
        rows=arguments.rows,
        attributes=arguments.attributes,
        seed=arguments.seed,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
