"""`jam-dagster ledger`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jam_dagster.privacy import Ledger
from tests.cli_bench import Run

# --- ledger


def test_a_ledger_is_granted_and_shown(run: Run) -> None:
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "a", "--epsilon", 2, "--delta", 1e-6)
    run("ledger", "grant", "--ledger", "l.db", "--dataset", "b", "--epsilon", 1, "--delta", 1e-9)

    shown = json.loads(run("ledger", "show", "--ledger", "l.db", "--json").stdout)

    assert [d["dataset"] for d in shown["datasets"]] == ["a", "b"]
    (one,) = json.loads(
        run("ledger", "show", "--ledger", "l.db", "--dataset", "b", "--json").stdout
    )["datasets"]
    assert one["rho"]["granted"] == pytest.approx(0.0149730577, abs=1e-9)
    assert one["epsilon_at_delta"]["remaining"] == pytest.approx(1)
    table = run("ledger", "show", "--ledger", "l.db").stdout
    assert "rho 0.01497" in table
    assert "granted" in table


def test_a_ledger_shows_what_a_release_spent(released: Run) -> None:
    result = released("ledger", "show", "--ledger", "ledger.db", "--last", "3")

    spent = Ledger("ledger.db").balance("people").spent
    assert f"rho {spent:.4g}" in result.stdout
    assert "The last 3 of" in result.stdout


@pytest.mark.parametrize("command", ["show", "verify"])
def test_a_ledger_that_is_not_there_is_not_made(run: Run, command: str) -> None:
    result = run("ledger", command, "--ledger", "absent.db")

    assert result.exit_code == 2
    assert "jam-dagster ledger grant" in result.stderr
    assert not Path("absent.db").exists()


def test_a_ledger_is_verified(run: Run) -> None:
    result = run("ledger", "verify", "--ledger", "ledger.db")

    assert result.exit_code == 0
    assert result.stdout.strip() == Ledger("ledger.db").events()[-1].hash
