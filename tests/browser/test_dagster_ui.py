"""Dagster's UI on the demo: what a person finds who opens it and reads no code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import DESK
from tests.browser.demo import GROUP, materialize, served
from tests.browser.expectations import expect, wait_at_most

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# One worker materializes the demo for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dagster_ui")]

# The first pages of a server that has just started, on a machine that does other things.
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def ui(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Materialize the demo and serve the UI on it."""
    home = tmp_path_factory.mktemp("dagster")
    materialize(home)
    with served(home) as address:
        yield address


@pytest.fixture
def page(browser: Browser, ui: str) -> Iterator[Page]:
    """Return a page that must ask for nothing but the UI."""
    context = browser.new_context(viewport=DESK, base_url=ui)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    elsewhere: list[str] = []
    one = context.new_page()
    one.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((ui, "data:", "blob:"))
            else elsewhere.append(request.url)
        ),
    )
    wait_at_most(PATIENCE_MS)
    yield one
    wait_at_most(5_000)
    assert elsewhere == []
    context.close()


def test_the_graph_shows_every_asset_materialized(page: Page) -> None:
    page.set_viewport_size({"width": 2700, "height": 1300})
    page.goto(f"/locations/__repository__@jam_dagster/asset-groups/{GROUP}")
    for name in (
        "private_records",
        "public_records",
        "domain",
        "privacy_budget",
        "tilt",
        "synthetic_records",
        "workload_error",
        "release_report",
        "release_certificate",
    ):
        expect(page.get_by_text(name, exact=True).first).to_be_visible()
    expect(page.get_by_text("Materialized", exact=True)).to_have_count(11)
    expect(page.get_by_text(re.compile("failed", re.IGNORECASE))).to_have_count(0)


@pytest.mark.parametrize(
    ("asset", "plot"),
    [
        ("tilt", "budget_over_rounds"),
        ("tilt", "choices_per_round"),
        ("synthetic_records", "compared_with_public"),
    ],
)
def test_plots_are_seen_where_the_asset_is(page: Page, asset: str, plot: str) -> None:
    page.goto(f"/assets/{GROUP}/{asset}")
    row = page.get_by_role("row").filter(has=page.get_by_text(plot, exact=True)).first
    row.get_by_text("[Show Markdown]").click()
    image = page.locator("img[src^='data:image/png']").first
    expect(image).to_be_visible()
    # One that the UI refuses to show, or that is none, has no size of its own.
    page.wait_for_function("one => one.naturalWidth > 300", arg=image.element_handle())


def test_an_asset_says_what_it_is_and_what_it_costs(page: Page) -> None:
    page.goto(f"/assets/{GROUP}/tilt")
    expect(page.get_by_text("who_may_see_it")).to_be_visible()
    expect(page.get_by_text("It is differentially private, and what it says")).to_be_visible()
    expect(page.get_by_text("what_it_costs")).to_be_visible()
    expect(page.get_by_text("rho_spent", exact=True).first).to_be_visible()
    expect(page.get_by_text("jam/privacy: dp")).to_be_visible()


def test_columns_are_described(page: Page) -> None:
    page.goto(f"/assets/{GROUP}/synthetic_records")
    expect(page.get_by_text("marital_status", exact=True).first).to_be_visible()
    expect(page.get_by_text("one of never married, married, divorced, widowed")).to_be_visible()


def test_all_checks_of_the_table_are_green(page: Page) -> None:
    page.goto(f"/assets/{GROUP}/synthetic_records?view=checks")
    title = page.get_by_text(re.compile(r"^Checks \(\d+\)$"))
    expect(title).to_be_visible()
    expect(page.get_by_text("Succeeded", exact=True).first).to_be_visible()
    expect(page.get_by_text(re.compile(r"^(Failed|Warning)$"))).to_have_count(0)
    page.get_by_text("values", exact=True).first.click()
    expect(page.get_by_text("Every value is one that the domain allows.")).to_be_visible()
    expect(page.get_by_text("Passed", exact=True).first).to_be_visible()
