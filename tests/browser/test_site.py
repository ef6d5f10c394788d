"""The documentation site as people read it: from a folder, without a server or a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESK, PHONE, scrolls_sideways
from tests.browser.expectations import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# One worker builds the site for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]

PAGES = [
    *("index", "start", "data", "guarantee", "budgets", "production", "mechanisms/jam_pgm"),
    *("reference/release", "reference/command_line", "reference/python/privacy", "performance"),
]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab that may open files and nothing else, and must have nothing to complain of."""
    context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
    page = context.new_page()
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda expected: complaints.append(expected.text) if expected.type == "error" else None,
    )
    yield page
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert complaints == []
    context.close()


def test_the_search_finds_without_a_server(site: Path, page: Page) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("textbox", name="Search").click()
    # Key by key: the search listens to keys.
    page.get_by_role("textbox", name="Search").press_sequentially("backfill")
    found = page.locator(".md-search-result__item").first
    expect(found).to_be_visible()
    found.get_by_role("link").first.click()
    expect(page.locator("article").get_by_text("backfill").first).to_be_visible()


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_shows_all_of_a_page(site: Path, page: Page, name: str) -> None:
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto((site / f"{name}.html").as_uri())
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert not scrolls_sideways(page)


def test_the_dark_is_dark(site: Path, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto((site / "guarantee.html").as_uri())
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in colour[4:-1].split(",")[:3])
    assert max(red, green, blue) < 80
