"""The small release of the evaluation's tests, and the validation of charts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jam_dagster.reports import live_charts, plot_style
from tests.evaluation.conftest import release

__all__ = ["release", "validated_charts"]


_VALID: dict[str, str] = {}
"""The specifications of charts that keep to the schema, each with its picture."""


@pytest.fixture(autouse=True)
def validated_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate each chart against the schema of Vega-Lite, which a release takes no time for.

    Many pages show the same charts: each is validated and drawn once.
    """
    specification, svg_of = plot_style.specification, plot_style.svg_of

    def validated(chart: Any, *rest: str) -> dict[str, Any]:
        spec = specification(chart, *rest)
        if json.dumps(spec) not in _VALID:
            chart.to_dict(validate=True)
        return spec

    def drawn(spec: dict[str, Any]) -> str:
        text = json.dumps(spec)
        if text not in _VALID:
            _VALID[text] = svg_of(spec)
        return _VALID[text]

    for module in (plot_style, live_charts):
        monkeypatch.setattr(module, "specification", validated)
        monkeypatch.setattr(module, "svg_of", drawn)
