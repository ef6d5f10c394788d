"""The one module that uses what Dagster does not export.

No such name is promised to stay where it is, so a new minor version of Dagster is tried by
the tests of this package, and mended here.

- ``STUB`` marks an asset that a code location names and does not define.
- ``AssetGraph``, ``AssetNode``, ``IntEnvVar``, ``UnresolvedAssetJobDefinition`` and
  ``UnresolvedPartitionedAssetScheduleDefinition`` are types of what public functions take or give.
- ``CheckError`` is what a step raises that has no repository.
- ``PARTITION_NAME_TAG`` is the tag by which runs of a partition are found.
- ``TranslationFn`` and ``TranslationFnResolver`` read the key ``translation`` of a component.
- ``is_reserved_asset_job_name`` knows the jobs that Dagster makes for selections of assets.
- ``quiet_console`` reaches the loggers of a run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dagster._config.field_utils import IntEnvVar
from dagster._core.definitions.assets.definition.asset_spec import (
    SYSTEM_METADATA_KEY_AUTO_CREATED_STUB_ASSET as STUB,
)
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph, AssetNode
from dagster._core.definitions.assets.job.asset_job import is_reserved_asset_job_name
from dagster._core.definitions.partitions.partitioned_schedule import (
    UnresolvedPartitionedAssetScheduleDefinition,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from dagster_shared.check import CheckError
from dagster_shared.libraries import DagsterLibraryRegistry as DagsterLibraryRegistry

if TYPE_CHECKING:
    import dagster as dg

TRIED_WITH = ("1.13",)
"""The minor versions of Dagster with which all tests of this package have passed."""

__all__ = [
    "PARTITION_NAME_TAG",
    "STUB",
    "TRIED_WITH",
    "AssetGraph",
    "AssetNode",
    "CheckError",
    "IntEnvVar",
    "TranslationFn",
    "TranslationFnResolver",
    "UnresolvedAssetJobDefinition",
    "UnresolvedPartitionedAssetScheduleDefinition",
    "is_reserved_asset_job_name",
    "quiet_console",
]


def quiet_console(context: dg.InitResourceContext) -> None:
    """Keep Dagster's own events off the console of a run, unless somebody chose its level.

    They are lines of level DEBUG, which hide what the steps say. The config of a job could say the
    same, but a project with loggers of its own could not load such a job.
    """
    run, log = context.run, context.log
    if run is None or log is None or "loggers" in run.run_config:
        return
    if context.instance is not None and context.instance.python_log_level:
        return
    # Without a choice these are Dagster's default console and nothing else.
    for logger in log._dagster_handler._loggers:
        logger.addFilter(lambda record: record.levelno > logging.DEBUG)
