"""A synthetic table, and the released facts that its expectations compare it with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jam_dagster.evaluation.cell_codes import cell_codes, cell_counts, cell_numbers
from jam_dagster.evaluation.released_marginals import (
    Agreement,
    one_way_agreement,
    released_marginal,
)
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import DECIMAL_DTYPE

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

FALSE_ALARM_LEVEL = 0.001
"""The false-alarm level of all one-way marginals together."""


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A synthetic table, and the released facts that it is compared with."""

    synthetic: pd.DataFrame
    domain: Domain
    records: int
    transcript: Transcript
    model: MarginalSource

    @cached_property
    def once(self) -> set[str]:
        """The columns whose name no other column has."""
        return set(self.synthetic.columns[~self.synthetic.columns.duplicated(keep=False)])

    @cached_property
    def agreements(self) -> dict[str, Agreement]:
        """Every measured one-way marginal compared; they share the false-alarm level."""
        agreements = {}
        for attribute in self.domain.attributes:
            released = released_marginal(self.transcript, (attribute.name,))
            if released is None:
                continue
            counts = np.zeros(attribute.size)
            if attribute.name in self.once:
                counts = cell_counts(self.synthetic[attribute.name], attribute).astype(np.float64)
            agreements[attribute.name] = one_way_agreement(
                released,
                model=self.model.marginal((attribute.name,)),
                synthetic=counts,
                records=self.records,
                level=FALSE_ALARM_LEVEL / len(self.domain.attributes),
            )
        return agreements

    def with_numbers(self) -> pd.DataFrame:
        """Return the table with dates and decimals as the numbers that are counted in bins."""
        numbers = {}
        for name in self.once.intersection(self.domain.names):
            attribute = self.domain.attribute(name)
            column = self.synthetic[name]
            decimal = DECIMAL_DTYPE.fullmatch(str(attribute.dtype))
            if isinstance(attribute, TimeAttribute if decimal is None else NumericAttribute):
                counted = cell_numbers(column, attribute)
                # What is no date is outside every bound; only what is missing is null.
                counted[np.isnan(counted) & column.notna().to_numpy()] = np.inf
                numbers[name] = counted
        return self.synthetic.assign(**numbers) if numbers else self.synthetic

    def broken(self, place: int) -> Any:
        """Return which rows break what the domain forbids, None where a column is missing."""
        forbidden = self.domain.forbidden[place]
        if not set(forbidden.attributes) <= self.once:
            return None
        columns = [
            (self.synthetic[name], self.domain.attribute(name)) for name in forbidden.attributes
        ]
        if isinstance(forbidden, Order):
            low, high = (
                cell_numbers(column, attribute)
                for column, attribute in columns
                if isinstance(attribute, NumericAttribute)
            )
            return ~np.isnan(low) & ~np.isnan(high) & ~forbidden.holds(low, high)
        found = [cell_codes(column, attribute) for column, attribute in columns]
        if isinstance(forbidden, ImpossibleCombination):
            pairs = zip(found, forbidden.codes, strict=True)
            return np.logical_and.reduce([np.isin(one, codes) for one, codes in pairs])
        inside = np.logical_and.reduce([one >= 0 for one in found])
        cells = tuple(np.where(inside, one, 0) for one in found)
        return inside & forbidden.broken(self.domain)[cells]
