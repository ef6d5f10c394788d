"""Trials: mechanisms with seeded noise on splits; their exact errors cost no budget.

The code behind `jam-dagster benchmark`, which makes the papers' figures, and behind
`jam-dagster plan` (`planner.py`), which tries one release on two halves of its public table.
"""

from jam_dagster.trials.figures import figures
from jam_dagster.trials.grid import Grid, load_grid, presets
from jam_dagster.trials.results import read_frame, read_rows
from jam_dagster.trials.running import plan, run_grid
from jam_dagster.trials.runs import Run
from jam_dagster.trials.summary import write_figures

__all__ = [
    "Grid",
    "Run",
    "figures",
    "load_grid",
    "plan",
    "presets",
    "read_frame",
    "read_rows",
    "run_grid",
    "write_figures",
]
