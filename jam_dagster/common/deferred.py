"""Pandas, imported when it is first used: ``from jam_dagster.common.deferred import pd``.

Dagster imports the package in each of its processes, and most of them read no table.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["pd"]

if TYPE_CHECKING:
    import pandas as pd
else:

    class _Pandas:
        def __getattr__(self, name: str) -> object:
            module = import_module("pandas")
            # From now on names are looked up where the module has them.
            self.__dict__ = module.__dict__
            return getattr(module, name)

    pd = _Pandas()
