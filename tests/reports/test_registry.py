"""A record for the registry of deployments: valid, and without what a certificate cannot know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from jam_dagster.certificates import Certificate
from jam_dagster.certificates.certificate import seal_of
from jam_dagster.errors import InputError
from jam_dagster.privacy import Neighbours
from jam_dagster.reports.registry import PERSONS, registry_record
from tests.certificates.conftest import Released
from tests.certificates.conftest import made as made

SCHEMA = yaml.safe_load((Path(__file__).parent / "registry_schema.yaml").read_text())
WRITTEN: dict[str, Any] = {
    "data_curators": [{"data_curator_name": "An office", "data_curator_type": "Government"}],
    "description": "People of a town.",
    "intended_use": "Teaching.",
    "data_product_region": "A town",
    "preprocessing_and_hyperparameter_tuning": "None.",
    "justification": "The board chose epsilon.",
    "registry_authors": ["A person"],
}


def test_a_record_is_valid_and_says_what_the_certificate_says(made: Released) -> None:
    record = registry_record(made.folder, WRITTEN)

    jsonschema.validate(record, SCHEMA, format_checker=jsonschema.FormatChecker())
    deployment, certificate = record["deployment"], made.certificate
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert parameters["epsilon"] == certificate.asked.epsilon
    assert parameters["delta"] == certificate.asked.delta
    assert parameters["rho"] >= certificate.rho_spent
    assert deployment["privacy_loss"]["number_of_privacy_units"] == certificate.records
    assert deployment["dp_variant"]["unprotected_quantities"].startswith("The number of records")
    assert "public table that the mechanism" in deployment["dp_variant"]["unprotected_quantities"]
    assert deployment["basic"]["intended_use"] == "Teaching."
    assert record["url_slug"] == f"people-out-{certificate.made[:4]}"


@pytest.mark.parametrize(
    "neighbours",
    [Neighbours("add_remove", 3), Neighbours("add_remove"), Neighbours("replace_one", 3)],
)
def test_a_noisy_number_of_records_is_not_that_of_people(
    made: Released, monkeypatch: pytest.MonkeyPatch, neighbours: Neighbours
) -> None:
    several = replace(made.certificate, neighbours=neighbours)
    # Its specification protects single rows.
    monkeypatch.setattr(Certificate, "releasable", True)
    several.save(made.folder)

    loss = registry_record(made.folder, WRITTEN)["deployment"]

    assert "number_of_privacy_units" not in loss["privacy_loss"]
    unprotected = loss["dp_variant"]["unprotected_quantities"]
    assert unprotected == "The public table that the mechanism learned from"


def test_what_is_unprotected_follows_from_what_was_public(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Certificate, "releasable", True)
    alone = replace(
        made.certificate, neighbours=Neighbours("add_remove"), mechanism="aim", parameters={}
    )

    def unprotected(certificate: Certificate) -> str:
        certificate.save(made.folder)
        said = registry_record(made.folder, WRITTEN)["deployment"]["dp_variant"]
        return str(said["unprotected_quantities"])

    assert unprotected(alone) == "None"
    identified = replace(alone, domain=replace(alone.domain, identified_from="public"))
    assert unprotected(identified) == "The public table that the domain was identified from"


def test_fields_that_a_person_did_not_write_are_listed(made: Released) -> None:
    with pytest.raises(InputError, match=", ".join(PERSONS)):
        registry_record(made.folder, {})
    with pytest.raises(InputError, match="must write description, justification: "):
        registry_record(made.folder, {**WRITTEN, "justification": "", "description": None})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"intended_uses": "x"}, "unknown key 'intended_uses'"),
        ({"description": ["x"]}, "description must be a text"),
        ({"registry_authors": "x"}, "a list of names"),
        ({"data_curators": ["An office"]}, "data_curator_type"),
        (
            {"data_curators": [{"data_curator_name": "x", "data_curator_type": "Club"}]},
            "one of Government, Industry, Nonprofit",
        ),
    ],
)
def test_what_the_registry_would_not_take_is_refused(
    made: Released, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        registry_record(made.folder, {**WRITTEN, **change})


def test_an_altered_certificate_has_no_record(made: Released) -> None:
    made.rewrite("certificate.json", lambda said: said["privacy"]["asked"].update(epsilon=0.2))

    with pytest.raises(InputError, match="it was altered"):
        registry_record(made.folder, WRITTEN)


@pytest.mark.parametrize(
    "change",
    [
        lambda it: it["made_with"].pop("opendp"),
        lambda it: it["made_with"].pop("jam_dagster"),
        lambda it: it["made_with"].update(opendp=None),
        lambda it: it.update(made_with=[]),
        lambda it: it.update(made=None),
        lambda it: it["noise"]["draws"][0].update(kind=None),
        lambda it: it["sampling"].update(rows="many"),
        lambda it: it["domain"].update(identified_from="somewhere"),
        lambda it: it["files"]["table"].update(path=None),
    ],
)
def test_a_sealed_certificate_with_a_damaged_part_has_no_record(
    made: Released, change: Callable[[dict[str, Any]], object]
) -> None:
    document = made.document()
    change(document)
    document["seal"] = seal_of(document)
    made.rewrite("certificate.json", lambda it: (it.clear(), it.update(document)))

    with pytest.raises(InputError, match="is damaged"):
        registry_record(made.folder, WRITTEN)


def test_what_may_not_leave_has_no_record(made: Released) -> None:
    replace(made.certificate, noise="numpy").save(made.folder)

    with pytest.raises(InputError, match="the run may not leave"):
        registry_record(made.folder, WRITTEN)
