"""What is private lies in a store that is private."""

from typing import Any

import pytest

from jam_dagster.pipeline import ReleaseStoreResource
from jam_dagster.release import PrivacySpec
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["exact", "numpy"])
@pytest.mark.parametrize(
    ("private", "releasable", "expected"),
    [
        ({"root": "closed"}, {"root": "releases"}, "without private=True"),
        ({"root": "one/closed", "private": True}, {"root": "one"}, "share a place"),
    ],
)
def test_open_store_is_refused_before_the_private_table_is_read(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    private: dict[str, Any],
    releasable: dict[str, Any],
    expected: str,
    noise: Any,
) -> None:
    stores = {
        f"{name}_io_manager": ReleaseStoreResource(**{**given, "root": str(bench.home / root)})
        for name, given, root in (
            ("private", private, private["root"]),
            ("releasable", releasable, releasable["root"]),
        )
    }
    resources = {**bench.resources(), **stores}
    monkeypatch.setattr(Bench, "resources", lambda _: resources)
    result = bench.run(UP_TO_SYNTHETIC, privacy=PrivacySpec(epsilon=2.0, noise=noise))
    error = failure(result)
    assert "SpecificationError" in error
    assert expected in error
    assert bench.kinds() == []


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
