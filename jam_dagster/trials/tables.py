"""Tables of texts, which consoles, pages and Markdown show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of texts; columns are of numbers but for those of `words`."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Collection[str] = ()

    def markdown(self) -> Iterator[str]:
        """Yield the lines of the table, without its title."""
        for cells in (self.head, ["---"] * len(self.head), *self.rows):
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
