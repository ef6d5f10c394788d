"""Queries that Spark runs and counts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.errors import InputError, OutsideDomainError, SourceError
from jam_dagster.tables.codes.block_counts import CountedTable, counted_marginals
from jam_dagster.tables.codes.encode import check_possible, each_encoded, encode
from jam_dagster.tables.codes.marginals import counts_dtype
from jam_dagster.tables.codes.table import EncodedTable, count_blocks
from jam_dagster.tables.domain.columns import exact_columns, frame_of
from jam_dagster.tables.sources.identity import canonical, query_text
from jam_dagster.tables.sources.reading import (
    check_unique,
    expand_variables,
    quoted,
    reading,
    reading_values,
)
from jam_dagster.tables.sources.source import Source, check_records_only

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.domain import Clique, Domain
    from jam_dagster.tables.sources.source import Limit

_ROWS = 1 << 16
"""Largest number of rows in a batch of counts."""


@dataclass(frozen=True)
class SparkSource(Source):
    """A query that Spark runs and counts in one pass.

    Each partition is encoded and counted by a Python worker of Spark, which has this package in the
    version of the driver, and only counts leave it. Spark sums them, and keeps them on the disks of
    its executors meanwhile.

    Parameters
    ----------
    address
        ``sc://HOST:PORT`` of a Spark Connect server, or the URL of a master, such as ``local[4]``;
        ``${VARIABLE}`` is expanded when the table is read.
    query
        The SQL, such as ``SELECT * FROM people``.
    """

    address: str
    query: str

    has_rows: ClassVar[bool] = False
    records_only: ClassVar[str] = "spark"

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the whole table (see `Source.read`)."""
        with self._asked(private) as rows:
            whole = reading_values(self.describe(), private, lambda: frame_of(rows.toArrow()))
        return whole if private else exact_columns(whole)

    def names(self) -> list[str]:
        """Return the names of the columns; no row is read."""
        with self._asked(False) as rows:
            return list(rows.columns)

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Count the marginals that may be asked for in Spark."""
        with self._asked(True) as rows:
            # No row decides whether the columns exist.
            _check_workers(rows.sparkSession)
            empty = reading(self.describe(), True, lambda: frame_of(rows.limit(0).toArrow()))
            encode(empty, domain)
            counts = reading(self.describe(), True, lambda: _counts(rows, domain, cliques))
            return self._summed(counts.toArrow, domain, counted_marginals(domain, cliques))

    def _summed(
        self, collect: Callable[[], pa.Table], domain: Domain, blocks: Sequence[Clique]
    ) -> CountedTable:
        """Collect the counts; any failure may depend on values, so all raise the same error."""
        return reading_values(
            self.describe(),
            True,
            lambda: counted_groups(_groups(collect(), blocks), domain, blocks),
        )

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Count the rows in Spark (see `Source.count_records`)."""
        check_records_only(self, unit is not None)
        with redacted("counting the private table"), self._asked(True) as rows:
            return int(reading_values(self.describe(), True, rows.count))

    @contextmanager
    def _asked(self, private: bool) -> Iterator[DataFrame]:
        """Have Spark analyse the query; no row is read yet."""
        address = expand_variables(self.address)
        with _session(address) as session:
            rows = reading(
                self.describe(), private, lambda: session.sql(self.query), place=self.address
            )
            check_unique(self.describe(), rows.columns, "give each one an alias")
            yield rows

    def describe(self) -> str:
        """Return ``query on Spark at ADDRESS``, without the options of the address."""
        return f"query on Spark at {self.address.partition(';')[0].rstrip('/')}"

    def identity(self) -> str:
        """Return the address without options, and the query (see `Source.identity`)."""
        place = expand_variables(self.address).partition(";")[0].rstrip("/")
        return canonical(spark=place, query=query_text(self.query))

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"spark": self.address, "query": self.query}


def _check_workers(session: SparkSession) -> None:
    """Raise unless a Python worker has this package, in this version; no row is looked at."""
    from jam_dagster.version import __version__

    with suppress(Exception):
        ((found,),) = session.range(1).mapInArrow(_versions, "version string").collect()
        if found == __version__:
            return
    raise SourceError(
        f"Spark's Python workers do not have jam_dagster {__version__}: install it where they run,"
        " in the Python version of this process. Nothing was charged"
    )


def _versions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from jam_dagster.version import __version__

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"version": [__version__]})


def _counts(rows: DataFrame, domain: Domain, cliques: Sequence[Clique]) -> DataFrame:
    # A name of a column may be anything.
    plain = [f"c{index}" for index in range(len(domain.names))]
    columns = rows.select(*(quoted(name, "`") for name in domain.names)).toDF(*plain)
    counted = columns.mapInArrow(counting(domain, cliques), "block long, cell long, n long")
    return counted.groupBy("block", "cell").agg({"n": "sum"})


def counting(
    domain: Domain, cliques: Sequence[Clique]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that counts the blocks of a partition's rows in Spark's workers.

    The rows have a column for each attribute, in the domain's order. The function yields a row
    ``(block, cell, n)`` for each cell that occurs. For a partition that cannot be counted it yields
    a cell of -1 and no reason: logs show a worker's exceptions, with values.
    """

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            named = (batch.rename_columns(list(domain.names)) for batch in batches)
            counted = count_blocks(each_encoded(named, domain), domain, cliques)
            groups = list(counted.blocks.values())
        except Exception:
            yield _batch(0, np.array([-1]), np.array([1]))
            return
        for number, counts in enumerate(groups):
            flat = np.ravel(counts)
            (cells,) = np.nonzero(flat)
            for start in range(0, len(cells), _ROWS):
                some = cells[start : start + _ROWS]
                yield _batch(number, some, flat[some])

    return count


def _batch(
    block: int, cells: npt.NDArray[np.int64], counts: npt.NDArray[np.integer[Any]]
) -> pa.RecordBatch:
    import pyarrow as pa

    columns = (np.full(len(cells), block), cells, counts)
    return pa.RecordBatch.from_arrays(
        [pa.array(one, pa.int64()) for one in columns], names=["block", "cell", "n"]
    )


def _groups(
    found: pa.Table, blocks: Sequence[Clique]
) -> Iterator[tuple[Clique, npt.NDArray[np.int64]]]:
    """Yield each block with some of its cells and their counts."""
    rows = np.array([column.to_numpy() for column in found.columns], dtype=np.int64)
    if (rows[1] < 0).any():
        raise OutsideDomainError("the table holds records that do not fit the domain")
    rows = rows[:, np.argsort(rows[0], kind="stable")]
    starts = np.flatnonzero(np.diff(rows[0], prepend=-1))
    for start, end in pairwise([*starts, rows.shape[1]]):
        yield blocks[rows[0, start]], rows[1:, start:end]


def counted_groups(
    groups: Iterable[tuple[Clique, npt.NDArray[np.int64]]],
    domain: Domain,
    blocks: Sequence[Clique],
) -> CountedTable:
    """Take the counts of workers, and check that all records are in the domain.

    A group is a block, and some of its cells with their counts, shape (2, cells). The error that is
    raised depends on private values.
    """
    counts = {block: np.zeros(domain.size(block), np.int64) for block in blocks}
    for block, (cells, found) in groups:
        counts[block][cells] += found
    records, *others = sorted({int(one.sum()) for one in counts.values()})
    if others:
        raise InputError("the query gives other rows each time that it is asked")
    shaped = {}
    for block, flat in counts.items():
        sizes = [domain.sizes[name] for name in block]
        shaped[block] = flat.astype(counts_dtype(records)).reshape(sizes)
        within = domain.project(block)
        if within.forbidden:
            check_possible(EncodedTable(within, np.nonzero(shaped[block])))
    return CountedTable(domain, records, shaped)


@contextmanager
def _session(address: str) -> Iterator[SparkSession]:
    """Yield a session whose instants are in UTC, whatever the machine's zone."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SourceError(
            "source 'spark' needs PySpark: install it, with pip install 'jam-dagster[spark]'"
        ) from None

    found = SparkSession.getActiveSession()
    if found is None:
        builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
        if address.startswith("local"):
            # Otherwise Spark starts the first Python on the path.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if address.startswith("sc://"):
            builder = builder.remote(address)
        else:
            # Executors follow `setLogLevel` only if asked; those that replace lost ones never do.
            builder = builder.master(address).config("spark.executor.syncLogLevel.enabled", "true")
        session = reading("Spark", True, builder.getOrCreate)
    else:
        session = found
    zone = session.conf.get("spark.sql.session.timeZone")
    _silence()
    try:
        if ".connect." not in type(session).__module__:
            # A task that fails is logged with the value that it failed on.
            session.sparkContext.setLogLevel("OFF")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session
    finally:
        if found is None:
            session.stop()
        else:
            session.conf.set("spark.sql.session.timeZone", zone or "UTC")


def _silence() -> None:
    """Keep PySpark from logging exceptions: they quote the value that an expression failed on."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
