"""The code location: what `dagster dev` finds, by whichever file it looks."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_workspace_file_says_the_same_as_pyproject() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    module = location["python_module"]
    assert tool["directory_type"] == "project"
    assert module["location_name"] == tool["project"]["code_location_name"]
    # dg looks for the module `definitions` below the root module, unless it is told otherwise.
    told = tool["project"].get("code_location_target_module", "")
    assert module["module_name"] == (told or f"{tool['project']['root_module']}.definitions")
    assert module["working_directory"] == "."
    assert tool["project"]["defs_module"].startswith(f"{tool['project']['root_module']}.")
