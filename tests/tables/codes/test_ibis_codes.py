"""Counts that an engine made, and the query for engines that no test runs: compiled, read over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sqlglot

from jam_dagster.errors import DomainError, OutsideDomainError
from jam_dagster.tables import Domain
from jam_dagster.tables.codes.ibis_codes import (
    Kind,
    counted_groups,
    counting_query,
    engine_blocks,
)

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


@pytest.mark.parametrize(
    ("dialect", "texts", "instant"),
    [
        ("bigquery", r"'it\'s\\'", "TIMESTAMP('2023-12-31T18:30:00+00:00')"),
        ("snowflake", r"'it\'s\\'", "TIMESTAMP_TZ_FROM_PARTS(2023, 12, 31, 18, 30, 0, 0, 'UTC')"),
        ("trino", r"'it''s\'", "FROM_ISO8601_TIMESTAMP('2023-12-31T18:30:00+00:00')"),
        ("mssql", r"'it''s\'", "2023"),
        ("databricks", r"'it\'s\\'", "'2023-12-31T18:30:00+00:00'"),
        ("duckdb", r"'it''s\'", "MAKE_TIMESTAMPTZ(2023, 12, 31, 18, 30, 0.0, 'UTC')"),
    ],
)
def test_compiled_for_engines_that_are_not_run(dialect: str, texts: str, instant: str) -> None:
    blocks = engine_blocks(DOMAIN, [("sex", "age"), ("seen", "at")])
    query = counting_query(DOMAIN, KINDS, KINDS, blocks, dialect)
    (parsed,) = sqlglot.parse(query, dialect=dialect.replace("mssql", "tsql"))
    assert parsed is not None
    assert query.count("COUNT") == len(blocks)
    # No value is parsed or rounded but a float's shortest text.
    for constant in (texts, "CAST('0.1' AS ", instant):
        assert constant in query
    assert ("NaN" in query or "NAN" in query) == (dialect != "mssql")


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
    ],
)
def test_texts_in_a_format_are_left_to_python(
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
