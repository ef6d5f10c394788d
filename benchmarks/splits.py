"""The integer-coded tables of the JAM paper, below the folder that JAM_DATA names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from jam_dagster.errors import SourceError
from jam_dagster.tables import Domain, EncodedTable


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
    """Read ``$JAM_DATA/paper/<name>/{domain.json,priv.csv,pub.csv}``.

    Raises
    ------
    SourceError
        If JAM_DATA is not set, or does not hold the split.
    """
    root = os.environ.get("JAM_DATA")
    if not root:
        raise SourceError(
            "JAM_DATA is not set: the benchmarks read published tables that this repository does "
            "not carry. Set it to the folder that holds paper/<split>/domain.json, priv.csv and "
            "pub.csv, such as the splits of the JAM authors' repository."
        )
    folder = Path(root) / "paper" / name
    if not (folder / "domain.json").is_file():
        known = sorted(path.parent.name for path in folder.parent.glob("*/domain.json"))
        raise SourceError(
            f"JAM_DATA holds no split {name!r} ({folder}); it holds {', '.join(known) or 'none'}."
        )
    domain = Domain.load(folder / "domain.json")
    private, public = (
        EncodedTable.from_frame(domain, pd.read_csv(folder / f"{part}.csv"))
        for part in ("priv", "pub")
    )
    return Split(name, private, public)
