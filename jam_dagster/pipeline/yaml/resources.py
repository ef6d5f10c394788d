"""The resources of releases, in Python and as a component: a ledger, and a store on each side."""

# Dagster reads these annotations as types when it derives the YAML schema, so they must not be
# postponed to strings.
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import dagster as dg

from jam_dagster.pipeline.budget.ledger_resource import DatasetBudget, LedgerResource
from jam_dagster.pipeline.graph import LEDGER, PRIVATE_STORE, RELEASABLE_STORE
from jam_dagster.pipeline.storage.store_resource import ReleaseStoreResource
from jam_dagster.pipeline.yaml.configuration import (
    Configured,
    catalogue_entry,
    described,
    error_location,
)


def build_release_resources(
    budgets: Mapping[str, DatasetBudget],
    *,
    home: str | Path,
    ledger: str | None = None,
    private: str | None = None,
    releases: str | None = None,
    signing_key: str = "",
) -> dict[str, LedgerResource | ReleaseStoreResource]:
    """Return the three resources that releases run on: the ledger and the two stores.

    Parameters
    ----------
    budgets
        What may ever be spent on each protected dataset, all its releases together. The ledger
        grants it on first use; ``jam-dagster ledger grant`` is the way to change it afterwards.
    home
        A folder for whatever has no place of its own.
    ledger
        A file on a local disk, or a PostgreSQL URL.
    private, releases
        Folders or fsspec URLs, neither inside the other.
    signing_key
        The file of the private key that signs certificates, or a ``${VARIABLE}`` with the key;
        unless given, ``JAM_SIGNING_KEY`` of the environment, if it is set.

    Examples
    --------
    >>> from jam_dagster.pipeline import DatasetBudget, build_release_resources
    >>> budgets = {"people_2026": DatasetBudget(epsilon=3.0, delta=1e-9)}
    >>> sorted(build_release_resources(budgets, home="/srv/jam"))
    ['ledger', 'private_io_manager', 'releasable_io_manager']
    """
    return {
        LEDGER: LedgerResource(
            url=ledger or f"{home}/ledger.sqlite", budgets=dict(budgets), signing_key=signing_key
        ),
        PRIVATE_STORE: ReleaseStoreResource(root=private or f"{home}/private", private=True),
        RELEASABLE_STORE: ReleaseStoreResource(root=releases or f"{home}/releases"),
    }


def home_of(default: str | Path) -> Path:
    """Return the folder that the environment names: ``JAM_HOME``, ``DAGSTER_HOME/jam``, or none."""
    if home := os.environ.get("JAM_HOME"):
        return Path(home).expanduser().absolute()
    if dagster_home := os.environ.get("DAGSTER_HOME"):
        return Path(dagster_home).expanduser().absolute() / "jam"
    return Path(default)


@dataclass
class ReleaseResources(dg.Component, Configured):
    """The privacy ledger with its budgets, and the two stores, which every release needs.

    A project has one of these. It gives the resources `ledger`, `private_io_manager` and
    `releasable_io_manager`.
    """

    budgets: Annotated[
        dict[str, DatasetBudget],
        described(
            "protected datasets, each with what may ever be spent on it, all releases together",
            {"people_2026": {"epsilon": 3.0, "delta": 1e-9}},
        ),
    ]
    home: Annotated[
        str | None,
        described(
            "folder for ledger and stores, relative to the project's; unless given: JAM_HOME,"
            " DAGSTER_HOME/jam or .jam",
            "/srv/jam",
        ),
    ] = None
    ledger: Annotated[
        str | None,
        described(
            "the ledger, where that is not home/ledger.sqlite: a file on a local disk, or a"
            " PostgreSQL URL",
            "${JAM_LEDGER}",
        ),
    ] = None
    private: Annotated[
        str | None,
        described(
            "store of what is private, where that is not home/private: a folder or fsspec URL"
        ),
    ] = None
    releases: Annotated[
        str | None,
        described("store of what may leave, where that is not home/releases", "s3://open/releases"),
    ] = None
    signing_key: Annotated[
        str | None,
        described(
            "file of the private key that signs certificates, or a ${VARIABLE} with the key; unless"
            " given, JAM_SIGNING_KEY of the environment",
            "${JAM_SIGNING_KEY}",
        ),
    ] = None

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what Dagster's catalogue of components shows."""
        return catalogue_entry(
            cls.__doc__,
            tags=["differential privacy", "budget"],
            produces=["resource"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the three resources."""
        root = Path(context.project_root)
        home = self.home if self.home is not None else str(home_of(".jam"))
        if not home.startswith(("${", "~")) and "://" not in home:
            home = str(root / home)
        with error_location(context, "budgets"):
            for dataset, budget in self.budgets.items():
                budget.check(dataset)
        return dg.Definitions(
            resources=build_release_resources(
                self.budgets,
                home=home,
                ledger=self.ledger,
                private=self.private,
                releases=self.releases,
                signing_key=self.signing_key or "",
            )
        )
