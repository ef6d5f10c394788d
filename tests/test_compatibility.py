"""What the first version left goes on: it verifies, repeats for nothing, and resumes.

The archive below ``JAM_DATA/compat`` holds what version 0.1.0 made: a ledger with a whole release
and one that was killed in its ninth round, and the demo's stores and ledger of Dagster.
"""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
import yaml

from jam_dagster.certificates import Certificate, verify
from jam_dagster.errors import BudgetError
from jam_dagster.pipeline.build import release_definitions
from jam_dagster.privacy import Event, Kind, Ledger
from jam_dagster.release.spec import ReleaseSpec
from resources import build_resources
from tests.cli_bench import run_cli

DEMO = Path(__file__).parents[1] / "assets" / "releases" / "census_demo"

COMPAT = "compat/made-at-6aefb17.tar.gz"
DATASET = "simulated_people"
WHOLE = ("--setting", "rounds=6", "--out", "whole")
HALF = ("--setting", "rounds=25", "--out", "half", "--no-report", "--no-checks")


@pytest.fixture
def made(jam_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive, unpacked into the working directory."""
    archive = jam_data / COMPAT
    if not archive.exists():
        pytest.skip(f"{archive.name} is not below JAM_DATA")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ledger(made: Path) -> Ledger:
    """The ledger of the archive, upgraded."""
    before = Ledger("ledger.db")
    with pytest.raises(BudgetError, match="ledger upgrade"):
        before.verify()
    upgraded = run_cli("ledger", "upgrade", "--ledger", "ledger.db")
    assert upgraded.exit_code == 0, upgraded.output
    return before


def release(*options: str) -> None:
    tables = ("--private", "demo/private.csv", "--public", "demo/public.csv")
    given = ("--domain", "demo/domain.yaml", "--dataset", DATASET, "--ledger", "ledger.db")
    run = run_cli("synthesize", *tables, *given, "--epsilon", "1", "--degree", "2", *options)
    assert run.exit_code == 0, run.output


def charges(ledger: Ledger, release: str) -> list[Event]:
    return [
        event
        for event in ledger.events()
        if event.kind == Kind.CHARGED and event.release == release
    ]


def check_certificate(folder: Path, ledger: Ledger) -> Certificate:
    faults = [one for one in verify(folder, ledger=ledger) if not one.passed]
    assert not faults, faults
    return Certificate.load(folder)


def test_an_upgraded_ledger_holds_every_event_as_it_was(ledger: Ledger) -> None:
    verification = ledger.verify()
    assert verification.events == 30
    # The head that the killed release's last charge left.
    assert verification.head == ledger.events()[-1].hash == ledger.events()[-1].seal()
    balance = ledger.balance(DATASET)
    assert balance.spent_units == sum(
        event.units for event in ledger.events() if event.kind == Kind.CHARGED
    )


@pytest.mark.slow
def test_a_whole_release_verifies(made: Path, ledger: Ledger) -> None:
    check_certificate(made / "whole", ledger)


@pytest.mark.slow
def test_a_whole_release_repeats_for_nothing(made: Path, ledger: Ledger) -> None:
    before = ledger.balance(DATASET), charges(ledger, "whole")
    table = (made / "whole" / "synthetic.csv").read_bytes()
    certificate = Certificate.load(made / "whole")
    release(*WHOLE)
    assert (ledger.balance(DATASET), charges(ledger, "whole")) == before
    assert (made / "whole" / "synthetic.csv").read_bytes() == table
    again = check_certificate(made / "whole", ledger)
    assert (again.draws, again.rho_spent, again.made) == (
        certificate.draws,
        certificate.rho_spent,
        certificate.made,
    )


@pytest.mark.slow
def test_a_killed_release_goes_on_and_pays_for_nothing_twice(made: Path, ledger: Ledger) -> None:
    paid = charges(ledger, "half")
    assert paid[-1].step == "round-009/select"
    draws = {path.name: path.read_bytes() for path in (made / "half" / "draws").iterdir()}
    release(*HALF)
    now = charges(ledger, "half")
    assert now[: len(paid)] == paid
    assert len(now) > len(paid)
    assert max(Counter((event.share, event.step) for event in now).values()) == 1
    for name, stored in draws.items():
        assert (made / "half" / "draws" / name).read_bytes() == stored
    ledger.verify()
    check_certificate(made / "half", ledger)


def job(instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    attributes = yaml.safe_load((DEMO / "defs.yaml").read_text())["attributes"]
    del attributes["group"], attributes["owners"]
    # What the demo of 0.1.0 was.
    attributes["mechanism"] = {"name": "jam_pgm", "rounds": 10}
    definitions = dg.Definitions.merge(
        release_definitions(ReleaseSpec.from_config(attributes, DEMO)),
        dg.Definitions(resources=build_resources()),
    )
    return definitions.resolve_job_def("census_demo_release").execute_in_process(instance=instance)


@pytest.mark.slow
def test_the_demo_of_dagster_verifies_and_repeats_for_nothing(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_HOME", str(made / "dagster_demo"))
    ledger = Ledger(made / "dagster_demo" / "ledger.sqlite")
    ledger.upgrade()
    folder = made / "dagster_demo" / "releases" / "census_demo"
    check_certificate(folder / "release_certificate", ledger)
    spent, paid = ledger.balance("census_demo").spent_units, charges(ledger, "census_demo")
    table = (folder / "synthetic_records.csv").read_bytes()
    with dg.DagsterInstance.ephemeral() as instance:
        assert job(instance).success
    assert ledger.balance("census_demo").spent_units == spent
    assert charges(ledger, "census_demo") == paid
    assert (folder / "synthetic_records.csv").read_bytes() == table
    check_certificate(folder / "release_certificate", ledger)
