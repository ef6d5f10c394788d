"""What the releases of this code location run on."""

import os
from pathlib import Path

from jam_dagster.pipeline import DatasetBudget, LedgerResource, ReleaseStoreResource

# What may ever be spent on each protected dataset, all its releases together. The ledger grants
# it on first use; `jam-dagster ledger grant` is the way to change it afterwards.
BUDGETS = {
    "census_demo": DatasetBudget(epsilon=1.0, delta=1e-9),
    "uci_adult": DatasetBudget(epsilon=5.0, delta=1e-9),
}


def build_resources() -> dict[str, LedgerResource | ReleaseStoreResource]:
    """Return the ledger and the two stores.

    Everything lies below one folder, ``JAM_HOME``; without it, in ``jam`` below ``DAGSTER_HOME``,
    and without that in ``.jam`` of this repository. In production each part has a place of its
    own: ``JAM_LEDGER`` is a SQLite file on a local disk, ``JAM_PRIVATE`` and ``JAM_RELEASES`` are
    folders or fsspec URLs, neither inside the other.
    """
    home = jam_home()
    return {
        "ledger": LedgerResource(
            url=os.environ.get("JAM_LEDGER", str(home / "ledger.sqlite")), budgets=BUDGETS
        ),
        "private_io_manager": ReleaseStoreResource(
            root=os.environ.get("JAM_PRIVATE", str(home / "private")), private=True
        ),
        "releasable_io_manager": ReleaseStoreResource(
            root=os.environ.get("JAM_RELEASES", str(home / "releases"))
        ),
    }


def jam_home() -> Path:
    """Return the folder that holds ledger and stores unless they are given places of their own."""
    if home := os.environ.get("JAM_HOME"):
        return Path(home).expanduser().absolute()
    if dagster_home := os.environ.get("DAGSTER_HOME"):
        return Path(dagster_home).expanduser().absolute() / "jam"
    return Path(__file__).parents[1] / ".jam"
