"""The catalogue of components, with every version of Dagster that is allowed."""

from typing import Any

import dagster as dg
import pytest

from jam_dagster import ReleaseResources, SyntheticRelease
from jam_dagster.pipeline.yaml.configuration import catalogue_entry


@pytest.mark.parametrize("component", [SyntheticRelease, ReleaseResources])
def test_a_component_is_described_and_found_by_its_tags(component: Any) -> None:
    entry = component.get_spec()
    assert entry.description == component.__doc__
    assert "differential privacy" in entry.tags


def test_an_entry_says_no_more_than_dagster_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Earlier:
        def __new__(cls, description: str | None, tags: list[str]) -> Any:
            return (description, tags)

    monkeypatch.setattr(dg, "ComponentTypeSpec", Earlier)
    assert catalogue_entry("text", tags=["a"], produces=["asset"]) == ("text", ["a"])
