"""Entries of the components in Dagster's catalogue."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import dagster as dg


def catalogue_entry(
    description: str | None, *, tags: Sequence[str], produces: Sequence[str]
) -> dg.ComponentTypeSpec:
    """Return the entry of a component."""
    shown: dict[str, Any] = {"description": description, "tags": list(tags)}
    if "produces" in inspect.signature(dg.ComponentTypeSpec.__new__).parameters:
        shown["produces"] = list(produces)
    return dg.ComponentTypeSpec(**shown)
