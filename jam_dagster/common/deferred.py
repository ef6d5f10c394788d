"""Modules imported when they are first used: ``from jam_dagster.common.deferred import pd``.

Dagster imports the package in each of its processes, and most of them read no table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["Deferred", "pd"]


class Deferred:
    """A module that is imported when one of its names is first asked for."""

    def __init__(self, module: str) -> None:
        self._imported_as = module

    def __getattr__(self, name: str) -> object:
        module = import_module(self._imported_as)
        # From now on names are looked up where the module has them.
        self.__dict__ = module.__dict__
        return getattr(module, name)


if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Deferred("pandas")
