"""A record for the public registry of deployments of differential privacy.

Its fields are those of the registry's schema at commit 057e5d81cf60150dd3307e0cf4504b957802fb3b
of opendp/deployments-registry-data, the newest that was read; a later one may have others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jam_dagster.certificates import Certificate
from jam_dagster.certificates.verification import releasable_certificate
from jam_dagster.common.validation import check_keys
from jam_dagster.errors import InputError
from jam_dagster.reports.mechanism_text import learns_from_public

_TEXTS = {
    "description": "basic",
    "intended_use": "basic",
    "data_product_region": "basic",
    "preprocessing_and_hyperparameter_tuning": "implementation",
    "justification": "implementation",
}
"""The texts that a person writes, and the section of each."""

PERSONS = ("data_curators", *_TEXTS, "registry_authors")
"""The fields that a person writes."""

_CURATORS = ("Government", "Industry", "Nonprofit")


def registry_record(path: Path, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a release, of tier 3 and in the state of a draft.

    `path` is the certificate, or its folder; one that may not leave is an InputError. A person
    writes the fields of `PERSONS`: texts, a list of authors of the record, and a list of curators,
    each with ``data_curator_name`` and ``data_curator_type``.
    """
    certificate = releasable_certificate(path)
    check_keys("the registry's record", written, PERSONS)
    if missing := [name for name in PERSONS if not written.get(name)]:
        raise InputError(f"a person must write {', '.join(missing)}: no certificate holds them")
    _check(written)
    release_id, asked = certificate.release_id, certificate.asked
    partition = f" {release_id.partition}" if release_id.partition else ""
    unit: dict[str, Any] = {
        "privacy_unit": certificate.neighbours.describe(),
        "privacy_unit_details": certificate.to_dict()["privacy"]["guarantee"][0],
    }
    # A measured number is noisy, and that of rows is not that of people who have several.
    if certificate.neighbours.records_public:
        unit["number_of_privacy_units"] = certificate.records
    sections: dict[str, dict[str, Any]] = {
        "basic": {
            "name": f"{release_id.release}{partition}",
            "data_curators": written["data_curators"],
            "data_product_type": "Synthetic data",
            "publication_date": certificate.made[:10],
        },
        "dp_variant": {
            "variant_name": "Zero-concentrated DP",
            "data_domain": f"Tables of {certificate.domain.attributes} attributes, whose values are"
            f" in a file with the SHA-256 {certificate.domain.digest}",
            "unprotected_quantities": _unprotected(certificate),
        },
        "privacy_loss": {
            **unit,
            "privacy_parameters": {
                "epsilon": asked.epsilon,
                "delta": asked.delta,
                "rho": asked.budget.rho,
            },
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "Many releases" if release_id.partition else "One release",
            "access_type": "Non-interactive",
        },
        "implementation": {
            "mechanisms": _mechanisms(certificate),
            "composition": "Sequential composition: rho of all draws adds up, and is converted to"
            " epsilon and delta once.",
            "post_processing": "A model is fitted to the noisy counts, and rows are sampled from"
            " it.",
        },
        "administrative": {
            "status": "Draft",
            "registry_authors": written["registry_authors"],
            "tier": 3,
        },
    }
    for name, section in _TEXTS.items():
        sections[section][name] = written[name]
    slug = re.sub(
        r"[^a-z0-9]+", "-", f"{release_id.dataset} {release_id.release}{partition}".lower()
    )
    return {"url_slug": f"{slug.strip('-')}-{certificate.made[:4]}", "deployment": sections}


def _unprotected(certificate: Certificate) -> str:
    """Return what the guarantee does not protect."""
    learned = learns_from_public(certificate.mechanism, certificate.parameters)
    before = certificate.drawn_on
    said = []
    if certificate.neighbours.records_public:
        said.append("The number of records, which is public")
    if learned and before:
        said.append(f"The public table, if there was one, that {before[-1]} learned from")
    elif learned:
        said.append("The public table that the mechanism learned from")
    if certificate.domain.identified_from == "public" and not (learned and not before):
        said.append("The public table that the domain was identified from")
    return ". ".join(said) or "None"


def _mechanisms(certificate: Certificate) -> str:
    kinds = Counter(draw.call.kind for draw in certificate.draws)
    draws = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items()))
    made_with = certificate.made_with
    return (
        f"{certificate.mechanism} of jam_dagster {made_with['jam_dagster']}. Its draws: {draws}."
        f" OpenDP {made_with['opendp']} draws the noise, exactly and without a seed."
    )


def _check(written: Mapping[str, Any]) -> None:
    """Raise InputError unless each field of a person's has the form that the registry takes."""
    for name in _TEXTS:
        if not isinstance(written[name], str):
            raise InputError(f"{name} must be a text, got {written[name]!r}")
    authors, curators = written["registry_authors"], written["data_curators"]
    if not isinstance(authors, list) or not all(isinstance(one, str) for one in authors):
        raise InputError(f"registry_authors must be a list of names, got {authors!r}")
    for one in curators if isinstance(curators, list) else [curators]:
        named = isinstance(one, dict) and isinstance(one.get("data_curator_name"), str)
        if not named or one.get("data_curator_type") not in _CURATORS or len(one) > 2:
            raise InputError(
                "data_curators must be a list, each with data_curator_name and data_curator_type,"
                f" which is one of {', '.join(_CURATORS)}; got {one!r}"
            )
