"""Differentially private synthetic tables with public data, as Dagster assets."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jam_dagster.pipeline.benchmark import Benchmark
    from jam_dagster.pipeline.component import SyntheticRelease
    from jam_dagster.pipeline.yaml.resources import ReleaseResources

__version__ = "0.1.0"

__all__ = ["Benchmark", "ReleaseResources", "SyntheticRelease", "__version__"]

_COMPONENTS = {
    "Benchmark": "jam_dagster.pipeline.benchmark",
    "ReleaseResources": "jam_dagster.pipeline.yaml.resources",
    "SyntheticRelease": "jam_dagster.pipeline.component",
}


def __getattr__(name: str) -> object:
    # Dagster finds components by looking at this module's names; everybody else who imports the
    # package should not wait for Dagster.
    if name in _COMPONENTS:
        from importlib import import_module

        return getattr(import_module(_COMPONENTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
