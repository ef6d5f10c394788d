"""``python -m tests.torture``: kill runs for as long as it takes, and say what came of it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from tests.torture.campaign import Campaign, Tormented
from tests.torture.cases import CASES
from tests.torture.faults import FAULTS, verdict
from tests.torture.victims import (
    BoughtRelease,
    CountedRelease,
    ExactRelease,
    SeededRelease,
    Victim,
)

Made = Callable[[Path], Victim]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--sqlite", type=int, default=0, help="kills over SQLite")
    parser.add_argument("--postgresql", type=int, default=0, help="kills over PostgreSQL")
    parser.add_argument("--dagster", type=int, default=0, help="kills of Dagster's step")
    parser.add_argument("--steps", type=int, default=0, help="kills of steps in own processes")
    parser.add_argument("--files", type=int, default=0, help="kills between two files of a step")
    parser.add_argument("--faults", action="store_true", help="plant faults, say what is noticed")
    parser.add_argument("--cases", action="store_true", help="lose single draws, say what failed")
    parser.add_argument("--seed", type=int, default=0, help="of the points and times")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        home = Path(folder)
        if given.faults:
            plant_faults(home)
        if given.cases:
            try_cases(home)
        total = Tormented()
        if given.sqlite:
            total += torture("SQLite", released(), home / "sqlite", given.sqlite, given.seed)
        if given.dagster:
            total += torture("Dagster", stepped(), home / "dagster", given.dagster, given.seed)
        if given.files:
            both = {"folder": released()["release"], "stores": stepped()["one table"]}
            kills = given.files
            total += torture("Files", both, home / "files", kills, given.seed, between_files=True)
        if given.steps:
            from tests.torture.step_victim import torture_steps

            steps = torture_steps(home / "steps", given.steps)
            print(f"Steps: {steps.line()}", flush=True)
            total += steps
        if given.postgresql:
            total += over_postgresql(home / "postgresql", given.postgresql, given.seed)
        if total.runs:
            print(f"All: {total.line()}")


def released(url: Callable[[], str | None] = lambda: None) -> dict[str, Made]:
    """The kinds of releases that are made without Dagster, each with a ledger of its own."""
    exact, bought, seeded = url(), url(), url()
    return {
        "release": lambda place: ExactRelease(home=place, ledger_url=exact),
        "bought": lambda place: BoughtRelease(home=place, ledger_url=bought),
        "research": lambda place: SeededRelease(home=place, ledger_url=seeded),
    }


def stepped() -> dict[str, Made]:
    """The kinds of releases that Dagster makes."""
    # Dagster, and what its steps import, take seconds: here once, not in each run.
    from tests.torture.pipeline_victim import PipelineRelease, TwoTables

    for name in ("altair", "great_expectations", "vl_convert"):
        import_module(name)
    return {
        "one table": lambda place: PipelineRelease(home=place),
        "two tables": lambda place: TwoTables(home=place),
    }


def over_postgresql(home: Path, kills: int, seed: int) -> Tormented:
    """Torture over a server of our own, or say why there is none."""
    from tests.postgres import running_server

    try:
        with running_server() as server:
            ledger, warehouse = server.create_database(), server.create_database()
            kinds = released(server.create_database)
            kinds["counted"] = lambda place: CountedRelease(
                home=place, ledger_url=ledger, warehouse=warehouse
            )
            return torture("PostgreSQL", kinds, home, kills, seed)
    except pytest.skip.Exception as missing:
        sys.exit(f"No kills over PostgreSQL: {missing}")


def plant_faults(home: Path) -> None:
    """Print what the judge says of each fault, as JSON."""
    verdicts = enumerate(FAULTS.items())
    print(json.dumps({name: verdict(fault, home / f"{n}") for n, (name, fault) in verdicts}))


def try_cases(home: Path) -> None:
    """Print what went wrong in each case of a lost draw, empty where nothing did, as JSON."""
    failures = {}
    for case in CASES:
        try:
            case(home / case.__name__)
            failures[case.__name__] = ""
        except AssertionError:
            failures[case.__name__] = traceback.format_exc()
    print(json.dumps(failures))


def torture(
    name: str,
    kinds: dict[str, Made],
    home: Path,
    kills: int,
    seed: int,
    *,
    between_files: bool = False,
) -> Tormented:
    """Share the kills among the kinds of victims, and print a line about them all."""
    total, started = Tormented(), time.monotonic()
    for number, (kind, made) in enumerate(kinds.items()):
        share = (kills + number) // len(kinds)
        total += Campaign(made, home / kind, seed, between_files=between_files).torment(share)
    print(f"{name}: {total.line()}, {time.monotonic() - started:.0f} s", flush=True)
    return total


if __name__ == "__main__":
    main()
