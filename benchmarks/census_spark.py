"""A table as large as a census, counted by executors of Spark, one of which is killed.

    python -m benchmarks.make_census census --rows 20000000 --columns 30
    python -m benchmarks.census_spark census --out docs/measurements/census.parquet

It needs Java, and ``pip install 'jam-dagster[spark]'``. All marginals of `--degree` attributes are
counted by Spark, once more while an executor is killed halfway, and by this process from the files:
counts that differ are an error. The master ``local-cluster[2,1,1024]`` starts two
executors as processes of their own, of one core and a gibibyte of heap each. A row of the file has

    cpu_seconds    of the executors and their Python workers; of this process where it counts
    wall_seconds   from the start of the session to the last count
    peak_bytes     the most memory that all processes held together, as far as they have it alone
    stages         as JSON, the most that the driver's processes held in bytes, and an executor with
                   its workers, and the executors that were started
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.census import Row, add_row, kilobytes, own_cpu
from jam_dagster.tables import Clique, Domain, ParquetSource, SparkSource, Workload
from jam_dagster.tables.codes.marginals import MarginalSource

MASTER = "local-cluster[2,1,1024]"
EVERY = 0.25
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Watch:
    """Memory and time of this process and those that it started, at most a quarter second old.

    `killing` has the seconds after which an executor is killed; None: none is.
    """

    killing: float | None = None
    peak: int = 0
    driver: int = 0
    executor: int = 0
    cpu: dict[int, float] = field(default_factory=dict)
    executors: set[int] = field(default_factory=set)
    killed: int | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look until the context ends."""
        done = threading.Event()

        def look() -> None:
            started = time.monotonic()
            while not done.wait(EVERY):
                self._look()
                late = self.killing is not None and time.monotonic() - started > self.killing
                if late and self.killed is None and self.executors:
                    self.killed = max(self.executors)
                    os.kill(self.killed, signal.SIGKILL)

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _look(self) -> None:
        parents = dict(_parents())
        own: dict[int, int | None] = {os.getpid(): None}
        # A process starts after its parent, so its number is mostly larger, but not always.
        for _ in range(8):
            own |= {one: parent for one, parent in parents.items() if parent in own}
        for one in own:
            if one not in self.executors and EXECUTOR in _command(one):
                self.executors.add(one)
        held = dict.fromkeys([*self.executors, os.getpid()], 0)
        for one in own:
            # The nearest executor above a process, or this process.
            at: int | None = one
            while at is not None and at not in held:
                at = own.get(at)
            held[os.getpid() if at is None else at] += kilobytes(
                Path(f"/proc/{one}/smaps_rollup"), "Pss_Anon:", "Pss_Shmem:"
            )
            if at in self.executors:
                self.cpu[one] = max(self.cpu.get(one, 0.0), own_cpu(one))
        self.peak = max(self.peak, sum(held.values()))
        self.driver = max(self.driver, held.pop(os.getpid()))
        self.executor = max(self.executor, *held.values(), 0)


def _parents() -> Iterator[tuple[int, int]]:
    for process in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            after = (process / "stat").read_text().rpartition(")")[2].split()
            yield int(process.name), int(after[1])


def _command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_text(errors="replace")
    return ""


def link_spark(folder: Path) -> None:
    """Link PySpark below a folder: executors write below ``SPARK_HOME``."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    for one in ("bin", "jars", "python"):
        (folder / one).symlink_to(installed / one)


def counted(
    source: ParquetSource | SparkSource, domain: Domain, degree: int, watch: Watch
) -> tuple[MarginalSource, float]:
    """Count all marginals of so many attributes; return them, and the seconds that passed."""
    asked = Workload.all_k_way(domain, degree).downward_closure()
    started = time.monotonic()
    with watch.watching():
        found = source.counted(domain, None, None, asked)
        found.marginals(asked)
    return found, time.monotonic() - started


def main(given: Sequence[str] | None = None) -> int:
    """Count by Spark, by Spark without one of its executors, and by this process."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.census_spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("tables", type=Path, help="the folder of benchmarks.make_census")
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--label", default="now", help="the version of the code")
    parser.add_argument("--out", type=Path, help="a Parquet file to which rows are added")
    options = parser.parse_args(given)
    domain = Domain.load(options.tables / "domain.json")
    asked = Workload.all_k_way(domain, options.degree).downward_closure()
    people = (options.tables / "priv").absolute()
    spark = SparkSource(MASTER, f"select * from parquet.`{people}`")
    counts: list[dict[Clique, np.ndarray]] = []
    halfway: float | None = None
    with tempfile.TemporaryDirectory(prefix="jam-spark-") as home:
        link_spark(Path(home))
        os.environ["SPARK_HOME"] = home
        # This process counts last: what it holds then is not the driver's memory.
        for part in ("count by Spark", "count by Spark without one executor", "count"):
            watch = Watch(halfway if "without" in part else None)
            started = time.process_time()
            source = ParquetSource(str(people)) if part == "count" else spark
            found, wall = counted(source, domain, options.degree, watch)
            own, halfway = time.process_time() - started, wall / 2
            counts.append(found.marginals(asked))
            if not all(np.array_equal(counts[0][one], counts[-1][one]) for one in asked):
                raise SystemExit(f"{part}: the counts differ from those of before")
            if watch.killing is not None and watch.killed is None:
                raise SystemExit(f"{part}: it ended before an executor was killed")
            cpu = own if part == "count" else sum(watch.cpu.values())
            row = _row(part, found.records, domain, cpu, wall, watch, options)
            print(json.dumps(row), flush=True)
            if options.out is not None:
                add_row(options.out, row)
    return 0


def _row(
    part: str,
    records: int,
    domain: Domain,
    cpu: float,
    wall: float,
    watch: Watch,
    options: argparse.Namespace,
) -> Row:
    held = {"driver": watch.driver, "executor": watch.executor, "executors": len(watch.executors)}
    return {
        "table": "parquet",
        "rows": records,
        "columns": len(domain.names),
        "degree": options.degree,
        "epsilon": None,
        "part": part,
        "status": "done",
        "cpu_seconds": round(cpu, 2),
        "wall_seconds": round(wall, 2),
        "peak_bytes": watch.peak,
        "read_bytes": None,
        "limit_bytes": None,
        "stages": json.dumps(held),
        "code": options.label,
        "measured": datetime.now(UTC).date().isoformat(),
    }


if __name__ == "__main__":
    sys.exit(main())
