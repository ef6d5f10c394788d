"""What a release of Dagster leaves in the private store, and that it may go when it has ended."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import PrivacySpec
from jam_dagster.privacy.private_copies import copies_in_store, judged, remove
from jam_dagster.privacy.private_store import SOURCE_KEY_FILE
from tests.moved import bind_again
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure

KEPT = PrivacySpec(epsilon=2.0, retention_days=30, keep_records=True)
COPIES = ["people/private_discretized.codes.parquet", "people/private_records.parquet"]


@pytest.mark.slow
def test_private_tables_say_whose_they_are_and_how_long_they_are_kept(drawn: Bench) -> None:
    assert drawn.run(
        ["domain", "privacy_budget", "private_records", "private_discretized"], privacy=KEPT
    ).success
    # Stating a time is no change of the release.
    assert len(drawn.ledger.releases()) == 1

    found = {one.name: one for one in copies_in_store(drawn.closed) if one.kind == "table"}

    assert sorted(found) == COPIES
    for one in found.values():
        whose = (one.dataset, one.release, one.partition, one.edition, one.retention_days)
        assert whose == ("people", "people", "", "1", 30)
        assert not one.research


@pytest.mark.slow
def test_what_has_ended_goes_and_the_release_is_made_again_for_nothing(drawn: Bench) -> None:
    bind_again(drawn.ledger, drawn.private, drawn.closed / SOURCE_KEY_FILE)
    later = datetime.now(UTC) + timedelta(days=365)
    events = drawn.events()
    tables = [one for one in copies_in_store(drawn.closed) if one.kind == "table"]
    # Records are kept on request only.
    assert [one.name for one in tables] == COPIES[:1]
    for one in judged(tables, drawn.ledger, later):
        assert one.due is None
        assert remove(one)
    # A step by itself says what it needs.
    assert "materialize it first" in failure(drawn.run(["jam_pgm"]))

    again = drawn.run(UP_TO_SYNTHETIC)

    assert again.success, failure(again)
    assert drawn.events() == events


@pytest.mark.slow
def test_what_a_release_resumes_from_stays(bench: Bench) -> None:
    made = bench.run(["domain", "privacy_budget", "private_records"], privacy=KEPT)
    assert made.success, failure(made)
    (one,) = judged(
        (one for one in copies_in_store(bench.closed) if one.kind == "table"),
        bench.ledger,
        datetime.now(UTC) + timedelta(days=365),
    )
    assert "has not ended" in one.kept_because


@pytest.mark.slow
def test_what_explains_a_failure_says_whose_it_is_and_goes_when_its_time_is_over(
    bench: Bench,
) -> None:
    table = pd.read_csv(bench.private).astype({"job": "object"})
    table.loc[5, "job"] = "SENTINEL"
    table.to_csv(bench.private, index=False)
    assert not bench.run(UP_TO_SYNTHETIC, privacy=KEPT).success
    found = [one for one in copies_in_store(bench.closed) if one.kind == "failure"]
    assert found
    now = datetime.now(UTC)
    for one in judged(found, bench.ledger, now):
        assert b"SENTINEL" in one.copy.path.read_bytes()
        whose = (one.copy.dataset, one.copy.release, one.copy.partition, one.copy.edition)
        assert whose == ("people", "people", "", "1")
        assert not one.is_due(now)
    for one in judged(found, bench.ledger, now + timedelta(days=31)):
        assert one.is_due(now + timedelta(days=31))
        assert remove(one)


@pytest.mark.parametrize("days", [-1, 1.5, "soon"])
def test_a_time_that_is_none(days: object) -> None:
    with pytest.raises(SpecificationError, match=r"privacy\.retention_days"):
        PrivacySpec(epsilon=1.0, retention_days=days)  # type: ignore[arg-type]
