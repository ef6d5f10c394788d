"""Count and release a table by Spark's executors, two processes, while one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import TaskContext

from jam_dagster.errors import PrivateValuesError
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.release.synthesize import SynthesisRequest, synthesize
from jam_dagster.tables import Domain, ParquetSource, SparkSource, Workload
from jam_dagster.tables.sources import spark

MASTER, PARTS = sys.argv[1], int(sys.argv[2])


def survives(_: bool, once: str) -> bool:
    """Kill the executor in the last partition, once."""
    context = TaskContext.get()
    if context is not None and context.partitionId() == PARTS - 1:
        asked = ["ps", "-o", "ppid=,command=", "-p", str(os.getppid())]
        executor, daemon = subprocess.check_output(asked, text=True).split(maxsplit=1)
        assert "pyspark.daemon" in daemon
        with suppress(FileExistsError), Path(once).open("x"):
            os.kill(int(executor), signal.SIGKILL)
    return True


def charges(source: dict[str, str], dataset: str) -> list[Any]:
    """Release a table, and return the units of each charge."""
    request = SynthesisRequest.of(
        None,
        private=source,
        domain="domain.json",
        dataset=dataset,
        neighbours="add_remove",
        epsilon=1.0,
        mechanism="independent",
        degree=1,
        ledger=f"{dataset}.db",
        checks=False,
        report=False,
        out=Path(dataset),
    )
    assert synthesize(request).releasable
    events = Ledger(f"{dataset}.db").events(dataset)
    return [(one.share, one.units) for one in events if one.kind == Kind.CHARGED]


def main() -> None:
    """Compare what Spark counts in the folder ``people``, and what it pays, with the files'."""
    domain = Domain.load("domain.json")
    asked = Workload.all_k_way(domain, 2).downward_closure()
    expected = ParquetSource("people").counted(domain, None, None, asked).marginals(asked)
    people = f"select * from parquet.`{Path('people').absolute()}`"
    killing = f"{people} where survives(flag, '{Path('{}').absolute()}')"
    with spark._session(MASTER) as session:
        # Each file is a partition.
        session.conf.set("spark.sql.files.maxPartitionBytes", 1 << 20)
        session.conf.set("spark.sql.shuffle.partitions", 4)
        session.udf.register("survives", survives, "boolean")
        # Before a kill: executors that replace lost ones do log.
        cast = "select * except (text), if(cast('SECRET' || text as int) = 1, 'a', '') text"
        strange = SparkSource(MASTER, f"{cast} from ({people})")
        with suppress(PrivateValuesError):
            strange.counted(domain, None, None, asked)
            raise AssertionError
        for query in (people, killing.format("counted")):
            found = SparkSource(MASTER, query).counted(domain, None, None, asked).marginals(asked)
            assert all(np.array_equal(found[clique], expected[clique]) for clique in asked)
        paid = charges({"spark": MASTER, "query": killing.format("released")}, "spark")
        assert paid == charges({"parquet": "people"}, "parquet")
    assert Path("counted").exists()
    assert Path("released").exists()


if __name__ == "__main__":
    main()
