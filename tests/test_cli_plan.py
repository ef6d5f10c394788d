"""`jam-dagster plan`: what it says, and that it spends and opens nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

from jam_dagster.errors import InputError
from jam_dagster.privacy import Budget, Ledger, ReleaseId
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.trials import planner
from tests.cli_bench import RELEASE, Run, definition, lines, synthesize

PLAN = ("--public", "pub.csv", "--domain", "domain.json", "--epsilon", "1")
SMALL = (
    *("--mechanism", "jam_pgm", "--setting", "rounds=2", "--setting", "iterations=20"),
    *("--degree", "2", "--records", "200"),
)
ONCE = ("--epsilons", "1")
DRAFTED: dict[str, object] = {
    "public": "raw-pub.csv",
    "domain": {"identify": "public", "bins": 4},
    "mechanism": {"name": "jam_pgm", "rounds": 2, "iterations": 20},
    "workload": {"degree": 2},
}
PAID = ("--ledger", "ledger.db", "--dataset", "people")


@pytest.fixture(autouse=True)
def _one_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let others than the mechanism asked for take no time."""
    monkeypatch.setattr(planner, "compared", lambda: [MechanismSpec("public_prior")])


def files() -> dict[str, str]:
    """Return everything in the working directory by its content."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in Path().rglob("*")
        if stat.S_ISREG(path.lstat().st_mode)
    }


@pytest.mark.slow
def test_the_private_table_is_never_opened_and_the_ledger_never_changed(run: Run) -> None:
    Path("priv.csv").unlink()
    # Whoever opens this waits for ever: the run would not end.
    os.mkfifo("priv.csv")
    before = files()

    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' "
        "else None)\n"
        "from jam_dagster.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print([name for name in opened if name.endswith(('priv.csv', 'pub.csv'))])\n"
        "print('dagster' in sys.modules)\n"
    )
    arguments = ["plan", str(definition(**DRAFTED)), "--ledger", "ledger.db", *ONCE]
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ran.returncode == 0, ran.stderr
    opened, dagster = ran.stdout.splitlines()[-2:]
    # The audit sees what is opened, for it saw the public table.
    assert "raw-pub.csv" in opened
    assert "priv.csv" not in opened
    assert dagster == "False"
    after = files()
    assert after.pop("defs.yaml")
    assert after == before


def test_a_plan_prints_what_is_to_be_known(run: Run) -> None:
    # A mechanism of the file is compared with others; one that is named here would not be.
    mechanism = {"name": "jam_pgm", "rounds": 2, "iterations": 20}
    file = definition(mechanism=mechanism, workload={"degree": 2})
    asked = ("plan", file, "--epsilon", "1", "--records", "200", *PAID)

    result = run(*asked, "--seeds", "2", "--epsilons", "0.5,2", "--seconds", "600")

    assert result.exit_code == 0, result.output
    output = result.stdout
    for part in (
        "200 private, 80 public",
        "10 (the workload's 6 marginals",
        "First round",
        "Costly columns",
        "extrapolated",
        "sigma",
        "people in ",
        "Simulated error (2 seeds",
        "Mechanisms at epsilon 1",
        "JAM-PGM (rounds = 2, ",
        "TILT with a public table and without",
        "the release pays where the private table",
        "Limits of this plan",
    ):
        assert part in output
    (in_the_curve,) = (line for line in output.splitlines() if "asked for" in line)
    (in_the_table,) = (line for line in output.splitlines() if "this release" in line)
    assert " 1 " in in_the_curve
    assert "JAM-PGM" in in_the_table
    assert lines(result)[0].startswith("Trials to come: 9, in about 0:")
    assert lines(result)[1].startswith("1/9 halves of the public table, JAM-PGM, ")


@pytest.mark.slow
def test_a_first_trial_that_would_take_too_long_is_not_begun(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "run_trial", None)
    # The shortest trial is expected to take a second.
    asked = ("plan", *PLAN, *SMALL, *PAID, *ONCE, "--seconds", "0.9")
    result = run(*asked)
    assert result.exit_code == 0, result.output
    assert "Nothing was simulated. The first trial would take about 0:0" in result.stderr
    assert "0.9 s are allowed: give more by --seconds" in " ".join(result.stderr.split())
    assert json.loads(run(*asked, "--json").stdout) == json.loads(
        run(*asked, "--json", "--quick").stdout
    )
    refused = run(*asked, "--plot", "curve.svg")
    assert refused.exit_code == 2
    assert "for a curve that --plot draws" in " ".join(refused.stderr.split())


def test_what_needs_no_trial_is_printed_before_any(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_trial(*_: object, **__: object) -> None:
        raise InputError("stopped")

    monkeypatch.setattr(planner, "run_trial", no_trial)
    result = run("plan", *PLAN, *SMALL, *PAID, *ONCE)

    assert "people in " in result.stdout
    # Pairs of columns of 4, 2, 3 and 2 values have 44 cells, 28 of them with the first.
    assert "Costly columns    age (4 values) 64%; job (3 values) 55%; sex (2" in result.stdout
    assert lines(result)[0].startswith("Trials to come: ")


def test_a_quick_plan_simulates_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_trial(*_: object, **__: object) -> None:
        raise AssertionError("a trial")

    monkeypatch.setattr(planner, "run_trial", no_trial)
    told = run("plan", *PLAN, *SMALL, *PAID, "--quick")
    assert told.exit_code == 0, told.output
    assert "Costly columns" in told.stdout
    assert "people in " in told.stdout
    assert "Trials" not in told.stderr

    made = json.loads(run("plan", *PLAN, *SMALL, *PAID, "--quick", "--json").stdout)
    assert made["ledger"]["fits"] is True
    assert "simulation" not in made

    drawn = run("plan", *PLAN, *SMALL, "--quick", "--plot", "plan.html")
    assert drawn.exit_code == 2
    assert "drop one of them" in drawn.stderr


# --- what would be left


@pytest.mark.slow
def test_what_would_be_left_is_what_is_left(run: Run) -> None:
    options = (*SMALL, "--epsilon", "0.4", "--ledger", "ledger.db", "--dataset", "people")
    asked = ("--public", "pub.csv", "--domain", "domain.json", *options, *ONCE)
    promised = json.loads(run("plan", *asked, "--json").stdout)["ledger"]

    other = ReleaseId("people", "another", "0" * 64)
    Ledger("ledger.db").open_release(other, {"mechanism": _rho(0.4)}, run_id="test")
    balance = Ledger("ledger.db").balance("people")

    assert promised["after_epsilon"] == balance.remaining_epsilon


def _rho(epsilon: float) -> float:
    return Budget(epsilon, 1e-9).rho


def test_a_release_that_does_not_fit_is_told_and_is_no_failure(run: Run) -> None:
    result = run("plan", *PLAN, *SMALL, *PAID, *ONCE, "--epsilon", "3")

    assert result.exit_code == 0
    assert "IT DOES NOT ALLOW THIS" in result.stdout


@pytest.mark.slow
def test_a_release_that_was_made_costs_nothing_again(run: Run) -> None:
    made = run(*synthesize(*RELEASE, "--records-share", "0.1", "--neighbours", "add_remove"))
    assert made.exit_code == 0, made.output

    result = run(
        *("plan", *PLAN, *SMALL, *PAID, *ONCE, "--release", "out", "--neighbours", "add_remove"),
        *("--records-share", "0.1", "--json"),
    )

    ledger = json.loads(result.stdout)["ledger"]
    assert "charged before" in ledger["note"]
    assert ledger["fits"]
    assert ledger["after_epsilon"] == ledger["remaining_epsilon"]


@pytest.mark.slow
def test_a_dataset_without_a_budget_is_told(run: Run) -> None:
    result = run("plan", *PLAN, *SMALL, *ONCE, "--ledger", "new.db", "--dataset", "people")

    assert result.exit_code == 0
    assert "grants this dataset nothing yet" in result.stdout
    assert not Path("new.db").exists()


@pytest.mark.slow
def test_a_ledger_may_be_configured_by_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_LEDGER", "ledger.db")

    result = run("plan", *PLAN, *SMALL, *ONCE, "--dataset", "people", "--json")

    assert json.loads(result.stdout)["ledger"]["dataset"] == "people"


# --- the plot


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plan.html", "plan.svg", "new/plan.png"])
def test_a_plot_is_drawn_in_the_format_of_its_name(run: Run, name: str) -> None:
    result = run("plan", *PLAN, *SMALL, *ONCE, "--plot", name)

    assert result.exit_code == 0, result.output
    written = Path(name).read_bytes()
    if name.endswith("png"):
        assert written[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">I", written[16:20])[0] > 400
    elif name.endswith("svg"):
        shown = "".join(ElementTree.fromstring(written.decode()).itertext())
        assert "public half itself" in shown
    else:
        page = written.decode()
        assert "public half itself" in page
        # It is whole: no script is fetched.
        assert "<script src" not in page
        assert 'src="http' not in page


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--plot", "plan.pdf"), "must end in .html, .svg, .png"),
        (("--epsilons", "a,b"), "--epsilons must be numbers"),
        (("--records", "0"), "records must be at least 1"),
        (("--public", "nowhere.csv"), "each needs a name"),
    ],
)
def test_bad_input_ends_before_anything_is_tried(
    run: Run, options: tuple[str, ...], expected: str
) -> None:
    result = run("plan", *PLAN, *SMALL, *options)

    assert result.exit_code == 2
    (line,) = lines(result)
    assert expected in line


def test_a_plan_of_nothing_says_what_it_needs(run: Run) -> None:
    result = run("plan")

    assert result.exit_code == 2
    assert "--epsilon" in lines(result)[0]


def test_a_plan_without_a_public_table_says_what_is_known(run: Run) -> None:
    asked = ("plan", "--domain", "domain.json", "--epsilon", "1")
    result = run(*asked, "--records", "500")

    assert result.exit_code == 0
    assert "500 private, no public table" in result.stdout
    assert "The free baseline is a uniform table" in result.stdout
    assert "Trials" not in result.stderr
    told = json.loads(run(*asked, "--records", "500", "--json").stdout)
    assert told["public_records"] == 0
    assert "how many records" in lines(run(*asked))[0]
    assert "--plot draws" in lines(run(*asked, "--records", "500", "--plot", "x.svg"))[0]


def test_a_plan_of_a_domain_that_is_bought_reads_the_names_of_the_columns_alone(run: Run) -> None:
    names = Path("priv.csv").read_text().partition("\n")[0]
    # No row is there to be read.
    Path("priv.csv").write_text(f"{names}\n")
    types = {"identify": "paid", "types": {names.split(",")[0]: "integer"}}
    file = definition(public=None, domain=types, mechanism="independent", workload={"degree": 1})
    asked = ("plan", file, "--records", "500", "--json")
    told = json.loads(run(*asked).stdout)

    assert told["selection_delta"] > 0.0
    assert "The budget buys the domain" in " ".join(told["notes"])
    Path("priv.csv").unlink()
    Path("ledger.db").unlink(missing_ok=True)
    assert "priv.csv" in lines(run(*asked))[-1]


@pytest.mark.slow
def test_a_plan_with_a_public_table_says_that_values_are_bought(run: Run) -> None:
    file = definition(**{**DRAFTED, "domain": {"identify": "paid", "bins": 4}})
    told = json.loads(run("plan", file, "--records", "200", "--quick", "--json").stdout)

    assert told["selection_delta"] > 0.0
    assert "these trials have the public ones alone" in " ".join(told["notes"])


def test_a_plan_says_what_was_drawn_of_its_partition_before(run: Run) -> None:
    ledger = Ledger("ledger.db")
    months = {"private": "priv_{partition}.csv", "partitions": "monthly", "start": "2026-01-01"}
    months["mechanism"] = "public_prior"
    file = definition(**months)
    asked = ("--records", "200", "--quick", "--json", "--ledger", "ledger.db", "--partition")
    first = run("plan", file, *asked, "2026-01")
    assert first.exit_code == 0, first.output
    planned = json.loads(first.stdout)
    for month in ("2026-01", "2026-02"):
        drawn = ledger.open_release(
            ReleaseId("people", "people", planned["specification"], month), planned["rho"]
        )
        drawn.account("mechanism").charge("round-000", 0.0009)
        drawn.close("done")
    definition(**months, privacy={"epsilon": 0.5, "editions": {"2026-01": 2}})
    mended = json.loads(run("plan", file, *asked, "2026-01").stdout)["ledger"]["note"]
    assert "Partition 2026-01 was drawn before: edition 1, on" in mended
    assert "backfill" not in mended
    result = run("plan", file, *asked, "2026-02")
    assert result.exit_code == 0, result.output
    other = json.loads(result.stdout)["ledger"]["note"]
    assert "It was charged before" in other
    # An option takes the place of what the file says.
    all_ = run("plan", file, *asked, "2026-01", "--edition", "3").stdout
    again = json.loads(all_)["ledger"]["note"]
    assert "This is edition 3" in again
    # The definitions say nothing of it.
    assert "backfill" not in again


@pytest.mark.slow
def test_a_plan_asks_who_is_protected_until_it_is_said(run: Run) -> None:
    pd.read_csv("pub.csv").assign(client_id=[n // 2 for n in range(80)]).to_csv(
        "pub.csv", index=False
    )
    asked = ("--records", "200", "--epsilons", "1", "--json")
    small = {"mechanism": {"name": "jam_pgm", "rounds": 1}, "workload": {"degree": 1}}
    question = "client_id (40 values) looks like a person's key, and repeats in the 80 rows"
    for unit, is_asked in ((None, True), ("row", False), ({"column": "client_id"}, False)):
        privacy = {"epsilon": 0.5, **({} if unit is None else {"unit": unit})}
        public = "pub.csv"
        if isinstance(unit, dict):
            # A table of persons is not public: the column has another name there.
            public = "renamed.csv"
            pd.read_csv("pub.csv").rename(columns={"client_id": "client"}).to_csv(public)
        planned = run("plan", definition(privacy=privacy, public=public, **small), *asked)
        assert planned.exit_code == 0, planned.output
        assert (question in planned.stdout) is is_asked


@pytest.mark.slow
def test_a_chain_without_a_first_table_begins_without_a_public_one(run: Run) -> None:
    Path("priv.csv").rename("priv_2026-01.csv")
    file = definition(
        private="priv_{partition}.csv",
        public={"previous_release": {}},
        partitions="monthly",
        start="2026-01-01",
        workload={"degree": 2},
    )
    asked = ("--partition", "2026-01", "--no-checks", "--no-report", "--ledger", "ledger.db")
    planned = run("plan", file, "--partition", "2026-01", "--records", "200", "--json")
    made = run("synthesize", file, *asked, "--out", "out")

    assert made.exit_code == 0, made.output
    assert lines(made)[0].startswith("TILT without public data (")
    certified = json.loads(Path("out/certificate.json").read_text())
    specification = certified["release"]["specification"]
    assert json.loads(planned.stdout)["specification"] == specification
    later = run("plan", file, "--partition", "2026-02", "--records", "200")
    assert "is drawn on the release of 2026-01: name a table that stands for it" in later.output
