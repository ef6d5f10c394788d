"""The notebooks of the documentation, run without Jupyter; as a command, written with new outputs.

``python -m tests.docs.notebooks docs/first_release.ipynb`` runs a notebook in an empty folder and
keeps what its cells show.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

Cell = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    """Return a notebook of the format's fourth version."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4, path
    return notebook


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Return the cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(notebook: dict[str, Any], folder: Path) -> list[list[Cell]]:
    """Run the cells of a notebook in their order; return the outputs of each.

    Parameters
    ----------
    notebook
        What `read` returned.
    folder
        An empty one; relative paths of the notebook start from it.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with chdir(folder):
        return [
            [_without(output, folder) for output in _outputs("".join(cell["source"]), namespace, n)]
            for n, cell in enumerate(code_cells(notebook), start=1)
        ]


def kinds(outputs: list[Cell]) -> list[list[str]]:
    """Return of what kinds outputs are: the streams' names, or what a result can be shown as."""
    return [[one["name"]] if "name" in one else sorted(one["data"]) for one in outputs]


def _outputs(source: str, namespace: dict[str, Any], number: int) -> list[Cell]:
    """Run a cell as IPython does: what its last expression gives is shown."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    streams = {"stdout": StringIO(), "stderr": StringIO()}
    value = None
    with redirect_stdout(streams["stdout"]), redirect_stderr(streams["stderr"]):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    outputs: list[Cell] = [
        {"output_type": "stream", "name": name, "text": _lines(stream.getvalue())}
        for name, stream in streams.items()
        if stream.getvalue()
    ]
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": data,
            }
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _without(output: Cell, folder: Path) -> Cell:
    """Return an output that says nothing of where it was made."""
    text = json.dumps(output, ensure_ascii=False)
    shown: Cell = json.loads(text.replace(f"{folder.resolve()}{os.sep}", ""))
    return shown


def main() -> None:
    """Run the notebooks that are named, and write them with their outputs."""
    for path in map(Path, sys.argv[1:]):
        notebook = read(path)
        with TemporaryDirectory() as folder:
            found = run(notebook, Path(folder))
        for number, (cell, outputs) in enumerate(
            zip(code_cells(notebook), found, strict=True), start=1
        ):
            cell |= {"execution_count": number, "outputs": outputs}
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
