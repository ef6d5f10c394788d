"""Differentially private synthetic tables with public data: of DataFrames, or as Dagster assets."""

from typing import TYPE_CHECKING

from jam_dagster.version import __version__

if TYPE_CHECKING:
    from jam_dagster.pipeline.component import SyntheticRelease
    from jam_dagster.pipeline.yaml.resources import ReleaseResources
    from jam_dagster.release.dataframes import FrameRelease, synthesize

__all__ = [
    "FrameRelease",
    "ReleaseResources",
    "SyntheticRelease",
    "__version__",
    "synthesize",
]

_PLACES = {
    "FrameRelease": "jam_dagster.release.dataframes",
    "ReleaseResources": "jam_dagster.pipeline.yaml.resources",
    "SyntheticRelease": "jam_dagster.pipeline.component",
    "synthesize": "jam_dagster.release.dataframes",
}


def __getattr__(name: str) -> object:
    # Dagster finds components by looking at this module's names; everybody else who imports the
    # package should not wait for Dagster.
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
