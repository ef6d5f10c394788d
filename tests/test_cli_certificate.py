"""`jam-dagster certificate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli_bench import RESEARCH, Run, lines, synthesize


def test_a_release_verifies(released: Run) -> None:
    given = ("--ledger", "ledger.db", "--public", "pub.csv")
    result = released("certificate", "verify", "out", *given)
    assert result.exit_code == 0, result.output
    output = result.stdout.splitlines()
    assert all(line.startswith("pass  ") for line in output[:-1])
    assert output[-1] == "The certificate is true, and the table may leave."
    assert result.stderr == ""


@pytest.mark.slow
def test_without_the_ledger_it_says_what_was_not_looked_up(released: Run) -> None:
    result = released("certificate", "verify", "out/certificate.json")
    assert result.exit_code == 0
    assert "--ledger" in " ".join(lines(result))


def test_a_failed_check_is_told_and_is_the_exit_status(released: Run) -> None:
    table = Path("out/synthetic.csv")
    table.write_text(table.read_text()[:-2])
    result = released("certificate", "verify", "out")
    assert result.exit_code == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines() if "FAIL" in line] == [
        "FAIL  file"
    ]
    assert "not to be relied on" in result.stdout

    as_json = json.loads(released("certificate", "verify", "out", "--json").stdout)
    assert as_json["passed"] is False
    assert as_json["releasable"] is False
    assert sum(not one["passed"] for one in as_json["findings"]) == 1


@pytest.mark.slow
def test_research_verifies_and_may_not_leave(run: Run) -> None:
    made = run(*synthesize(*RESEARCH))
    assert "certificate.json" in made.stdout
    assert not Path("out/certificate.html").exists()
    result = run("certificate", "verify", "out")
    assert result.exit_code == 0, result.output
    assert "may not leave" in result.stdout
    assert "seeded" in result.stdout


def test_show_tells_the_certificate(released: Run) -> None:
    output = released("certificate", "show", "out").stdout
    assert "epsilon 0.4 at delta 1e-09" in output
    assert "May leave   yes" in output
    document = json.loads(released("certificate", "show", "out", "--json").stdout)
    assert document == json.loads(Path("out/certificate.json").read_text())


def test_where_there_is_no_certificate(run: Run) -> None:
    for command in ("show", "verify"):
        result = run("certificate", command, "nowhere")
        assert result.exit_code == 2
        assert len(lines(result)) == 1
        assert "no certificate to read" in result.stderr
