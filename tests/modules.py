"""Modules as tests of the source read them: each is parsed once, for all that a worker asks."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

IN_ONE_WORKER = pytest.mark.xdist_group("modules")
"""The mark of tests that read all modules."""

# Comments, and the texts in which a number sign begins none.
_COMMENT = re.compile(
    r"""(?s:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3})"""
    r"""|'(?:\\[\s\S]|[^'\\\n])*'|"(?:\\[\s\S]|[^"\\\n])*"|(?P<comment>\#.*)"""
)


@dataclass
class Module:
    """What tests look for in a module."""

    imports: list[tuple[int, str, str]] = field(default_factory=list)
    """Line, module and name of each import; the name is empty if a module is imported."""
    attributes: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    comments: list[tuple[int, int, str]] = field(default_factory=list)
    """Line, column and words of each comment."""


@cache
def read_module(path: Path) -> Module:
    """Return what tests look for in the module of a file."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    return parse_module(path.read_text(encoding="utf-8"), package)


def parse_module(text: str, package: tuple[str, ...] = ()) -> Module:
    """Return the same of a text that is a module of a package."""
    found = Module()
    within = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in within:
                found.texts.append(node.value)
        elif isinstance(node, ast.Attribute):
            found.attributes.add(node.attr)
        elif isinstance(node, ast.JoinedStr):
            parts = [part if isinstance(part, ast.Constant) else None for part in node.values]
            within.update(map(id, parts))
            found.texts.append("".join("CODE" if one is None else str(one.value) for one in parts))
        elif isinstance(node, ast.Import):
            found.imports += ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.imports += ((node.lineno, module, alias.name) for alias in node.names)
    for match in _COMMENT.finditer(text) if "#" in text else ():
        if words := match["comment"]:
            start = match.start()
            line, column = text.count("\n", 0, start), start - text.rfind("\n", 0, start) - 1
            found.comments.append((line, column, words))
    return found
