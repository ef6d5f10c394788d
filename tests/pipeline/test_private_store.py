"""What is private lies in a store that is private."""

import pytest

from jam_dagster.pipeline import ReleaseStoreResource
from tests.pipeline.conftest import Bench, failure


@pytest.mark.slow
def test_a_run_in_an_open_store_is_refused_before_it_is_charged(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["public_records", "domain", "public_discretized", "privacy_budget"]
    assert bench.run(given).success
    resources = {
        **bench.resources(),
        "private_io_manager": ReleaseStoreResource(root=str(bench.closed)),
    }
    monkeypatch.setattr(Bench, "resources", lambda _: resources)
    assert "without private=True" in failure(bench.run(["jam_pgm"]))
    assert set(bench.kinds()) <= {"reserved"}
