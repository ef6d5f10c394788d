"""A figure of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart


@dataclass(frozen=True)
class Figure:
    """A figure and what it shows.

    Parameters
    ----------
    name
        Of its files.
    caption
        What it shows and which figure of which paper it answers to.
    chart
        The chart.
    rows
        The numbers behind it.
    """

    name: str
    caption: str
    chart: Chart
    rows: tuple[Mapping[str, Any], ...]
