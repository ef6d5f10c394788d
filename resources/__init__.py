"""What the releases of this code location run on."""

import os
from pathlib import Path

from jam_dagster.pipeline import (
    DatasetBudget,
    LedgerResource,
    ReleaseStoreResource,
    build_release_resources,
)
from jam_dagster.pipeline.yaml.resources import home_of

# What may ever be spent on each protected dataset, all its releases together. The ledger grants
# it on first use; `jam-dagster ledger grant` is the way to change it afterwards. How many people
# the survey and Adult have is no secret, since these are simulated or published.
BUDGETS = {
    "health_survey": DatasetBudget(epsilon=1.0, delta=1e-9, records="public"),
    # Fifty-four months of it, of other people each.
    "health_survey_monthly": DatasetBudget(epsilon=2.0, delta=1e-9),
    "households": DatasetBudget(epsilon=1.0, delta=1e-9),
    "uci_adult": DatasetBudget(epsilon=5.0, delta=1e-9, records="public"),
}


def build_resources() -> dict[str, LedgerResource | ReleaseStoreResource]:
    """Return the ledger and the two stores.

    Everything is below one folder, ``JAM_HOME``; without it, in ``jam`` below ``DAGSTER_HOME``,
    and without that in ``.jam`` of this repository. In production each part has a place of its
    own: ``JAM_LEDGER`` is a SQLite file on a local disk, ``JAM_PRIVATE`` and ``JAM_RELEASES`` are
    folders or fsspec URLs, neither inside the other.
    """
    return build_release_resources(
        BUDGETS,
        home=home_of(Path(__file__).parents[1] / ".jam"),
        ledger=_variable("JAM_LEDGER"),
        private=_variable("JAM_PRIVATE"),
        releases=_variable("JAM_RELEASES"),
    )


def _variable(name: str) -> str | None:
    """Return a variable by its name, which errors then show; None where it is not set."""
    return f"${{{name}}}" if os.environ.get(name) else None
