"""Differentially private synthetic tables with public data, as Dagster assets."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jam_dagster.pipeline.component import SyntheticRelease

__version__ = "0.1.0"

__all__ = ["SyntheticRelease", "__version__"]


def __getattr__(name: str) -> object:
    # Dagster finds components by looking at this module's names; everybody else who imports the
    # package should not wait for Dagster.
    if name == "SyntheticRelease":
        from jam_dagster.pipeline.component import SyntheticRelease

        return SyntheticRelease
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
