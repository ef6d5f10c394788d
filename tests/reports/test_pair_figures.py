"""Pairs of attributes that a page shows."""

from __future__ import annotations

import pytest

from jam_dagster.reports.pair_figures import pair_numbers, ranked_pairs, telling_pairs
from tests.evaluation.conftest import RECORDS, SmallRelease
from tests.reports.pages import Page, render


def test_telling_pairs_prefer_what_was_measured(release: SmallRelease) -> None:
    ranked = ranked_pairs(release.domain, release.transcript, release.synthetic, release.public)
    assert len(ranked) == 10
    pairs = telling_pairs(ranked)
    assert pairs[0] == ("age", "marital-status")
    names = [name for pair in pairs for name in pair]
    assert max(names.count(name) for name in names) <= 2
    assert len(pairs) == 4


def test_pairs_on_the_page_have_the_numbers_of_the_tables(release: SmallRelease) -> None:
    ranked = ranked_pairs(release.domain, release.transcript, release.synthetic, release.public)
    numbers = pair_numbers(release.domain, release.transcript, ranked)
    assert len(numbers["pairs"]) == 10
    assert numbers["records"] == {
        "released": RECORDS,
        "synthetic": RECORDS,
        "public": release.public.records,
    }
    for one in numbers["pairs"]:
        pair = tuple(one["names"])
        for table in ("synthetic", "public"):
            counts = getattr(release, table).marginal(pair)
            assert one["counts"][table] == counts.ravel().tolist()
        assert ("released" in one["counts"]) is (pair == ("age", "marital-status"))
        labels = [numbers["axes"][axis]["labels"] for axis in one["axes"]]
        assert labels == [list(release.domain.attribute(name).labels) for name in pair]
    first = numbers["pairs"][0]
    measured = release.transcript.measurements[0]
    assert first["sigma"] == pytest.approx(measured.sigma)
    assert first["counts"]["released"] == pytest.approx(measured.values.ravel(), abs=0.051)


@pytest.mark.slow
def test_pairs_that_a_page_has_no_room_for_are_left_out(
    release: SmallRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked = ranked_pairs(release.domain, release.transcript, release.synthetic, release.public)
    monkeypatch.setattr("jam_dagster.reports.pair_figures._NUMBERS_EMBEDDED", 100)
    shown = pair_numbers(release.domain, release.transcript, ranked)["pairs"]
    assert shown[0]["names"] == ["age", "marital-status"]
    assert 0 < sum(len(counts) for one in shown for counts in one["counts"].values()) <= 100
    assert f"no room for {10 - len(shown)} pairs" in Page(render(release)).words()
