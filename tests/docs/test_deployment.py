"""The files below deploy/ as they are: the containers' commands run here as processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from jam_dagster.cli import app
from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseId
from tests.docs.blocks import ROOT
from tests.docs.workshop import PROJECT
from tests.postgres import PostgresServer

DEPLOY = ROOT / "deploy"
PROGRAMS = Path(sys.executable).parent

RELEASE = """\
type: jam_dagster.SyntheticRelease
attributes:
  release: people
  dataset: people_2026
  private: {demo: health_survey, part: private, rows: 2000}
  public: {demo: health_survey, part: public, rows: 500}
  domain: {identify: public, bins: 4}
  privacy: {epsilon: 1.0}
  mechanism: {name: jam_pgm, rounds: 3}
  workload: {degree: 2}
"""


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return read


def test_services_name_networks_and_volumes_that_there_are() -> None:
    whole = compose()
    for name, service in whole["services"].items():
        assert set(service.get("networks", ())) <= set(whole["networks"]), name
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in whole["volumes"], name
        assert set(service.get("depends_on", ())) <= set(whole["services"]), name
        assert ("build" in service) != ("image" in service), name


def test_only_the_code_location_can_open_what_is_private() -> None:
    for name, service in compose()["services"].items():
        message = str(service)
        secret = [
            one for one in ("JAM_LEDGER", "JAM_PRIVATE", "WAREHOUSE", "/srv/") if one in message
        ]
        assert bool(secret) == (name == "code"), (name, secret)


def test_every_service_is_given_what_its_files_ask_for() -> None:
    services = compose()["services"]
    asked = {
        one
        for name in ("dagster.yaml", "workspace.yaml")
        for one in re.findall(r"\{env: (\w+)\}", (DEPLOY / name).read_text())
    }
    assert asked == {"DAGSTER_STORAGE_URL", "JAM_CODE_HOST", "JAM_CODE_PORT"}
    for name in ("webserver", "readers", "daemon", "code"):
        assert asked <= set(services[name]["environment"])
    needed = re.findall(r"(JAM_[A-Z]+)", (DEPLOY / "definitions.py").read_text())
    assert set(needed) <= set(services["code"]["environment"])


def test_the_image_copies_files_that_there_are() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = {one for line in lines if line.startswith("COPY") for one in line.split()[1:-1]}
    assert {"workspace.yaml", "dagster.yaml"} <= copied
    # The reader's own: jam-dagster's wheel, and the project.
    for name in copied - {"dist/*.whl", "my_project", "pyproject.toml"}:
        assert (DEPLOY / name).exists(), name


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def service(name: str, folder: Path, environment: dict[str, str], port: int) -> Iterator[None]:
    """Run the command of a service of compose.yaml, on a port of this machine."""
    words = [
        {"0.0.0.0": "127.0.0.1", "4000": str(port), "3000": str(port)}.get(word, word)
        for word in compose()["services"][name]["command"]
    ]
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            [str(PROGRAMS / words[0]), *words[1:]],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until(what: str, ready: Callable[[], bool], folder: Path, seconds: int = 120) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            logs = [f"{one.name}: {one.read_text()[-1500:]}" for one in folder.glob("*.log")]
            pytest.fail(f"{what} took more than {seconds} s\n" + "\n".join(logs))
        time.sleep(0.5)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def query(url: str, text: str, **variables: Any) -> dict[str, Any]:
    body = json.dumps({"query": text, "variables": variables}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            answer: dict[str, Any] = json.load(reply)
    except urllib.error.HTTPError as error:
        pytest.fail(f"the webserver answers {error.code}: {error.read().decode()[:3000]}")
    assert "errors" not in answer, answer
    return dict(answer["data"])


LOCATIONS = """
{ workspaceOrError { __typename ... on Workspace { locationEntries {
  name locationOrLoadError { __typename ... on PythonError { message } } } } } }
"""
LAUNCH = """
mutation Launch($selector: JobOrPipelineSelector!) {
  launchRun(executionParams: {selector: $selector, runConfigData: {}}) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
STATUS = """
query Status($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as the image holds it."""
    package = tmp_path / "my_project"
    (package / "defs" / "people").mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    shutil.copy(DEPLOY / "definitions.py", package)
    (package / "defs" / "people" / "defs.yaml").write_text(RELEASE)
    shutil.copy(DEPLOY / "workspace.yaml", tmp_path)
    (tmp_path / "home").mkdir()
    shutil.copy(DEPLOY / "dagster.yaml", tmp_path / "home")
    return tmp_path


@pytest.fixture
def owner(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a ledger as its owner made it, with the roles of roles.sql."""
    url = postgres.create_database()
    command = ["ledger", "grant", "--ledger", url, "--dataset", "people_2026"]
    command += ["--epsilon", "3", "--delta", "1e-9", "--records", "public"]
    app(command, standalone_mode=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((DEPLOY / "roles.sql").read_bytes())
        try:
            yield url
        finally:
            for role in (b"jam_releases", b"jam_auditor"):
                connection.execute(b"DROP OWNED BY " + role)
                connection.execute(b"DROP ROLE " + role)


def as_role(owner: str, role: str, postgres: PostgresServer) -> str:
    return postgres.url(owner.split("/")[3].split("?")[0], user=role)


@pytest.mark.slow
def test_roles_do_what_they_are_for_and_no_more(owner: str, postgres: PostgresServer) -> None:
    releases = Ledger(as_role(owner, "jam_releases", postgres))
    auditor = Ledger(as_role(owner, "jam_auditor", postgres))

    assert auditor.balance("people_2026") == Ledger(owner).balance("people_2026")
    auditor.verify()
    release_id = ReleaseId(
        dataset="people_2026", release="people", partition="", specification="ab" * 32
    )
    with pytest.raises(BudgetError, match="cannot be used by this role"):
        auditor.open_release(release_id, {"mechanism": 0.001})
    releases.open_release(release_id, {"mechanism": 0.001}).account("mechanism").charge("a", 0.0005)
    with psycopg.connect(as_role(owner, "jam_releases", postgres)) as connection:
        for change in (b"DELETE FROM jam_ledger.events", b"UPDATE jam_ledger.events SET kind = ''"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)
            connection.rollback()


@pytest.mark.slow
def test_several_officers_decide_by_accounts_of_their_own(postgres: PostgresServer) -> None:
    page = (ROOT / "docs" / "production.md").read_text()
    *roles, database = re.findall(r'--command "([^"]*)"', page)
    for one in (*roles, *(each.replace("anna", "bruno") for each in roles[1:]), database):
        postgres.execute(one)
    anna, bruno = (postgres.url("ledger", user=name) for name in ("anna", "bruno"))
    release_id = ReleaseId("people_2026", "people", "ab" * 32)
    try:
        Ledger(anna).grant("people_2026", epsilon=3.0, delta=1e-9, approval="required")
        with psycopg.connect(anna, autocommit=True) as connection:
            connection.execute((DEPLOY / "roles.sql").read_bytes())
        postgres.execute("DROP ROLE anna")
        Ledger(bruno).approve(release_id, reason="looked at it")
        with pytest.raises(BudgetError, match="officers decide as the role that owns the ledger"):
            Ledger(postgres.url("ledger", user="jam_releases")).adopt(reason="mine")
    finally:
        postgres.execute("DROP DATABASE ledger WITH (FORCE)")
        for role in ("bruno", "jam_releases", "jam_auditor", "officers"):
            postgres.execute(f"DROP ROLE {role}")


@pytest.mark.gate
def test_a_release_runs_in_the_services_of_the_composition(
    project: Path, owner: str, postgres: PostgresServer
) -> None:
    """A run is launched in the UI's server, queued, taken by the daemon, and run by the code."""
    storage = postgres.create_database()
    driver = compose()["services"]["webserver"]["environment"]["DAGSTER_STORAGE_URL"]
    ports = {"code": free_port(), "webserver": free_port(), "daemon": 0}
    common = {
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "HOME": str(project),
        "PYTHONPATH": f"{project}:{ROOT}",
        "DAGSTER_HOME": str(project / "home"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "DAGSTER_STORAGE_URL": storage.replace("postgresql", driver.split(":")[0], 1),
        "JAM_CODE_HOST": "127.0.0.1",
        "JAM_CODE_PORT": str(ports["code"]),
    }
    private = {
        "JAM_LEDGER": as_role(owner, "jam_releases", postgres),
        "JAM_PRIVATE": str(project / "private"),
        "JAM_RELEASES": str(project / "releases"),
    }
    # Two processes that start together on a new database would both make its tables.
    subprocess.run(
        [str(PROGRAMS / "dagster"), "instance", "migrate"],
        env=common,
        check=True,
        capture_output=True,
    )
    graphql = f"http://127.0.0.1:{ports['webserver']}/graphql"

    def loaded() -> bool:
        if not answers(f"http://127.0.0.1:{ports['webserver']}/server_info"):
            return False
        entries = query(graphql, LOCATIONS)["workspaceOrError"]["locationEntries"]
        kinds = [(one["locationOrLoadError"] or {}).get("__typename") for one in entries]
        return kinds == ["RepositoryLocation"]

    with ExitStack() as running:
        running.enter_context(service("code", project, common | private, ports["code"]))
        until("the code location", lambda: port_open(ports["code"]), project)
        running.enter_context(service("webserver", project, common, ports["webserver"]))
        running.enter_context(service("daemon", project, common, 0))
        until("the webserver", loaded, project)
        selector = {
            "repositoryLocationName": "my_project",
            "repositoryName": "__repository__",
            "pipelineName": "people_release",
        }
        launched = query(graphql, LAUNCH, selector=selector)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        run = launched["run"]["runId"]
        ended = ("SUCCESS", "FAILURE", "CANCELED")
        until(
            "the run",
            lambda: query(graphql, STATUS, run=run)["runOrError"]["status"] in ended,
            project,
        )
        status = query(graphql, STATUS, run=run)["runOrError"]["status"]
        assert status == "SUCCESS", (project / "code.log").read_text()[-3000:]

    balance = Ledger(owner).balance("people_2026")
    assert balance.spent > 0
    assert (project / "releases" / "people" / "synthetic_records.csv").exists()
    assert any((project / "private").iterdir())
    with psycopg.connect(storage) as connection:
        (events,) = connection.execute("SELECT count(*) FROM event_logs").fetchone() or (0,)
    assert events > 50
    assert not list((project / "home").rglob("*.db"))


def port_open(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0
