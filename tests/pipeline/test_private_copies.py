"""What a release of Dagster leaves in the private store, and that it may go."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from jam_dagster.privacy.private_copies import KEPT_DAYS, copies_in_store, remove
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench


@pytest.mark.slow
def test_what_explains_a_failure_says_whose_it_is_and_goes_when_its_time_is_over(
    bench: Bench,
) -> None:
    table = pd.read_csv(bench.private).astype({"job": "object"})
    table.loc[5, "job"] = "SENTINEL"
    table.to_csv(bench.private, index=False)
    assert not bench.run(UP_TO_SYNTHETIC).success
    found = [one for one in copies_in_store(bench.closed) if one.kind == "failure"]
    assert found
    now = datetime.now(UTC)
    for one in found:
        assert b"SENTINEL" in one.path.read_bytes()
        whose = ("people", "people", "", "1")
        assert tuple(one.release.values()) == whose
        assert not one.is_removable(now, due=True)
        assert one.is_removable(now + timedelta(days=KEPT_DAYS + 1), due=True)
        assert remove(one)
