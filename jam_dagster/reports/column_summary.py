"""The table of columns on a report: how far each one is from what may be compared with it.

All of it follows from the synthetic table, public tables and released measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.evaluation.columns_and_pairs import LEVEL, MOST_NOISE, CountNoise
from jam_dagster.evaluation.domain_fit import ColumnFit, column_fits

if TYPE_CHECKING:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

_CAUGHT = {
    "unreadable": "unreadable",
    "missing": "missing",
    "other": "other",
    "bound": "at a bound",
    "half": "in one bin",
}


@dataclass(frozen=True)
class ColumnSummary:
    """A column's row of the table.

    `to_public` and `to_released` are L1 distances of the synthetic table, and `noise` the one that
    the measurement's noise makes on average: fractions of the records. They and `beyond_noise` are
    None if nothing is known.
    """

    name: str
    to_public: float | None
    to_released: float | None
    noise: float | None
    beyond_noise: bool | None
    fit: str
    misfit: bool

    @property
    def rank(self) -> tuple[bool, bool]:
        """The order of the table: columns to look at come first."""
        return not self.misfit, not self.beyond_noise


def fits_by_column(
    domain: Domain, transcript: Transcript, public: MarginalSource | None
) -> dict[str, ColumnFit]:
    """Return how the domain fits its columns; a domain from private data is not judged."""
    if domain.restricted:
        return {}
    return {one.attribute.column: one for one in column_fits(transcript, domain, public)}


def column_summary(
    attribute: Attribute,
    tables: Mapping[str, np.ndarray],
    released: ReleasedMarginal | None,
    fit: ColumnFit | None,
    *,
    records: int,
    compared: int,
) -> ColumnSummary:
    """Return the summary of one column of several.

    `tables` has its counts in the ``synthetic`` and, if that has the column, the ``public`` table.
    `fit` is None if each of its values has a cell of its own. `records` is what the released counts
    sum to, `compared` the number of columns that share the level; see `comparable`.
    """
    synthetic = tables["synthetic"]
    noise, distance, beyond = None, None, None
    if released is not None:
        noise = noise_of(released, records)
        distance = released_distance(synthetic, released, records)
        beyond = distance > noise.most(LEVEL / compared) if noise.mean <= MOST_NOISE else None
    misfit = None if fit is None else fit.misfit
    said = "not known" if fit is not None and fit.unknown else "fits"
    if misfit is not None:
        said = f"{min(1.0, misfit.released):.1%} {_CAUGHT[misfit.caught]}"
    return ColumnSummary(
        attribute.name,
        l1_distance(synthetic, tables["public"]) if "public" in tables else None,
        distance,
        None if noise is None else noise.mean,
        beyond,
        said,
        misfit is not None,
    )


def noise_of(released: ReleasedMarginal, records: int) -> CountNoise:
    """Return the noise of a released marginal as fractions of the records."""
    return CountNoise(released.sigma / max(1, records), released.counts.size)


def comparable(released: Mapping[str, ReleasedMarginal | None], records: int) -> int:
    """Return the number of columns whose noise hides less than half of them."""
    noises = (noise_of(one, records) for one in released.values() if one is not None)
    return sum(noise.mean <= MOST_NOISE for noise in noises)


def l1_distance(first: np.ndarray, second: np.ndarray) -> float:
    """L1 distance of two marginals as fractions."""
    return float(np.abs(first / max(1.0, first.sum()) - second / max(1.0, second.sum())).sum())


def released_distance(synthetic: np.ndarray, released: ReleasedMarginal, records: int) -> float:
    """L1 distance of a synthetic marginal from released counts as fractions of the records."""
    return float(np.abs(synthetic / synthetic.sum() - released.counts / records).sum())
