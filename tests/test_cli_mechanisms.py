"""Every mechanism on the command line: planned, released, certified."""

from __future__ import annotations

import json

import pytest

from jam_dagster.trials import planner
from tests.cli_bench import NOISY, Run
from tests.small_runs import SYNTHESIZING, small
from tests.tiers import gate

TABLES = ("--public", "pub.csv", "--domain", "domain.json", "--degree", "2")
LEDGER = ("--ledger", "ledger.db", "--dataset", "people")

FAMILIES = ("aim", "tilt", "gem_pub", "pmw_pub", "independent")
"""One mechanism of each kind of model."""
OTHERS = sorted(set(SYNTHESIZING) - set(FAMILIES))


def chosen(name: str) -> list[str]:
    settings = [f"--setting={key}={value}" for key, value in small(name).items()]
    return ["--mechanism", name, *settings]


@pytest.mark.slow
def test_a_check_that_was_not_made_is_told(run: Run) -> None:
    asked = ("synthesize", "--private", "priv.csv", *TABLES, *chosen("pmw_pub"), *NOISY, *LEDGER)
    assert run(*asked, "--out", "out", "--no-checks", "--no-report").exit_code == 0

    found = run("certificate", "verify", "out", "--ledger", "ledger.db")
    assert found.exit_code == 0, found.stdout
    assert "----  the model, refitted: NOT CHECKED" in found.stdout
    assert "The certificate is true as far as it was checked" in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAMILIES, *gate(*OTHERS)])
def test_every_mechanism_is_planned(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "compared", lambda: ())
    asked = ("plan", *TABLES, *chosen(name), "--epsilon", "1")
    answer = json.loads(run(*asked, "--json").stdout)

    (point,) = answer["simulation"]["curve"]
    assert 0 <= point["error"]["mean"] <= 2
    assert (answer["noise"]["sigma"] is None) or answer["noise"]["sigma"] > 0
    shown = run(*asked, "--plot", "plan.html")
    assert shown.exit_code == 0, shown.stderr
    assert "None" not in shown.stdout
