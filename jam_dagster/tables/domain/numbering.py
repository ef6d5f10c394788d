"""Columns of children that number them within their root: the first visit, the second one.

::

    children:
      visits:
        key: patient_id
        max: 10
        numbers:
          visit: visited      # 1 is the earliest visit of a patient

Such a column is derived as null in the children's table, of an integer dtype. Children with equal
values are numbered as they come, and those with a missing one last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_text
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.domain.computed_cells import Cells, as_instants, typed
from jam_dagster.tables.domain.derived import Formats, formatted_cells
from jam_dagster.tables.domain.impossible import OrderedAttributes


@dataclass(frozen=True)
class Numbering:
    """A column that numbers the children of a root from 1, in the order of another column."""

    name: str
    by: str

    @property
    def attributes(self) -> tuple[str, str]:
        """The names of both columns."""
        return (self.name, self.by)

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the rule in words."""
        return f"{self.name} numbers the children of a row by {self.by}"

    def column(
        self, children: pd.DataFrame, owners: npt.NDArray[np.intp], formats: Formats, dtype: str
    ) -> pd.Series[Any]:
        """Return the column in its dtype, by the rows of children and the root of each."""
        cells = formatted_cells(self.by, children[self.by], formats)
        if cells.kind == "text":
            cells = as_instants(cells)
        values = np.where(cells.missing, np.zeros(1, cells.values.dtype), cells.values)
        order = np.lexsort((values, cells.missing, owners))
        number = np.bincount(owners)
        first = np.cumsum(number) - number
        ranks = np.empty(len(owners), dtype=np.int64)
        ranks[order] = np.arange(len(owners)) - first[owners[order]] + 1
        found = Cells("integer", ranks, np.zeros(len(owners), dtype=bool))
        return typed(self.name, found, dtype).set_axis(children.index)


def numbers_from(what: str, written: object) -> tuple[Numbering, ...]:
    """Return what a domain file has under `numbers` of a children's table."""
    if not isinstance(written, Mapping):
        raise SpecificationError(f"{what} must map columns of the children to those they follow")
    return tuple(Numbering(str(name), as_text(what, str(name), by)) for name, by in written.items())
