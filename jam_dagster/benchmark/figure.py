"""A figure of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart


@dataclass(frozen=True)
class Figure:
    """A figure with its caption and numbers.

    Parameters
    ----------
    name
        Name of its files.
    caption
        Caption, with the corresponding figure of a paper.
    chart
        The chart.
    rows
        The numbers behind it.
    """

    name: str
    caption: str
    chart: Chart
    rows: tuple[Mapping[str, Any], ...]
