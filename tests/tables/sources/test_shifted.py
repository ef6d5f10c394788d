"""A public table of another period is moved to that of the private one, with all its dates."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.release.options import release_spec
from jam_dagster.tables import AssetSource, CsvSource, FrameSource, SplitSource, source_from_config
from jam_dagster.tables.sources.dialect import Dialect
from jam_dagster.tables.sources.public_apart import check_apart, same_rows
from jam_dagster.tables.sources.shifted import ShiftedSource, shift_to


def shifted(cells: list[Any], by: str, dtype: Any = None) -> list[Any]:
    table = pd.DataFrame({"at": pd.Series(cells, dtype=dtype), "row": range(len(cells))})
    made = ShiftedSource(FrameSource(table, "public"), by).read(private=False)
    assert made["row"].tolist() == list(range(len(cells)))
    return [None if pd.isna(one) else one for one in made["at"]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["2024-01-01", "2024-02-29"], ["2024-12-30", "2025-02-27"]),
        (["01.02.2024", "28.02.2024"], ["30.01.2025", "26.02.2025"]),
        (["2024-01-05 10:30:00", "2024-03-05 11:15:20"], None),
        (["2024-03", "2024-12"], ["2025-03", "2025-12"]),
        (["5 Jan 2024", "15 Mar 2024"], ["3 Jan 2025", "14 Mar 2025"]),
    ],
)
def test_texts_keep_their_format(before: list[str], after: list[str] | None) -> None:
    found = shifted([*before * 10, None], "52 weeks")
    expected = after or ["2025-01-03 10:30:00", "2025-03-04 11:15:20"]
    assert found == [*expected * 10, None]


def test_parts_of_a_date_move_with_it() -> None:
    days = pd.date_range("2024-01-01", "2024-03-15").repeat(2)
    at = days.strftime("%d.%m.%Y")
    table = pd.DataFrame(
        {
            "at": at,
            "month": days.month.astype("int32"),
            "weekday": days.weekday,
            "label": days.strftime("%b %Y"),
            "hour": days.day % 24,
            "near": [*days.day[:-1], 1],
        }
    )
    moved = ShiftedSource(FrameSource(table, "public"), "9 days").read(private=False)
    read = pd.to_datetime(moved["at"], format="%d.%m.%Y")
    assert (read == days + pd.Timedelta(days=9)).all()
    assert (read.dt.month == moved["month"]).all()
    assert (read.dt.weekday == moved["weekday"]).all()
    assert (read.dt.strftime("%b %Y") == moved["label"]).all()
    assert moved.dtypes.equals(table.dtypes)
    # One row says that it is not the day of the month.
    pd.testing.assert_frame_equal(moved[["hour", "near"]], table[["hour", "near"]])


def test_an_hour_stays_though_clocks_move() -> None:
    at = pd.date_range("2024-03-01", periods=200, freq="7h", tz="UTC")
    hours = at.tz_convert("America/New_York").hour
    table = pd.DataFrame({"at": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "hour": hours})
    moved = ShiftedSource(FrameSource(table, "public"), "26 weeks").read(private=False)
    assert moved["hour"].tolist() == hours.tolist()


def test_dates_and_timestamps_keep_their_types() -> None:
    assert shifted([date(2024, 1, 1), None], "1 day") == [date(2024, 1, 2), None]
    moments = [datetime(2024, 1, 1, 5, 6, 7, 8), None]
    assert shifted(moments, "-1 week") == [pd.Timestamp("2023-12-25 05:06:07.000008"), None]
    # In summer the clocks of the zone show the same time of day.
    zoned = pd.Series(pd.to_datetime(["2024-01-01 09:00"])).dt.tz_localize("Europe/Berlin")
    (moved,) = shifted(zoned.tolist(), "26 weeks", zoned.dtype)
    assert str(moved) == "2024-07-01 09:00:00+02:00"


def test_what_is_no_date_stays() -> None:
    odd = ["2024-01-01", "2024-01-05"] * 40 + ["unknown"]
    assert shifted(odd, "1 day") == ["2024-01-02", "2024-01-06"] * 40 + ["unknown"]
    assert shifted(["2024-01-01"] * 3, "1 day") == ["2024-01-02"] * 3
    for cells in ([1, 2, 3], ["a", "b", None], ["10:30", "11:30"], [True, False]):
        assert shifted(cells, "1 day") == cells


def test_a_shift_is_stated_above_a_source(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("a;b\n2024-01-01;1,5\n2024-01-02;2,5\n")
    given = {"shift": {"csv": str(path), "separator": ";", "decimal": ","}, "by": "4 weeks"}
    source = source_from_config(given)
    assert source.to_dict() == given
    assert source.read(private=False)["a"].tolist() == ["2024-01-29", "2024-01-30"]
    assert source.describe() == f"CSV file {path}, its dates shifted by 4 weeks"
    assert Dialect.of(source) == Dialect(";", decimal=",")


def test_a_shifted_private_table_is_not_public() -> None:
    private = CsvSource("people.csv")
    with pytest.raises(SpecificationError, match="is the private table"):
        check_apart(private, ShiftedSource(private, "52 weeks"))
    parts = [SplitSource(private, "a", 1, 0.5, 10, part=part) for part in ("private", "public")]  # type: ignore[arg-type]
    assert not same_rows(parts[0], ShiftedSource(parts[1], "1 day"))
    assert same_rows(parts[0], ShiftedSource(parts[0], "1 day"))


def test_what_cannot_be_shifted_is_refused() -> None:
    source = CsvSource("people.csv")
    for wrong in ("a year", "52", "1.5 weeks", "365d", ""):
        with pytest.raises(SpecificationError, match="such as '52 weeks'"):
            ShiftedSource(source, wrong)
    with pytest.raises(SpecificationError, match="cannot be shifted by a release"):
        ShiftedSource(AssetSource("people"), "1 day")
    with pytest.raises(SpecificationError, match="shift is for public tables"):
        SplitSource(ShiftedSource(source, "1 day"), "a", 1, 0.5, 10)
    moved = ShiftedSource(source, "1 day")
    with pytest.raises(SpecificationError, match="shift is for public tables"):
        moved.read(private=True)
    with pytest.raises(SpecificationError, match="private: shift is for public tables"):
        release_spec(release="r", private=moved, public=source, epsilon=1.0, noise="numpy")


def test_the_shift_to_a_period_moves_no_date_beyond_it() -> None:
    table = pd.DataFrame({"at": ["2024-01-01", "2024-12-30"], "born": ["1990-01-01", "1991-01-01"]})
    last = date(2025, 12, 31)
    assert shift_to(table, date(2025, 1, 1), last) == "52 weeks"
    assert shift_to(table, date(2023, 1, 1), date(2023, 12, 31)) == "-53 weeks"
    assert shift_to(table, date(2024, 1, 1), date(2024, 12, 31)) == ""
    with pytest.raises(SpecificationError, match="must end after it begins"):
        shift_to(table, last, date(2025, 1, 1))


def test_columns_that_fit_into_the_period_decide_the_shift() -> None:
    begun = ["2024-01-02", "2024-12-31"]
    table = pd.DataFrame(
        {
            "begun": begun,
            "ended": ["2024-01-02", "2025-01-17"],
            "born": ["1938-07-02", "2019-11-16"],
        }
    )
    year = (date(2025, 1, 1), date(2025, 12, 31))
    assert shift_to(table, *year) == "52 weeks"
    # None fits: no date moves beyond the period.
    assert shift_to(table.drop(columns="begun"), *year) == "49 weeks"
    assert shift_to(table, date(2025, 1, 1), date(2025, 6, 30)) == "23 weeks"
