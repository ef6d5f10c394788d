"""The certificate's page, and what a certificate keeps to itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from jam_dagster.certificates import render_certificate
from jam_dagster.privacy import Neighbours
from jam_dagster.privacy.ledger.release_id import COMMAND_LINE
from tests.certificates.conftest import Released


def test_the_page_says_what_the_certificate_says(made: Released) -> None:
    page = (made.folder / "certificate.html").read_text()
    certificate = made.certificate
    assert page == render_certificate(certificate)
    assert "May leave" in page
    for one in certificate.conditions:
        assert one.condition in page
    for draw in certificate.draws:
        assert draw.call.step in page
    assert all(file.sha256 in page for file in certificate.files.values())
    assert str(certificate.to_dict()["seal"]) in page


def test_the_page_needs_no_network_and_runs_nothing(made: Released) -> None:
    page = render_certificate(made.certificate)
    assert re.findall(r"<script|https?://|\bsrc=|\burl\(", page) == []


def test_names_are_escaped(made: Released) -> None:
    release_id = replace(made.certificate.release_id, release="<b>bold</b>")
    page = render_certificate(replace(made.certificate, release_id=release_id))
    assert "<b>bold" not in page


def test_research_says_that_it_may_not_leave(made: Released) -> None:
    research = replace(made.certificate, noise="numpy", entries=(), standing=None)
    page = render_certificate(research)
    assert "Not releasable" in page
    assert "The noise (numpy) is seeded" in page
    assert "makes no promise" in page
    assert "May leave" not in page


@pytest.mark.parametrize(
    ("change", "condition"),
    [
        ({"noise": "numpy"}, "The noise is exact and unseeded"),
        ({"domain": "private"}, "The domain owes nothing to private data"),
        ({"source_restriction": "it is one half of a table"}, "The private table may be released"),
        ({"parameters": {}}, "No setting comes from private data"),
        ({"entries": ()}, "Every draw was charged"),
    ],
)
def test_each_condition_alone_keeps_a_table_from_leaving(
    made: Released, change: dict[str, Any], condition: str
) -> None:
    honest = made.certificate
    if "domain" in change:
        change = {"domain": replace(honest.domain, identified_from=change["domain"])}
    other = replace(honest, **change)
    assert not other.releasable
    (unmet,) = (one for one in other.conditions if not one.met)
    assert unmet.condition.startswith(condition)
    assert other.reasons == (unmet.because,)


def test_who_made_it_and_when_each_draw_was_charged_stays_in_the_ledger(made: Released) -> None:
    """The times of single charges would tell how long each round took."""
    output = (made.folder / "certificate.json").read_text() + render_certificate(made.certificate)
    events = made.ledger.events("people")
    assert events[0].at.startswith(made.certificate.made[:10])
    assert not any(event.at in output for event in events)
    assert '"by"' not in output
    assert '"run_id"' not in output


def test_when_a_draw_was_charged_cannot_be_guessed_from_its_hash(made: Released) -> None:
    """Whoever tries all instants must not see by the hash which one is right.

    The certificate tells everything else that the hash covers, but for who charged it (a name that
    others may know) and the random name of the run.
    """
    output = (made.folder / "certificate.json").read_text()
    events = [event for event in made.ledger.events("people") if event.release_id is not None]
    assert events
    for event in events:
        assert event.seal() == event.hash
        assert len(event.run_id.removeprefix(COMMAND_LINE).strip()) == 32
        assert event.run_id not in output
        assert replace(event, run_id="").seal() != event.hash


@pytest.mark.parametrize(
    ("neighbours", "said"),
    [
        (Neighbours(), "Replace the record of any one person in the private table by any other"),
        (
            Neighbours("replace_one", 3),
            "Replace all rows, at most 3, of any one person in the private table by those of any"
            " other person",
        ),
        (
            Neighbours("add_remove"),
            "Add the record of any one person to the private table, or take them out",
        ),
        (
            Neighbours("add_remove", 3),
            "Add all rows, at most 3, of any one person to the private table, or take them out",
        ),
    ],
)
def test_the_guarantee_says_who_is_protected(
    made: Released, neighbours: Neighbours, said: str
) -> None:
    certificate = made.certificate
    unit = {} if neighbours.max_rows == 1 else {"unit": {"max_rows": neighbours.max_rows}}
    privacy = {**certificate.specification["privacy"], "neighbours": neighbours.relation, **unit}
    specification = {**certificate.specification, "privacy": privacy}
    from jam_dagster.privacy.ledger.release_id import canonical_digest

    release_id = replace(certificate.release_id, specification=canonical_digest(specification))
    other = replace(
        certificate, release_id=release_id, specification=specification, neighbours=neighbours
    )
    assert other.releasable
    guarantee = other.to_dict()["privacy"]["guarantee"]
    assert said in guarantee[0]
    assert ("is exact, and public" in guarantee[3]) is neighbours.records_public
    assert said in render_certificate(other)
