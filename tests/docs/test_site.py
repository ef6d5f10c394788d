"""The documentation site, as `make docs` builds it: whole, and nothing of it is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

# Of these tags the attribute is fetched when a page is opened; a link to click (`a`) is not.
FETCHED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "object": ("data",),
    "embed": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "use": ("href", "xlink:href"),
    "image": ("href", "xlink:href"),
}

# One worker builds the site for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]


class Fetching(HTMLParser):
    """Collects what a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev"):
            return
        self.places += [given[one] or "" for one in FETCHED.get(tag, ()) if one in given]


def fetched(page: str) -> list[str]:
    """Return the places that a page names, and those in styles within it."""
    found = Fetching()
    found.feed(page)
    return found.places + re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", page)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len([page for page in pages if page.suffix == ".html"]) > 12
    for page in pages:
        text = page.read_text(encoding="utf-8")
        places = fetched(text) if page.suffix == ".html" else re.findall(r"url\(([^)]+)\)", text)
        for place in places:
            assert not re.match(r"['\"]?(https?:)?//", str(place)), (page.name, place)


def test_what_a_page_fetches_is_there(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":  # its places start from the root of a server
            continue
        for place in fetched(page.read_text(encoding="utf-8")):
            path = str(place).split("?")[0].split("#")[0]
            if path and not path.startswith("data:"):
                assert (page.parent / path).exists(), (page.name, place)


def test_every_file_that_a_page_shows_is_in_it(site: Path) -> None:
    for page in site.rglob("*.html"):
        shown = re.sub(r"<[^>]+>|\s", "", page.read_text(encoding="utf-8"))
        assert not re.search(r"--8(&lt;|<)--", shown), page.name
    assert "QueuedRunCoordinator" in (site / "production.html").read_text(encoding="utf-8")


def test_the_search_needs_no_server(site: Path) -> None:
    # A browser fetches no .json from a file:// page; as a script it does.
    assert (site / "search" / "search_index.js").exists()


def test_programs_read_the_pages_as_markdown(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# jam-dagster\n\n> ")
    pages = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", listed, re.M)
    assert {"start.md", "guarantee.md", "reference/release.md", "security.md"} <= set(pages)
    for place in pages:
        assert (site / place).with_suffix(".html").exists(), place
        text = (site / place).read_text(encoding="utf-8")
        # Links of one page to another work in Markdown as well.
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", text):
            assert ((site / place).parent / link).resolve().exists(), (place, link)
