"""The page of the checks: all of them in words, failures first, and nothing raw or fetched."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jam_dagster.evaluation.expectations.validation import TableChecks, validate
from jam_dagster.reports.checks_page import render_checks
from jam_dagster.tables import CategoricalAttribute, Domain
from jam_dagster.tables.domain.text_dtype import text_dtype
from tests.evaluation.conftest import RECORDS, SmallRelease, measured_round, transcript_of
from tests.nasty import NASTY, RAW
from tests.reports.pages import Page, assert_alone


def checked(release: SmallRelease, table: pd.DataFrame) -> TableChecks:
    return validate(
        table,
        release.domain,
        records=RECORDS,
        transcript=release.transcript,
        model=release.model,
    )


@pytest.fixture(scope="module")
def broken(release: SmallRelease) -> TableChecks:
    table = release.table.copy()
    table.loc[table.index[:3], "marital-status"] = "Divorced"
    table.loc[table.index[:600], "citizen"] = False
    return checked(release, table)


@pytest.fixture(scope="module")
def html(release: SmallRelease, broken: TableChecks) -> str:
    return render_checks(broken, release="people", partition="2026-01", domain=release.domain)


def nasty_checks() -> tuple[TableChecks, Domain]:
    domain = Domain(tuple(CategoricalAttribute(name, ("x", *NASTY)) for name in NASTY))
    rows = {name: ["x", name] * 50 for name in NASTY}
    # A value that is not listed is quoted in a finding.
    rows[NASTY[0]] = ["x", "<b onmouseover=alert(9)>"] * 50
    measured = np.zeros(len(NASTY) + 1)
    measured[0] = 50.0

    class Half:
        def marginal(self, clique: tuple[str, ...]) -> np.ndarray:
            counts = measured.copy()
            counts[1 + NASTY.index(clique[0])] = 50.0
            return counts

    rounds = [
        measured_round(i, (name,), "private", Half().marginal((name,)), 1.0)
        for i, name in enumerate(NASTY)
    ]
    checks = validate(
        pd.DataFrame(rows, dtype=text_dtype()),
        domain,
        records=100,
        transcript=replace(transcript_of(domain, rounds), records=100),
        model=Half(),  # type: ignore[arg-type]
    )
    return checks, domain


def table_of(page: str, name: str) -> list[list[str]]:
    section = page[page.index(f'<section id="{name}">') :].split("</section>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", section.split("<tbody>")[1], re.DOTALL)
    cells = (re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows)
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]


def test_every_expectation_is_there_failures_first(html: str, broken: TableChecks) -> None:
    rows = table_of(html, "checks")
    assert len(rows) == len(broken.specs)
    assert [row[0] for row in rows[:3]] == ["✕ failed", "▲ warning", "✓ passed"]
    assert rows[-1][0] == "\N{EN DASH} skipped"
    assert {row[2].rstrip(".") for row in rows} == {
        spec.description.rstrip(".") for spec in broken.specs
    }
    assert rows[0][1:2] + rows[0][3:] == [
        "marital-status",
        "one of Single, Married, Widowed",
        "3 rows (0.075%) with a value that the domain does not list, such as Divorced",
        "3",
        "4,000",
        "blocks",
    ]
    assert rows[1][1] == "citizen"
    assert rows[1][5:] == ["2", "2", "warns"]
    whole = {row[2]: row[1] for row in rows}
    assert whole["There are as many rows as the release says that there are private records."] == (
        "whole table"
    )
    assert "age \N{MULTIPLICATION SIGN} marital-status" in whole.values()


def test_the_summary_adds_up(html: str, broken: TableChecks) -> None:
    kinds = table_of(html, "kinds")
    total = sum(int(cell) for row in kinds for cell in row[1:4])
    assert total == len(broken.specs)
    assert ["Values of categories", "2", "1", "0", "blocks"] in kinds
    assert ["Distributions against their measurements", "3", "1", "1", "warns"] in kinds
    words = Page(html).words()
    assert f"2 of {total} not met" in words
    assert "Checks of people, 2026-01" in words
    assert "Great Expectations 1." in words


def test_a_good_table_is_said_to_be_good(release: SmallRelease) -> None:
    html = render_checks(checked(release, release.table), release="people", domain=release.domain)
    words = Page(html).words()
    assert re.search(r"All met 2\d expectations are met", words)
    assert "failed" not in {row[0] for row in table_of(html, "checks")}
    assert "Not releasable" not in words


def test_a_table_that_may_not_leave_is_said_not_to(
    release: SmallRelease, broken: TableChecks
) -> None:
    html = render_checks(
        broken, release="people", domain=release.domain, not_releasable_because=["noise is seeded"]
    )
    assert "Not releasable noise is seeded. Neither the table nor this page may leave." in (
        Page(html).words()
    )


def test_a_misfit_of_the_domain_warns_unless_it_blocks() -> None:
    domain = Domain((CategoricalAttribute("club", ("A", "rest"), other="rest"),))
    drawn = measured_round(0, ("club",), "private", np.array([10.0, RECORDS - 10.0]), 1.0)

    class Model:
        def marginal(self, clique: tuple[str, ...]) -> np.ndarray:
            return np.array([10.0, RECORDS - 10.0])

    found = validate(
        pd.DataFrame({"club": ["A"] * 10 + ["rest"] * (RECORDS - 10)}, dtype=text_dtype()),
        domain,
        records=RECORDS,
        transcript=transcript_of(domain, [drawn]),
        model=Model(),  # type: ignore[arg-type]
    )
    for checks, failure in ((found, "warns"), (found.with_blocking_misfits(), "blocks")):
        html = render_checks(checks, release="people", domain=domain)
        (kind,) = (row for row in table_of(html, "kinds") if row[0] == "Fit of the domain")
        assert kind[1:] == ["0", "1", "0", failure]
        (row,) = (row for row in table_of(html, "checks") if "Mend the domain" in row[4])
        assert (row[0] == "✕ failed", row[-1]) == (failure == "blocks", failure)
        distributions = "Distributions against their measurements"
        assert [row[-1] for row in table_of(html, "kinds") if row[0] == distributions] == ["warns"]


def test_the_page_needs_nothing_but_itself(html: str) -> None:
    assert_alone(html)


@pytest.mark.slow
def test_nasty_names_stay_text() -> None:
    checks, domain = nasty_checks()
    html = render_checks(checks, release="<script>alert(8)</script>", domain=domain)
    page = Page(html)
    ((_, script),) = page.scripts
    for raw in (*RAW, "<b onmouseover"):
        assert raw not in html.replace(script, "")
    assert "<script>alert(1)</script>" in page.words()
    assert "{{7*7}}" in page.words()
    assert "\\u202eturned\\u200b" in page.words()
    assert "such as <b onmouseover=alert(9)>" in page.words()
    failed = {one.name for one in checks.results if not one.passed}
    assert failed == {"script_alert_1_script__values"}
