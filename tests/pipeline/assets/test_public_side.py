"""What the public steps made is what the step that draws is given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from jam_dagster.pipeline.storage.formats import CODES, DOMAIN, TABLE
from jam_dagster.release import DomainSpec, MechanismSpec, PrivacySpec, WorkloadSpec
from jam_dagster.tables import Domain, EncodedTable
from tests.pipeline.conftest import (
    GIVEN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    nothing_pictured,
    told,
    write_tables,
)
from tests.tiers import first_quick

LEFT = [name for name in UP_TO_SYNTHETIC if name not in GIVEN]
INPUTS = ["public_discretized", "domain", "public_records"]
CHANGES: dict[str, Any] = {
    "domain": DomainSpec(identify="public"),
    "privacy": PrivacySpec(epsilon=0.2),
}


@pytest.fixture(scope="module")
def given_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("given")
    write_tables(home)
    with Bench(home) as bench:
        assert bench.run(GIVEN, **CHANGES).success
    return home


@pytest.fixture
def given(given_home: Path, tmp_path: Path) -> Iterator[Bench]:
    """A release whose public inputs were made, and no more."""
    with Bench(shutil.copytree(given_home, tmp_path / "copy")) as bench:
        yield bench


def change(bench: Bench, name: str) -> None:
    """Change one of the public inputs behind the release's back."""
    folder = UPath(bench.releases / "people")
    if name == "domain":
        path = folder / "domain.yaml"
        was = DOMAIN.read(path)
        text = path.read_text().replace("elsewhere", "nowhere").replace("Aix", "Zug")
        path.write_text(text)
        assert Domain.load(str(path)).digest != was.digest
    elif name == "public_records":
        path = folder / "public_records.parquet"
        rows = TABLE.read(path)
        TABLE.write(rows.iloc[::-1].reset_index(drop=True), path)
    else:
        path = folder / "public_discretized.codes.parquet"
        codes = CODES.read(path)
        CODES.write(
            EncodedTable(codes.domain, tuple(column[::-1].copy() for column in codes.columns)), path
        )


@pytest.mark.parametrize("name", first_quick(INPUTS))
def test_a_public_input_that_was_changed_is_refused_before_anything_is_charged(
    given: Bench, name: str
) -> None:
    change(given, name)
    left = LEFT if name != "public_records" else ["domain", "public_discretized"]
    refused = failure(given.run(left, **CHANGES))
    assert f"people/{name} in the store of releases is not what its step wrote" in refused
    assert "charged" not in given.kinds()


@pytest.mark.slow
@pytest.mark.parametrize("name", first_quick(INPUTS))
def test_a_public_input_that_was_changed_is_made_again(given: Bench, name: str) -> None:
    change(given, name)
    with nothing_pictured():
        assert given.run(UP_TO_SYNTHETIC, **CHANGES).success


@pytest.mark.slow
def test_a_declared_domain_has_the_pairs_that_its_public_table_relates(tmp_path: Path) -> None:
    write_tables(tmp_path)
    changes = {"mechanism": MechanismSpec("hdmm_pgm"), "workload": WorkloadSpec(degree=1)}
    with Bench(tmp_path) as bench, nothing_pictured():
        result = bench.run(**changes)
        assert result.success, failure(result)
        domain = Domain.load(str(bench.releases / "people" / "domain.yaml"))
        assert ("town", "job") in (domain.related or ())
        shown = told(result)
        for name in ("domain", "hdmm_pgm"):
            assert "town x job" in str(shown[name]["related"])
        assert shown["release_certificate"]
        # The next run finds the release that it was.
        units = bench.ledger.balance("people").spent_units
        assert bench.run(**changes).success
        assert bench.ledger.balance("people").spent_units == units
