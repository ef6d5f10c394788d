"""Fixtures of the command line's tests, and of all that read real tables."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.cpu_seconds import CpuSeconds
from tests.examples import QUICK
from tests.tiers import COLLECTED, Collected

# The process that gives tests to workers reads this module too, and runs none: fixtures import
# what they need.
if TYPE_CHECKING:
    from tests.cli_bench import Run
    from tests.postgres import PostgresServer
    from tests.scheduling import ByModule
    from tests.test_cli_nasty_names import Made

# `--hypothesis-profile=gate` comes after this, and before any test is imported.
settings.load_profile(QUICK)

KEEP = """\
A property does not hold. Keep the example, so that every later run tries it: copy the arguments
that the failure shows into a line `@example(...)` above the test, or into a test with a name of
its own. The line `@reproduce_failure(...)` makes exactly this failure happen again.
"""


# Thousands of small files cost the system seconds on a disk.
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 1 << 30


def memory_has_room() -> bool:
    """Return whether temporary files may be in memory, and programs among them may run."""
    if not IN_MEMORY.is_dir():
        return False
    found = os.statvfs(IN_MEMORY)
    return found.f_bavail * found.f_frsize > ROOM_BYTES and not found.f_flag & os.ST_NOEXEC


def pytest_configure(config: pytest.Config) -> None:
    """Count the CPU-seconds of tests, collect garbage seldom, keep quick tests' files in memory."""
    gc.set_threshold(100_000, 20, 100)
    quick = "not slow" in config.option.markexpr
    if quick and "TMPDIR" not in os.environ and memory_has_room():
        os.environ["TMPDIR"], tempfile.tempdir = str(IN_MEMORY), None
    config.pluginmanager.register(CpuSeconds())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the tiers of all tests, before pytest leaves out what it was not asked for."""
    collected = config.stash[COLLECTED] = Collected()
    collected.note(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule | None:
    """Give quick tests to workers by modules; a module of long ones would keep one too long."""
    if config.option.dist != "loadgroup" or "not slow" not in config.option.markexpr:
        return None
    from tests.scheduling import ByModule

    return ByModule(config, log)


def pytest_collection_finish() -> None:
    """Leave what was imported out of later garbage collections: none of it is garbage."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Leave all that is left out of the ten collections by which pytest ends: seconds of them."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how an example that hypothesis found is kept."""
    failed = terminalreporter.stats.get("failed", [])
    if any("@reproduce_failure(" in report.longreprtext for report in failed):
        terminalreporter.section("how to keep what was found")
        terminalreporter.write_line(KEEP)


FOLDERS = count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own; pytest looks through the names of all earlier ones to name the next."""
    return tmp_path_factory.mktemp(f"{next(FOLDERS)}", numbered=False)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a folder with two tables, their domain and a ledger."""
    from tests.cli_bench import run_cli, write_tables

    monkeypatch.chdir(tmp_path)
    write_tables()
    return run_cli


@pytest.fixture(scope="session")
def release_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a release in such a folder."""
    from tests.cli_bench import NOISY, RELEASE, run_cli, synthesize, write_tables

    folder = tmp_path_factory.mktemp("released")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_tables()
        made = run_cli(*synthesize(*RELEASE, *NOISY, "--json"))
        assert made.exit_code == 0, made.output
        Path("made.json").write_text(made.stdout)
    return folder


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release_folder: Path) -> Run:
    """Run a command in a folder where a release was made with `RELEASE` and `NOISY`."""
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.private_store import BINDING_FILE
    from tests.cli_bench import run_cli
    from tests.moved import bind_again

    shutil.copytree(release_folder, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    bind_again(Ledger("ledger.db"), Path("priv.csv"), Path("ledger.db-private") / BINDING_FILE)
    return run_cli


@pytest.fixture
def jam_data() -> Path:
    """The folder of real tables; the test is skipped where there is none."""
    folder = os.environ.get("JAM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set JAM_DATA to the folder of real tables to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; the test is skipped, and says why, where there can be none."""
    from tests.postgres import running_server

    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A release whose names attack pages and terminals; one worker makes it for all its tests."""
    from tests.test_cli_nasty_names import make_nasty_release

    return make_nasty_release(tmp_path_factory.mktemp("nasty"))


@pytest.fixture(scope="session")
def collected(pytestconfig: pytest.Config) -> Collected:
    """All tests with their tiers; the test is skipped where pytest was asked for some modules."""
    found = pytestconfig.stash[COLLECTED]
    if not found.is_whole:
        pytest.skip("needs all modules of tests: run `make test`, or pytest without their names")
    return found


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site."""
    from tests.docs.site import build_site

    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder
