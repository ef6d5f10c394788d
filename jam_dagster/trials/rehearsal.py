"""The time of the steps after a mechanism, which are taken for some rows of a trial's model."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from jam_dagster.certificates.table import table_csv
from jam_dagster.common.operating_system import peak_memory_mb
from jam_dagster.evaluation import workload_error
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.mechanisms.loops.rows import CHUNK_ROWS, MOST_AT_ONCE, processes_bytes
from jam_dagster.release.documents import MadeRelease, made_rows
from jam_dagster.release.engine import prior_rows
from jam_dagster.release.run import ReleaseIdentity, ReleaseRun
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.sources.parquet import ParquetSource
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from jam_dagster.mechanisms import MechanismResult
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import EncodedTable

MOST_UNREHEARSED = CHUNK_ROWS
"""The most records of a release that is not rehearsed. Its last steps take seconds."""

_AT_ONCE = (CHUNK_ROWS // 8, CHUNK_ROWS // 4, CHUNK_ROWS)
_IN_CHUNKS = (CHUNK_ROWS // 8, CHUNK_ROWS, 2 * CHUNK_ROWS)
"""Rows of each try: the first loads libraries, and the others differ by the rows alone.

If rows are made in chunks, the last two differ by a chunk that is not the first, in which checks
look for a row of each value. Great Expectations takes seconds for a table of whatever size, which
vary by more than a chunk takes: it checks the rows of the first try, and those of the others are
counted for it.
"""


@dataclass
class Rehearsal:
    """CPU-seconds of a release's steps after its mechanism, by their number of rows.

    A release of so many `records` makes its rows `in_chunks`, or all at once, and may be
    `evaluated`. `taken` has the seconds of each stage for each of the tried numbers of rows, and
    `table_bytes` what the last of these tables holds in memory, if it is made at once; else
    `process_bytes` has the processes that make chunks. `peak_mb` is this process's peak, if it
    grew; else 0.
    """

    records: int
    in_chunks: bool
    evaluated: bool
    taken: dict[str, list[float]] = field(default_factory=dict)
    table_bytes: int = 0
    process_bytes: float = 0.0
    peak_mb: float = 0.0

    @classmethod
    def of(
        cls, spec: ReleaseSpec, result: MechanismResult, public: EncodedTable, records: int
    ) -> Rehearsal:
        """Make, read, evaluate and check some rows of a trial's model in a temporary folder.

        They are not searched.
        """
        in_chunks = records > MOST_AT_ONCE and result.model.domain.children is None
        before = peak_memory_mb()
        made = cls(records, in_chunks, spec.evaluation_mode != "off")
        if in_chunks:
            transcript = replace(result.transcript, records=records, chunk_rows=CHUNK_ROWS)
            made.process_bytes = processes_bytes(result.model, transcript)
        for rows in made._tries:
            made._take(spec, result, public, rows)
        after = peak_memory_mb()
        made.peak_mb = after if after > before else 0.0
        return made

    @property
    def _tries(self) -> tuple[int, int, int]:
        return _IN_CHUNKS if self.in_chunks else _AT_ONCE

    @property
    def rows(self) -> int:
        """The most rows that were made at a time."""
        return self._tries[-1]

    def _take(
        self, spec: ReleaseSpec, result: MechanismResult, public: EncodedTable, rows: int
    ) -> None:
        chunks = CHUNK_ROWS if self.in_chunks else None
        known = {one.name: getattr(result, one.name) for one in fields(result)}
        known["transcript"] = replace(result.transcript, records=rows, chunk_rows=chunks)
        domain = result.model.domain
        run = ReleaseRun(**known, release=ReleaseIdentity.of(spec, domain, ""))
        workload = spec.workload.build(domain)
        with TemporaryDirectory(prefix="jam-") as folder:
            path = Path(folder) / "synthetic.parquet"
            with self._stage("sample"):
                made = made_rows(spec, run, path)
                self._write(made, spec)
            if self.in_chunks:
                with self._stage("encode"):
                    ParquetSource(str(path)).counted(domain, None, None, ())
            again = self.in_chunks and "checks" in self.taken
            # Counts take as long for more rows.
            if self.evaluated and not (again and isinstance(made.counts, CountedTable)):
                with self._stage("evaluate"):
                    prior = cache(partial(prior_rows, run, public))
                    given = (public, made.counts, public, workload)
                    workload_error(*given, mode="exact", prior=prior)
            with self._stage("checks"):
                if again:
                    CheckedTable.of(made.table, domain, rows, run.transcript, run.model, public)
                else:
                    # Kept checks of equal rows would take no time.
                    replace(made, public=public).check()

    def _write(self, made: MadeRelease, spec: ReleaseSpec) -> None:
        if isinstance(made.table, TableFile):
            return
        domain = made.run.model.domain
        tables = [(made.table, domain.roots)]
        if made.children is not None and domain.children is not None:
            tables.append((made.children, domain.children.domain))
        self.table_bytes = sum(int(one.memory_usage(deep=True).sum()) for one, _ in tables)
        for one, own in tables:
            table_csv(one, own, spec.dialect)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        # The stages before may leave garbage, which is no cost of this one.
        gc.collect()
        started = time.process_time()
        yield
        self.taken.setdefault(name, []).append(time.process_time() - started)

    def expected(self, search: float) -> dict[str, float]:
        """Return the CPU-seconds of each stage for all records.

        Rows that are made at once are searched, and so are those of the public prior, to which an
        evaluation compares them: each takes the seconds of a `search`.
        """
        found = {stage: self._expected(taken) for stage, taken in self.taken.items()}
        if not self.in_chunks:
            for stage in {"sample", "evaluate"} & found.keys():
                found[stage] += search
        return found

    def _expected(self, taken: Sequence[float]) -> float:
        first, *others = taken
        if not others:
            return first
        less, more = others
        of_first, of_less, of_more = self._tries
        each = max(0.0, more - less) / (of_more - of_less)
        return first + each * (self.records - of_first)

    @property
    def rows_mb(self) -> float:
        """MB that making all rows takes beyond the largest try: the rows, or other processes."""
        more = self.table_bytes / self.rows * (self.records - self.rows)
        return (more + self.process_bytes) / 2**20
