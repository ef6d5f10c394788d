"""What may not leave is not told by the event log either: everyone with the UI reads it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from jam_dagster.mechanisms.loops import rows
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec
from jam_dagster.tables.sources.table_file import TableFile
from tests.pipeline.conftest import (
    DOMAIN,
    UP_TO_SYNTHETIC,
    Bench,
    check_of,
    failure,
    nothing_pictured,
    told,
    write_tables,
)

SEEDED: dict[str, Any] = {"privacy": PrivacySpec(epsilon=2.0, noise="numpy", seed=7)}
IDENTIFIED: dict[str, Any] = {"domain": replace(DOMAIN, identified_from="private")}
PRIVATE: dict[str, Any] = {"evaluation": EvaluationSpec(mode="private", share=0.2)}

# What the configuration says, n, and where things lie.
HARMLESS = {
    "jam_pgm": {
        *("rho_budget", "delta", "noise", "neighbours", "releasable"),
        *("made_again", "note", "path", "warnings"),
    },
    "synthetic_records": {
        *("dagster/row_count", "dagster/column_schema", "dagster/column_lineage"),
        *("csv", "releasable", "note", "path"),
    },
    "workload_error": {"mode", "rho_spent", "note", "path"},
    "release_certificate": {"page", "releasable", "note", "path"},
    "release_report": {"note", "path"},
}


def log(bench: Bench, result: dg.ExecuteInProcessResult) -> str:
    return "\n".join(entry.user_message for entry in bench.instance.all_logs(result.run_id))


@pytest.fixture(scope="module")
def doubtful(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Bench, dg.ExecuteInProcessResult]]:
    """A run with seeded noise, a large delta, and a synthetic table that is made in two chunks."""
    home = tmp_path_factory.mktemp("doubtful")
    write_tables(home)
    privacy = PrivacySpec(epsilon=2.0, delta=0.01, noise="numpy", seed=7)
    with Bench(home) as bench:
        with nothing_pictured(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(rows, "MOST_AT_ONCE", 500)
            patch.setattr(rows, "CHUNK_ROWS", 300)
            result = bench.run(UP_TO_SYNTHETIC, privacy=privacy)
        assert result.success, failure(result)
        yield bench, result


@pytest.mark.slow
def test_a_doubtful_configuration_is_warned_of(
    doubtful: tuple[Bench, dg.ExecuteInProcessResult],
) -> None:
    """The private table has 600 records: a delta of a hundredth would let six be published."""
    bench, result = doubtful
    assert "delta = 0.01 is not below 1 / n" in told(result)["jam_pgm"]["warnings"]
    assert "delta = 0.01 is not below 1 / n" in log(bench, result)


def test_rows_that_may_not_leave_are_not_counted_as_they_are_made(
    doubtful: tuple[Bench, dg.ExecuteInProcessResult],
) -> None:
    bench, result = doubtful
    (table,) = bench.home.rglob("synthetic_records.parquet")
    assert TableFile(table).sizes == [300, 300]
    assert "rows: " not in log(bench, result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [SEEDED, pytest.param(IDENTIFIED, marks=pytest.mark.slow)],
    ids=["seeded noise", "domain from private data"],
)
def test_what_may_not_leave_is_told_by_its_outcome_only(
    bench: Bench, changes: dict[str, Any]
) -> None:
    result = bench.run(**changes, **PRIVATE)
    assert result.success, failure(result)
    shown = told(result)
    assert {name: set(shown[name]) - HARMLESS[name] for name in HARMLESS} == {
        name: set() for name in HARMLESS
    }
    for name in HARMLESS:
        assert shown[name]["note"].startswith("restricted: ")

    graph = bench.definitions(**changes, **PRIVATE).resolve_asset_graph()
    for name in HARMLESS:
        metadata = graph.get(dg.AssetKey(["people", name])).metadata
        # What is not told is not pointed to.
        assert metadata["where_to_look"].startswith("The private store.")

    checks = {one.check_name: one for one in result.get_asset_check_evaluations()}
    assert not checks.pop("releasable").passed
    # It looks at amounts of budget alone, and warns of a ledger that is new.
    enough = checks.pop("budget_suffices")
    assert enough.passed or enough.severity is dg.AssetCheckSeverity.WARN
    for check in checks.values():
        assert check.description in ("met", "not met")
        assert set(check.metadata) <= {"page", "restricted"}
    assert checks["better_than_public"].metadata["restricted"].value is True

    lines = log(bench, result)
    assert "round 1/3" in lines
    for word in ("candidates", "sigma", " MB", "rho spent"):
        assert word not in lines, word


@pytest.mark.slow
def test_exact_errors_are_told_when_asked_for_and_say_what_they_are(bench: Bench) -> None:
    result = bench.run(**SEEDED)
    assert result.success, failure(result)
    shown = told(result)
    assert shown["workload_error"]["note"] == "restricted: exact statistics of private data"
    assert shown["workload_error"]["synthetic_mean"] > 0
    assert "preview" not in shown["synthetic_records"]
    check = check_of(result, "better_than_public")
    assert check.metadata["restricted"].value is True
    assert "Restricted: exact statistics of private data" in (check.description or "")
    # Dagster prints descriptions.
    assert not re.search(r"\d", check.description or "")
    assert "mean error" in str(check.metadata["verdict"].value)


@pytest.mark.slow
def test_sizes_of_a_domain_from_private_data_are_withheld(bench: Bench) -> None:
    mechanism = MechanismSpec("jam_pgm", rounds=3, size_limit_mb=1e-9)
    # The marginal of an impossible combination would always fit.
    domain = replace(DOMAIN, identified_from="private", impossible=())
    message = failure(bench.run(mechanism=mechanism, domain=domain))
    assert "EmptyCandidateSetError" in message
    assert "is withheld" in message
    assert "empty model alone takes" not in message
    assert set(bench.kinds()) <= {"reserved"}
