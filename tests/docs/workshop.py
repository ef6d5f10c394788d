"""A folder with tables and a Dagster project, in which the blocks of one page are run in order."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.workspace.config_schema import process_workspace_config
from dagster.components.testing import create_defs_folder_sandbox
from sqlalchemy import create_engine

import jam_dagster
from jam_dagster.pipeline import ReleaseResources, SyntheticRelease
from jam_dagster.tables import Domain, health_survey, health_survey_domain
from jam_dagster.trials import load_grid
from tests.docs.blocks import ROOT, Block
from tests.docs.shell import run_bash, run_shell

COLUMNS = ["age", "sex", "region", "education", "employment", "income"]

PROJECT = """\
[project]
name = "my-project"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "my_project"
code_location_name = "my_project"
"""

# As Dagster writes it for a new project.
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""

# What a fragment of a release file is read with.
BASE: dict[str, Any] = {
    "release": "people",
    "dataset": "people_2026",
    "private": "people.csv",
    "public": "survey_2016.csv",
    "domain": "domain.yaml",
    "privacy": {"epsilon": 1.0},
}


class BlockError(AssertionError):
    """A block did not do what its page says."""


class Workshop:
    """Runs the blocks of a page.

    Parameters
    ----------
    folder
        An empty folder; relative paths of the page start from it.
    has_tables
        Whether the page writes its tables itself.
    processes
        Whether each command of a shell block is a process of its own.
    """

    def __init__(self, folder: Path, processes: bool = False, has_tables: bool = False) -> None:
        self.folder = folder
        self.run_shell = run_bash if processes else run_shell
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""
        _write_tables(folder, has_tables)
        (folder / "pyproject.toml").write_text(PROJECT)
        package = folder / "my_project"
        (package / "defs").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "definitions.py").write_text(DEFINITIONS)
        home = folder / "dagster_home"
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    @property
    def environment(self) -> dict[str, str]:
        """What a shell block finds: the tests' Python and its programs, and a warehouse."""
        programs = Path(sys.executable).parent
        return {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(programs.parent),
            "PYTHONPATH": f"{ROOT}:{self.folder}",
            "DAGSTER_HOME": str(self.folder / "dagster_home"),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "WAREHOUSE_URL": f"sqlite:///{self.folder / 'warehouse.db'}",
            # What the files below deploy/ ask for.
            "DAGSTER_STORAGE_URL": "postgresql+psycopg2://dagster@localhost/dagster",
            "JAM_CODE_HOST": "localhost",
            "JAM_CODE_PORT": "4000",
            "JAM_PRIVATE": str(self.folder / "secure" / "private"),
            "JAM_RELEASES": str(self.folder / "releases"),
            "NO_COLOR": "1",
            "COLUMNS": "110",
        }

    def run(self, block: Block) -> None:
        """Do with a block what its language is for.

        Raises
        ------
        BlockError
            If it fails, or does not fail as its page says.
        """
        if block.title and block.title != "output":
            target = self.folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        try:
            getattr(self, f"_{block.language or 'text'}")(block)
        except BlockError as error:
            message = re.sub(r"\s+", " ", str(error))
            if block.refused and block.refused in message:
                return
            raise BlockError(f"{block.place}: {error}") from None
        if block.refused:
            raise BlockError(f"{block.place} did not fail")

    def _python(self, block: Block) -> None:
        self.namespace["__file__"] = str(self.folder / (block.title or "page.py"))
        printed = StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(block.text, block.place, "exec", dont_inherit=True), self.namespace)
        except Exception as error:
            raise BlockError(f"{type(error).__name__}: {error}") from error
        finally:
            self.printed = printed.getvalue()

    def _sh(self, block: Block) -> None:
        done = self.run_shell(block.text, self.folder, self.environment)
        self.printed = done.output
        if done.status:
            raise BlockError(f"exit status {done.status}\n{done.output}\n{done.errors}")

    def _text(self, block: Block) -> None:
        if block.title != "output":
            return
        wanted = [re.escape(line.rstrip()) for line in block.text.strip().splitlines()]
        pattern = r"\s*\n".join(wanted).replace(re.escape("..."), ".*?")
        pattern = re.sub(r"(\\ )+", r"\\s+", pattern)
        if not re.search(pattern, self.printed, re.S):
            raise BlockError(f"this was printed instead:\n{self.printed}")

    def _toml(self, block: Block) -> None:
        tomllib.loads(block.text)

    def _json(self, block: Block) -> None:
        json.loads(block.text)

    def _sql(self, block: Block) -> None:
        _only_included(block)

    _dockerfile = _sql

    def _yaml(self, block: Block) -> None:
        for content in yaml.safe_load_all(block.text):
            self._check_yaml(block, content)

    def _check_yaml(self, block: Block, content: Any) -> None:
        keys = set(content) if isinstance(content, dict) else set()
        fields = set(SyntheticRelease.model().model_fields)
        if "type" in keys:
            self._build(content)
        elif keys and keys <= fields:
            self._build({"type": "jam_dagster.SyntheticRelease", "attributes": {**BASE, **content}})
        elif {"splits", "mechanisms"} <= keys:
            load_grid(self.folder / block.title).runs()
        elif "attributes" in keys:
            try:
                Domain.from_dict(content)
            except Exception as error:
                raise BlockError(str(error)) from error
        elif "load_from" in keys:
            process_workspace_config(content)
        elif keys and keys <= set(dagster_instance_config_schema()):
            read = process_config(dagster_instance_config_schema(), content)
            if not read.success:
                raise BlockError(str([one.message for one in read.errors or ()]))
        else:
            _only_included(block)

    def _build(self, content: dict[str, Any]) -> None:
        """Load a component as Dagster would, beside the page's tables."""
        kind = getattr(jam_dagster, str(content["type"]).rpartition(".")[2])
        given = dg.Definitions() if kind is ReleaseResources else _resources(self.folder)
        with create_defs_folder_sandbox() as sandbox:
            path = sandbox.scaffold_component(component_cls=kind, defs_yaml_contents=content)
            for file in self.folder.iterdir():
                if file.suffix in (".csv", ".yaml", ".parquet"):
                    # A file of the page may name its tables from a folder below the page's.
                    for folder in (path, *path.parents[:3]):
                        (folder / file.name).write_bytes(file.read_bytes())
            try:
                with sandbox.build_component_tree() as tree:
                    dg.Definitions.validate_loadable(
                        dg.Definitions.merge(tree.build_defs(path), given)
                    )
            except Exception as error:
                raise BlockError(_chain(error)) from error


def _only_included(block: Block) -> None:
    """Refuse what no test reads; a file below deploy/ has tests of its own."""
    if not block.included or not all(one.startswith("deploy/") for one in block.included):
        raise BlockError(
            f"a block of {block.language} that no test can read: show a file below deploy/, or say"
            " why it is not run"
        )


def _chain(error: BaseException | None) -> str:
    shown = ""
    while error is not None:
        shown, error = f"{shown}\n{error}", error.__cause__
    return shown


def _resources(folder: Path) -> dg.Definitions:
    from jam_dagster.pipeline import LedgerResource, ReleaseStoreResource

    return dg.Definitions(
        resources={
            "ledger": LedgerResource(url=str(folder / "ledger.sqlite")),
            "private_io_manager": ReleaseStoreResource(root=str(folder / "secure"), private=True),
            "releasable_io_manager": ReleaseStoreResource(root=str(folder / "releases")),
        }
    )


def _write_tables(folder: Path, warehouse_alone: bool) -> None:
    """Write a warehouse, people.csv, survey_2016.csv and domain.yaml, with the same people."""
    private, public = health_survey(3_000, 800)
    if not warehouse_alone:
        private, public = private[COLUMNS], public[COLUMNS]
        private.to_csv(folder / "people.csv", index=False)
        public.to_csv(folder / "survey_2016.csv", index=False)
        health_survey_domain().project(COLUMNS).save(folder / "domain.yaml")
    rows = private.assign(month="2026-01", person_id=range(len(private)))
    engine = create_engine(f"sqlite:///{folder / 'warehouse.db'}")
    with engine.begin() as connection:
        rows.astype(object).where(rows.notna(), None).to_sql("people", connection, index=False)
    engine.dispose()
