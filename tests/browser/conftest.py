"""A browser, pages of a small release, and what every page must keep to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jam_dagster.tables import health_survey, health_survey_domain
from tests.cli_bench import run_cli

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PHONE = {"width": 390, "height": 844}
# A4 between margins of 1.4 cm, at 96 pixels an inch.
PAPER = {"width": 688, "height": 1000}
DESK = {"width": 1280, "height": 900}


def chromium() -> str | None:
    """Return the browser that tests and screenshots use: CHROMIUM, or one on the path."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = (path for name in names if (path := shutil.which(name)))
    return os.environ.get("CHROMIUM") or next(found, None)


@pytest.fixture(scope="session")
def program() -> str:
    """The browser's path; tests are skipped, and say why, where there is none."""
    path = chromium()
    if path is None:
        pytest.skip("no Chromium was found: install it, or name one in CHROMIUM")
    version = [sys.executable, "-m", "playwright", "--version"]
    done = subprocess.run(version, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"Playwright cannot start, install what it lacks: {done.stderr.strip()}")
    return path


# Not for longer than a module: as long as it is there an event loop runs in this thread, and
# whatever other tests call could not run one of its own.
@pytest.fixture(scope="module")
def browser(program: str) -> Iterator[Browser]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Visit:
    """A page in the browser, with what it asked for and complained of."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Open a file as a page: ``visit(path, dark=True, phone=True, scripts=False)``.

    At the end of the test the page must have fetched nothing but itself and complained of nothing.
    """
    made: list[tuple[Visit, Path]] = []

    def opened(
        path: Path, *, dark: bool = False, phone: bool = False, scripts: bool = True
    ) -> Visit:
        context = browser.new_context(
            viewport=PHONE if phone else DESK,  # type: ignore[arg-type]
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        one = Visit(context.new_page())
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.on("console", lambda message: one.complaints.append(message.text))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.goto(path.as_uri())
        made.append((one, path))
        return one

    yield opened
    for one, path in made:
        assert one.requests == [path.as_uri()]
        assert one.complaints == []
        one.page.context.close()


@dataclass(frozen=True)
class Pages:
    """Pages of a small release of simulated people, and the folder with its files."""

    folder: Path

    @property
    def report(self) -> Path:
        return self.folder / "out" / "report.html"

    @property
    def certificate(self) -> Path:
        return self.folder / "out" / "certificate.html"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.html"


@pytest.fixture(scope="session")
def pages(program: str, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Make a release and its plan from the command line."""
    folder = tmp_path_factory.mktemp("pages")
    tables = ("--domain", "data/domain.yaml", "--public", "data/public.csv")
    settings = (*tables, "--epsilon", "1", "--degree", "2")
    settings += ("--mechanism", "jam_pgm", "--setting", "rounds=6")
    budget = ("--ledger", "ledger.db", "--dataset", "people")
    private = ("--private", "data/private.csv", "--evaluation-mode", "private")
    granted = ("--epsilon", "3", "--delta", "1e-9", "--records", "public")
    trials = ("--records", "4000", "--seeds", "2", "--epsilons", "0.5,1")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _write_tables(folder / "data")
        for command in (
            ("ledger", "grant", *budget, *granted),
            ("synthesize", *settings, *budget, *private, "--no-checks", "--out", "out"),
            ("plan", *settings, *trials, "--plot", "plan.html"),
        ):
            made = run_cli(*command)
            assert made.exit_code == 0, made.output
    return Pages(folder)


def _write_tables(folder: Path) -> None:
    folder.mkdir()
    private, public = health_survey(private_rows=4_000, public_rows=900)
    private.to_csv(folder / "private.csv", index=False)
    public.to_csv(folder / "public.csv", index=False)
    health_survey_domain().save(folder / "domain.yaml")


def accessibility_faults(page: Page) -> list[str]:
    """Return what axe finds on a page, of WCAG 2.2 to level AA and of best practice."""
    import axe_playwright_python

    script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()
    # Not by a tag in the page, whose policy allows no other script.
    page.evaluate(script)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        json.dumps({"rule": one["id"], "at": [node["target"] for node in one["nodes"]][:5]})
        for one in found["violations"]
    ]


def scrolls_sideways(page: Page) -> bool:
    """Tell whether the page as a whole is wider than the window."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    return wide


def clipped_on_paper(page: Page) -> list[str]:
    """Return what a print on A4 would cut off: what reaches beyond the paper or beyond its box."""
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)  # type: ignore[arg-type]
    cut: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("main *")]
          .filter((one) => one.clientWidth && one.checkVisibility())
          .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
            || getComputedStyle(one).overflowX !== "visible"
              && one.scrollWidth > one.clientWidth + 1)
          .map((one) => one.outerHTML.slice(0, 80))"""
    )
    page.emulate_media(media="screen")
    return cut
