"""The report as people meet it: on a desk, on a phone, in the dark, on paper, without scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common.html_pages import figures
from jam_dagster.evaluation import (
    TableErrors,
    WorkloadErrors,
    released_marginal,
    verdict_of,
    workload_error,
)
from jam_dagster.mechanisms import Transcript
from jam_dagster.tables import Domain, Workload
from tests.browser.conftest import (
    PHONE,
    Pages,
    Visit,
    accessibility_faults,
    clipped_on_paper,
    scrolls_sideways,
)
from tests.browser.expectations import expect
from tests.evaluation.conftest import RECORDS, SmallRelease, small_release
from tests.reports.pages import render

if TYPE_CHECKING:
    from playwright.sync_api import Page

# One worker makes the release for all of them.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pages")]

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def release() -> SmallRelease:
    return small_release()


def unfolded(page: Page) -> None:
    """Open every fold around a chart."""
    for fold in page.locator(".fold").all():
        if fold.get_attribute("open") is None:
            fold.locator("summary").first.click()


def drawn(page: Page) -> None:
    """Unfold all charts, and scroll until every one has been drawn by its script."""
    unfolded(page)
    for holder in page.locator(".chart, [data-pair]").all():
        if holder.is_visible():
            holder.scroll_into_view_if_needed()
            expect(holder.locator(".live")).to_be_visible()


@pytest.mark.parametrize("dark", [False, True])
def test_a_person_sees_what_the_release_is(visit: Open, pages: Pages, dark: bool) -> None:
    transcript = Transcript.load(pages.folder / "out" / "transcript")
    page = visit(pages.report, dark=dark).page
    expect(page).to_have_title(re.compile("release report"))
    expect(page.locator("h1")).to_be_visible()
    guarantee = page.locator("#guarantee")
    expect(guarantee).to_contain_text("differentially private with ε = 1 and δ = 1e-9")
    expect(guarantee).to_contain_text("at most 75.6% sure")
    selecting = sum(one.rho_select for one in transcript.rounds)
    row = page.get_by_role("row", name="Selecting marginals")
    expect(row.get_by_role("cell").first).to_have_text(figures(selecting))
    expect(page.locator("#rounds tbody tr")).to_have_count(len(transcript.rounds))
    drawn(page)
    for chart in page.locator(".live svg").all():
        box = chart.bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 30


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)])
def test_the_verdict_is_read_first(
    visit: Open, release: SmallRelease, tmp_path: Path, dark: bool, phone: bool
) -> None:
    grounds = set()
    for name, ours, theirs in (("better", 0.1, 0.3), ("worse", 0.3, 0.1), ("undecided", 0.2, 0.2)):
        errors = WorkloadErrors("private", TableErrors(ours), TableErrors(theirs), sigma=0.01)
        path = tmp_path / f"{name}.html"
        verdict = verdict_of(errors)
        path.write_text(render(release, error=errors, verdict=verdict))
        page = visit(path, dark=dark, phone=phone).page
        box = page.locator("h1 + div")
        expect(box).to_be_in_viewport()
        expect(box.locator("strong")).to_have_text(verdict.headline)
        expect(box.get_by_role("listitem")).to_have_count(len(verdict.advice))
        expect(box.get_by_text(verdict.notes[0])).to_be_visible()
        expect(box.get_by_text(verdict.statistics[0])).to_be_hidden()
        box.get_by_text("The statistics").click()
        expect(box.get_by_text(verdict.statistics[0])).to_be_visible()
        style = box.evaluate(
            "one => [getComputedStyle(one).backgroundColor, getComputedStyle(one).borderColor]"
        )
        grounds.add(tuple(style))
        assert not scrolls_sideways(page)
        assert accessibility_faults(page) == []
    assert len(grounds) == 3


def test_charts_change_with_the_ground(visit: Open, pages: Pages) -> None:
    colours = []
    for dark in (False, True):
        page = visit(pages.report, dark=dark).page
        drawn(page)
        text = page.locator("[data-attribute] .live svg text").first
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        colours.append((text.evaluate("one => getComputedStyle(one).fill"), ground))
    (light_text, light), (dark_text, dark_ground) = colours
    assert light_text != dark_text
    assert light != dark_ground


@pytest.mark.parametrize("dark", [False, True])
def test_nobody_is_kept_out(visit: Open, pages: Pages, dark: bool) -> None:
    page = visit(pages.report, dark=dark).page
    drawn(page)
    for summary in page.locator("summary").all():
        if summary.is_visible() and summary.evaluate("one => !one.parentElement.open"):
            summary.click()
    assert accessibility_faults(page) == []


@pytest.mark.parametrize("scripts", [False, True])
def test_a_phone_shows_it_without_scrolling_sideways(
    visit: Open, pages: Pages, scripts: bool
) -> None:
    page = visit(pages.report, phone=True, scripts=scripts).page
    if scripts:
        drawn(page)
    for fold in page.locator("details").all():
        fold.evaluate("one => { one.open = true; }")
    assert not scrolls_sideways(page)
    # Whoever reads a table of columns, checks or cells sees its last column too.
    tables = page.locator("section:not([hidden]) .scroll:has(> table.compact)")
    assert tables.count() > 4
    assert tables.evaluate_all("all => all.filter(e => e.scrollWidth > e.clientWidth)") == []


def test_a_phone_shows_text_as_large_as_a_desk(visit: Open, pages: Pages) -> None:
    page = visit(pages.report, phone=True).page
    # The first names what was chosen, which may ask for more room than there is.
    figure = page.locator("#rounds figure").nth(1)
    figure.scroll_into_view_if_needed()
    chart = figure.locator(".live svg")
    expect(chart).to_be_visible()
    box, width = chart.bounding_box(), chart.get_attribute("width")
    assert box is not None
    assert width is not None
    assert box["width"] == pytest.approx(float(width), rel=0.001)


def numbers_shown(page: Page) -> pd.DataFrame:
    table = page.locator("#compare .numbers table")
    heads = table.locator("thead th").all_inner_texts()
    rows = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
    return pd.DataFrame(rows, columns=heads)


def test_a_chosen_pair_is_drawn_with_the_numbers_of_the_tables(visit: Open, pages: Pages) -> None:
    folder = pages.folder / "out"
    domain = Domain.load(folder / "domain.yaml")
    transcript = Transcript.load(folder / "transcript")
    page = visit(pages.report).page
    compare = page.locator("#compare")
    compare.scroll_into_view_if_needed()
    holder = compare.locator(".chart")
    expect(holder.locator(".live")).to_be_visible()
    first, second = compare.locator("select").all()

    # What was measured, and most likely what was not.
    measured = next(one.clique for one in transcript.measurements if len(one.clique) == 2)
    pictures = set()
    for pair in (measured, ("sex", "settlement")):
        first.select_option(pair[0])
        second.select_option(pair[1])
        expect(holder.locator(".live")).to_have_attribute(
            "aria-label", re.compile(" and ".join(sorted(pair, key=domain.names.index)))
        )
        pictures.add(holder.inner_html())
        compare.locator("details").evaluate("one => { one.open = true; }")
        released = released_marginal(transcript, tuple(sorted(pair, key=domain.names.index)))
        shown = numbers_shown(page)
        assert ("released" in shown) is (released is not None)
        assert len(shown) == np.prod([domain.sizes[name] for name in pair])
    assert len(pictures) == 2

    synthetic = pd.read_csv(folder / "synthetic.csv", dtype=str)
    public = pd.read_csv(pages.folder / "data" / "public.csv", dtype=str)
    for table, rows in (("synthetic", synthetic), ("public", public)):
        for _, row in shown.iterrows():
            here = (rows["sex"] == row["sex"]) & (rows["settlement"] == row["settlement"])
            # A number that lies between two may be rounded to either.
            assert float(row[table].rstrip("%")) == pytest.approx(100 * here.mean(), abs=0.0051)


def test_one_attribute_can_be_chosen_by_keyboard(visit: Open, pages: Pages) -> None:
    page = visit(pages.report).page
    compare = page.locator("#compare")
    compare.scroll_into_view_if_needed()
    live = compare.locator(".chart .live")
    expect(live).to_be_visible()
    first, second = compare.locator("select").all()
    first.focus()
    assert first.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
    page.keyboard.type("health")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    expect(second).to_have_value("")
    assert first.locator("option:checked").inner_text() == "health"
    expect(live).to_have_attribute("aria-label", re.compile("Distribution of health"))
    compare.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(compare.get_by_role("columnheader", name="health")).to_be_visible()


def test_the_pointer_finds_numbers(visit: Open, pages: Pages) -> None:
    page = visit(pages.report).page
    page.get_by_role("link", name="sex", exact=True).click()
    figure = page.locator("[data-attribute='sex']")
    live = figure.locator(".live")
    expect(live).to_be_visible()
    figure.locator("summary").click()
    share = figure.locator("tbody tr td").first.inner_text()
    figure.locator("summary").click()
    live.locator("path[opacity='0']").first.hover()
    tooltip = page.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    expect(tooltip).to_contain_text(share)
    expect(tooltip).to_contain_text("sex: ")


def test_rounds_can_be_sorted(visit: Open, pages: Pages) -> None:
    page = visit(pages.report).page
    table = page.locator("#rounds table")
    page.get_by_text(re.compile(r"^Table of \d+ rounds$")).click()
    head = table.get_by_role("columnheader", name="Misfit after")
    for order in ("ascending", "descending"):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
        column = [float(one) for one in table.locator("tbody td:nth-child(8)").all_inner_texts()]
        assert column == sorted(column, reverse=order == "descending")


def test_without_scripts_everything_is_there(visit: Open, pages: Pages) -> None:
    page = visit(pages.report, scripts=False).page
    expect(page.locator("#compare")).to_be_hidden()
    unfolded(page)
    for picture in page.locator(".chart [role=img] svg, [data-pair] svg").all():
        box = picture.bounding_box()
        assert box is not None
        assert box["width"] > 30
    figure = page.locator("[data-attribute='sex']")
    figure.locator("summary").click()
    expect(figure.get_by_role("columnheader", name="synthetic")).to_be_visible()


def test_paper_is_light_and_cuts_nothing_off(visit: Open, pages: Pages) -> None:
    page = visit(pages.report, dark=True).page
    drawn(page)
    assert clipped_on_paper(page) == []
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    text = page.locator("[data-attribute] .live svg text").first
    red, green, blue = re.findall(r"\d+", text.evaluate("one => getComputedStyle(one).fill"))
    assert max(int(red), int(green), int(blue)) < 140
    expect(page.locator(".chooser")).to_be_hidden()
    assert page.pdf(format="A4").count(b"/Type /Page\n") >= 2


def test_a_wide_table_is_short_until_charts_are_opened(visit: Open, pages: Pages) -> None:
    """The columns' section has a row of a table and a line for each, and paper has all charts."""
    page = visit(pages.report, phone=True, scripts=False).page
    domain = Domain.load(pages.folder / "out" / "domain.yaml")
    section = page.locator("#one-way")
    height = section.evaluate("one => one.clientHeight")
    assert height < 600 + 90 * len(domain.names)
    figure = page.locator("[data-attribute='sex']")
    expect(figure).to_be_hidden()
    # A search in the page, or a link, opens the fold.
    section.get_by_role("link", name="sex", exact=True).click()
    expect(figure.locator(".chart")).to_be_visible()
    expect(section.locator(".fold[open]")).to_have_count(1)
    page.emulate_media(media="print")
    for chart in section.locator(".chart").all():
        expect(chart).to_be_visible()
    for name in domain.names:
        expect(section.locator("summary").get_by_text(name, exact=True)).to_be_visible()
    expect(section.get_by_text("Numbers of sex")).to_be_hidden()


def test_paper_has_no_heading_over_a_comparison_that_was_not_drawn(
    visit: Open, pages: Pages
) -> None:
    page = visit(pages.report).page
    compare = page.locator("#compare")
    compare.scroll_into_view_if_needed()
    expect(compare.locator(".chart svg").first).to_be_visible()
    page.emulate_media(media="print")
    expect(compare).to_be_visible()
    compare.locator(".chart").evaluate("one => one.replaceChildren()")
    expect(compare).to_be_hidden()


def test_the_restricted_edition_shows_errors_by_marginal(
    visit: Open, release: SmallRelease, tmp_path: Path
) -> None:
    private = release.model.sample(RECORDS, np.random.default_rng(9))
    workload = Workload.all_k_way(release.domain, 2)
    error = workload_error(private, release.synthetic, release.public, workload, mode="exact")
    path = tmp_path / "report.html"
    path.write_text(render(release, error=error, restricted=True))
    page = visit(path).page
    expect(page.get_by_text("Restricted: exact statistics of private data")).to_be_visible()
    chart = page.locator("#error .chart")
    chart.scroll_into_view_if_needed()
    expect(chart.locator(".live")).to_be_visible()
    chart.locator(".live path[aria-label], .live .mark-symbol path").first.hover(force=True)
    expect(page.locator("#vg-tooltip-element")).to_contain_text("marginal")
    page.get_by_text("the worst first").click()
    first = page.locator("#error details tbody tr").first
    synthetic = error.synthetic
    assert synthetic is not None
    expect(first).to_contain_text(f"{synthetic.maximum:.4f}")
    assert accessibility_faults(page) == []
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    assert not scrolls_sideways(page)
