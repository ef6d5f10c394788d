"""Dagster: the component, the asset graph of a release, its checks, and where things are kept."""

from jam_dagster.pipeline.budget.ledger_resource import DatasetBudget, LedgerResource
from jam_dagster.pipeline.build import (
    build_release_assets,
    build_release_checks,
    build_release_job,
    build_synthetic_release,
    check_definitions,
)
from jam_dagster.pipeline.component import SyntheticRelease
from jam_dagster.pipeline.dagster_internals import DagsterLibraryRegistry
from jam_dagster.pipeline.partitions import build_release_schedule
from jam_dagster.pipeline.storage.store_resource import ReleaseStoreResource
from jam_dagster.pipeline.yaml.resources import ReleaseResources, build_release_resources
from jam_dagster.version import __version__

__all__ = [
    "DatasetBudget",
    "LedgerResource",
    "ReleaseResources",
    "ReleaseStoreResource",
    "SyntheticRelease",
    "build_release_assets",
    "build_release_checks",
    "build_release_job",
    "build_release_resources",
    "build_release_schedule",
    "build_synthetic_release",
    "check_definitions",
]

# The UI lists the version next to those of Dagster's own libraries.
DagsterLibraryRegistry.register("jam-dagster", __version__, is_dagster_package=False)
