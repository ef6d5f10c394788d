"""Queries on Spark: what its workers count, what they tell, and a real Spark, in the gate."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.census_spark import MASTER, link_spark
from jam_dagster.errors import JamError, PrivateValuesError, SourceError
from jam_dagster.tables import (
    Domain,
    PrivacyUnit,
    SparkSource,
    Workload,
    encode,
    source_from_config,
)
from jam_dagster.tables.codes.block_counts import counted_marginals
from jam_dagster.tables.sources import spark
from jam_dagster.tables.sources.public_apart import same_rows

TEXTS = ["", " a", "A", "a", "aa", "é", "ß", "\U0001f600", "50%", "null"]
WHOLE = [-(2**53), -5, 0, 1, 2, 10, 2**53]
DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "text": {"values": [*TEXTS[::-1], "others"], "other": "others"},
            "whole": {"values": [*WHOLE, "others"], "other": "others", "nullable": True},
            "b in`s": {"edges": [0, 0.1, 5, 10], "outside": "clip", "nullable": True},
            "price": {"edges": [0, 1, 2.5, 4], "outside": "clip"},
            "flag": {"values": ["no", "yes"]},
            "seen": {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day", "zone": "Asia/Kolkata"},
            "born": {"bounds": ["2000-01-01", "2001-12-31"], "unit": "month", "nullable": True},
        }
    }
)
ASKED = Workload.all_k_way(DOMAIN, 2).downward_closure()
QUERY = "select * from parquet.`{}`"


def people(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(0)
    moments = ["2023-12-31T18:30Z", "2024-01-01T18:29:59.999999Z", "2024-01-31T18:29:59Z"]
    seen = pd.to_datetime(moments, format="ISO8601")
    days = [date(2000, 1, 31), date(2000, 2, 1), date(2001, 12, 31), None]
    prices = [Decimal("0.99"), Decimal("2.50"), Decimal("2.49")]
    return pa.table(
        {
            "text": pa.array(rng.choice([*TEXTS, "c", "A ", "e\u0301"], rows)),
            "whole": pa.array([*rng.choice([*WHOLE, -6, 4], rows - 1).tolist(), None], pa.int64()),
            "b in`s": rng.choice([0.0, 0.1, np.nextafter(0.1, 0), 10.0, -1.0, np.nan], rows),
            "price": pa.array([prices[n] for n in rng.integers(0, 3, rows)], pa.decimal128(9, 2)),
            "flag": rng.choice([True, False], rows),
            "seen": pa.array(rng.choice(seen, rows), pa.timestamp("us", "UTC")),
            "born": pa.array([days[n] for n in rng.integers(0, 4, rows)], pa.date32()),
        }
    )


def program(name: str, *given: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program beside this file, since Spark's processes keep its first environment."""
    path = Path(__file__).with_name(name)
    command = [sys.executable, str(path), *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, check=True, **options)


def spark_home(folder: Path) -> dict[str, str]:
    """Return an environment in which Spark's workers write below a folder."""
    pytest.importorskip("pyspark")
    link_spark(folder)
    return {**os.environ, "SPARK_HOME": str(folder)}


def same_counts(found: Any, table: pa.Table) -> None:
    expected = encode(spark.frame_of(table), DOMAIN).marginals(ASKED)
    for clique, counts in found.marginals(ASKED).items():
        assert np.array_equal(counts, expected[clique]), clique


def test_partitions_are_counted_as_encode_codes_them() -> None:
    table, count = people(), spark.counting(DOMAIN, ASKED)
    parts = pa.Table.from_batches(
        [*count(table[:100].to_batches()), *count(table[100:].to_batches())]
    )
    # As Spark adds them up.
    found = parts.group_by(["block", "cell"]).aggregate([("n", "sum")])
    blocks = counted_marginals(DOMAIN, ASKED)
    same_counts(spark.counted_groups(spark._groups(found, blocks), DOMAIN, blocks), table)
    assert list(count([])) == []


def test_a_partition_that_does_not_fit_tells_that_and_no_more() -> None:
    table = people()
    strange = table.set_column(4, "flag", pa.array(["SECRET"] * len(table)))
    (told,) = spark.counting(DOMAIN, ASKED)(strange.to_batches())
    assert told.to_pydict() == {"block": [0], "cell": [-1], "n": [1]}

    def stopped() -> pa.Table:
        raise ValueError("the value 'SECRET' cannot be cast")

    # A record outside, blocks of different rows and a query that fails show alike.
    source, blocks = SparkSource("local[1]", "select 1"), counted_marginals(DOMAIN, ASKED)
    one_row = pa.table({"block": [0], "cell": [0], "n": [1]})
    faults = []
    for collect in (lambda: pa.Table.from_batches([told]), lambda: one_row, stopped):
        with pytest.raises(PrivateValuesError) as caught:
            source._summed(collect, DOMAIN, blocks)
        faults.append(str(caught.value))
    assert len(set(faults)) == 1
    with pytest.raises(PrivateValuesError):
        source._summed(lambda: pa.Table.from_batches([told]), DOMAIN, blocks[:1])


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SparkSource("local[1]", "select * from people")
    with pytest.raises(JamError) as caught:
        source.counted(DOMAIN, PrivacyUnit("person", 3), b"key", ASKED)
    assert "'spark' protects single records only" in str(caught.value)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SourceError, match=r"jam-dagster\[spark\]"):
        source.names()


def test_no_option_of_an_address_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "sc://host:15002/;token=secret")
    given = {"spark": "${PLACE}", "query": "select *  from people"}
    source = source_from_config(given)
    assert source.to_dict() == given
    assert source.identity() == SparkSource("sc://host:15002", "select * from people").identity()
    written = SparkSource("sc://host:15002/;token=secret", "select 1")
    assert "secret" not in written.describe() + written.identity()
    assert same_rows(source, SparkSource("sc://other", "SELECT * FROM people -- all"))


def needs_spark() -> None:
    pytest.importorskip("pyspark", reason="make gate installs the extra `spark`")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")


@pytest.mark.gate
def test_a_real_spark(tmp_path: Path) -> None:
    """Counts are those of the rows; nothing of a value is logged by Spark, its workers or here."""
    needs_spark()
    table = people()
    pq.write_table(table, tmp_path / "people.parquet", row_group_size=100)
    source = SparkSource("local[2]", QUERY.format(tmp_path / "people.parquet"))
    same_counts(source.counted(DOMAIN, None, None, ASKED), table)
    assert source.count_records(None) == len(table)
    assert source.names() == table.column_names
    assert source.read(private=False)["text"].tolist() == table["text"].to_pylist()
    strange = table.set_column(0, "text", pa.array(["SECRET"] * len(table)))
    pq.write_table(strange, tmp_path / "strange.parquet")
    for query in ("*", "* except (text), if(cast(text as int) = 1, 'a', 'b') text"):
        asked = f"select {query} from parquet.`{tmp_path / 'strange.parquet'}`"
        done = program("spark_failures.py", asked)
        assert done.stdout.strip() == "PrivateValuesError"
        assert "SECRET" not in done.stdout + done.stderr


@pytest.mark.gate
def test_executors_that_are_killed(tmp_path: Path) -> None:
    """Tasks are repeated: nothing is counted or charged twice. The first executors log no value."""
    needs_spark()
    environment, table, parts = spark_home(tmp_path), people(), 6
    (tmp_path / "people").mkdir()
    for part in range(parts):
        rows = table.slice(part * 50, 50)
        pq.write_table(rows, tmp_path / "people" / f"{part}.parquet")
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN.to_dict()))
    done = program("spark_executors.py", MASTER, parts, cwd=tmp_path, env=environment)
    logs = [one.read_text() for one in tmp_path.glob("work/*/*/stderr")]
    assert len(logs) > 2
    assert not any("SECRET" in one for one in [done.stdout, done.stderr, *logs])
