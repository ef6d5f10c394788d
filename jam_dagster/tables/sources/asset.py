"""Tables that are assets of a Dagster project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.sources.identity import canonical
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AssetSource(Source):
    """A table that is an asset of the Dagster project, as a DataFrame.

    The asset's IO manager loads it in the step that needs it. If the release has partitions, the
    asset has the same ones, and each partition of the release reads its own.

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
                f"an asset needs a key, such as warehouse/people; got {self.key!r}"
            )
        if "{" in self.key:
            raise SpecificationError(
                f"asset {self.key!r}: a partitioned release reads the asset's partitions by"
                " itself; remove {partition} from its key"
            )

    @property
    def asset_key(self) -> str:
        """The asset's key."""
        return self.key

    def read(self, *, private: bool) -> pd.DataFrame:
        """Raise: an asset can only be loaded in a step of a Dagster run."""
        side = "private" if private else "public"
        raise SourceError(
            f"asset {self.key} belongs to an IO manager and can be read only in a Dagster run."
            f" Outside a run, name the table itself with --{side}"
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
