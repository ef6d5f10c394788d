"""Links to files of the repository that the site has as pages, and pages that are such files.

The documentation is read in the repository as well, where generated pages do not exist: there a
link leads to the file that the page is made from.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

PAGES_OF = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "jam_dagster/keys.py": "reference/release.md",
    "jam_dagster/pipeline/yaml/resources.py": "reference/resources.md",
    "jam_dagster/mechanisms/__init__.py": "reference/python/mechanisms.md",
    "jam_dagster/release/dataframes.py": "reference/python/dataframes.md",
}
"""The page of the site that is made from a file of the repository."""

_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")


def house_page(name: str) -> str:
    """Return a page of the repository's top folder as a page of the site."""
    return linked((ROOT / name).read_text(encoding="utf-8"), name, PAGES_OF[name])


def linked(markdown: str, name: str, page: str) -> str:
    """Return a file's text with links that lead to the site's pages.

    Parameters
    ----------
    markdown
        The text.
    name
        The file's path in the repository.
    page
        Its page's path in the site.
    """

    def moved(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.group(1)))
        place = PAGES_OF.get(place, place.removeprefix("docs/"))
        return f"]({posixpath.relpath(place, posixpath.dirname(page) or '.')}{link.group(2) or ''})"

    return _LINK.sub(moved, markdown)
