"""A release whose rows are made a chunk at a time."""

import pandas as pd
import pytest

from jam_dagster.certificates import verify
from jam_dagster.mechanisms.loops import rows
from jam_dagster.release import documents
from jam_dagster.tables.sources.table_file import TableFile
from tests.pipeline.conftest import Bench

pytestmark = pytest.mark.slow


def test_every_step_takes_the_table_in_chunks(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_AT_ONCE", 500)
    monkeypatch.setattr(rows, "_processes", lambda model, sizes: 2)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 300)
    monkeypatch.setattr(TableFile, "read", pytest.fail)
    folder = bench.releases / "people"
    folder.mkdir(parents=True)
    (folder / "synthetic_records.csv").write_text("of a smaller table")

    result = bench.run()

    assert result.success
    log = [entry.user_message for entry in bench.instance.all_logs(result.run_id)]
    assert {"rows: 300 of 600", "rows: 600 of 600"} <= set(log)
    # The ledger is new, of which `budget_suffices` warns.
    failed = (one for one in result.get_asset_check_evaluations() if not one.passed)
    assert {one.check_name for one in failed if one.blocking} <= {"budget_suffices"}
    assert not (folder / "synthetic_records.csv").exists()
    table = TableFile(folder / "synthetic_records.parquet")
    assert table.sizes == [300, 300]
    found = verify(folder / "release_certificate", ledger=bench.ledger)
    assert [one for one in found if not one.passed] == []
    page = (folder / "release_report.html").read_text()
    before = pd.read_parquet(table.path)
    # Another process has neither the counts nor the checks of the run.
    documents._LAST_COUNTS.clear()
    documents._LAST_CHECKS.clear()
    assert bench.run(["release_report"]).success
    assert (folder / "release_report.html").read_text() == page
    assert bench.run().success
    assert pd.read_parquet(table.path).equals(before)
