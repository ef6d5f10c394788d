"""What the wheel holds, and what an installation promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import jam_dagster
from jam_dagster.models.graphical import kernels
from jam_dagster.tables.codes import counting
from tests.tiers import slow

# One worker builds each wheel.
pytestmark = pytest.mark.xdist_group("wheels")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def build_wheel(folder: Path, compiler: str | None = None) -> zipfile.ZipFile:
    """Build the wheel of a copy of the project, with the installed build backend, offline."""
    copy = folder / "project"
    copy.mkdir()
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    built = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "jam_dagster", copy / "jam_dagster", ignore=built)
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(folder)],
        cwd=copy,
        check=True,
        capture_output=True,
        env=os.environ | ({} if compiler is None else {"CC": compiler}),
    )
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel as an index would get it."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def plain_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel where there is no compiler."""
    return build_wheel(tmp_path_factory.mktemp("plain"), compiler="/nonexistent/cc")


every_wheel = pytest.mark.parametrize("kind", ["plain_wheel", *slow("wheel")])

LIBRARIES = {
    "jam_dagster/models/graphical/_kernels.so": kernels,
    "jam_dagster/tables/codes/_counting.so": counting,
}


def test_without_a_compiler_the_wheel_is_for_every_platform(plain_wheel: zipfile.ZipFile) -> None:
    assert str(plain_wheel.filename).endswith("-py3-none-any.whl")
    assert not [name for name in plain_wheel.namelist() if name.endswith(".so")]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
def test_with_a_compiler_the_wheel_holds_kernels_that_load(
    wheel: zipfile.ZipFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not str(wheel.filename).endswith("-any.whl")
    monkeypatch.delenv("JAM_KERNELS", raising=False)
    for name, module in LIBRARIES.items():
        monkeypatch.setattr(module, "LIBRARY", Path(wheel.extract(name, tmp_path)))
        module.library.cache_clear()
        try:
            assert module.library() is not None
        finally:
            module.library.cache_clear()


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    metadata = f"jam_dagster-{jam_dagster.__version__}.dist-info"

    assert {name.split("/")[0] for name in wheel.namelist()} == {"jam_dagster", metadata}


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("jam_dagster/**/*.py")}

    assert modules | {"jam_dagster/py.typed", "jam_dagster/SKILL.md"} <= set(wheel.namelist())


@every_wheel
def test_the_wheel_carries_the_licence(kind: str, request: pytest.FixtureRequest) -> None:
    wheel = request.getfixturevalue(kind)
    (name,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))

    licence = wheel.read(name).decode()
    assert "Apache License" in licence
    assert "END OF TERMS AND CONDITIONS" in licence


@every_wheel
def test_the_wheel_declares_its_entry_points(kind: str, request: pytest.FixtureRequest) -> None:
    wheel = request.getfixturevalue(kind)
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))

    entry_points = wheel.read(name).decode()
    assert "[console_scripts]\njam-dagster = jam_dagster.cli:main" in entry_points
    # dg finds the component through this one.
    assert "[dagster_dg_cli.registry_modules]\njam_dagster = jam_dagster" in entry_points


@pytest.mark.slow
def test_the_version_has_one_source(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("dist-info/METADATA"))

    assert "version" in PROJECT["project"]["dynamic"]
    assert f"\nVersion: {jam_dagster.__version__}\n" in wheel.read(name).decode()


def test_the_command_can_be_loaded() -> None:
    (command,) = distribution("jam-dagster").entry_points.select(group="console_scripts")

    assert command.name == "jam-dagster"
    assert callable(command.load())


def _constraints(**environment: str) -> dict[str, str]:
    """Return the pins that hold here, or on a machine with another environment."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (Requirement(line) for line in lines if line and not line.startswith("#"))
    here = (pin for pin in pins if pin.marker is None or pin.marker.evaluate(environment))
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in here}


def test_constraints_are_exact_and_satisfy_every_requirement() -> None:
    pins = _constraints()
    project = PROJECT["project"]
    extras = (item for extra in project["optional-dependencies"].values() for item in extra)
    requirements = [Requirement(text) for text in (*project["dependencies"], *extras)]

    unpinned = {
        str(requirement)
        for requirement in requirements
        if requirement.name != project["name"]
        and not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"))
    }
    assert not unpinned


def test_constraints_serve_every_release_of_the_oldest_python() -> None:
    # A package may ask for a later patch of the oldest Python than a machine has, and then that
    # machine can install nothing.
    oldest = re.search(r"[\d.]+", PROJECT["project"]["requires-python"])
    assert oldest is not None
    # Another installation than the pinned one, as of the lowest versions, says nothing of the pins.
    installed = {canonicalize_name(one.name): one.version for one in distributions()}
    too_new = {
        name: wanted
        for name, pinned in _constraints(python_full_version=f"{oldest[0]}.0").items()
        if installed.get(name) == pinned
        and (wanted := distribution(name).metadata["Requires-Python"])
        and not SpecifierSet(wanted).contains(f"{oldest[0]}.0")
    }
    assert not too_new, "constrain these to earlier versions"


@pytest.mark.gate
def test_pip_alone_installs_what_is_pinned(tmp_path: Path) -> None:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    command = ("make", "--silent", "UV=no-such-uv", f"PYTHON={sys.executable}", ".venv/.demo")
    # A make that runs the tests would pass its own settings on.
    kept = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    subprocess.run(command, cwd=tmp_path, env=kept, check=True)

    (packages,) = tmp_path.glob(".venv/lib/python*/site-packages")
    installed = {canonicalize_name(one.name): one for one in distributions(path=[str(packages)])}
    pins = _constraints()
    assert {installed[name].read_text("INSTALLER") for name in ("dagster", "mbi")} == {"pip\n"}
    assert "pytest" not in installed
    known = installed.keys() & pins.keys() - {"setuptools"}
    assert {name: installed[name].version for name in known} == {name: pins[name] for name in known}


def test_constraints_name_no_address() -> None:
    assert not re.search(r"://|@|--", (ROOT / "constraints.txt").read_text())


def test_only_the_tested_python_is_claimed() -> None:
    claimed = {
        classifier.rsplit(" ", 1)[1]
        for classifier in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    }

    # `make test` ran on each: CONTRIBUTING.md says how.
    assert claimed == {"3.11", "3.12", "3.13"}
    assert PROJECT["project"]["requires-python"] == ">=3.11"
