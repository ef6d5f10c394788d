"""The protection of a release: neighbours, privacy unit, and the budget for measuring n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.common.choices import RECORDS_SHARE, Relation
from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.privacy.sensitivity import Neighbours

if TYPE_CHECKING:
    from jam_dagster.tables import PrivacyUnit

LARGEST_RECORDS_SIGMA = 1e6
"""The most noise, in rows, with which the number of rows is measured.

More noise could give a table of one row, or of too many rows to store, for the whole budget.
"""


@dataclass(frozen=True)
class Protection:
    """The protection of a release; by default single records under replace-one neighbours.

    Parameters
    ----------
    relation
        Whether neighbours differ by replacing a person, or by adding or removing one.
    unit
        The privacy unit, with the number of rows kept for each; None: every record is a person.
    records_share
        The share of the mechanism's rho that measures the number of rows, where it is private.

    Raises
    ------
    SpecificationError
        If the relation is unknown, or the share is not between 0 and 1.
    """

    relation: Relation = "replace_one"
    unit: PrivacyUnit | None = None
    records_share: float = RECORDS_SHARE

    def __post_init__(self) -> None:
        _ = self.neighbours
        if not 0.0 < self.records_share < 1.0:
            raise SpecificationError(
                f"records_share must be between 0 and 1, both excluded, got {self.records_share}."
            )

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation that the release protects."""
        return Neighbours(self.relation, 1 if self.unit is None else self.unit.max_rows)

    def check(self, rho: float) -> None:
        """Check that a budget can measure the number of rows, where that is private.

        Parameters
        ----------
        rho
            Rho of the mechanism's share.

        Raises
        ------
        SpecificationError
            If the noise would exceed `LARGEST_RECORDS_SIGMA`.
        """
        share = self.records_share * rho
        if self.neighbours.records_public or share <= 0:
            return
        sigma = gaussian_sigma(self.neighbours.records, share)
        if sigma > LARGEST_RECORDS_SIGMA:
            raise SpecificationError(
                f"with {self.neighbours.max_rows:,} rows a person, the number of private rows would"
                f" be measured with a standard error of {sigma:.2g} rows, more than"
                f" {LARGEST_RECORDS_SIGMA:,.0f}: lower max_rows, or raise epsilon or records_share."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings that differ from the default, for the digest of a specification.

        Empty if single records are protected.
        """
        found: dict[str, Any] = {}
        if self.relation != "replace_one":
            found["neighbours"] = self.relation
        if self.unit is not None:
            found["unit"] = self.unit.to_dict()
        if not self.neighbours.records_public:
            found["records_share"] = self.records_share
        return found
