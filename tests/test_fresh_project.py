"""Somebody else's project: the wheel in an environment of its own, and nothing of this repository.

The whole test needs an index of packages, as the installation of this project does. The short one
installs the wheel alone, and finds what it requires beside the tests.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest

from tests.docs.workshop import DEFINITIONS, PROJECT
from tests.pipeline.conftest import people
from tests.test_packaging import LIBRARIES, ROOT, build_wheel

# Steps in processes of their own would each import everything anew.
IN_PROCESS = json.dumps({"execution": {"config": {"in_process": {}}}})


@dataclass
class Project:
    """A project that ``create-dagster`` made, with the wheel installed beside its own package."""

    root: Path
    environment: Path

    @property
    def packages(self) -> Path:
        (found,) = (self.environment / "lib").glob("python*/site-packages")
        return found

    @property
    def defs(self) -> Path:
        return self.root / "src" / "shop" / "defs"

    def call(self, *command: str, fails: bool = False) -> str:
        """Run a command of the environment in the project, and return all that it says."""
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        done = subprocess.run(
            [str(self.environment / "bin" / command[0]), *command[1:]],
            cwd=self.root if self.root.exists() else self.root.parent,
            # Nothing of the environment that runs the tests may reach the project.
            env={
                **kept,
                "PATH": f"{self.environment / 'bin'}:/usr/bin:/bin",
                "VIRTUAL_ENV": str(self.environment),
                "HOME": str(self.root.parent),
                "COLUMNS": "300",
                "DAGSTER_DISABLE_TELEMETRY": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, output
        return output

    def install(self, *what: str) -> None:
        pip = (self.environment / "bin" / "python", "-m", "pip")
        # The caller's settings of pip say where its index is.
        subprocess.run(
            # Few of the modules are ever loaded, and these are compiled then.
            [*pip, "install", "--quiet", "--no-compile", *what],
            check=True,
            cwd=self.root.parent,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )


def made_elsewhere(home: Path) -> Project:
    """Build and install the wheel, and let Dagster make a project."""
    wheel = build_wheel(home).filename
    shutil.rmtree(home / "project")
    environment = home / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    made = Project(home / "shop", environment)
    dagster = version("dagster")
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    made.install(
        *constraints, f"{wheel}[ui]", f"create-dagster=={dagster}", "hatchling", "editables"
    )
    made.call("create-dagster", "project", "shop", "--no-uv-sync")
    made.install("--no-deps", "--no-build-isolation", "--editable", str(made.root))
    write_tables(made.root)
    return made


def write_tables(folder: Path) -> None:
    people(600, seed=1).to_csv(folder / "people.csv", index=False)
    people(200, seed=2).to_csv(folder / "survey.csv", index=False)


def made_beside(home: Path) -> Project:
    """Install the wheel beside the packages of the tests, and write a project."""
    wheel = build_wheel(home).filename
    shutil.rmtree(home / "project")
    environment = home / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    made = Project(home / "shop", environment)
    made.install("--no-deps", str(wheel))
    made.defs.mkdir(parents=True)
    # A folder in a .pth is searched, but the .pth in it, of this repository itself, is not read.
    beside = [sysconfig.get_path("purelib"), str(made.root / "src")]
    (made.packages / "beside.pth").write_text("\n".join(beside))
    script = (Path(sys.executable).parent / "dg").read_text().splitlines()
    script[0] = f"#!{environment / 'bin' / 'python'}"
    (environment / "bin" / "dg").write_text("\n".join(script))
    (environment / "bin" / "dg").chmod(0o755)
    (made.root / "pyproject.toml").write_text(PROJECT.replace("my_project", "shop"))
    (made.defs.parent / "__init__.py").touch()
    (made.defs.parent / "definitions.py").write_text(DEFINITIONS)
    write_tables(made.root)
    return made


def only_the_package_arrives(project: Project) -> None:
    for stray in ("assets", "resources", "tests", "benchmarks", "hatch_build.py"):
        assert not (project.packages / stray).exists()
    wheel = next(project.root.parent.glob("jam_dagster-*.whl"))
    compiled = set(LIBRARIES) <= set(zipfile.ZipFile(wheel).namelist())
    assert compiled is (shutil.which("cc") is not None)
    found = project.call(
        "python",
        "-c",
        "import jam_dagster; from jam_dagster.models.graphical import kernels;"
        "print(jam_dagster.__file__, kernels.library() is not None)",
    )
    # Where there was no compiler, NumPy does the same.
    assert found.split() == [str(project.packages / "jam_dagster" / "__init__.py"), str(compiled)]


SCAFFOLD = ("dg", "scaffold", "defs", "jam_dagster.SyntheticRelease")


def a_release_is_scaffolded_and_checked(project: Project) -> None:
    components = project.call("dg", "list", "components")
    assert "jam_dagster.SyntheticRelease" in components
    assert "jam_dagster.ReleaseResources" in components

    options = project.call("dg", "scaffold", "defs", "jam_dagster.SyntheticRelease", "--help")
    assert all(name in options for name in ("--public", "--private", "--dataset", "--epsilon"))
    refused = project.call(*SCAFFOLD, "lost", "--public", "nothing.csv", fails=True)
    assert "nothing.csv" in refused
    assert "Traceback" not in refused
    assert not (project.defs / "lost").exists()

    scaffolded(project)
    made = project.defs / "my_release"
    assert "town" in (made / "domain.yaml").read_text()
    assert "validated successfully" in project.call("dg", "check", "yaml")

    text = (made / "defs.yaml").read_text()
    lines = text.splitlines()
    where = next(at for at, line in enumerate(lines, 1) if line.startswith("    epsilon:"))
    (made / "defs.yaml").write_text(text.replace("    epsilon: 1.0", "    epsilon: -1.0"))
    output = project.call("dg", "check", "yaml", fails=True)
    assert f"defs.yaml:{where}" in output
    assert "attributes.privacy.epsilon" in output

    (made / "defs.yaml").write_text(text)
    assert "loaded successfully" in project.call("dg", "check", "defs")
    listed = json.loads(project.call("dg", "list", "defs", "--json"))
    assert "my_release/synthetic_records" in json.dumps(listed)


def scaffolded(project: Project) -> None:
    project.call(*SCAFFOLD, "my_release", "--public", "survey.csv", "--private", "people.csv")


def a_release_is_made(project: Project) -> None:
    launched = project.call("dg", "launch", "--job", "my_release_release")
    # What came of it is said last, and the steps' events are not.
    ending = "\n".join(launched.splitlines()[-10:])
    assert all(one in ending for one in ("Made release my_release", "Certificate", "is left of"))
    assert "RUN_SUCCESS" in ending
    assert "STEP_SUCCESS" not in launched
    releases = project.root / ".jam" / "releases" / "my_release"
    synthetic = pd.read_csv(releases / "synthetic_records.csv")
    assert list(synthetic) == ["sex", "town", "job", "age"]
    # Measured with noise of 27 rows: beyond six times that it lies once in some 1e9 runs.
    assert abs(len(synthetic) - 600) < 162
    ledger = f"--ledger={project.root / '.jam' / 'ledger.sqlite'}"
    project.call(
        *("jam-dagster", "certificate", "verify", str(releases / "release_certificate"), ledger)
    )
    assert (project.root / ".jam" / ".gitignore").read_text() == "*\n"


WAREHOUSE = """
import dagster as dg
import pandas as pd


@dg.asset(key=["warehouse", "people"])
def people() -> pd.DataFrame:
    return pd.read_csv("people.csv")


@dg.asset(key=["warehouse", "survey"])
def survey() -> pd.DataFrame:
    return pd.read_csv("survey.csv")
"""

FROM_ASSETS = """
type: jam_dagster.SyntheticRelease
attributes:
  release: from_assets
  dataset: project
  private: {asset: warehouse/people}
  public: {asset: warehouse/survey}
  domain: {identify: public}
  privacy: {epsilon: 0.5, neighbours: add_remove}
"""


def tables_that_the_project_makes_are_sources(project: Project) -> None:
    budgets = project.defs / "release_resources" / "defs.yaml"
    text = budgets.read_text()
    budgets.write_text(text.replace("  budgets:\n", "  budgets:\n    project: {epsilon: 1.0}\n"))
    (project.defs / "warehouse.py").write_text(WAREHOUSE)
    (project.defs / "from_assets").mkdir()
    (project.defs / "from_assets" / "defs.yaml").write_text(FROM_ASSETS)
    assert "validated successfully" in project.call("dg", "check", "yaml")
    selection = ["warehouse/people", "warehouse/survey", "*from_assets/workload_error"]
    launch = ("dg", "launch", "--config-json", IN_PROCESS, "--assets", ",".join(selection))
    assert "RUN_SUCCESS" in project.call(*launch)
    made = project.root / ".jam" / "releases" / "from_assets" / "synthetic_records.parquet"
    assert abs(len(pd.read_parquet(made)) - 600) < 162

    # What else the project labels is looked at when the release meets it.
    leak = """
@dg.asset(deps=[people], tags={"jam/privacy": "public"})
def count() -> None: ...
"""
    (project.defs / "warehouse.py").write_text(WAREHOUSE + leak)
    output = project.call(*launch, fails=True)
    assert "warehouse/people -> count" in output
    (project.defs / "warehouse.py").write_text(WAREHOUSE)


def the_demo_is_scaffolded_without_tables(project: Project) -> None:
    project.call("dg", "scaffold", "defs", "jam_dagster.SyntheticRelease", "trial")
    assert "loaded successfully" in project.call("dg", "check", "defs")
    listed = project.call("dg", "list", "defs", "--json")
    assert "trial/synthetic_records" in listed


@pytest.mark.slow
def test_a_project_releases_with_the_wheel(tmp_path: Path) -> None:
    project = made_beside(tmp_path)
    only_the_package_arrives(project)
    scaffolded(project)
    a_release_is_made(project)


@pytest.mark.gate
def test_a_project_elsewhere_releases_with_the_wheel_and_what_it_requires(tmp_path: Path) -> None:
    """It is one test, so that the environment, which takes most of the time, is made once."""
    project = made_elsewhere(tmp_path)
    only_the_package_arrives(project)
    a_release_is_scaffolded_and_checked(project)
    a_release_is_made(project)
    tables_that_the_project_makes_are_sources(project)
    the_demo_is_scaffolded_without_tables(project)
