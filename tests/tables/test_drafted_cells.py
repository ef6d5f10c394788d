"""Any cell that a source gives has a code in a drafted domain."""

import math
from decimal import Decimal
from numbers import Real

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import JamError
from jam_dagster.tables import (
    CsvSource,
    FrameSource,
    ParquetSource,
    SqlSource,
    draft_domain,
    encode,
)
from tests.examples import examples
from tests.tables.test_one_record import (
    anything,
    cells,
    changed,
    read_csv,
)


@examples(40)
@given(st.lists(cells, min_size=1, max_size=8), st.integers(1, 40))
def test_a_drafted_domain_knows_the_public_records_read_as_private_ones(
    tmp_path_factory, records, bins
):
    path = tmp_path_factory.getbasetemp() / "public.csv"
    try:
        domain = draft_domain(read_csv(path, records, private=False), bins=bins)
    except JamError:
        return
    typed = encode(read_csv(path, records, private=False), domain, private=False)
    texts = encode(read_csv(path, records), domain)
    assert changed(typed, texts) == 0


PUBLIC = pd.DataFrame(
    {
        "text": ["x", "y", "x"],
        "code": ["1", "x", "3"],
        "truth": [True, False, True],
        "count": [1, 2, 3],
        "size": [0.5, 1.25, 2.0],
        "flag": pd.Series([1, "a", True], dtype=object),
        "answer": ["yes", "no", "no"],
        "zip": ["007", "010", "007"],
        "day": ["31.01.2024", "29.02.2024", "01.01.2024"],
        "at": pd.date_range("2024-01-30 10:00", periods=3, freq="h", tz="America/New_York"),
        "clock": ["08:30", "10:00", "23:59"],
        "lasts": pd.to_timedelta([1, 2, 5], "h"),
        "price": [Decimal("0.50"), Decimal("1.25"), Decimal("2.00")],
        "large": [2**60, 2**61, 2**62],
        "near": [2**60, 2**60 + 1, 2**60 + 2],
        "money": ["$1,250.50", "$7.00", "$2.00"],
        "stay": ["27:15:00", "0:30:00", "1:00:00"],
        "date": [20240131, 20240229, 20240101],
    }
)


DRAFTED = draft_domain(PUBLIC)


ANY = anything | st.uuids() | st.just({"a": 1})


@examples(100)
@given(ANY, ANY, st.sampled_from(DRAFTED.names))
def test_a_drafted_attribute_takes_any_cell_and_reads_it_by_itself(cell, beside, name):
    domain = DRAFTED.project([name])

    def code(*column):
        table = pd.DataFrame({name: pd.Series([*column], dtype=object)})
        return encode(FrameSource(table, "people").read(private=True), domain).columns[0]

    alone = code(cell)
    assert code(beside, cell)[1] == alone[0]
    number = isinstance(cell, Real) and not isinstance(cell, bool) and cell == cell
    if name in ("count", "size") and not number and not isinstance(cell, str | Decimal):
        assert alone[0] in domain.attributes[0].missing_codes
    if name == "count" and number:
        assert alone[0] == min(max(math.floor(max(min(cell, 9), -9)), 1), 3) - 1


@pytest.mark.parametrize("kind", ["csv", "parquet", "sql"])
def test_a_drafted_attribute_takes_any_cell_of_a_source(tmp_path, kind):
    written = ["x", "2", "", "TRUE", "1e400", "-7", "2024-01-31", "[1]", "7", "10:30", "PT9H"]
    table = pd.DataFrame(dict.fromkeys(DRAFTED.names, written), dtype="str")
    if kind == "csv":
        table.to_csv(tmp_path / "table.csv", index=False)
        source = CsvSource(str(tmp_path / "table.csv"))
    elif kind == "parquet":
        table.to_parquet(tmp_path / "table.parquet")
        source = ParquetSource(str(tmp_path / "table.parquet"))
    else:
        source = SqlSource(f"sqlite:///{tmp_path}/table.db", "select * from t")
        table.to_sql("t", source.url, index=False)
    encoded = source.counted(DRAFTED, None, None)
    shown = {
        one.name: [(*one.labels,)[code] for code in encoded.column(one.name)]
        for one in DRAFTED.attributes
    }
    missing = "(null)" if kind == "csv" else "other"
    assert shown["text"] == ["x", "other", missing, *["other"] * 8]
    null = "(null)"
    assert shown["truth"] == [null, null, null, "True", *[null] * 7]
    # An empty cell of a CSV file is missing, and an empty text is no number.
    x, empty = "(unreadable)", null if kind == "csv" else "(unreadable)"
    assert shown["count"] == [x, "2", empty, x, "3", "1", x, x, "3", x, x]
    # The 7 of one file is not the 007 of another.
    assert shown["zip"] == ["other", "other", missing, *["other"] * 8]
    assert shown["answer"] == [null, null, null, "yes", *[null] * 7]
    none = [x, x, empty, x, x, x]
    assert shown["day"] == [*none, "2024-01-31", *[x] * 4]
    assert shown["at"] == [*none, "2024-01-30 12:00", *[x] * 4]
    assert shown["clock"] == [*none, *[x] * 3, "10:00", x]
    assert shown["lasts"] == [*none, *[x] * 3, "5", "5"]
    assert shown["money"] == [*(x, "$2.00", empty, x, "$1,250.50", "$2.00", x, x, "$7.00", x, x)]
    assert shown["stay"] == [*none, *[x] * 3, "60", "60"]
    assert shown["date"] == [*none, "2024-01-31", *[x] * 4]
