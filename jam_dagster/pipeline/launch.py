"""Checks that run config changes no ledger, store or source.

Authors of definitions are trusted; those who launch runs are not. The ledger and the stores take
no run config, so Dagster refuses a launch that gives them any. Resources that the definitions put
in their place, and IO managers of assets that are tables of a release, may take some: the steps
that reserve, charge or read look at what the launch gave, and refuse it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE

if TYPE_CHECKING:
    from jam_dagster.pipeline.dagster_internals import IntEnvVar

RELEASE_TAG = "jam/release"
"""On the runs of a release's job, by which they are found."""

MAX_RETRIES_TAG = "dagster/max_retries"

NO_CONFIG: dict[str, Any] = {}
"""The config schema of what takes no run config; without one Dagster takes any, and drops it."""


def check_launch(run: dg.DagsterRun, resources: Iterable[str]) -> None:
    """Refuse a run whose config gives some resources anything."""
    given = run.run_config.get("resources")
    for key in sorted(resources):
        config = given.get(key) if isinstance(given, Mapping) else None
        if config.get("config") if isinstance(config, Mapping) else config:
            raise SpecificationError(
                f"the run's config configures the resource {key}, and no launch decides where a"
                f" release is paid, kept or read: launch it without resources.{key}, and configure"
                f" the resource in the definitions. {NOTHING_DONE}"
            )


def declared_place(what: str, place: object) -> str:
    """Return a path or URL as text; Dagster's `EnvVar` becomes the name of its variable."""
    if isinstance(place, dg.EnvVar):
        return f"${{{place.env_var_name}}}"
    # Annotations say so already, but nobody checks what a template gives.
    if not isinstance(place, str) or not place:
        kind = "an empty text" if place == "" else f"{type(place).__name__}"
        raise SpecificationError(f"{what} must be a path or URL, got {kind}.")
    return place


def is_variable(value: object) -> TypeGuard[dg.EnvVar | IntEnvVar]:
    """Whether a value is Dagster's `EnvVar`, of texts or of whole numbers."""
    return hasattr(value, "env_var_name")


def variable_name(value: dg.EnvVar | IntEnvVar) -> str:
    """Return how messages call an `EnvVar`."""
    return f"${{{value.env_var_name}}}"


def value_of_variable(what: str, value: dg.EnvVar | IntEnvVar) -> str | int:
    """Return what an `EnvVar` stands for."""
    if value.env_var_name not in os.environ:
        raise SpecificationError(
            f"{what} name {variable_name(value)}, which is not set in the environment of this"
            f" process: set it, or write the value out. {NOTHING_DONE}"
        )
    found = value.get_value()
    return "" if found is None else found
