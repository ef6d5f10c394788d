"""Columns of a root table that its children give: totals, numbers, first and last days.

::

    children:
      lines:
        key: order_id
        max: 10
        totals:
          total: round(sum(price * quantity), 2)
          lines: count()

An expression has one of ``sum``, ``mean``, ``min`` and ``max`` of an expression over a child's row,
or ``count()``. A missing cell of a child counts as none. Without a known cell a sum is 0, and a
mean and the ends are missing.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_text
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.computed_cells import Cells, Rows, typed
from jam_dagster.tables.domain.derived import Formats, formatted_cells
from jam_dagster.tables.domain.expressions import (
    Tree,
    column_text,
    columns_of,
    evaluated,
    parsed,
    syntax_of,
)
from jam_dagster.tables.domain.impossible import OrderedAttributes

AGGREGATES = ("sum", "mean", "min", "max", "count")
_MOST_CHARACTERS = 500
_FOUND = "aggregate of children"


@dataclass(frozen=True)
class Total:
    """A column of the root table that follows from a root's children.

    Parameters
    ----------
    name
        The column, which is derived in the root table, and is missing there until both are made.
    expression
        How it is computed (see `jam_dagster.tables.domain.totals`).
    """

    name: str
    expression: str

    def __post_init__(self) -> None:
        _ = self._trees

    @cached_property
    def _trees(self) -> tuple[Tree, str, Tree | None]:
        """The tree around the aggregate, which reads it as a column, the aggregate, and its own."""
        what = f"the total {self.name!r}"
        node = syntax_of(self.expression) if len(self.expression) <= _MOST_CHARACTERS else None
        calls = [
            one
            for one in ast.walk(node or ast.Constant(0))
            if isinstance(one, ast.Call)
            and isinstance(one.func, ast.Name)
            and one.func.id in AGGREGATES
        ]
        if node is None or len(calls) != 1:
            raise DomainError(
                f"{what} needs one of {', '.join(AGGREGATES)} of its children, such as"
                f" sum(price * quantity), got {self.expression!r}"
            )
        (call,) = calls
        function = call.func.id if isinstance(call.func, ast.Name) else ""
        if call.keywords or len(call.args) != (function != "count"):
            takes = "nothing" if function == "count" else "one expression"
            raise DomainError(f"{what}: {function} takes {takes}")
        inner = parsed(self.name, ast.unparse(call.args[0])) if call.args else None

        class Around(ast.NodeTransformer):
            def visit_Call(self, one: ast.Call) -> ast.AST:  # ast's name for it
                if one is call:
                    return ast.parse(column_text(_FOUND), mode="eval").body
                return self.generic_visit(one)

        around = parsed(self.name, ast.unparse(Around().visit(node)))
        if outside := columns_of(around) - {_FOUND}:
            raise DomainError(
                f"{what} reads {min(outside)!r} outside its {function}: derive a further column"
            )
        return around, function, inner

    @property
    def sources(self) -> set[str]:
        """The columns of the children's table that it reads."""
        inner = self._trees[2]
        return set() if inner is None else columns_of(inner)

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the rule in words."""
        return f"{self.name} is {self.expression} of its children"

    def cells(
        self, children: pd.DataFrame, owners: npt.NDArray[np.intp], roots: int, formats: Formats
    ) -> Cells:
        """Return the cells of so many roots, by the rows of their children and the root of each."""
        around, function, inner = self._trees
        if inner is None:
            count = np.bincount(owners, minlength=roots).astype(np.int64)
            found = Cells("integer", count, np.zeros(roots, dtype=bool))
        else:

            def read(name: str) -> Cells:
                return formatted_cells(name, children[name], formats)

            rows = Rows(0, len(children), read, np.random.default_rng(0))
            found = _aggregated(self.name, function, evaluated(inner, rows), owners, roots)
        return evaluated(around, Rows(0, roots, lambda _: found, np.random.default_rng(0)))

    def column(
        self,
        children: pd.DataFrame,
        owners: npt.NDArray[np.intp],
        roots: int,
        formats: Formats,
        dtype: str,
    ) -> pd.Series[Any]:
        """Return the column in its dtype."""
        return typed(self.name, self.cells(children, owners, roots, formats), dtype)


def _aggregated(
    name: str, function: str, cells: Cells, owners: npt.NDArray[np.intp], roots: int
) -> Cells:
    numbers = cells.kind in ("integer", "number")
    if not numbers and not (cells.kind == "time" and function in ("min", "max")):
        raise DomainError(f"the total {name!r} takes the {function} of numbers, got {cells.kind}")
    known = ~cells.missing
    values, owners = cells.values[known], owners[known]
    number = np.bincount(owners, minlength=roots)
    none = number == 0
    if function in ("sum", "mean"):
        total = np.bincount(owners, values.astype(np.float64), minlength=roots)
        if function == "mean":
            return Cells("number", total / np.maximum(number, 1), none)
        whole = cells.kind == "integer"
        summed = np.rint(total).astype(np.int64) if whole else total
        return Cells(cells.kind, summed, np.zeros(roots, dtype=bool))
    order = np.lexsort((values, owners))
    ends = np.cumsum(number)
    place = np.where(function == "max", ends - 1, ends - number)
    first = np.zeros(roots, dtype=cells.values.dtype)
    first[~none] = values[order][place[~none]]
    return Cells(cells.kind, first, none, cells.zone)


def totals_from(what: str, written: object) -> tuple[Total, ...]:
    """Return what a domain file has under `totals` of a children's table."""
    if not isinstance(written, Mapping):
        raise SpecificationError(f"{what} must map columns of the root table to expressions")
    return tuple(Total(str(name), as_text(what, str(name), one)) for name, one in written.items())
