"""Pages of a release whose names are scripts: a browser shows them, and does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jam_dagster.common.shown_text import visible
from tests.browser.conftest import Visit, accessibility_faults, clipped_on_paper, scrolls_sideways
from tests.browser.expectations import expect
from tests.browser.test_report import drawn
from tests.nasty import NASTY
from tests.test_cli_nasty_names import Made

if TYPE_CHECKING:
    from playwright.sync_api import Dialog

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nasty_pages")]

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def folder(program: str, nasty: Made) -> Path:
    return nasty.folder


@pytest.mark.parametrize("name", ["report", "checks", "certificate", "plan", "dossier"])
def test_no_name_does_anything(visit: Open, folder: Path, name: str) -> None:
    path = folder / ("" if name in ("plan", "dossier") else "out") / f"{name}.html"
    visited = visit(path)
    page = visited.page
    said: list[str] = []

    def answer(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", answer)
    page.reload()
    # The browser counts what it was sent for: the page, twice.
    visited.requests.pop()
    if name == "report":
        drawn(page)
        # Whatever is chosen is found, alone or as a pair; the browser complains of no error.
        first, second = page.locator("#compare select").all()
        for place in range(len(NASTY)):
            first.select_option(index=place)
            # Alone, and each name once as the other.
            for other in (0, 1 + (place + 1) % len(NASTY)):
                if second.locator("option").nth(other).is_enabled():
                    second.select_option(index=other)
                    assert first.input_value() == str(place)
        page.locator(".live path").first.hover(force=True)
    assert page.locator("img, iframe, [onload], [onerror], [onmouseover]").count() == 0
    # One script, and data that no browser runs.
    assert page.locator("script:not([type='application/json'])").count() <= 1
    assert page.locator("a:not([href^='#'])").count() == 0
    assert page.evaluate("document.querySelectorAll('svg script, svg foreignObject').length") == 0
    assert said == []
    if name in ("report", "checks", "dossier"):
        shown = page.locator("body").inner_text()
        for one in NASTY:
            assert " ".join(visible(one).split()) in " ".join(shown.split())


def test_checks_can_be_read_by_everybody(visit: Open, folder: Path) -> None:
    for dark in (False, True):
        assert accessibility_faults(visit(folder / "out" / "checks.html", dark=dark).page) == []
    for scripts in (False, True):
        page = visit(folder / "out" / "checks.html", phone=True, scripts=scripts).page
        assert not scrolls_sideways(page)
        row = page.locator("#checks tbody tr").first
        assert row.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")


def test_a_dossier_can_be_read_and_printed_by_everybody(visit: Open, folder: Path) -> None:
    for dark in (False, True):
        assert accessibility_faults(visit(folder / "dossier.html", dark=dark).page) == []
    assert not scrolls_sideways(visit(folder / "dossier.html", phone=True).page)
    assert clipped_on_paper(visit(folder / "dossier.html").page) == []


def test_checks_are_printed_whole(visit: Open, folder: Path) -> None:
    assert clipped_on_paper(visit(folder / "out" / "checks.html").page) == []


def test_checks_can_be_sorted(visit: Open, folder: Path) -> None:
    page = visit(folder / "out" / "checks.html").page
    table = page.locator("#checks table")
    head = table.get_by_role("columnheader", name="Checked")
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
    checked = [one for one in table.locator("tbody td:nth-child(7)").all_inner_texts() if one]
    numbers = [int(one.replace(",", "")) for one in checked]
    # As numbers: as texts, 90 would come before 300.
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] == 300
