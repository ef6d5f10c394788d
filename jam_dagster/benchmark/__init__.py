"""The papers' figures: mechanisms on splits at every epsilon, and their results.

The code behind `jam-dagster benchmark` and the benchmark job of `jam_dagster.pipeline`.
"""

from jam_dagster.benchmark.data import Split, SplitFiles
from jam_dagster.benchmark.figures import Figure, figures
from jam_dagster.benchmark.grid import Grid, load_grid, presets
from jam_dagster.benchmark.results import read_frame, read_rows
from jam_dagster.benchmark.running import Outcome, Planned, plan, run_grid
from jam_dagster.benchmark.runs import BASELINES, Run
from jam_dagster.benchmark.summary import write_figures
from jam_dagster.benchmark.trial import run_trial

__all__ = [
    "BASELINES",
    "Figure",
    "Grid",
    "Outcome",
    "Planned",
    "Run",
    "Split",
    "SplitFiles",
    "figures",
    "load_grid",
    "plan",
    "presets",
    "read_frame",
    "read_rows",
    "run_grid",
    "run_trial",
    "write_figures",
]
