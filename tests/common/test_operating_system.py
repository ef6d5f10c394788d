"""What works without the modules and names that Windows lacks, and what is refused there."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import jam_dagster
from jam_dagster.common import operating_system
from jam_dagster.errors import PlatformError
from jam_dagster.privacy import Ledger
from jam_dagster.tables import health_survey, health_survey_domain

# Python runs it at the start of every process that looks for modules in its folder.
AS_ON_WINDOWS = """
import importlib.abc, os, signal, sys, types

class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "pwd", "resource"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
for name in ("fcntl", "pwd", "resource"):
    sys.modules.pop(name, None)
for name in (
    *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "geteuid", "getloadavg", "register_at_fork"),
    *("sched_getaffinity", "statvfs", "sysconf"),
):
    delattr(os, name)
del signal.SIGKILL

# Dagster requires it on Windows.
memory = types.SimpleNamespace(total=2**33, available=2**32)
sys.modules["psutil"] = types.ModuleType("psutil")
sys.modules["psutil"].virtual_memory = lambda: memory
"""


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of demo tables, beside what makes each process lack what Windows lacks."""
    folder = tmp_path_factory.mktemp("windows")
    (folder / "sitecustomize.py").write_text(AS_ON_WINDOWS)
    for name, table in zip(("people", "survey"), health_survey(300, 300), strict=True):
        table.to_csv(folder / f"{name}.csv", index=False)
    health_survey_domain().save(folder / "domain.yaml")
    return folder


def run(folder: Path, *commands: str) -> str:
    """Run commands in one process of that system; return what they say on standard error."""
    code = (
        "import shlex, sys\n"
        "from jam_dagster.cli import app\n"
        "for command in sys.argv[1:]:\n"
        "    app(shlex.split(command), standalone_mode=False)\n"
    )
    return python(folder, code, commands).stderr


def python(
    folder: Path, code: str, arguments: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "300"},
    )


TABLES = "--public survey.csv --domain domain.yaml --epsilon 1 --degree 2"


@pytest.mark.slow
def test_research_needs_none_of_them(windows: Path) -> None:
    grid = "{splits: [census_small], mechanisms: [independent], epsilons: [1], baselines: false}"
    (windows / "grid.yaml").write_text(grid)
    run(
        windows,
        "domain draft --public survey.csv --out drafted.yaml",
        f"plan {TABLES} --records 300 --quick",
        f"synthesize --private people.csv {TABLES} --mechanism tilt --noise numpy --out trial",
        "benchmark run grid.yaml --out runs.parquet",
    )
    made = ("drafted.yaml", "trial/synthetic.csv", "runs.parquet")
    assert [name for name in made if not (windows / name).exists()] == []


@pytest.mark.slow
def test_a_ledger_is_refused_before_anything_is_charged(windows: Path) -> None:
    release = f"synthesize --private people.csv {TABLES} --mechanism tilt --out release"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(windows, f"{release} --ledger ledger.db --dataset people --records-public")
    said = caught.value.stderr.splitlines()[-1]
    assert "PlatformError: a ledger needs the file locks of Linux or macOS" in said
    assert not (windows / "ledger.db").exists()
    assert not (windows / "release").exists()


@pytest.mark.slow
def test_every_module_can_be_imported_without_them(windows: Path) -> None:
    package = Path(jam_dagster.__file__).parent
    files = [path.relative_to(package.parent) for path in package.rglob("*.py")]
    # The command line would run, and Alembic runs its own.
    files = [one for one in files if one.stem != "__main__" and "migrations" not in one.parts]
    names = [".".join(path.with_suffix("").parts) for path in files]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    python(windows, code, [name.removesuffix(".__init__") for name in names])


def test_a_ledger_is_not_made_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(PlatformError, match="nothing was charged"):
        Ledger(tmp_path / "ledger.db").grant("people", epsilon=1.0, delta=1e-9)
    assert list(tmp_path.iterdir()) == []


def test_of_windows_psutil_says_what_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    held = SimpleNamespace(memory_info=lambda: SimpleNamespace(peak_wset=3 * 2**20))
    memory = SimpleNamespace(total=2**33, available=2**32)
    psutil = SimpleNamespace(virtual_memory=lambda: memory, Process=lambda: held)
    monkeypatch.setitem(sys.modules, "psutil", psutil)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.delattr(os, "sysconf")
    for file in ("_STATUS", "_MEMORY", "_GROUPS", "_CONTROL"):
        monkeypatch.setattr(operating_system, file, Path("/nowhere"))
    found = (
        operating_system.all_memory(),
        operating_system.free_memory(),
        operating_system.peak_memory_mb(),
    )
    assert found == (2**33, 2**32, 3.0)


def test_macos_counts_its_peak_in_bytes_and_has_a_sync_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl
    import resource

    asked: list[int] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(operating_system, "_STATUS", Path("/nowhere"))
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: asked.append(command))
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=5 * 2**20))
    assert operating_system.peak_memory_mb() == 5.0
    operating_system.sync_folder(tmp_path)
    assert asked == [51]


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the mount of control groups; the file `own` names this process's."""
    monkeypatch.setattr(operating_system, "_CONTROL", tmp_path / "mount")
    monkeypatch.setattr(operating_system, "_GROUPS", tmp_path / "own")
    return tmp_path


def grouped(groups: Path, of_process: str, files: dict[str, str]) -> tuple[int, int]:
    """Return the memory there is, and what is left, with some files below the mount."""
    (groups / "own").write_text(of_process)
    for name, text in files.items():
        file = groups / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return operating_system.all_memory(), operating_system.free_memory()


def test_without_control_groups_memory_is_the_machine_s(groups: Path) -> None:
    there, left = operating_system.all_memory(), operating_system.free_memory()
    assert there == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 2**20 < left <= there
    unlimited = {"job/memory.max": "max", "job/memory.current": "1000"}
    assert grouped(groups, "0::/job\n", unlimited)[0] == there
    assert operating_system.free_memory() > 2**20


V1, V2 = "2:cpu,memory:{}\n1:name=systemd:/other\n0::/other\n", "0::{}\n"


@pytest.mark.parametrize(
    ("lines", "root", "most", "used"),
    [
        (V1, "memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        (V2, "", "memory.max", "memory.current"),
    ],
)
def test_memory_is_limited_by_the_process_s_control_groups(
    lines: str, root: str, most: str, used: str, groups: Path
) -> None:
    """Those are its own and all above it; a container may see its own at the root alone."""

    def files(folder: str, limit: str, taken: str) -> dict[str, str]:
        return {f"{root}{folder}{most}": limit, f"{root}{folder}{used}": taken}

    own, above = lines.format("/slice/job"), lines.format("/slice")
    assert grouped(groups, own, files("slice/job/", "9000", "4000")) == (9000, 5000)
    assert grouped(groups, own, files("other/", "100", "0")) == (9000, 5000)
    assert grouped(groups, above, {})[0] > 9000
    assert grouped(groups, own, files("slice/", "10000", "8000")) == (9000, 2000)
    assert grouped(groups, own, files("slice/", "8000", "8500")) == (8000, 0)
    assert grouped(groups, own, files("", "3000", "1000")) == (3000, 0)
    for path in ("/", "/docker/host", "/../slice/job", "/slice/job (deleted)"):
        assert grouped(groups, lines.format(path), {}) == (3000, 2000)
    (groups / "own").unlink()
    assert grouped(groups, "", {}) == (3000, 2000)
    # Without the file of what is used, the limit is there all the same.
    (groups / "mount" / root / used).unlink()
    assert operating_system.all_memory() == 3000
    assert operating_system.free_memory() > 3000


@pytest.mark.parametrize(
    ("stat", "left"),
    [
        ("anon 300\ninactive_file 600", 2600),
        ("inactive_file 600\ntotal_inactive_file 900", 2900),
        ("anon 300", 2000),
    ],
)
def test_memory_that_holds_files_read_is_free(stat: str, left: int, groups: Path) -> None:
    """Files of the groups below count too, which the first version names apart."""
    files = {"memory.max": "3000", "memory.current": "1000", "memory.stat": stat}
    assert grouped(groups, "0::/\n", files) == (3000, left)
