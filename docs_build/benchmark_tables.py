"""What the documentation says of the benchmark's presets and figures, from their own words."""

from __future__ import annotations

from jam_dagster.trials.figures import CAPTIONS
from jam_dagster.trials.grid import load_grid, presets


def preset_table() -> str:
    """Return the table of all grids that the package has."""
    rows = [f"| `{name}` | {load_grid(name).description} |" for name in presets()]
    return "\n".join(["| preset | what it runs |", "|---|---|", *rows])


def figure_table() -> str:
    """Return the table of all figures, with their captions."""
    rows = [f"| `{name}` | {caption} |" for name, caption in CAPTIONS.items()]
    return "\n".join(["| figure | what it shows |", "|---|---|", *rows])
