"""The code location: every release under ``assets/releases``, and the resources they run on."""

from pathlib import Path

import dagster as dg

from jam_dagster.pipeline import check_definitions
from resources import build_resources


@dg.definitions
def defs() -> dg.Definitions:
    """Load the releases."""
    loaded = dg.Definitions.merge(
        dg.load_from_defs_folder(path_within_project=Path(__file__).parent),
        dg.Definitions(
            resources=build_resources(),
            # A step in a process of its own spends seconds on imports, and the steps of a release
            # wait for each other anyway.
            executor=dg.in_process_executor,
        ),
    )
    # Each release has checked its own graph; this also covers assets that somebody adds here.
    return check_definitions(loaded)
