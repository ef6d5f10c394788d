"""Releases on several machines: Celery's workers, PostgreSQL and S3, as processes of this one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
import fsspec
import pytest
import yaml

from jam_dagster.certificates import verify
from jam_dagster.privacy import Kind, Ledger
from tests.budgets import PUBLIC_N
from tests.docs.blocks import ROOT
from tests.docs.test_deployment import DEPLOY, PROGRAMS, RELEASE, free_port, until
from tests.docs.workshop import PROJECT
from tests.postgres import PostgresServer

SERVICES = yaml.safe_load((DEPLOY / "compose.celery.yaml").read_text())["services"]

IN_MANY_ROUNDS = RELEASE.replace("rounds: 3", "rounds: 40") + "  executor: code_location\n"

# What the page says to put into the definitions of deploy/.
ON_WORKERS = """\
from dagster_celery import celery_executor

on_workers = celery_executor.configured(
    {"broker": {"env": "CELERY_BROKER"}, "backend": {"env": "CELERY_BACKEND"}}
)
"""


class Machines:
    """A project whose steps run on Celery's workers."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.workers = 0

    @contextmanager
    def process(self, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program as long as the block does, with all that it starts."""
        with open(self.folder / f"{name}.log", "ab") as log:
            started = subprocess.Popen(
                [shutil.which(command[0]) or str(PROGRAMS / command[0]), *command[1:]],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield started
        finally:
            with_children(started)

    def worker(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run a worker of the composition."""
        self.workers += 1
        name = f"worker{self.workers}"
        command = SERVICES["worker"]["command"]
        return self.process(name, *command, "-n", name)

    def launch(self, name: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Launch the release."""
        return self.process(name, "dg", "launch", "--job", "people_release")

    def tell_dagster(self) -> None:
        """Do what the daemon does about a run whose process is gone."""
        with dg.DagsterInstance.from_config(str(self.folder)) as instance:
            (run,) = instance.get_runs()
            instance.report_run_failed(run)
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def with_children(started: subprocess.Popen[bytes]) -> None:
    """Kill a process and all of its session."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


@pytest.fixture
def machines(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Machines]:
    for module in ("dagster_celery", "moto", "s3fs"):
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed: make gate installs the extra `workers`")
    if shutil.which("redis-server") is None:
        pytest.skip("there is no Redis: install it (Debian: apt-get install redis-server)")
    redis, s3 = free_port(), free_port()
    storage = postgres.create_database().replace("postgresql:", "postgresql+psycopg2:")
    aws = {
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
    }
    for name, value in {**aws, "DAGSTER_STORAGE_URL": storage}.items():
        monkeypatch.setenv(name, value)
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    environment = {
        **kept,
        **aws,
        # Where the workers' command finds Celery's.
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ["PATH"]]),
        "VIRTUAL_ENV": str(PROGRAMS.parent),
        "PYTHONPATH": str(tmp_path),
        "DAGSTER_HOME": str(tmp_path),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "DAGSTER_STORAGE_URL": storage,
        "CELERY_BROKER": f"redis://127.0.0.1:{redis}/0",
        "CELERY_BACKEND": f"redis://127.0.0.1:{redis}/1",
        "JAM_LEDGER": postgres.create_database(),
        "JAM_PRIVATE": "s3://closed/jam",
        "JAM_RELEASES": "s3://open/jam",
    }
    package = tmp_path / "my_project"
    defs = package / "defs" / "people"
    defs.mkdir(parents=True)
    (package / "__init__.py").touch()
    (defs / "defs.yaml").write_text(IN_MANY_ROUNDS)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    for name in ("dagster.yaml", "celery.yaml"):
        shutil.copy(DEPLOY / name, tmp_path)
    definitions = (DEPLOY / "definitions.py").read_text()
    assert ON_WORKERS in (ROOT / "docs" / "production.md").read_text()
    in_process = "executor=dg.in_process_executor"
    assert in_process in definitions
    on_workers = definitions.replace(in_process, "executor=on_workers")
    (package / "definitions.py").write_text(ON_WORKERS + on_workers)
    made = Machines(tmp_path, environment)
    with (
        made.process("redis", "redis-server", "--port", str(redis), "--save", ""),
        made.process("s3", "moto_server", "-H", "127.0.0.1", "-p", str(s3)),
    ):
        files = fsspec.filesystem("s3", skip_instance_cache=True)
        until("the S3 server", lambda: _listens(s3), tmp_path)
        for bucket in ("closed", "open"):
            files.mkdir(bucket)
        yield made


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.gate
def test_a_worker_that_dies_costs_nothing_twice(machines: Machines, tmp_path: Path) -> None:
    url = machines.environment["JAM_LEDGER"]
    Ledger(url).grant("people_2026", epsilon=4.0, delta=1e-9, policy=PUBLIC_N)

    def steps(kind: Kind) -> list[str]:
        return [one.step for one in Ledger(url).events("people_2026") if one.kind == kind]

    with machines.launch("first"), machines.worker(), machines.worker():
        until("the first draws", lambda: len(steps(Kind.STORED)) > 3, tmp_path, seconds=300)
    # All of them were killed in the middle.
    before = steps(Kind.CHARGED)
    assert 3 < len(before) < 40
    machines.tell_dagster()

    with machines.worker(), machines.worker(), machines.launch("second") as second:
        until("the release", lambda: second.poll() is not None, tmp_path, seconds=300)
        assert second.returncode == 0, (tmp_path / "second.log").read_text()[-3000:]
    charged = steps(Kind.CHARGED)
    assert charged[: len(before)] == before
    assert len(set(charged)) == len(charged)
    ledger = Ledger(url)
    ledger.verify()
    fetched = tmp_path / "fetched"
    files = fsspec.filesystem("s3", skip_instance_cache=True)
    files.get("open/jam/people", str(fetched), recursive=True)
    found = verify(fetched / "release_certificate" / "certificate.json", ledger=ledger)
    assert [one.name for one in found if not one.passed] == []
