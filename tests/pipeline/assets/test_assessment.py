"""The reports of a release."""

import dagster as dg
import pytest

from jam_dagster.evaluation import expectation_names
from tests.pipeline.conftest import DOMAIN, Bench, failure

TABLE = dg.AssetKey(["people", "synthetic_records"])


@pytest.mark.slow
def test_a_report_tells_what_the_table_is_like_and_not_what_was_reported_of_it(
    drawn: Bench,
) -> None:
    page = drawn.releases / "people" / "release_report.html"

    def told() -> object:
        made = drawn.run(["release_report"])
        assert made.success, failure(made)
        (event,) = made.get_asset_materialization_events()
        return event.materialization.metadata["checks_told"].value

    names = [spec.name for spec in expectation_names(DOMAIN)]
    assert told() == len(names)
    before = page.read_text()
    # Who may launch runs can report materializations and results of checks.
    drawn.instance.report_runless_asset_event(dg.AssetMaterialization(TABLE))
    for name in names:
        drawn.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(check_name=name, passed=False, metadata={}, asset_key=TABLE)
        )
    assert told() == len(names)
    assert page.read_text() == before
