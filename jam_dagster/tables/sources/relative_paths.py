"""Paths of a configuration file, relative to its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jam_dagster.tables.sources.base import COMPOSED, SOURCES


def absolute_paths(config: Any, folder: Path) -> Any:
    """Return a source's configuration with its relative file paths made relative to a folder."""
    if isinstance(config, str):
        return _anchor(config, folder)
    if not isinstance(config, Mapping):
        return config
    changed = dict(config)
    for key in (kind for kind, (_, first) in SOURCES.items() if first == "path"):
        if isinstance(changed.get(key), str):
            changed[key] = _anchor(changed[key], folder)
    for key in COMPOSED:
        if key in changed:
            changed[key] = absolute_paths(changed[key], folder)
    # The given table of {previous_release: {first: ...}}.
    given = changed.get("previous_release")
    if isinstance(given, Mapping) and "first" in given:
        changed["previous_release"] = {
            **given,
            "first": absolute_paths(given["first"], folder),
        }
    tables = changed.get("tables")
    if isinstance(tables, Mapping):
        changed["tables"] = {name: absolute_paths(table, folder) for name, table in tables.items()}
    return changed


def _anchor(path: str, folder: Path) -> str:
    # Variables are expanded when the source is read.
    if "://" in path or path.startswith(("${", "~")):
        return path
    return str(folder / path)
