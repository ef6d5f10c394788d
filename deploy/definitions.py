"""my_project/definitions.py: every release below my_project/defs, and what they run on."""

from pathlib import Path

import dagster as dg

from jam_dagster.pipeline import LedgerResource, ReleaseStoreResource, check_definitions


@dg.definitions
def defs() -> dg.Definitions:
    """Load the releases and their resources."""
    resources = {
        # Budgets are granted by the privacy officer, with `jam-dagster ledger grant`.
        "ledger": LedgerResource(url="${JAM_LEDGER}"),
        "private_io_manager": ReleaseStoreResource(root="${JAM_PRIVATE}", private=True),
        "releasable_io_manager": ReleaseStoreResource(root="${JAM_RELEASES}"),
    }
    releases = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
    # The steps of a release wait for each other, and each would import for seconds by itself.
    own = dg.Definitions(resources=resources, executor=dg.in_process_executor)
    return check_definitions(dg.Definitions.merge(releases, own))
