"""What is private lies in a store that is private, and no more of it than the release uses."""

from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.pipeline import DomainSpec, EvaluationSpec, PrivacySpec, ReleaseStoreResource
from tests.pipeline.conftest import Bench, failure
from tests.tiers import first_quick

INGESTION = ["public_records", "domain", "privacy_budget", "private_records"]


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["exact", "numpy"])
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("private", "releasable", "expected"),
    [
        ({"root": "closed"}, {"root": "releases"}, "without private=True"),
        ({"root": "one", "private": True}, {"root": "one"}, "share a place"),
        ({"root": "one/closed", "private": True}, {"root": "one"}, "share a place"),
        ({"root": "closed", "private": True}, {"root": "x", "private": True}, "with private=True"),
    ],
)
def test_open_store_is_refused_before_the_private_table_is_read(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    private: dict[str, Any],
    releasable: dict[str, Any],
    expected: str,
    alone: bool,
    noise: Any,
) -> None:
    stores = {
        f"{name}_io_manager": ReleaseStoreResource(**{**given, "root": str(bench.home / root)})
        for name, given, root in (
            ("private", private, private["root"]),
            ("releasable", releasable, releasable["root"]),
        )
    }
    resources = {**bench.resources(), **stores}
    monkeypatch.setattr(Bench, "resources", lambda _: resources)
    result = bench.run(
        ["private_records"] if alone else INGESTION, privacy=PrivacySpec(epsilon=2.0, noise=noise)
    )
    error = failure(result)
    assert "SpecificationError" in error
    assert expected in error
    assert not list(bench.home.rglob("private_records*"))
    assert bench.kinds() == []


def test_a_run_in_an_open_store_is_refused_before_it_is_charged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run([*INGESTION, "private_discretized", "public_discretized"]).success
    resources = {
        **bench.resources(),
        "private_io_manager": ReleaseStoreResource(root=str(bench.closed)),
    }
    monkeypatch.setattr(Bench, "resources", lambda _: resources)
    assert "without private=True" in failure(bench.run(["jam_pgm"]))
    assert set(bench.kinds()) <= {"reserved"}


@pytest.mark.parametrize(
    "changes",
    first_quick([{}, {"domain": DomainSpec(identify="public", bins=4)}]),
    ids=["declared", "drafted"],
)
def test_columns_that_the_release_does_not_use_are_not_copied(
    bench: Bench, changes: dict[str, Any]
) -> None:
    table = pd.read_csv(bench.private)
    columns = list(table.columns)
    table.insert(0, "name", [f"person {number}" for number in range(len(table))])
    table[["name", *reversed(columns)]].to_csv(bench.private, index=False)
    keeping = PrivacySpec(epsilon=2.0, keep_records=True)
    off = EvaluationSpec(mode="off")
    result = bench.run(INGESTION, privacy=keeping, evaluation=off, **changes)
    assert result.success, failure(result)
    kept = pd.read_parquet(bench.closed / "people" / "private_records.parquet")
    assert list(kept.columns) == columns
    (event,) = (
        event
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(["people", "private_records"])
    )
    assert "dagster/row_count" not in event.materialization.metadata
    assert str(len(table)) not in str(event.materialization.metadata)
