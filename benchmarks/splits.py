"""The JAM paper's tables, below the folder that JAM_DATA names: each split has a public table."""

from __future__ import annotations

from dataclasses import dataclass

from jam_dagster.errors import SourceError
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.trials.splits import SplitFiles


@dataclass(frozen=True)
class Split:
    """A private and a public table over one domain."""

    name: str
    private: EncodedTable
    public: EncodedTable

    @property
    def domain(self) -> Domain:
        """The domain of both tables."""
        return self.private.domain


def load_split(name: str) -> Split:
    """Read a published split; see `jam_dagster.trials.SplitFiles`."""
    split = SplitFiles(name).load()
    if split.public is None or not isinstance(split.private, EncodedTable):
        raise SourceError(f"The split {name!r} has no public table.")
    return Split(name, split.private, split.public)
