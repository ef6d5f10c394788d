"""Pages that stand at the top of the repository, with links that lead to the site's pages."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

PLACES = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
}
"""Where the site has the files of the repository's top folder."""

_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def house_page(name: str) -> str:
    """Return a page of the repository's top folder as a page of the site."""
    return _LINK.sub(_moved, (ROOT / name).read_text(encoding="utf-8"))


def _moved(link: re.Match[str]) -> str:
    place = link.group(1)
    return f"]({PLACES.get(place, place.removeprefix('docs/'))}{link.group(2) or ''})"
