"""What the private store keeps of the private table: a reference, codes, or a copy on request."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from jam_dagster.pipeline import EvaluationSpec, PrivacySpec
from jam_dagster.pipeline.storage.formats import CodesFormat
from jam_dagster.pipeline.storage.identity import Ingestion
from jam_dagster.tables import encode_parquet, source_from_config
from jam_dagster.tables.sources import parquet
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure

pytestmark = pytest.mark.slow

OFF = EvaluationSpec(mode="off")


def kept(bench: Bench) -> tuple[pd.DataFrame, Ingestion, int]:
    """Return what is stored of the records, what it says of itself, and how many rows of codes."""
    folder = bench.closed / "people"
    records = pd.read_parquet(folder / "private_records.parquet")
    codes = CodesFormat().read(folder / "private_discretized.codes.parquet")
    return records, Ingestion.of(records), codes.records


def test_a_step_that_hands_the_table_on_keeps_a_reference(bench: Bench) -> None:
    result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert result.success, failure(result)

    records, says, codes = kept(bench)

    assert records.empty
    assert says.handle
    assert codes == len(pd.read_csv(bench.private))


def test_records_are_copied_where_somebody_asks(bench: Bench) -> None:
    keeping = PrivacySpec(epsilon=2.0, keep_records=True)
    result = bench.run(UP_TO_SYNTHETIC, privacy=keeping, evaluation=OFF)
    assert result.success, failure(result)

    records, says, codes = kept(bench)

    assert not says.handle
    assert len(records) == codes == len(pd.read_csv(bench.private))


def test_a_copy_that_is_there_is_used_as_before(bench: Bench) -> None:
    """It was kept by a setting that is gone."""
    keeping = PrivacySpec(epsilon=2.0, keep_records=True)
    tables = ["public_records", "domain", "privacy_budget", "private_records"]
    assert bench.run(tables, privacy=keeping, evaluation=OFF).success
    bench.private.unlink()

    result = bench.run(["private_discretized"], evaluation=OFF)

    assert result.success, failure(result)


@pytest.mark.parametrize("mode", ["off", "exact"])
def test_a_parquet_file_beyond_memory_is_counted_in_its_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    path = bench.private.with_suffix(".parquet")
    pd.read_csv(bench.private).to_parquet(path, index=False)
    monkeypatch.setattr(parquet, "encode_parquet", partial(encode_parquet, limit=0))

    result = bench.run(
        None, private=source_from_config(str(path)), evaluation=EvaluationSpec(mode=mode)
    )

    assert result.success, failure(result)
    records, says, codes = kept(bench)
    assert records.empty
    assert says.handle
    assert codes == 0
    synthetic = pd.read_parquet(bench.releases / "people" / "synthetic_records.parquet")
    assert len(synthetic) == len(pd.read_parquet(path))


HANDLE = ["public_records", "domain", "privacy_budget", "private_records"]


def test_a_reference_opens_no_other_table_than_it_is_of(bench: Bench) -> None:
    """The definitions may name another table, and its rows are not those that were reserved for."""
    assert bench.run(HANDLE, evaluation=OFF).success
    other = bench.home / "other.csv"
    pd.read_csv(bench.private).assign(sex="F").to_csv(other, index=False)

    refused = failure(
        bench.run(["private_discretized"], private=source_from_config(str(other)), evaluation=OFF)
    )

    assert "is another one than private_records was made for" in refused
    assert not (bench.closed / "people" / "private_discretized.codes.parquet").exists()


def test_a_reference_of_another_edition_is_refused(bench: Bench) -> None:
    assert bench.run(HANDLE, evaluation=OFF).success
    later = PrivacySpec(epsilon=2.0, edition="2")

    refused = failure(bench.run(["private_discretized"], privacy=later, evaluation=OFF))

    assert "was read for edition 1, not for edition 2" in refused


def test_the_step_that_opens_the_table_reserves_before(bench: Bench) -> None:
    """Another budget is another release, whose reservation is not that of the reference."""
    assert bench.run(HANDLE, evaluation=OFF).success
    dearer = PrivacySpec(epsilon=9.0)

    refused = failure(bench.run(["private_discretized"], privacy=dearer, evaluation=OFF))

    assert "BudgetExceededError" in refused
    assert not (bench.closed / "people" / "private_discretized.codes.parquet").exists()


def test_the_way_to_the_codes_changes_no_table(bench: Bench) -> None:
    def table(keep: bool) -> pd.DataFrame:
        privacy = PrivacySpec(epsilon=2.0, noise="numpy", seed=3, keep_records=keep)
        result = bench.run(UP_TO_SYNTHETIC, privacy=privacy, evaluation=OFF)
        assert result.success, failure(result)
        return pd.read_parquet(bench.closed / "people" / "synthetic_records.parquet")

    pd.testing.assert_frame_equal(table(keep=True), table(keep=False))
