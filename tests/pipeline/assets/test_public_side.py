"""What the public steps made is what the step that draws is given."""

from __future__ import annotations

import pytest
from upath import UPath

from jam_dagster.pipeline.storage.formats import CODES, DOMAIN, TABLE
from jam_dagster.release import DomainSpec, PrivacySpec
from jam_dagster.tables import Domain, EncodedTable
from tests.pipeline.conftest import GIVEN, UP_TO_SYNTHETIC, Bench, failure

LEFT = [name for name in UP_TO_SYNTHETIC if name not in GIVEN]


@pytest.mark.parametrize("name", ["public_discretized", "domain", "public_records"])
def test_a_public_input_that_was_changed_is_refused_before_anything_is_charged(
    bench: Bench, name: str
) -> None:
    changes = {"domain": DomainSpec(identify="public"), "privacy": PrivacySpec(epsilon=0.2)}
    assert bench.run(GIVEN, **changes).success
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
    given = LEFT if name != "public_records" else ["domain", "public_discretized"]
    refused = failure(bench.run(given, **changes))
    assert f"people/{name} in the store of releases is not what its step wrote" in refused
    assert "charged" not in bench.kinds()
    assert bench.run(UP_TO_SYNTHETIC, **changes).success
