"""What the public steps made is what the step that draws is given."""

from __future__ import annotations

import pytest
from upath import UPath

from jam_dagster.pipeline import DomainSpec, PrivacySpec
from jam_dagster.pipeline.storage.formats import CodesFormat, DomainFormat
from jam_dagster.tables import Domain, EncodedTable
from tests.pipeline.conftest import GIVEN, UP_TO_SYNTHETIC, Bench, failure

LEFT = [name for name in UP_TO_SYNTHETIC if name not in GIVEN]


@pytest.mark.parametrize("name", ["public_discretized", "domain"])
def test_a_public_input_that_was_changed_is_refused_before_anything_is_charged(
    bench: Bench, name: str
) -> None:
    changes = {"domain": DomainSpec(identify="public"), "privacy": PrivacySpec(epsilon=0.2)}
    assert bench.run(GIVEN, **changes).success
    folder = UPath(bench.releases / "people")
    if name == "domain":
        path = folder / "domain.yaml"
        was = DomainFormat().read(path)
        text = path.read_text().replace("elsewhere", "nowhere").replace("Aix", "Zug")
        path.write_text(text)
        assert Domain.load(str(path)).digest != was.digest
    else:
        path = folder / "public_discretized.codes.parquet"
        codes = CodesFormat().read(path)
        CodesFormat().write(
            EncodedTable(codes.domain, tuple(column[::-1].copy() for column in codes.columns)), path
        )
    refused = failure(bench.run(LEFT, **changes))
    wanted = "domain changed since" if name == "domain" else "is not what its step made"
    assert wanted in refused
    assert "charged" not in bench.kinds()
    assert bench.run(UP_TO_SYNTHETIC, **changes).success
