"""What failures and sources tell, and what the command line does about it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from jam_dagster.privacy import Ledger, Policy
from jam_dagster.tables import CsvSource, Domain, encode
from tests.budgets import FIXED, PUBLIC_N
from tests.cli_bench import RELEASE, Run, definition, synthesize
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

OFF = ("--evaluation-mode", "off")
RAW = {"private": "people.csv", "public": "survey.csv", "domain": "raw.yaml"}
ACKNOWLEDGE = ("ledger", "acknowledge", "--ledger", "ledger.db", "--dataset", "people", "--reason")
REBIND = ("ledger", "rebind", "--ledger", "ledger.db", "--dataset", "people", "--reason")


def write_people(least: int) -> None:
    """Write a private table whose youngest woman has an age, and a public table without one."""
    pd.DataFrame(
        {"age": [least, 60, 70, 25, 40] * 20, "sex": ["F", "F", "F", "M", "M"] * 20}
    ).to_csv("people.csv", index=False)
    pd.DataFrame({"age": [80, 81], "sex": ["M", "M"]}).to_csv("survey.csv", index=False)


def write_domain(*impossible: dict[str, Any]) -> None:
    attributes = {
        "age": {"bounds": [0, 100], "bins": 100, "integer": True},
        "sex": {"values": ["F", "M"]},
    }
    content = {"attributes": attributes, "impossible": list(impossible)}
    Path("raw.yaml").write_text(yaml.safe_dump(content))


def predicate(age: int) -> dict[str, Any]:
    return {"age": {"bins": [age]}, "sex": "F"}


def failures() -> list[Path]:
    return sorted(Path("out/restricted/failures").glob("*.txt"))


def spent() -> int:
    return Ledger("ledger.db").balance("people").spent_units


def test_which_predicate_holds_is_not_told_and_asking_ends_soon(run: Run) -> None:
    """A domain that lists predicates, the last of which always holds, asked for a least age."""
    answers = set()
    for least in (19, 37, 52):
        write_people(least)
        write_domain(*(predicate(age) for age in range(100)), {"sex": "M", "age": {"bins": [25]}})
        result = run(*synthesize(*RELEASE, *OFF, **RAW))
        assert result.exit_code == 2
        answers.add(result.output)
    assert len(answers) == 1
    said = answers.pop().replace(str(Path.cwd()), "")
    assert not re.search(r"\b(age|sex|F|M|19|37|52|100|in_)\b", said)
    assert spent() == 0

    # Its owner finds it, and nobody else.
    for path, least in zip(
        sorted(failures(), key=lambda path: path.stat().st_mtime), (19, 37, 52), strict=True
    ):
        assert f"age from {least}" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    # That was as often as can be asked; not even a domain that fits is tried.
    write_domain()
    refused = run(*synthesize(*RELEASE, *OFF, **RAW))
    assert refused.exit_code == 3
    assert "ledger acknowledge --ledger" in refused.stderr
    assert len(failures()) == 3
    assert run(*ACKNOWLEDGE, " ").exit_code == 2
    shown = run(*ACKNOWLEDGE, "the domain named what occurs")
    assert (shown.exit_code, shown.stderr.splitlines()) == (
        0,
        ["3 attempts to open people acknowledged."],
    )
    assert "nothing is written" in run(*ACKNOWLEDGE, "once more").stderr
    made = run(*synthesize(*RELEASE, *OFF, **RAW))
    assert made.exit_code == 0, made.output


def write_database() -> None:
    with sqlite3.connect("people.sqlite") as connection:
        frame = pd.read_csv("priv.csv")
        frame.to_sql("people", connection, index=False)


def monthly(private: object) -> tuple[object, ...]:
    """Return the beginning of a command that makes a month's release of a source."""
    path = definition(
        private=private,
        privacy={"epsilon": 0.2},
        mechanism={"name": "jam_pgm", "rounds": 1, "iterations": 20},
        workload={"degree": 1},
        evaluation={"mode": "off"},
        partitions="monthly",
        start="2026-01",
    )
    return "synthesize", path, "--ledger", "ledger.db", "--no-report", "--no-checks"


def grant_disjoint() -> None:
    policy = Policy(partitions="disjoint", **FIXED)
    Ledger("ledger.db").grant("people", epsilon=1, delta=1e-9, policy=policy)


def test_disjoint_partitions_of_a_query_wait_for_the_officer(run: Run) -> None:
    write_database()
    grant_disjoint()
    always = "select * from people where '{partition}' = '{partition}'"
    command = monthly({"sql": "sqlite:///people.sqlite", "query": always})
    for _ in range(2):
        refused = run(*command, "--partition", "2026-01", "--out", "january")
        assert refused.exit_code == 2, refused.output
    granted = shlex.split(refused.stderr.rpartition("grant it: ")[2].strip())
    assert run(*granted[1:-1], "looked at").exit_code == 0
    for month in ("2026-01", "2026-02"):
        made = run(*command, "--partition", month, "--out", month)
        assert made.exit_code == 0, made.output
    # Another query is another digest.
    other = monthly({"sql": "sqlite:///people.sqlite", "query": f"{always} -- {{partition}}"})
    march = (*other, "--partition", "2026-03", "--out", "march")
    refused = run(*march)
    assert refused.exit_code == 2
    granted = shlex.split(refused.stderr.rpartition("grant it: ")[2].strip())
    assert run(*granted[1:-1], "looked at").exit_code == 0
    # It may be another table, until the officer says of each partition that it is the same.
    for month in ("2026-01", "2026-02"):
        refused = run(*march)
        assert f"another table than a release of partition '{month}'" in refused.stderr
        rebound = shlex.split(refused.stderr.partition("let the officer say so: `")[2])
        assert run(*rebound[1 : rebound.index("--reason") + 1], "with a comment").exit_code == 0
    made = run(*march)
    assert made.exit_code == 0, made.output
    assert spent() > 0
    Ledger("ledger.db").verify()


def test_the_number_of_rows_is_not_shown_before_a_draw_is_paid(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = len(pd.read_csv("priv.csv"))

    def fail(*_: Any, **__: Any) -> None:
        # Where the mechanism begins: all is read, and nothing is charged.
        assert f"{rows}" not in Path("out/release.json").read_text()
        raise KeyboardInterrupt

    monkeypatch.setattr("jam_dagster.mechanisms.jam_pgm.JamPgm.run", fail)
    result = run(*synthesize(*RELEASE, *OFF))
    assert str(rows) not in result.output.replace(str(Path.cwd()), "")
    kept = list(Path("ledger.db-private").rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept if path.is_file()} == {0o600}
    # A digest of the private records, which is keyed, and none of their file.
    (inputs,) = Path("ledger.db-private/contents").glob("*.json")
    digest = json.loads(inputs.read_text())["contents"]
    table = encode(CsvSource("priv.csv").read(private=True), Domain.load("domain.json"))
    plain = hashlib.sha256(Path("priv.csv").read_bytes()).hexdigest()
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert digest not in (table.contents(), plain)
    assert not Path("out/restricted").exists()
    assert spent() == 0


def test_the_secret_of_the_private_store_is_made_once_and_is_its_owners(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAM_PRIVATE", "closed/store")
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0
    secret = Path("closed/store/source.key")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    content = secret.read_bytes()
    assert len(content) == 32
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0
    assert secret.read_bytes() == content
    assert not Path("ledger.db-private").exists()
    elsewhere = run(*synthesize(*RELEASE, *OFF, "--private-store", "other"))
    assert elsewhere.exit_code == 2
    assert "another private store" in elsewhere.stderr
    assert not Path("other").exists()
    secret.write_bytes(b"short")
    assert "restore it from a backup" in run(*synthesize(*RELEASE, *OFF)).stderr
    no_folder = run(*synthesize(*RELEASE, *OFF, "--private-store", "priv.csv"))
    assert no_folder.exit_code == 2
    assert "priv.csv cannot be used" in " ".join(no_folder.stderr.split())


def test_releases_of_a_ledger_on_a_server_share_a_secret_of_their_user(
    run: Run, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(Path("data").resolve()))
    url = postgres.create_database()
    Ledger(url).grant("people", epsilon=2.0, delta=1e-9, policy=PUBLIC_N)
    given = ("--ledger", url, "--dataset", "people", "--no-report", *OFF)
    made = run(*synthesize(*given))
    assert made.exit_code == 0, made.output
    (secret,) = Path("data").rglob("source.key")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    events = Ledger(url).events()
    assert run(*synthesize(*given)).exit_code == 0
    assert Ledger(url).events() == events
    # Another release lies elsewhere and reads the same table.
    again = run(*synthesize(*given, "--edition", "2", "--out", "second"))
    assert again.exit_code == 0, again.output
    assert list(Path("data").rglob("source.key")) == [secret]
    Ledger(url).verify()


@pytest.mark.parametrize("table", ["nobody.csv", "empty.csv", "columns.csv"])
def test_faults_of_the_schema_are_named_and_count(run: Run, table: str) -> None:
    Path("empty.csv").write_text("")
    pd.read_csv("priv.csv").drop(columns="job").to_csv("columns.csv", index=False)
    result = run(*synthesize(*RELEASE, *OFF, private=table))
    assert result.exit_code == 2
    assert ("no column 'job'" if table == "columns.csv" else table) in result.stderr
    assert len(Ledger("ledger.db").open_attempts("people")) == 1


def test_what_is_refused_before_the_table_is_opened_is_no_attempt(run: Run) -> None:
    for options in (("--epsilon", "3"), ("--setting", "rounds=0"), ("--domain", "nothing.json")):
        assert run(*synthesize(*RELEASE, *OFF, *options)).exit_code in (2, 3)
    assert Ledger("ledger.db").open_attempts("people") == []


def test_research_journals_nothing_and_names_nothing(run: Run) -> None:
    write_people(19)
    write_domain(predicate(19))
    before = Path("ledger.db").read_bytes()
    for _ in range(4):
        result = run(*synthesize("--noise", "numpy", **RAW))
        assert result.exit_code == 2
        assert "always the same" in result.stderr
    assert Path("ledger.db").read_bytes() == before
    assert len(failures()) == 4


KILLED = """
import os, signal, sys
from jam_dagster.mechanisms.jam_pgm import JamPgm
JamPgm.run = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
from jam_dagster.cli import main
main()
"""


def test_killed_runs_are_attempts(run: Run) -> None:
    command = [sys.executable, "-c", KILLED, *map(str, synthesize(*RELEASE, *OFF))]
    for _ in range(3):
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    refused = run(*synthesize(*RELEASE, *OFF))
    assert refused.exit_code == 3
    assert "stay closed" in refused.stderr
    shown = run("ledger", "show", "--ledger", "ledger.db").stdout
    assert "Attempts to open private data that have not ended" in shown
    (people,) = json.loads(run("ledger", "show", "--ledger", "ledger.db", "--json").stdout)[
        "datasets"
    ]
    assert (people["attempts"], people["sources"], len(people["open_attempts"])) == (3, "one", 3)
    output = run("ledger", "verify", "--ledger", "ledger.db").stderr
    assert "3 attempts to open private data, 3 of which did not end well" in output
    assert run(*ACKNOWLEDGE, "the machine lost its power").exit_code == 0
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0


def test_the_officer_grants_more_attempts(run: Run) -> None:
    grant = ("ledger", "grant", "--ledger", "ledger.db", "--dataset", "people", "--epsilon", 1)
    assert run(*grant, "--delta", 1e-9, "--attempts", 1).exit_code == 0
    assert run(*grant, "--delta", 1e-9, "--attempts", 0).exit_code == 2
    assert run(*synthesize(*RELEASE, *OFF, private="nobody.csv")).exit_code == 2
    assert run(*REBIND, "a typo in the path").exit_code == 0
    assert "the granted number of attempts to open" in run(*synthesize(*RELEASE, *OFF)).stderr
    assert run(*grant, "--delta", 1e-9, "--attempts", 2).exit_code == 0
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0


def test_what_a_certificate_says_is_moved_by_no_attempt(run: Run) -> None:
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0
    before = Path("out/certificate.json").read_bytes()
    other = run(*synthesize(*RELEASE, *OFF, private="nobody.csv"))
    assert "was reserved for another source" in other.stderr
    assert run(*synthesize(*RELEASE, *OFF)).exit_code == 0
    assert Path("out/certificate.json").read_bytes() == before
    assert b"attempt" not in before
    verified: Callable[..., Any] = run
    assert verified("certificate", "verify", "out", "--ledger", "ledger.db").exit_code == 0
