"""The small release of the evaluation's tests, and the validation of charts."""

from __future__ import annotations

from typing import Any

import pytest

from jam_dagster.reports import live_charts, plot_style
from tests.evaluation.conftest import release

__all__ = ["release", "validated_charts"]


@pytest.fixture(autouse=True)
def validated_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate each chart against the schema of Vega-Lite, which a release takes no time for."""
    specification = plot_style.specification

    def validated(chart: Any, *rest: str) -> dict[str, Any]:
        chart.to_dict(validate=True)
        return specification(chart, *rest)

    for module in (plot_style, live_charts):
        monkeypatch.setattr(module, "specification", validated)
