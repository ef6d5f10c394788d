"""The last that a run says: verdict, paths and cost, and nothing that may not leave."""

import logging
from typing import Any

import dagster as dg
import pytest

from jam_dagster.release import EvaluationSpec, PrivacySpec
from tests.pipeline.conftest import AS_DAGSTER_WARNS, UP_TO_SYNTHETIC, Bench, Full, failure

pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.slow]

PRIVATE: dict[str, Any] = {"evaluation": EvaluationSpec(mode="private", share=0.2)}


def said_last(bench: Bench, result: dg.ExecuteInProcessResult) -> dict[str, str]:
    """Return the lines of the last message that a console shows, by their names."""
    logged = [one for one in bench.instance.all_logs(result.run_id) if one.level >= logging.INFO]
    first, *lines = logged[-1].user_message.splitlines()
    return {"": first} | {line[:18].strip(): line[18:] for line in lines}


def test_a_run_ends_with_verdict_paths_and_cost(bench: Bench) -> None:
    wanted = [*UP_TO_SYNTHETIC, "workload_error", "release_report", "release_certificate"]
    result = bench.run(wanted, **PRIVATE)
    assert result.success, failure(result)
    said = said_last(bench, result)
    below = bench.releases / "people"
    verdict = said.pop("Verdict")
    assert "mean error" in verdict
    starts = ("Better", "Closer", "Worse", "No", "Your budget", "The domain", "Failed checks")
    assert verdict.startswith(starts)
    assert said == {
        "": "Made release people, which may leave.",
        "Synthetic table": str(below / "synthetic_records.csv"),
        "Report": str(below / "release_report.html"),
        "Certificate": str(below / "release_certificate" / "certificate.html"),
        "Privacy spent": said["Privacy spent"],
    }
    spent = sum(one.units for one in bench.events() if one.kind == "charged") / 1e15
    left = bench.ledger.balance("people")
    assert said["Privacy spent"].startswith(f"rho {spent:.6g} (epsilon ")
    assert f"; rho {left.remaining:.6g} (epsilon " in said["Privacy spent"]
    for path in ("Synthetic table", "Report", "Certificate"):
        assert bench.home.joinpath(said[path]).is_file()


def test_exact_errors_are_not_in_the_log(full: Full) -> None:
    said = said_last(full.bench, full.result)
    withheld = "No error was released: it was measured exactly, for readers who may see the private"
    assert said["Verdict"].startswith(withheld)
    assert "mean error" not in said["Verdict"]
    closed = full.bench.closed / "people" / "release_report_restricted.html"
    assert said["Restricted report"] == str(closed)


def test_what_may_not_leave_has_no_verdict(bench: Bench) -> None:
    research = {"privacy": PrivacySpec(epsilon=2.0, noise="numpy")}
    result = bench.run([*UP_TO_SYNTHETIC, "release_certificate"], **research)
    assert result.success, failure(result)
    said = said_last(bench, result)
    assert said[""] == "Made release people, which may not leave."
    assert said["Privacy spent"].startswith("nothing: ")
    assert "Verdict" not in said
    assert "Report" not in said
