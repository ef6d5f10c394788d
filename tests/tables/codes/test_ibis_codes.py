"""Counts that an engine made, and the query for engines that no test runs: compiled, read over."""

from __future__ import annotations

from datetime import time
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlglot

from jam_dagster.errors import DomainError, InputError, OutsideDomainError
from jam_dagster.tables import Domain, encode
from jam_dagster.tables.codes.ibis_codes import (
    SOURCE,
    counted_groups,
    counting_query,
    engine_blocks,
)
from jam_dagster.tables.domain.attributes import Kind
from tests.tiers import slow_rows

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "sex": {"values": ["f", "it's\\"], "nullable": True},
            "age": {"edges": [0, 0.1, 10], "outside": "clip"},
            "seen": {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day", "zone": "Asia/Kolkata"},
            "at": {"bounds": ["08:00", "09:59"], "unit": "hour", "dtype": "time64[us][pyarrow]"},
        }
    }
)
KINDS = {"sex": "text", "age": "decimal", "seen": "instant", "at": "time"}


def test_groups_outside_the_domain_are_refused() -> None:
    sizes = {"a": 2, "b": 3}
    domain = Domain.from_dict(
        {
            "attributes": {name: {"values": [*range(size)]} for name, size in sizes.items()},
            "impossible": [{"a": 1, "b": 1}],
        }
    )
    blocks = engine_blocks(domain, [("a",)])
    assert blocks == [("a", "b")]

    def counted(*groups: tuple[int, int]) -> list[int]:
        found = [(blocks[0], np.array([group]).T) for group in groups]
        return counted_groups(found, domain, blocks).marginal(("b",)).tolist()

    assert counted((0, 5), (3, 2), (2, 4)) == [7, 0, 4]
    for wrong in (-1, 4):
        with pytest.raises(OutsideDomainError):
            counted((0, 5), (wrong, 1))


def test_blocks_of_different_rows_are_refused() -> None:
    """A query with `random()` gives other rows to each statement."""
    domain = Domain.from_sizes({"a": 2, "b": 2})
    groups = [(("a",), np.array([[0, 1], [3, 4]])), (("b",), np.array([[0, 1], [3, 3]]))]
    with pytest.raises(InputError, match="other rows each time"):
        counted_groups(groups, domain, [("a",), ("b",)])


def test_duckdb_counts_what_encode_gives() -> None:
    listed = [
        "",
        " a",
        "A",
        "B",
        "Z",
        "a",
        "a ",
        "aa",
        "b",
        "é",
        "ß",
        "\U0001f600",
        "\ufffd",
        "50%",
    ]
    numbers = [-(2**53), -5, 0, 1, 2, 3, 10, 11, 12, 99, 2**53]
    seen = pd.to_datetime(
        ["2023-12-31T18:30Z", "2024-01-01T18:29:59.999999Z", "2024-01-31T18:29:59Z"],
        format="ISO8601",
    )
    rows = 300
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "text": rng.choice([*listed, "c", "A ", "e\u0301"], rows),
            "code": rng.choice(
                [f"{one}{end}" for one in listed for end in ("", "x1", "\u0301")], rows
            ),
            "whole": rng.choice([*numbers, -6, 4, 98], rows),
            "float": rng.choice([*map(float, numbers), np.nan, np.inf, 0.5], rows),
            "bin": rng.choice([0.0, 0.1, np.nextafter(0.1, 0), 9.99, 10.0, -1.0, np.nan], rows),
            "flag": rng.choice([True, False], rows),
            "seen": pd.Series(rng.choice(seen, rows), dtype="datetime64[us, UTC]"),
            "clock": rng.choice([time(8), time(8, 59, 59, 999999), time(9), time(9, 59)], rows),
        }
    )
    others = {"other": "others"}
    domain = Domain.from_dict(
        {
            "attributes": {
                "text": {"values": [*listed[::-1], "others"], **others},
                "whole": {"values": [*numbers, "others"], **others},
                "float": {"values": [*numbers, "others"], "nullable": True, **others},
                "bin": {"edges": [0, 0.1, 5, 10], "outside": "clip", "nullable": True},
                "flag": {"values": ["no", "yes"]},
                "code": {"prefix": 2, "weights": dict.fromkeys(filter(None, listed), 1), **others},
                "seen": DOMAIN.to_dict()["attributes"]["seen"],
                "clock": DOMAIN.to_dict()["attributes"]["at"],
            }
        }
    )
    kinds: dict[str, Any] = dict(
        zip(
            domain.names,
            ("text", "integer", "float", "float", "boolean", "text", "instant", "time"),
            strict=True,
        )
    )
    blocks = engine_blocks(
        domain, [("text", "bin"), ("whole", "float"), ("seen", "clock"), ("code",)]
    )
    query = counting_query(domain, kinds, kinds, blocks, "duckdb")
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'Asia/Tokyo'")
        engine.register("given", frame)
        used = ", ".join(f"{name} AS c{place}" for place, name in enumerate(domain.names))
        engine.execute(f"CREATE TABLE {SOURCE} AS SELECT {used} FROM given")
        found = np.array(engine.execute(query).fetchall()).T
    groups = [(blocks[n], found[1:, found[0] == n]) for n in range(len(blocks))]
    counted, expected = counted_groups(groups, domain, blocks), encode(frame, domain)
    for clique in blocks:
        assert np.array_equal(counted.marginal(clique), expected.marginal(clique)), clique


@pytest.mark.parametrize(
    ("dialect", "texts", "instant"),
    [
        ("bigquery", r"'it\'s\\'", "TIMESTAMP('2023-12-31T18:30:00+00:00')"),
        *slow_rows(
            (
                "snowflake",
                r"'it\'s\\'",
                "TIMESTAMP_TZ_FROM_PARTS(2023, 12, 31, 18, 30, 0, 0, 'UTC')",
            ),
            ("trino", r"'it''s\'", "FROM_ISO8601_TIMESTAMP('2023-12-31T18:30:00+00:00')"),
            ("databricks", r"'it\'s\\'", "'2023-12-31T18:30:00+00:00'"),
            ("duckdb", r"'it''s\'", "MAKE_TIMESTAMPTZ(2023, 12, 31, 18, 30, 0.0, 'UTC')"),
        ),
    ],
)
def test_compiled_for_engines_that_are_not_run(dialect: str, texts: str, instant: str) -> None:
    blocks = engine_blocks(DOMAIN, [("sex", "age"), ("seen", "at")])
    query = counting_query(DOMAIN, KINDS, KINDS, blocks, dialect)
    (parsed,) = sqlglot.parse(query, dialect=dialect)
    assert parsed is not None
    assert query.count("COUNT") == len(blocks)
    # No value is parsed or rounded but a float's shortest text.
    for constant in (texts, "CAST('0.1' AS ", instant):
        assert constant in query
    assert "NaN" in query or "NAN" in query


@pytest.mark.parametrize(
    ("entry", "kind", "taken"),
    [
        ({"bounds": [0, 9], "bins": 3, "format": "$#,##0.00"}, "text", False),
        ({"bounds": [0, 9], "bins": 3, "format": "$#,##0.00"}, "decimal", True),
        ({"bounds": [0, 9], "unit": "day", "format": "ISO 8601"}, "text", False),
        (
            {"bounds": [2013, 2014], "unit": "day", "format": "%Y%m%d", "dtype": "int64"},
            "integer",
            False,
        ),
        ({"prefix": 3, "weights": {"10001": 1, "20001": 1}}, "text", True),
        ({"prefix": 3, "weights": {"10001": 1, "20001": 1}}, "integer", False),
        ({"prefix": 3, "weights": {"10001": 1, "20001": 1}}, "decimal", False),
        ({"prefix": 3, "weights": {"10001": 1, "20001": 1}}, "boolean", False),
    ],
)
def test_what_is_read_from_texts_is_left_to_python(
    entry: dict[str, Any], kind: Kind, taken: bool
) -> None:
    domain = Domain.from_dict({"attributes": {"a": entry}})

    def query() -> str:
        return counting_query(domain, {"a": kind}, {"a": kind}, [("a",)], "postgres")

    if taken:
        assert "CASE" in query()
    else:
        with pytest.raises(DomainError, match="cannot be counted by postgres in a column of type"):
            query()
