"""The pictures of the documentation: ``python -m tests.browser.screenshots docs/images``.

All of them show the demo of this repository, materialized for the purpose.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.browser.conftest import chromium
from tests.browser.demo import GROUP, materialize, plan_page, served

PATIENCE_MS = 60_000
LARGEST_BYTES = 300_000


def main() -> None:
    """Make every picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the folder for the pictures")
    parser.add_argument("--home", type=Path, help="a Dagster home where the demo is materialized")
    options = parser.parse_args()
    path = chromium()
    if path is None:
        parser.error("no Chromium was found: install it, or name one in CHROMIUM")
    options.out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        home = options.home or Path(folder) / "home"
        if options.home is None:
            materialize(home)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        with served(home) as address:
            of_dagster(browser, address, options.out)
        plan = Path(folder) / "plan.html"
        plan_page(home, plan)
        of_pages(browser, home / "jam" / "releases" / GROUP, plan, options.out)
        browser.close()


def of_dagster(browser: Browser, address: str, out: Path) -> None:
    """Picture the asset graph, and the page of the mechanism."""
    # Upright, with short nodes and no menu beside it, the graph is readable at a page's width.
    page = _opened(browser, width=1300, height=1360)
    for key, value in (
        ("asset-graph-direction", "vertical"),
        ("asset-node-facets", ["checks", "status", "kind-tag"]),
    ):
        page.add_init_script(f"localStorage.setItem({key!r}, {json.dumps(value)!r})")
    page.goto(f"{address}/locations/__repository__@jam_dagster/asset-groups/{GROUP}")
    expect(page.get_by_text("Materialized", exact=True)).to_have_count(11)
    _settle(page)
    _picture(page, out / "asset_graph.png", clip={"x": 241, "y": 0, "width": 1059, "height": 1360})

    page = _opened(browser, width=1500, height=1150)
    page.goto(f"{address}/assets/{GROUP}/tilt")
    expect(page.get_by_text("rho_budget", exact=True).first).to_be_visible()
    _settle(page)
    _picture(page, out / "mechanism.png")
    row = page.get_by_role("row").filter(has=page.get_by_text("choices_per_round", exact=True))
    row.first.get_by_text("[Show Markdown]").click()
    expect(page.locator("img[src^='data:image/png']").first).to_be_visible()
    _settle(page)
    _picture(page.get_by_role("dialog"), out / "mechanism_plot.png")


def of_pages(browser: Browser, release: Path, plan: Path, out: Path) -> None:
    """Picture the pages that a release leaves, and the one before it."""
    report = release / "release_report.html"
    for name, path, section, options in (
        ("report_light", report, "#compare", {"width": 1200, "height": 1300}),
        ("report_dark", report, "#rounds", {"width": 1200, "height": 1300, "dark": True}),
        ("report_phone", report, "#one-way", {"width": 390, "height": 844, "scale": 2}),
        (
            "certificate",
            release / "release_certificate" / "certificate.html",
            None,
            {"width": 1200, "height": 1300},
        ),
        ("plan", plan, None, {"width": 1200, "height": 1300}),
    ):
        page = _opened(browser, **options)
        page.goto(path.as_uri())
        if section:
            page.locator(section).evaluate("one => one.scrollIntoView()")
        _settle(page)
        # Charts near the window are drawn again; those in it have to be.
        page.wait_for_function(
            """() => [...document.querySelectorAll(".chart")].every((one) => {
              const { top, bottom } = one.getBoundingClientRect();
              return bottom < 0 || top > innerHeight || one.querySelector(".live")
                || !one.checkVisibility();
            })"""
        )
        _picture(page, out / f"{name}.png")


def _opened(
    browser: Browser, *, width: int, height: int, dark: bool = False, scale: int = 1
) -> Page:
    look: dict[str, Any] = {"viewport": {"width": width, "height": height}}
    context = browser.new_context(
        **look, color_scheme="dark" if dark else "light", device_scale_factor=scale
    )
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def _picture(what: Page | Locator, path: Path, **part: Any) -> None:
    """Take a picture, which must be small enough for a repository."""
    what.screenshot(path=path, **part)
    size = path.stat().st_size
    print(f"{path}: {size / 1000:.0f} kB")
    if size > LARGEST_BYTES:
        raise SystemExit(f"{path} is larger than {LARGEST_BYTES / 1000:.0f} kB")


def _settle(page: Page) -> None:
    """Wait until nothing is being fetched or moves."""
    page.wait_for_load_state("networkidle")
    page.evaluate("Promise.all(document.getAnimations().map((one) => one.finished.catch(() => 0)))")


if __name__ == "__main__":
    main()
