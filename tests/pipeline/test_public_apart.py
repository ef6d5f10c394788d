"""Dagster refuses the private table as the public one, before anything is opened or charged."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.keys import UnitSpec
from jam_dagster.release import PrivacySpec
from jam_dagster.tables import PreviousRelease, PublicSources, source_from_config
from tests.pipeline.conftest import GIVEN, UP_TO_SYNTHETIC, Bench, failure
from tests.tiers import first_quick

STATIC = {"static": ["wave1", "wave2"]}
UNIT = PrivacySpec(epsilon=2.0, unit=UnitSpec(column="who"))


def made(result: dg.ExecuteInProcessResult) -> set[str]:
    events = result.get_asset_materialization_events()
    return {event.asset_key.path[-1] for event in events if event.asset_key is not None}


def assert_nothing_opened(bench: Bench, result: dg.ExecuteInProcessResult) -> None:
    assert not result.success
    assert not made(result) & {"public_records", "private_records", "jam_pgm"}
    assert bench.kinds() == []


@pytest.mark.parametrize("where", ["alone", "among several", "first"])
def test_it_is_refused_when_it_is_defined(bench: Bench, where: str) -> None:
    public: Any = source_from_config(str(bench.private))
    changes: dict[str, Any] = {}
    if where == "among several":
        public = PublicSources({"survey": source_from_config(str(bench.public)), "x": public})
    if where == "first":
        snapshots = source_from_config(f"{bench.home}/{{partition}}.csv")
        changes = {"partitions": STATIC, "private": snapshots}
        public = PreviousRelease(source_from_config(f"{bench.home}/wave1.csv"))
    with pytest.raises(SpecificationError, match="is the private table"):
        bench.definitions(public=public, **changes)


@pytest.mark.slow
def test_a_link_that_was_made_since_is_refused_when_it_runs(bench: Bench) -> None:
    later = source_from_config(str(bench.home / "later.csv"))
    definitions = bench.definitions(public=later)
    (bench.home / "later.csv").write_bytes(bench.public.read_bytes())
    assert bench.run(GIVEN, public=later).success
    (bench.home / "later.csv").unlink()
    os.link(bench.private, bench.home / "later.csv")
    for selection in ([], ["privacy_budget"], ["private_records"], ["public_records"]):
        result = bench.launch(definitions, selection)
        assert_nothing_opened(bench, result)
        assert "is the private table" in failure(result)


@pytest.mark.slow
def test_a_table_of_the_private_store_is_refused(bench: Bench) -> None:
    inside = bench.closed / "people" / "copy.csv"
    inside.parent.mkdir(parents=True)
    inside.write_bytes(bench.public.read_bytes())
    result = bench.run(UP_TO_SYNTHETIC, public=source_from_config(str(inside)))
    assert_nothing_opened(bench, result)
    assert "is in the private store" in failure(result)


def with_persons(bench: Bench) -> pd.DataFrame:
    for path in (bench.private, bench.public):
        frame = pd.read_csv(path)
        frame.assign(who=range(len(frame))).to_csv(path, index=False)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("kind", first_quick(["csv", "parquet", "several"]))
def test_a_table_of_persons_is_refused_by_its_header(bench: Bench, kind: str) -> None:
    with_persons(bench)
    public: Any = source_from_config(str(bench.public))
    if kind == "parquet":
        pd.read_csv(bench.public).to_parquet(bench.home / "public.parquet")
        public = source_from_config(str(bench.home / "public.parquet"))
    if kind == "several":
        public = PublicSources({"survey": public})
    result = bench.run(public=public, privacy=UNIT)
    assert_nothing_opened(bench, result)
    assert "has the column 'who', which identifies a person" in failure(result)
    assert bench.run(["privacy_budget"], public=public, privacy=UNIT).success is False


@pytest.mark.slow
def test_the_preview_shows_the_columns_of_the_domain(bench: Bench) -> None:
    frame = pd.read_csv(bench.public).assign(name="Annegret Quill")
    frame.to_csv(bench.public, index=False)
    result = bench.run(["public_records"])
    assert result.success, failure(result)
    (event,) = result.get_asset_materialization_events()
    preview = event.materialization.metadata["preview"].value
    assert str(preview).startswith("| sex | town | job | age |")
    assert "Annegret Quill" not in "\n".join(map(str, result.all_events))
