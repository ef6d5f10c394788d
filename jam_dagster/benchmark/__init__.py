"""The papers' figures: mechanisms on splits at every epsilon, and their results.

The code behind `jam-dagster benchmark` and the benchmark job of `jam_dagster.pipeline`.
"""

from jam_dagster.benchmark.figures import figures
from jam_dagster.benchmark.grid import Grid, load_grid, presets
from jam_dagster.benchmark.results import read_frame, read_rows
from jam_dagster.benchmark.running import plan, run_grid
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.summary import write_figures

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
