"""The dossier: what it says follows from the certificate, and it leaves the rest to a person."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from jam_dagster.certificates import Certificate
from jam_dagster.errors import InputError
from jam_dagster.privacy import Event, Kind, Neighbours
from jam_dagster.privacy.disclosure import detected_count, hidden_group, learnt_bits
from jam_dagster.privacy.noise.calls import COUNTS, RECORDS
from jam_dagster.reports.dossier import dossier_page, render_dossier
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.children import Link
from tests.certificates.conftest import Released
from tests.certificates.conftest import made as made


class Row(NamedTuple):
    """The certificate's answer to a question, and what a person writes."""

    holds: str
    write: str


def page_of(
    released: Released,
    certificate: Certificate | None = None,
    domain: Domain | None = None,
    *,
    public: Sequence[str] = (),
    journal: Sequence[Event] | None = None,
) -> str:
    """Render the dossier of a release that may have another certificate and domain."""
    return dossier_page(
        certificate or released.certificate,
        domain or Domain.load(released.folder / "domain.yaml"),
        json.loads((released.folder / "errors.json").read_text()),
        findings=(),
        public=public,
        journal=journal,
    )


def rows(
    released: Released,
    certificate: Certificate | None = None,
    domain: Domain | None = None,
    *,
    public: Sequence[str] = (),
    journal: Sequence[Event] | None = None,
) -> dict[str, Row]:
    """Return the rows of a release's dossier by their questions."""
    page = page_of(released, certificate, domain, public=public, journal=journal)
    row = re.compile(r'(?s)<tr><th scope="row">(.*?)</th>\s*<td>(.*?)</td>\s*<td>(.*?)</td></tr>')
    found = {}
    for question, *cells in row.findall(page):
        texts = (html.unescape(re.sub("<.*?>", "", cell)) for cell in cells)
        # A dash fills a cell that has nothing.
        holds, write = (" ".join(text.split()).strip("\N{EN DASH}") for text in texts)
        found[question] = Row(holds, write)
    return found


def test_the_page_says_what_the_certificate_says(made: Released) -> None:
    page = html.unescape(render_dossier(made.folder, ledger=made.ledger))

    certificate = made.certificate
    assert "granted epsilon 1 at delta 1e-09" in page
    for sentence in certificate.to_dict()["privacy"]["guarantee"]:
        assert sentence in page
    assert f"epsilon = {certificate.asked.epsilon:g}" in page
    assert certificate.neighbours.describe().capitalize() in page
    assert f"{len(certificate.draws)} draws" in page
    assert certificate.to_dict()["seal"] in page
    assert "compared with the ledger" in page
    assert re.findall(r"<script|https?://|\bsrc=|\burl\(", page) == []


def test_every_question_has_an_answer_or_is_a_persons(made: Released) -> None:
    found = rows(made).values()

    assert len(found) > 40
    assert all(row.holds or row.write for row in found)
    page = render_dossier(made.folder)
    to_write = sum(bool(row.write) for row in found)
    assert f"{to_write} answers are a person's" in html.unescape(page)
    # One more is whoever completes it.
    assert page.count('class="write"') == to_write + 1
    assert "whether the ledger was charged was not looked up" in page


def test_sentences_follow_the_certificate(made: Released) -> None:
    certificate = made.certificate
    assert "Bounded" not in rows(made)["Top: unit of privacy"].holds
    assert "bounded: neighbouring tables have" in rows(made)["Top: unit of privacy"].holds
    persons = replace(certificate, neighbours=Neighbours("add_remove", 3))
    of_persons = rows(made, persons)
    assert "unbounded" in of_persons["Top: unit of privacy"].holds
    assert "at most 3 rows" in of_persons["Top: unit of privacy"].holds
    assert "measured with noise" in of_persons["7.2.5 Dataset properties"].holds
    assert "number is public" not in of_persons["Top: unit of privacy"].holds
    replaced = replace(certificate, neighbours=Neighbours("replace_one", 3))
    unit = rows(made, replaced)["Top: unit of privacy"].holds
    assert "equally many people, and the number of records is protected" in unit
    assert "public" not in unit
    assert "at most 3 of a person" in rows(made, replaced)["7.2.5 Dataset properties"].holds
    assert "75.6%" not in rows(made)["8.2.2 Quantifying identifiability"].holds
    asked = replace(certificate.asked, epsilon=1.0, delta=1e-9)
    sure = rows(made, replace(certificate, asked=asked))["8.2.2 Quantifying identifiability"]
    assert "the true one is at most 75.6% likely after, except with probability delta" in sure.holds
    none = replace(certificate, neighbours=Neighbours("add_remove"), records=0)
    assert "Delta" not in rows(made, none)["Top: privacy parameters"].holds
    few = replace(certificate, records=10)
    assert "Delta is at most 1 / n² = 0.01" in rows(made, few)["Top: privacy parameters"].holds
    many = replace(certificate, records=10**6)
    assert "Delta is above 1 / n² = 1e-12" in rows(made, many)["Top: privacy parameters"].holds
    assert "not signed" in rows(made)["Bottom: security and access control"].holds
    assert "of all marginals of 2 columns" in rows(made)["Middle: utility"].holds
    draw = certificate.draws[0]
    counted = replace(draw, call=replace(draw.call, kind=COUNTS, subject="job", scale=7.5))
    only = replace(certificate, draws=(counted,))
    assert "deviation of 7.5 records" in rows(made, only)["Middle: bias"].holds
    of_n = replace(counted, call=replace(counted.call, subject=RECORDS))
    none = replace(certificate, draws=(of_n,))
    assert "No count was measured" in rows(made, none)["Middle: bias"].holds


def test_who_granted_and_approved_is_named_with_the_reason(made: Released) -> None:
    certificate, journal = made.certificate, made.ledger.events()
    grant = next(one for one in journal if one.kind == "granted")
    asked = replace(grant, by="officer", reason="policy of 2026", approval="required")
    approved = replace(
        asked,
        **{name: getattr(certificate.release_id, name) for name in ("release", "specification")},
        edition="1",
        kind=Kind.APPROVED,
        reason="request of 3 May",
    )
    other = replace(approved, release="another", reason="request of 4 May")
    rest = [one for one in journal if one.seq > grant.seq]
    given = [asked, approved, other, *rest]

    page = html.unescape(page_of(made, journal=given))
    roles = rows(made, journal=given)["9.2.2 Assigning roles and responsibilities"]

    assert "officer granted this budget on" in roles.holds
    assert "policy of 2026" in roles.holds
    assert "officer approved exactly this specification on" in roles.holds
    assert "request of 3 May" in roles.holds
    assert "This page names people" in page
    assert "request of 4 May" not in page
    assert roles.write.endswith("Who answers for the release.")
    without = rows(made, journal=[replace(asked, approval=""), *rest])
    assert "waited for an approval" in without["9.2.2 Assigning roles and responsibilities"].holds
    assert "ledger, which was not read for this page" in page_of(made)


def test_the_public_table_is_named_if_the_release_learned_from_one(made: Released) -> None:
    about, of_rows = "Middle: public data", "8.3.3 Transforming the data"
    named = rows(made, public=["CSV file pub.csv"])
    assert "learned from public data: CSV file pub.csv." in named[about].holds
    assert "noisy counts and to public data. The mechanism" in named[of_rows].holds
    assert "--public names them" in rows(made)[about].holds
    alone = replace(made.certificate, mechanism="aim", parameters={})
    assert "learned from no public table" in rows(made, alone)[about].holds
    assert rows(made, alone)[about].write == ""
    assert "fitted to noisy counts. A row" in rows(made, alone)[of_rows].holds
    before = replace(made.certificate.release_id, partition="2026-04")
    chained = rows(made, replace(made.certificate, drawn_on=(before,)))[about].holds
    assert "partition '2026-04'" in chained
    assert "which has a certificate of its own" in chained


def test_three_questions_and_disclosure_control_follow_from_the_budget(made: Released) -> None:
    asked = replace(made.certificate.asked, epsilon=1.0, delta=1e-9)
    certificate = replace(made.certificate, asked=asked, records=30_000)
    found = rows(made, certificate)

    assert "0.1% succeeds with the release with a probability of at most 0.275%" in (
        found["Singling out"].holds
    )
    assert "right in at most 54.4% of cases" in found["Linkability"].holds
    assert "one that was 50% likely is at most 75.6% likely after" in found["Inference"].holds
    removed = replace(certificate, neighbours=Neighbours("add_remove"))
    assert "takes a person out and adds one" in rows(made, removed)["Inference"].holds
    assert "whether this record is in" in rows(made, removed)["Linkability"].holds
    assert "This page is an annex" in found["Article 35: impact assessment"].holds
    draw = certificate.draws[0]
    counted = replace(draw, call=replace(draw.call, kind=COUNTS, subject="job", scale=17.8))
    told = rows(made, replace(certificate, draws=(counted,)))
    smallest = told["The smallest count that differs from 0"].holds
    assert f"A measured cell of {detected_count(17.8)} records" in smallest
    assert f"A group of up to {hidden_group(asked.budget.rho)} people" in smallest
    share = told["The share of a person's record that can be learned"].holds
    assert f"{learnt_bits(asked.budget.rho):.3g} bits at most" in share
    assert "34.9 records" in told["A cell's noise"].holds


def test_a_budget_that_renews_is_not_the_whole_spending(made: Released) -> None:
    certificate = made.certificate
    assert certificate.standing is not None
    totals = dict(certificate.standing.totals)
    policy = {**totals["policy"], "period": "month", "partitions": "disjoint", "ground": "born in"}
    lifetime = totals["granted_units"]
    totals |= {"policy": policy, "period": "2026-05", "lifetime_spent_units": lifetime}
    other = replace(certificate, standing=replace(certificate.standing, totals=totals))

    said = rows(made, other)["Top: other releases of the same data"].holds

    assert "epsilon = 1 in 2026-05" in said
    assert "of it, and epsilon = 1 over its lifetime when the certificate was issued" in said
    assert "Only the partition from which most was released counts, on the ground: born in." in said
    before = rows(made)["Top: other releases of the same data"].holds
    assert "over its lifetime, at delta" in before
    assert "of it" not in before


def test_both_of_two_tables_are_described(made: Released) -> None:
    roots, persons = Domain.from_sizes({"region": 2}), Domain.from_sizes({"job": 3})
    two = roots.with_children(Link("persons", "household", 3), persons)
    certificate = replace(made.certificate, neighbours=Neighbours("add_remove"))
    found = rows(made, certificate, two)
    identified = found["8.2.2 Quantifying identifiability"].holds

    assert "Two synthetic tables of 2 columns" in found["7.2.3 Data type"].holds
    unit = found["Top: unit of privacy"].holds
    assert "A record is a row with all its rows of persons." in unit
    assert "differ by one record more or less" in unit
    assert "two tables that differ by one record decides" in identified
    names = re.findall(r'<th scope="row" class="name">(.*?)</th>', page_of(made, certificate, two))
    assert names == ["region", "job"]


def test_an_unsigned_certificate_is_not_shown_as_signed(made: Released) -> None:
    page = render_dossier(made.folder)

    assert re.search(r"the signature</th><td>not signed<", page)


@pytest.mark.parametrize("change", [{"noise": "numpy"}, {"source_restriction": "half a table"}])
def test_what_may_not_leave_has_no_dossier(made: Released, change: dict[str, str]) -> None:
    replace(made.certificate, **change).save(made.folder)

    with pytest.raises(InputError, match="the run may not leave"):
        render_dossier(made.folder)


def test_a_certificate_that_does_not_verify_has_no_dossier(made: Released) -> None:
    path = Path(made.folder, "synthetic.csv")
    path.write_text(path.read_text() + "\n")

    with pytest.raises(InputError, match="does not verify: file: table"):
        render_dossier(made.folder)
