"""The fenced blocks of the documentation's pages, as tests run them.

A page says in a comment above a block what is special about it; without one a block is run, and
must succeed:

``<!-- not run: why -->``
    It starts a server, installs something, or takes hours. Its commands must still exist.
``<!-- refused: what is said -->``
    It must fail, and say that.

A block with ``title="path"`` is written to that file first. ``text`` with ``title="output"`` is
what the block before it prints; ``...`` in it stands for anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

SKILL = ROOT / "jam_dagster" / "SKILL.md"
PAGES = [ROOT / "README.md", SKILL, *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)(?P<info>.*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<kind>not run|refused): (?P<why>.+?) -->$")
_SNIPPET = re.compile(r'^--8<-- "(.+)"$', re.M)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes
    ----------
    page, line
        Where it stands.
    language
        As the fence has it; empty for none.
    text
        Its lines, without the fence's indent, with the files that it includes.
    title
        The file that it shows, or ``output``.
    not_run, refused
        What the comment above it says.
    included
        The files that it includes.
    """

    page: Path
    line: int
    language: str
    text: str
    title: str = ""
    not_run: str = ""
    refused: str = ""
    included: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in their order."""
    return blocks_in(page.read_text(encoding="utf-8"), page)


def blocks_in(text: str, page: Path) -> list[Block]:
    """Return the fenced blocks of a text."""
    found: list[Block] = []
    lines = iter(enumerate(text.splitlines(), start=1))
    said: dict[str, str] = {}
    for number, line in lines:
        if comment := _COMMENT.match(line):
            said = {comment["kind"].replace(" ", "_"): comment["why"]}
            continue
        fence = _FENCE.match(line)
        if fence is None:
            if line.strip():
                said = {}
            continue
        inside: list[str] = []
        for _, held in lines:
            if held.strip().startswith(fence["fence"]) and not held.strip(" `~"):
                break
            inside.append(held.removeprefix(fence["indent"]))
        else:
            raise AssertionError(f"{page}:{number}: the block is never closed")
        language, _, options = fence["info"].strip().partition(" ")
        title = re.search(r'title="([^"]*)"', options)
        held = "\n".join(inside) + "\n"
        found.append(
            Block(
                page=page,
                line=number,
                language=language,
                text=_SNIPPET.sub(lambda one: (ROOT / one[1]).read_text().rstrip("\n"), held),
                title=title[1] if title else "",
                included=tuple(_SNIPPET.findall(held)),
                **said,
            )
        )
        said = {}
    return found
