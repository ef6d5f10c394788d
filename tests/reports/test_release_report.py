"""The report: whole, self-contained, honest about what it is, and silent on exact errors."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common import palette
from jam_dagster.errors import InputError, PrivacyLabelError
from jam_dagster.evaluation import (
    ExpectationResult,
    TableErrors,
    WorkloadErrors,
    verdict_of,
    workload_error,
)
from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.evaluation.bounds.table import ErrorBound, ErrorBounds
from jam_dagster.evaluation.domain_fit import CatchAllShare, ColumnFit
from jam_dagster.evaluation.utility import Regression, Score, TargetUtility
from jam_dagster.evaluation.verdict import mean_text
from jam_dagster.mechanisms import Aim
from jam_dagster.privacy import Draws, Neighbours, NoiseCall, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.noise import calls
from jam_dagster.reports.live_charts import page_script
from jam_dagster.reports.mechanism_text import picks_text
from jam_dagster.reports.release_report import render_report
from jam_dagster.tables import CategoricalAttribute, Domain, EncodedTable, Workload
from tests.evaluation.conftest import RECORDS, SmallRelease, lost, measured_round, transcript_of
from tests.reports.pages import CHECKS, FACTS, Page, assert_alone, render


@pytest.fixture(scope="module")
def tiny(release: SmallRelease) -> SmallRelease:
    """The same release of two attributes: a page of few plots, for what plots have no part in."""
    clique = ("marital-status", "citizen")
    domain = release.domain.project(clique)
    return SmallRelease(
        domain=domain,
        transcript=transcript_of(domain, [release.transcript.rounds[-1]]),
        model=release.model,
        synthetic=EncodedTable(domain, tuple(release.synthetic.column(name) for name in clique)),
        public=EncodedTable(domain, tuple(release.public.column(name) for name in clique)),
        table=release.table[list(clique)],
    )


@pytest.fixture(scope="module")
def exact(release: SmallRelease) -> WorkloadErrors:
    private = release.model.sample(RECORDS, np.random.default_rng(9))
    workload = Workload.all_k_way(release.domain, 2)
    return workload_error(private, release.synthetic, release.public, workload, mode="exact")


@pytest.fixture(scope="module")
def noisy(release: SmallRelease) -> WorkloadErrors:
    private = release.model.sample(RECORDS, np.random.default_rng(9))
    workload = Workload.all_k_way(release.domain, 2)
    draws = Draws(SeededNoise(1), UnledgeredAccount(0.002))
    return workload_error(
        private, release.synthetic, release.public, workload, mode="private", draws=draws
    )


@pytest.fixture(scope="module")
def plain(tiny: SmallRelease) -> str:
    """The page of the small release without an error."""
    return render(tiny)


@pytest.fixture(scope="module")
def html(release: SmallRelease, noisy: WorkloadErrors) -> str:
    return render(release, checks=CHECKS, error=noisy)


def test_the_page_needs_nothing_but_itself(html: str) -> None:
    assert html.lstrip().startswith("<!doctype html>")
    assert_alone(html)


def test_the_page_is_no_larger_than_an_attachment_may_be(html: str) -> None:
    assert len(html.encode()) < 1_500_000
    assert html.count("vegaEmbed = vegaEmbed") + html.count("vegaEmbed=") == 1


@pytest.mark.slow
def test_charts_of_a_few_columns_are_open_and_those_of_many_are_folded(
    html: str, tiny: SmallRelease
) -> None:
    def folds(page: str) -> tuple[int, int]:
        return page.count('<details class="fold">'), page.count('<details class="fold" open>')

    folded, opened = folds(html)
    assert (folded, opened > 5) == (0, True)
    names = [f"citizen {place}" for place in range(7)]
    attribute, codes = tiny.domain.attribute("citizen"), tiny.synthetic.column("citizen")
    domain = Domain(tuple(replace(attribute, name=name) for name in names))
    table = EncodedTable(domain, (codes,) * 7)
    frame = pd.DataFrame(dict.fromkeys(names, tiny.table["citizen"]))
    wide = SmallRelease(domain, transcript_of(domain, []), tiny.model, table, table, frame)
    folded, opened = folds(render(wide))
    assert (folded > 7, opened) == (True, 0)


def test_light_dark_phone_and_print(html: str) -> None:
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert 'name="viewport"' in html
    for colour in palette.ALL:
        assert f'svg [fill="{colour.light}"] {{ fill: {colour.dark}; }}' in html
    # A plot with a colour that the page cannot change would vanish on one of the grounds.
    drawn = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{3,6})"', html.lower()))
    assert drawn == {colour.light for colour in palette.ALL} & drawn
    assert not re.search(r'(?:fill|stroke)="(?:black|white|rgb)', html)


def test_every_picture_says_what_it_shows(html: str, release: SmallRelease) -> None:
    page = Page(html)
    pictures = [a for a in page.all("div") if a.get("role") == "img"][1:]
    assert all(len(str(a["aria-label"])) > 20 for a in pictures)
    # The bar of the budget before, two of rounds, one an attribute, and panels; the legend is told
    # in words beside it.
    assert len(pictures) >= 2 + len(release.domain.names) + 3
    assert len(list(page.all("svg"))) == len(pictures) + 3
    assert "Heat map of age and marital-status, synthetic: most frequent 30 to 59 with " in html
    assert "Distribution of age. Most frequent, synthetic: 30 to 59 (" in html


def test_the_story_is_told_in_numbers(html: str, release: SmallRelease) -> None:
    words = Page(html).words()
    assert "people, 2026-01" in words
    assert "made on 2026-02-03 04:05 UTC" in words
    assert "ε = 1 and δ = 1e-9" in words
    assert "2.72 times as likely" in words
    assert "right alarms less that of false ones is at most 8.66 percentage points" in words
    assert "at most 75.6% sure of the true one" in words
    assert "one in 1,000,000,000" in words
    assert "The number of private records, 4,000, is taken to be public" in words
    assert "2 income \N{MULTIPLICATION SIGN} region public" not in words
    assert "3 income \N{MULTIPLICATION SIGN} region public" in words
    assert release.domain.impossible[0].describe(release.domain) in words
    assert "not measured privately" in words
    assert "0 to 90 in 4 bins" in words
    assert "Column Domain Beyond noise To public To released Noise alone" in words
    assert re.search(r"citizen fits no 0\.\d{3} 0\.\d{3} 0\.\d{3}", words)


def test_the_parts_of_the_budget_add_up(html: str, release: SmallRelease) -> None:
    widths = [float(w) for w in re.findall(r"width:([0-9.]+)%", html)]
    assert sum(widths) == pytest.approx(100, abs=0.01)
    words = Page(html).words()
    selecting = sum(one.rho_select for one in release.transcript.rounds)
    assert f"Selecting marginals {selecting:.4g}" in words
    assert "Evaluating the tables 0.002" in words
    returned = 0.05 - release.transcript.rho_spent
    assert f"Not spent, returned to the budget {returned:.4g}" in words


@pytest.mark.slow
def test_a_lost_measurement_is_told_as_lost(tiny: SmallRelease) -> None:
    (made,) = tiny.transcript.rounds
    transcript = transcript_of(tiny.domain, [lost(made)])
    words = Page(render(tiny, transcript=transcript)).words()
    assert f"Lost draws {made.rho_measure:.4g}" in words
    assert "Measuring marginals" not in words
    assert "Rounds 1 0 measured privately, 0 public, 1 lost" in words
    assert "private (lost) 25 0.001 0.00444 \N{EN DASH} \N{EN DASH} 0.01" in words
    assert "0 rounds measured privately, 0 took public data, 1 lost a paid draw" in render(
        tiny, transcript=transcript
    )
    alone = replace(transcript, mechanism="independent")
    assert "Rounds 1 0 measured privately, 1 lost" in Page(render(tiny, transcript=alone)).words()


def test_rounds_are_counted_by_what_came_of_them() -> None:
    assert picks_text("jam_pgm", {"private": 2, "public": 1}) == "2 private and 1 public"
    some = {"private": 2, "public": 1, "lost": 1}
    assert picks_text("jam_pgm", some) == "2 private, 1 public and 1 lost"
    assert picks_text("aim", {"private": 2, "public": 0}) == "2"
    assert picks_text("aim", {"private": 2, "public": 0, "lost": 1}) == "2 and 1 lost"


@pytest.mark.slow
def test_two_is_the_worst_error_only_where_the_number_of_records_is_public(
    tiny: SmallRelease, noisy: WorkloadErrors, exact: WorkloadErrors
) -> None:
    bounds = ErrorBounds((ErrorBound(("citizen",), "none", 9000.0),), 0.95, RECORDS)
    facts = replace(FACTS, bounds=bounds)
    unknown = replace(tiny.transcript, neighbours=Neighbours("add_remove"))
    public = Page(render(tiny, facts=facts, error=noisy)).words()
    assert public.count("2 is the worst there is. ") == 2
    private = Page(render(tiny, facts=facts, error=noisy, transcript=unknown)).words()
    assert "2 is the worst" not in private
    assert private.count("by more if the private table has more records than were measured") == 2
    # Exact errors are fractions of the true number.
    restricted = render(tiny, error=exact, transcript=unknown, restricted=True)
    assert "2 is the worst there is." in Page(restricted).words()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("neighbours", "said"),
    [
        (
            Neighbours("replace_one", 3),
            ["Replace all rows of any one person", "at most 3 were kept", "at most 3, replaced"],
        ),
        (
            Neighbours("add_remove"),
            ["Take the record of any one person out", "is in the table as not", "added or removed"],
        ),
        (Neighbours("add_remove", 2), ["Take all rows of any one person", "at most 2 were kept"]),
    ],
)
def test_the_guarantee_is_told_for_whom_it_is(
    tiny: SmallRelease, neighbours: Neighbours, said: list[str]
) -> None:
    counting = NoiseCall("records", "discrete Gaussian", 0.004, 1.0, 11.0, 1, subject=calls.RECORDS)
    transcript = replace(
        tiny.transcript,
        neighbours=neighbours,
        calls=(counting,),
        rho_spent=tiny.transcript.rho_spent + 0.004,
    )
    html = render(tiny, transcript=transcript)
    # Each use has a colour of its own.
    colours = re.findall(r'class="swatch (\w+)"', html)
    assert len(colours) == len(set(colours)) > 2
    words = Page(html).words()
    for sentence in [*said, "is private itself. It was measured with noise, as 4,000"]:
        assert sentence in words
    assert "a private table of about 4,000" in words
    assert "taken to be public" not in words
    assert "Measuring the number of rows 0.004" in words
    assert "Lost draws" not in words


def test_noisy_errors_come_with_their_standard_error(html: str, noisy: WorkloadErrors) -> None:
    words = Page(html).words()
    assert noisy.synthetic is not None
    assert f"Synthetic {noisy.synthetic.mean:.5f}" in words
    assert f"noise of standard deviation {noisy.sigma:.5f}" in words
    assert "with a confidence of 95%" in words
    assert "Independent" not in words


def test_failed_checks_come_first(html: str) -> None:
    words = Page(html).words()
    assert "2 of 3 checks did not pass" in words
    places = [words.index(name) for name in ("age__bounds", "age__marginal", "columns")]
    assert places == sorted(places)
    assert "✕ failed" in words
    assert "▲ warning" in words


def test_the_card_of_the_error_tells_the_interval_of_the_verdict(
    html: str, noisy: WorkloadErrors
) -> None:
    words = Page(html).words()
    for table in (noisy.synthetic, noisy.public):
        assert mean_text(table, noisy.margin) in words
    assert "at 95%" in words


@pytest.mark.slow
def test_a_check_without_a_measurement_is_not_told_as_passed(
    tiny: SmallRelease, noisy: WorkloadErrors
) -> None:
    skipped = ExpectationResult("sex__marginal", True, "WARN", "not measured", {"measured": False})
    words = Page(render(tiny, checks=[CHECKS[0], skipped], error=noisy)).words()
    assert "Checks 1 of 2 passed, 1 not measured" in words
    assert "No check failed; 1 of 2 had no private measurement to compare with." in words
    assert "skipped" in words


def test_exact_errors_never_enter_the_page_that_leaves(
    tiny: SmallRelease, plain: str, exact: WorkloadErrors
) -> None:
    with pytest.raises(PrivacyLabelError, match="exact errors"):
        render(tiny, error=exact)
    with pytest.raises(PrivacyLabelError, match="exact errors"):
        render(tiny, verdict=verdict_of(exact))
    assert exact.synthetic is not None
    for digits in (4, 5):
        assert f"{exact.synthetic.mean:.{digits}f}" not in plain
    assert "The error against the private table is not shown on this page" in plain
    assert "Restricted" not in plain


@pytest.mark.slow
def test_the_restricted_edition_tells_them_under_a_banner(
    tiny: SmallRelease, exact: WorkloadErrors, noisy: WorkloadErrors
) -> None:
    scores = {"synthetic": Score(0.75, 0.625, 0.875), "majority": Score(0.5, 0.25)}
    regression = Regression("age ~ citizen", {"private": (1.5,), "synthetic": (1.25,)})
    told = replace(exact, utility=(TargetUtility("age", scores),), regressions=(regression,))
    words = Page(render(tiny, error=told, restricted=True)).words()
    assert "Restricted: exact statistics of private data" in words
    assert "Synthetic table 0.875 0.750 0.625" in words
    assert "Nothing: the most frequent value 0.500 0.500 0.250" in words
    assert "Private table 1.5 Synthetic table 1.25" in words
    assert exact.synthetic is not None
    assert exact.synthetic.per_marginal is not None
    for clique, error in exact.synthetic.per_marginal.items():
        assert f"{' x '.join(clique)} {error:.4f}" in words
    assert "Independent attributes" in words
    for wrong in (None, noisy, WorkloadErrors("off")):
        with pytest.raises(InputError, match="mode 'exact'"):
            render(tiny, error=wrong, restricted=True)


@pytest.mark.slow
def test_research_noise_is_not_releasable_and_says_so(tiny: SmallRelease, html: str) -> None:
    transcript = transcript_of(tiny.domain, list(tiny.transcript.rounds), releasable=False)
    words = Page(render(tiny, transcript=transcript)).words()
    assert "Not releasable: made with seeded noise" in words
    assert "nothing on this page is protected" in words
    assert "charged before it was made" not in words
    assert "Not releasable" not in html


@pytest.mark.slow
def test_a_domain_read_from_private_data_is_not_releasable(tiny: SmallRelease) -> None:
    domain = replace(tiny.domain, identified_from="private")
    page = render_report(
        FACTS,
        transcript=tiny.transcript,
        synthetic=replace(tiny.synthetic, domain=domain),
        public=tiny.public,
        verdict=verdict_of(None),
    )
    assert "Not releasable: the domain was read from the private table" in page


@pytest.mark.slow
def test_a_misfit_is_a_warning_even_without_checks(
    tiny: SmallRelease, plain: str, noisy: WorkloadErrors
) -> None:
    shares = (CatchAllShare("missing", "(null)", 0.995, 0.01, 0.02),)
    lost = ColumnFit(tiny.domain.attribute("citizen"), shares)
    html = render(tiny, verdict=verdict_of(None, fits=[lost]))
    banner = '<div class="banner"><strong>The domain does not fit citizen. In citizen, 99.5%'
    assert banner in html
    assert banner not in plain
    # No sample of private records has lost a column.
    error = replace(noisy, sample_equivalent=700)
    for fits, told in (((), True), ([lost], False)):
        page = render(tiny, error=error, verdict=verdict_of(error, fits=fits))
        assert ("Equivalent sample size" in page) == told


@pytest.mark.slow
def test_huge_epsilons_and_no_rounds_can_be_told(tiny: SmallRelease) -> None:
    empty = replace(tiny.transcript, rounds=(), rho_spent=0.0, ended="budget exhausted")
    facts = replace(FACTS, epsilon=2000.0, reserved={"mechanism": 1500.0})
    words = Page(render(tiny, facts=facts, transcript=empty)).words()
    assert "It ended with: budget exhausted" in words
    assert "Spent ε = 0" in words


@pytest.mark.slow
def test_timing_stays_out(tiny: SmallRelease) -> None:
    """How long a step on private data took is nothing that the ledger was charged for."""
    slow = [replace(one, seconds=98765.4321) for one in tiny.transcript.rounds]
    assert "98765.4" not in render(tiny, transcript=transcript_of(tiny.domain, slow))


def test_names_and_values_cannot_inject_markup() -> None:
    evil = '<script>alert("x")</script>'
    domain = Domain(
        (CategoricalAttribute(evil, (evil, "b")), CategoricalAttribute("{{ 7 * 7 }}", ("c", "d")))
    )
    rng = np.random.default_rng(0)
    table = EncodedTable(domain, tuple(rng.integers(0, 2, 50) for _ in range(2)))
    rounds = [measured_round(0, (evil,), "private", np.array([20.0, 30.0]), 2.0)]
    transcript = replace(transcript_of(domain, rounds), records=50)
    html = render_report(
        replace(FACTS, release=evil, dataset=evil, public_source=evil),
        transcript=transcript,
        synthetic=table,
        public=table,
        verdict=verdict_of(None),
        checks=[ExpectationResult("a", False, "WARN", evil)],
    )
    assert evil not in html
    page = Page(html)
    assert [text for kind, text in page.scripts if kind is None] == [
        page_script("compare.js", "sorting.js")
    ]
    assert all(json.loads(text) for kind, text in page.scripts if kind)
    assert "49" not in Page(html).words().split()
    assert "alert(" in Page(html).words()


@pytest.mark.slow
def test_a_release_of_aim_tells_how_wrong_each_marginal_can_be(
    release: SmallRelease, html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, workload = release.domain, Workload.all_k_way(release.domain, 2)
    draws = Draws(SeededNoise(1), UnledgeredAccount(0.05))
    made = Aim().run(release.synthetic, None, workload, draws)
    sampled = made.model.sample(RECORDS, np.random.default_rng(0))
    tables = {"synthetic": sampled, "public": release.public}
    bounds = known_bounds(made.transcript, domain, workload, released=sampled)
    assert bounds is not None
    asked = []
    fractions = ErrorBounds.fractions
    monkeypatch.setattr(ErrorBounds, "fractions", lambda one: asked.append(one) or fractions(one))
    output = render_report(
        replace(FACTS, bounds=bounds),
        transcript=made.transcript,
        verdict=verdict_of(None),
        **tables,
    )
    # Once a row would be quadratic.
    assert 0 < len(asked) < len(bounds.bounds) / 2
    assert 'href="#bounds"' in output
    words = Page(output).words()
    for one in bounds.bounds:
        name = " \u00d7 ".join(one.clique)
        assert re.search(rf"{name} [a-z, ]+ {one.bound / RECORDS:.4f}", words)
    assert "with a probability of 95%" in words
    assert "If an attribute was not measured, the model spreads it evenly" in words
    assert "was taken from the public table" not in words
    for name in ("measured, or part of one that was", "not measured"):
        assert f"{name}, the middle one wrong by at most" in words
    # Other mechanisms do not tell, and their pages are silent.
    assert known_bounds(release.transcript, domain, workload, released=sampled) is None
    assert "#bounds" not in html


@pytest.mark.slow
def test_a_page_without_a_public_table_does_not_speak_of_one(release: SmallRelease) -> None:
    transcript = replace(
        release.transcript,
        mechanism="independent",
        parameters={},
        rounds=tuple(one for one in release.transcript.rounds if one.source == "private"),
    )
    one_way = {("citizen",): 0.1, ("marital-status",): 0.2}
    error = WorkloadErrors(
        "exact",
        TableErrors(0.1, 0.2, one_way),
        independent=TableErrors(0.3, 0.4, one_way),
    )
    html = render(
        release,
        transcript=transcript,
        public=None,
        error=error,
        restricted=True,
        facts=replace(FACTS, public_source=""),
    )
    words = Page(html).words()
    for said in ("public table", "Public", "to public", "in the public one"):
        assert said not in words, said
    assert "with the most dependent attributes" in words
    assert "closer to the private one than independent attributes are" in words
    assert "Not measured privately." in words
    noisy = WorkloadErrors("private", TableErrors(0.1), sigma=0.01, rho=1e-3)
    assert (
        "Each of these numbers was released with noise"
        in Page(render(release, transcript=transcript, public=None, error=noisy)).words()
    )


def test_folders_of_the_server_are_not_told(tiny: SmallRelease) -> None:
    source = "first: CSV file /srv/jane/census.csv; second: Parquet file s3://lake/raw/survey"
    words = Page(render(tiny, facts=replace(FACTS, public_source=source))).words()
    assert "first: CSV file census.csv; second: Parquet file survey." in words
    assert "jane" not in words
