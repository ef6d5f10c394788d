"""What a mechanism of another package makes is restricted, unless the release trusts it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.certificates import Certificate
from jam_dagster.errors import SpecificationError
from jam_dagster.release import EvaluationSpec, MechanismSpec
from tests.other_package import PACKAGE, install, known
from tests.pipeline.conftest import (
    DOMAIN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    labels_of,
    specification,
)

MADE = ["halves", "synthetic_records", "workload_error", "release_certificate", "release_report"]
WHOLE = [*UP_TO_SYNTHETIC[:6], *MADE[:4]]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path) -> Iterator[None]:
    with known(install(tmp_path / "site")):
        yield


def asked(**more: Any) -> dict[str, Any]:
    evaluation = EvaluationSpec(mode="private", share=0.1)
    return {"mechanism": MechanismSpec("halves", iterations=20), "evaluation": evaluation, **more}


def labels(bench: Bench, **more: Any) -> dict[str, str]:
    return labels_of(bench.definitions(**asked(**more)))


def test_labels_follow_from_trust_before_anything_runs(bench: Bench) -> None:
    untrusted, trusted = labels(bench), labels(bench, trusted_mechanisms=[PACKAGE])

    assert {untrusted[name] for name in MADE} == {"restricted"}
    assert {trusted[name] for name in MADE} == {"dp"}
    assert {name for name in trusted if untrusted[name] != trusted[name]} == set(MADE)
    assert labels(bench, trusted_mechanisms=["other"]) == untrusted
    specs = bench.definitions(**asked()).resolve_all_asset_specs()
    (about,) = [spec.metadata["about"] for spec in specs if spec.key.path[-1] == "halves"]
    assert "Not releasable: the mechanism halves comes from the package" in about


def test_trust_is_no_part_of_what_is_reserved() -> None:
    digests = set()
    for trusted in ((), (PACKAGE,)):
        spec = specification(mechanism=MechanismSpec("halves"), trusted_mechanisms=trusted)
        assert spec.releasable == bool(trusted)
        digests.add(spec.digest(DOMAIN))
    assert len(digests) == 1


@pytest.mark.slow
def test_a_package_that_is_trusted_later_is_not_paid_for_again(bench: Bench) -> None:
    made = bench.run(WHOLE, **asked())
    assert made.success, failure(made)
    # Nothing that the mechanism made lies where it may leave.
    left = {path.name for path in bench.releases.rglob("*") if path.is_file()}
    assert not [name for name in left if name.startswith(("synthetic", "transcript", "certif"))]
    certificate = Certificate.load(bench.closed / "people" / "release_certificate")
    assert not certificate.releasable
    assert certificate.package is not None
    (reason,) = certificate.reasons
    assert "tiny-mechanisms 1.2.3, which the release does not trust" in reason
    spent = bench.ledger.balance("people").spent_units
    assert spent > 0

    trusting = bench.run(WHOLE, **asked(trusted_mechanisms=[PACKAGE]))
    assert trusting.success, failure(trusting)
    assert Certificate.load(bench.releases / "people" / "release_certificate").releasable
    assert bench.ledger.balance("people").spent_units == spent
    table = (bench.closed / "people" / "synthetic_records.csv").read_bytes()
    assert (bench.releases / "people" / "synthetic_records.csv").read_bytes() == table


def test_who_is_trusted_must_be_a_list(bench: Bench) -> None:
    with pytest.raises(SpecificationError, match="trusted_mechanisms must be a list"):
        bench.definitions(**asked(trusted_mechanisms=PACKAGE))
