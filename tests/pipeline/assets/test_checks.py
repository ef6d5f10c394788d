"""Every kind of expectation has its group of checks, its heading and its words."""

from __future__ import annotations

from typing import get_args

from jam_dagster.evaluation import expectation_messages
from jam_dagster.evaluation.expectation_specs import Kind
from jam_dagster.pipeline.assets import checks
from jam_dagster.reports import checks_page


def test_no_kind_of_expectation_is_forgotten() -> None:
    """A forgotten one would fail a step after the release was paid for."""
    kinds = set(get_args(Kind))

    assert sorted(kind for group in checks._GROUPS.values() for kind in group) == sorted(kinds)
    assert set(checks_page._KINDS) == kinds
    assert set(expectation_messages._FAULT) <= kinds
