"""Rows of the benchmark of domains that are bought."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import paid_domains
from benchmarks.paid_domains import asked, bounds, by_jam_dagster, by_opendp, read, run, selected
from jam_dagster.tables import Domain

DOMAIN = Domain.from_sizes({"a": 3, "b": 60, "c": 2})


def test_many_values_are_a_number_and_few_a_category() -> None:
    domain = Domain.from_dict(asked(DOMAIN, 0.2))
    assert domain.asked is not None
    assert (list(domain.asked.values), list(domain.asked.bins)) == (["a", "c"], ["b"])


@pytest.mark.slow
def test_a_bought_domain_costs_accuracy() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {name: rng.integers(0, size, 4_000) for name, size in DOMAIN.sizes.items()}
    )
    known, bought = (run(table, DOMAIN, 10.0, share, 0, "independent") for share in (0.0, 0.2))
    assert known["error"] < bought["error"] < 1.0
    assert (known["bins"], bought["other"]) == (0, 0.0)
    assert bought["bins"] > 10


def test_a_table_of_two_parts_is_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "paper" / "salary"
    folder.mkdir(parents=True)
    (folder / "domain.json").write_text('{"a": 3, "b": 2}')
    (folder / "priv.csv").write_text("b,a\n1,2\n0,1\n")
    (folder / "pub.csv").write_text("b,a\n1,0\n")
    table, domain = read(tmp_path, "salary")
    assert domain.sizes == {"a": 3, "b": 2}
    assert table.to_dict("list") == {"a": [2, 1, 0], "b": [1, 0, 1]}


def test_ways_to_select_publish_frequent_values() -> None:
    """Noise is exact: counts are 20 times each threshold, or 1, which is published as rarely as
    delta says."""
    columns = [{"often": 50_000, "once": 1}, {"x": 40_000, "y": 40_000}]
    frequent = [{"often"}, {"x", "y"}]
    assert by_jam_dagster(columns, 1.0) == frequent
    for gaussian in (True, False):
        assert by_opendp(columns, 1.0, gaussian=gaussian) == frequent
    row = selected(columns, 1.0, "jam_dagster", "")
    assert row["cells"] == 3.0
    assert row["other"] == pytest.approx(1e-5, abs=1e-5)


def test_bounds_beyond_all_ages_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paid_domains, "SIMULATED", 3)
    # No noise at all but for one draw in 1e21; and noise that hides each of the ages.
    near, far = bounds(0.1), bounds(1e6)
    assert (near["other"], far["other"]) == (0.0, 1.0)
    assert near["bins"] > 10
