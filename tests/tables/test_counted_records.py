"""One record that changes changes one record of what an engine counts or gives."""

import math
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import DomainError, JamError, PrivateValuesError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    DuckDbSource,
    NumericAttribute,
    SqlSource,
    encode,
)
from jam_dagster.tables.domain.units import TIME
from tests.examples import examples
from tests.tables.test_one_record import (
    PARQUET_KINDS,
    assert_one_changes,
    attributes,
    cells,
    integers,
    time_attribute,
)


@pytest.mark.slow
@PARQUET_KINDS
@examples(5)
@given(st.data())
def test_any_record_of_a_duckdb_table(tmp_path_factory, kind, value, data):
    path = tmp_path_factory.getbasetemp() / "people.duckdb"
    value = st.none() | value
    records = data.draw(st.lists(value, min_size=1, max_size=12))

    def read(rows):
        path.unlink(missing_ok=True)
        with duckdb.connect(str(path)) as connection:
            connection.register("given", pa.table({"a": pa.array(rows, kind)}))
            connection.execute("create table people as from given")
        return DuckDbSource(str(path), "from people").read(private=True)

    assert_one_changes(read, records, data.draw(st.integers(0, 11)), data.draw(value))
    with suppress(JamError, pa.ArrowException, duckdb.Error):
        whole = read(records)
        for attribute in attributes(records):
            domain = Domain((attribute,))
            with suppress(JamError):
                (codes,) = encode(whole, domain).columns
                source = DuckDbSource(str(path), "from people")
                counted = source.counted(domain, None, None, [("a",)])
                expected = np.bincount(codes, minlength=attribute.size)
                assert counted.marginal(("a",)).tolist() == expected.tolist()


SERVER_KINDS = {
    "bigint": integers,
    "smallint": st.integers(-9, 9),
    "numeric": st.decimals(0, 10**20, places=2)
    | integers.map(Decimal)
    | st.sampled_from([*map(Decimal, ("NaN", "1e400", "-1e400", "1e-400", "0.1", "1.5"))]),
    "double precision": st.floats() | st.sampled_from([0.1, 1.0, 1.5, 100.0, math.nan]),
    "real": st.floats(width=32) | st.sampled_from([0.1, 1.5]),
    "boolean": st.booleans(),
    "text": cells | st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=3),
    "varchar(9)": st.sampled_from(["yes", "YES", "No", "x", "TRUE", "true ", "007", "%"]),
    "date": st.dates() | st.dates(date(2023, 12, 30), date(2024, 2, 20)),
    "timestamp": st.datetimes() | st.datetimes(datetime(2023, 12, 31), datetime(2024, 2, 17)),
    "timestamptz": st.datetimes(
        datetime(2023, 12, 31), datetime(2024, 2, 17), timezones=st.just(UTC)
    )
    | st.datetimes(datetime(1900, 1, 1), timezones=st.just(UTC))
    # Usual words for "since ever" and "for ever".
    | st.sampled_from([one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max)]),
    "time": st.times(),
    "interval": st.timedeltas(timedelta(0), timedelta(2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVER_KINDS)
@examples(10)
@given(st.data())
def test_any_record_of_a_server(postgres, kind, data):
    value = st.none() | SERVER_KINDS[kind]
    records = data.draw(st.lists(value, min_size=1, max_size=6))
    place, new = data.draw(st.integers(0, 5)), data.draw(value)
    url = postgres.url("postgres")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    source = SqlSource(url, "select a from t order by place")

    def read(rows):
        with engine.begin() as connection:
            connection.exec_driver_sql("drop table if exists t")
            connection.exec_driver_sql(f"create table t (place serial, a {kind})")
            for row in rows:
                connection.exec_driver_sql("insert into t (a) values (%s)", (row,))
        return source.read(private=True)

    assert_one_changes(read, records, place, new)
    if kind == "real":
        # Its shortest text is what people read.
        records = [None if one is None else float(str(np.float32(one))) for one in records]
    # A text of a whole number has all its digits, and a decimal is compared as a float.
    records = [_whole(one) for one in records]
    assert_read_as_given(read(records), pd.DataFrame({"a": pd.Series(records, dtype=object)}))


def _whole(value):
    is_whole = isinstance(value, Decimal) and value.is_finite() and value == value.to_integral()
    return int(value) if is_whole and abs(value) < 10**300 else value


def assert_read_as_given(table, given):
    """The server's values have the codes of the values that it was given."""

    def codes(one, domain):
        try:
            return encode(one, domain).columns[0].tolist()
        except PrivateValuesError:
            return "outside"

    typed = any(isinstance(one, Decimal | time | timedelta) for one in given["a"])
    for attribute in (*attributes(given["a"]), *exact_attributes(given["a"])):
        if typed and any(isinstance(one, str) for one in getattr(attribute, "values", ())):
            # Python and the server write them as other texts.
            continue
        with suppress(DomainError):
            expected = codes(given, Domain((attribute,)))
            assert codes(table, Domain((attribute,))) == expected, attribute


def exact_attributes(values):
    """Attributes without `other` or `clip`, so that a value may lie outside."""
    listed = dict.fromkeys(one for one in values if isinstance(one, str | int | bool))
    with suppress(JamError):
        yield CategoricalAttribute("a", tuple(listed)[:3], nullable=True)
    floats = (one for one in values if isinstance(one, float | Decimal) and math.isfinite(one))
    with suppress(JamError):
        yield CategoricalAttribute("a", tuple(dict.fromkeys(map(float, floats)))[:3])
    yield CategoricalAttribute("a", ("0", "1", "true"), nullable=True)
    yield NumericAttribute("a", (0, 1, 2, 10**18), integer=True)
    yield NumericAttribute("a", (-1.5, 0.1, 1.5, 1e300), nullable=True)
    yield time_attribute(bounds=["2023-12-01", "2024-03-01"], unit="week", outside="error")
    yield time_attribute(bounds=["2024-01-01", "2024-02-01"], unit="month", zone="UTC")
    yield time_attribute(bounds=["08:00", "22:00"], unit="hour", dtype=TIME, outside="error")


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_the_ends_of_the_calendar_are_clipped_as_rows_are(postgres, zone):
    ends = "timestamptz '0001-01-01 00:00+00', timestamptz '9999-12-31 23:59:59.999999+00'"
    query = f"select unnest(array[{ends}]) as a"
    source = SqlSource(postgres.url("postgres"), query)
    domain = Domain((time_attribute(bounds=["2024-01-01", "2024-01-02"], unit="day", zone=zone),))
    assert source.counted(domain, None, None).marginal(("a",)).tolist() == [1, 1, 0]
