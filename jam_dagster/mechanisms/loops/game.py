"""A game over cells: one player picks queries, the other records that satisfy them."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms.base import Mechanism, check_countable
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.cells import Cells
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.oracle import BestRecords, CellQuery
from jam_dagster.models.weighted.support import Support, log_frequencies
from jam_dagster.tables import Domain, EncodedTable, Workload

NEGATED = "not "
"""How the name of a negated query begins."""


@dataclass(frozen=True)
class GameMechanism(Mechanism, ABC):
    """A mechanism whose table is the records that the second player finds; it measures nothing."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        DomainError
            If the domain has impossible combinations.
        SpecificationError
            If `rho` is too little, or all cells of the workload are too many.
        """
        self.check_budget(rho)
        check_countable(domain, workload.cliques)
        cells = Cells(domain, workload.cliques).number
        if cells > LARGEST_MARGINAL_CELLS // 2:
            raise SpecificationError(
                f"{self.title} scores every cell of the workload and its negation, and these are "
                f"{2 * cells:,}, more than {LARGEST_MARGINAL_CELLS:,}: lower the workload's "
                "degree, or choose a mechanism that selects whole marginals, such as tilt."
            )
        if domain.impossible_masks():
            raise DomainError(
                f"{self.title} finds records by integer programming, which knows no impossible "
                "combinations: remove them from the domain, or choose a mechanism that keeps to "
                "them, such as jam_pgm or tilt."
            )


class Game:
    """The queries of a run, which are all cells of the workload and then their negations."""

    def __init__(self, ctx: Context) -> None:
        self.ctx, self.cells = ctx, Cells(ctx.domain, ctx.workload.cliques)
        ctx.hold(self.cells.cliques)
        self.coins = np.random.default_rng(0)

    @property
    def number(self) -> int:
        """How many queries there are."""
        return 2 * self.cells.number

    def query(self, number: int) -> CellQuery:
        """Return a query by its number."""
        negated, cell = divmod(number, self.cells.number)
        return CellQuery(self.cells.columns(cell), bool(negated))

    def uniform(self, first: int, end: int) -> int:
        """Return the number of a random query between two, which depends on no data."""
        return first + int(self.coins.random() * (end - first))

    def bonuses(self, programs: int) -> npt.NDArray[np.float64]:
        """Return random numbers from 0 to 1 for all values of all attributes, once a program."""
        return self.coins.random((programs, sum(self.ctx.domain.shape)))

    def found(
        self, queries: Iterable[int], bonuses: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int64] | None:
        """Return the records that satisfy most of some queries; None once the run has ended."""
        weights = Counter(self.query(number) for number in queries)
        shape = self.ctx.domain.shape
        return self.ctx.solve("records", BestRecords(shape, weights, bonuses))

    def select(
        self,
        records: float,
        held: npt.NDArray[np.float64],
        *,
        choices: int,
        rho: float,
        times: int = 1,
    ) -> list[int]:
        """Select queries by ``times q(D) - sum_x q(x) n / records``, for a negation its opposite.

        `held` are the counts of all cells in the records. A score moves by `times` the rows of a
        person, under either relation.
        """
        ctx = self.ctx
        scale = ctx.records / records

        def scores() -> np.ndarray:
            apart = times * self.cells.counts(ctx) - scale * held
            return np.concatenate([apart, -apart])

        return ctx.select_many(
            range(self.number),
            scores,
            choices=choices,
            rho=rho,
            sensitivity=times * ctx.neighbours.cell,
            named=self.named,
            index_of=self.index_of,
        )

    def named(self, number: int) -> str:
        """Return the name of a query, which the digest of a choice covers."""
        negated, cell = divmod(number, self.cells.number)
        return NEGATED * negated + self.cells.named(cell)

    def index_of(self, name: str) -> int | None:
        """Return the number of a query by its name."""
        cell = self.cells.find(name.removeprefix(NEGATED))
        negated = name.startswith(NEGATED)
        return None if cell is None else cell + negated * self.cells.number

    def model(self, records: Sequence[npt.NDArray[np.int64]]) -> WeightedTable:
        """Return the table of the records that were found."""
        rows, domain = np.concatenate(records), self.ctx.domain
        table = EncodedTable(domain, tuple(rows[:, at] for at in range(len(domain.names))))
        support, counts = Support.of_records(table)
        total = float(self.ctx.records)
        return WeightedTable(support, total, log_frequencies(counts), self.ctx.workload.cliques)
