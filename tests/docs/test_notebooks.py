"""Every notebook of the documentation runs, and shows what it shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT
from tests.docs.notebooks import code_cells, kinds, read, run

NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))


def name(path: Path) -> str:
    return path.name


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_is_well_formed_and_has_its_outputs(path: Path) -> None:
    notebook = read(path)
    cells = notebook["cells"]

    assert len({cell["id"] for cell in cells}) == len(cells)
    assert {cell["cell_type"] for cell in cells} == {"code", "markdown"}
    numbers = [cell["execution_count"] for cell in code_cells(notebook)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(output["output_type"] != "error" for cell in cells for output in _outputs(cell))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_tells_no_place_and_fetches_nothing(path: Path) -> None:
    output = json.dumps([_outputs(cell) for cell in read(path)["cells"]])

    assert not re.search(r"/(tmp|home|root|Users|work|var)/", output)
    assert not re.search(r"https?://|<script|src=", output)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_the_links_of_a_notebook_lead_somewhere(path: Path) -> None:
    texts = "".join("".join(one["source"]) for one in read(path)["cells"])
    links = re.findall(r"\]\((?!https?://)([^)#]+)", texts)

    assert all((path.parent / link).exists() for link in links), links


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_notebook_runs_and_shows_what_it_shows(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    shown = [kinds(_outputs(cell)) for cell in code_cells(notebook)]

    assert [kinds(outputs) for outputs in run(notebook, tmp_path)] == shown


def test_what_a_cell_shows(tmp_path: Path) -> None:
    cells = ["a = 1", "print(a)\na + 1", "import pathlib\nstr(pathlib.Path('x').resolve())"]
    notebook = {"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]}
    none, both, place = run(notebook, tmp_path)

    assert none == []
    assert kinds(both) == [["stdout"], ["text/plain"]]
    assert both[1]["data"]["text/plain"] == ["2"]
    assert place[0]["data"]["text/plain"] == ["'x'"]


def _outputs(cell: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    return cell.get("outputs", [])
