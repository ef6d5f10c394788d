"""Certificate and plan as people meet them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.browser.conftest import (
    Pages,
    Visit,
    accessibility_faults,
    clipped_on_paper,
    scrolls_sideways,
)
from tests.browser.expectations import expect

# One worker makes the release for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

Open = Callable[..., Visit]


def test_the_certificate_says_what_was_promised(visit: Open, pages: Pages) -> None:
    document = json.loads((pages.folder / "out" / "certificate.json").read_text())
    page = visit(pages.certificate).page
    expect(page.get_by_role("heading", level=1)).to_contain_text("Certificate")
    expect(page.get_by_text("May leave")).to_be_visible()
    for sentence in document["privacy"]["guarantee"]:
        expect(page.locator("#guarantee")).to_contain_text(sentence)
    charged = [one for one in document["ledger"]["entries"] if one["kind"] == "charged"]
    expect(page.locator("#draws tbody tr")).to_have_count(len(charged))
    page.get_by_text(re.compile(r"^\d+ entries$")).click()
    expect(page.locator("#ledger tbody tr").first).to_be_visible()


def test_the_plan_shows_its_curve_with_numbers(visit: Open, pages: Pages) -> None:
    page = visit(pages.plan).page
    expect(page.get_by_role("heading", level=1)).to_have_text("Plan of a release")
    live = page.locator(".live svg")
    expect(live).to_be_visible()
    rows = page.locator("#error tbody").first.locator("tr")
    expect(rows).to_have_count(2)
    error = rows.nth(1).get_by_role("cell").first.inner_text()
    point = live.locator(".mark-symbol.role-mark path").last
    point.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    expect(tooltip).to_contain_text(error.split(" ")[0][:5])
    expect(page.get_by_text("Limits of this plan")).to_be_visible()


@pytest.mark.parametrize("name", ["certificate", "plan"])
@pytest.mark.parametrize("dark", [False, True])
def test_nobody_is_kept_out(visit: Open, pages: Pages, name: str, dark: bool) -> None:
    page = visit(getattr(pages, name), dark=dark).page
    for summary in page.locator("summary").all():
        summary.click()
    assert accessibility_faults(page) == []


@pytest.mark.parametrize("name", ["certificate", "plan"])
def test_phone_and_paper_show_all_of_it(visit: Open, pages: Pages, name: str) -> None:
    page = visit(getattr(pages, name), phone=True).page
    assert not scrolls_sideways(page)
    # Sentences in a table are read, not scrolled.
    words = page.locator("table.words")
    assert words.count()
    for table in words.all():
        assert table.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")
    assert clipped_on_paper(page) == []
