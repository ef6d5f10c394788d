"""Tables that a Dagster project makes already, named by their asset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.sources.counted import ReadWhole
from jam_dagster.tables.sources.identity import canonical

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AssetSource(ReadWhole):
    """A table that the Dagster project makes already, as a DataFrame.

    Its IO manager gives it, in the step that needs it. Where the release has partitions, the asset
    has them too, and gives the same one.

    Parameters
    ----------
    key
        The asset's key, with slashes between its parts: ``warehouse/people``.
    """

    key: str

    def __post_init__(self) -> None:
        parts = self.key.split("/")
        if not all(part and part == part.strip() for part in parts):
            raise SpecificationError(
                f"an asset is named by its key, such as warehouse/people; got {self.key!r}"
            )
        if "{" in self.key:
            raise SpecificationError(
                f"asset {self.key!r}: a release that has partitions takes those of the asset;"
                " leave {partition} out of its key"
            )

    @property
    def restricted_because(self) -> str | None:
        """None: see `Source.restricted_because`."""
        return None

    def read(self, *, private: bool) -> pd.DataFrame:
        """Raise: only a step of a Dagster run knows what keeps an asset."""
        side = "private" if private else "public"
        raise SourceError(
            f"asset {self.key} is kept by an IO manager and can be read in a Dagster run only."
            f" Outside of one, name the table itself with --{side}"
        )

    def describe(self) -> str:
        """Return ``asset KEY``."""
        return f"asset {self.key}"

    def identity(self) -> str:
        """Return the asset's key (see `Source.identity`); its partition is the release's."""
        return canonical(asset=self.key)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"asset": self.key}
