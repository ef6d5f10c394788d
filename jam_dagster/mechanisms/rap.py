"""RAP: relaxed adaptive projection, of single cells.

Aydore, Brown, Kearns, Kenthapadi, Melis, Roth, Siva: "Differentially Private Query Release Through
Adaptive Projection", ICML 2021, Algorithm 2.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import Mechanism, check_countable, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.cells import Cells
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.models.mixture.adam_step import check_size, free_rows
from jam_dagster.models.mixture.model import ProductMixture, check_products
from jam_dagster.models.mixture.training import CellTarget, MixtureTrainer
from jam_dagster.tables import Domain, Workload

LEAST_GAIN = 1e-7
"""A round's training ends with a step that lowers the loss by less."""


@dataclass(frozen=True)
class Rap(Mechanism):
    """The mechanism and its settings; the defaults are those of the authors' code.

    Attributes
    ----------
    rounds
        T, in each of which cells are selected and measured, and the rows trained.
    k
        K, the number of cells that a round selects.
    components
        n', the number of rows, each of which is a product of distributions in the end.
    learning_rate
        Learning rate of Adam, whose state is reset in each round.
    iterations
        Most steps of a round.
    generator_seed
        Seed of the initial rows, independent of private data.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The queries are the cells of the workload's marginals. Each of T rounds has an equal part of
      rho: half of it selects, half measures.
    - A round's K choices are from the same scores, each among the cells that are left. A cell that
      was measured is no candidate in later rounds.
    - The choice has the exponential mechanism with the sensitivity of an absolute error; the
      authors' noise for it is made for half of that. Their code draws the noise of every round with
      one key, so that it is the same in each.
    - Between steps the values of each attribute are projected onto the simplex, the authors' option
      of categorical consistency, which their code needs to draw records. By default it clips to
      [-1, 1]. Rows trained so answer what was measured, but no longer do once they are projected.
    - The loss is the norm of all residuals, whatever their noise.
    """

    rounds: int = setting(10, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    k: int = setting(50, "K, the number of cells that a round selects", minimum=1, maximum=10_000)
    components: int = setting(1000, "n', the number of rows", minimum=1, maximum=100_000)
    learning_rate: float = setting(1e-3, "of Adam", above=0)
    iterations: int = setting(
        1000, "most steps of a round's training", minimum=1, maximum=MOST_ITERATIONS
    )
    generator_seed: int = setting(0, "seed of the initial rows", minimum=0)

    name: ClassVar[str] = "rap"
    title: ClassVar[str] = "RAP"
    summary: ClassVar[str] = "measures single cells, and trains free rows to answer them"
    rank: ClassVar[int] = 134
    page: ClassVar[str] = "mixtures.md#rap"
    pace: ClassVar[float] = 20.0

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for the draws of all cells."""
        check_share(rho, 2 * self.rounds * self.k, remedy="lower rounds or k")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        DomainError
            If the domain has impossible combinations.
        SpecificationError
            If `rho` is too little, or the rows or all cells of the workload are too many.
        """
        self.check_budget(rho)
        check_countable(domain, workload.cliques)
        cells = Cells(domain, workload.cliques).number
        if cells > LARGEST_MARGINAL_CELLS:
            raise SpecificationError(
                f"RAP scores every cell of the workload, and these are {cells:,}, more than "
                f"{LARGEST_MARGINAL_CELLS:,}: lower the workload's degree, or choose a mechanism "
                "that selects whole marginals, such as mwem_rp."
            )
        check_products(domain)
        check_size(domain.shape, self.components)

    def draw(self, ctx: Context) -> ProductMixture:
        """Select, measure and project, in T rounds.

        - an equal share of what is left, of which half selects and half measures
        - select K cells by the exponential mechanism with |q(D) - n q(D')|
        - measure all of them, q(D) + N(0, sigma^2)
        - train D' on all that was measured
        """
        cells = Cells(ctx.domain, ctx.workload.cliques)
        ctx.hold(cells.cliques)
        shape, records = ctx.domain.shape, ctx.records
        rows = free_rows(shape, self.components, self.generator_seed)
        trainer = MixtureTrainer(ctx.domain, rows, "l2")
        known: dict[int, float] = {}
        for t in ctx.rounds(self.rounds, again=False):
            left = [cell for cell in range(cells.number) if cell not in known]
            if not left:
                ctx.end("every cell is measured")
            half = ctx.share(self.rounds - t) / 2
            chosen = ctx.select_many(
                left,
                lambda: cell_errors(ctx, cells, trainer)[left],
                choices=min(self.k, len(left)),
                rho=half,
                sensitivity=ctx.neighbours.cell,
                distinct=True,
                named=cells.named,
                index_of=partial(index_among, left, cells),
            )
            if not chosen:
                continue
            asked = sorted(chosen)
            noisy = ctx.values(
                "cells",
                lambda: cells.counts(ctx, asked),
                size=len(asked),
                rho=half,
                sensitivity=ctx.neighbours.cell * math.sqrt(len(asked)),
            )
            if noisy is not None:
                known |= zip(asked, (noisy / records).tolist(), strict=True)
                with ctx.stage("fit"):
                    self.train(trainer, cell_targets(cells, known))
        return ProductMixture(ctx.domain, float(records), trainer.tables())

    def train(self, trainer: MixtureTrainer, targets: Sequence[CellTarget]) -> None:
        """Lower the norm of all residuals by Adam, until a step brings no more."""
        state, before = trainer.begin(), math.inf
        for _ in range(self.iterations):
            squares, gradient = trainer.gradient(targets)
            loss = math.sqrt(squares)
            if not 0.0 < loss <= before - LEAST_GAIN or loss == math.inf:
                return
            state = trainer.step(state, gradient / np.float32(2 * loss), self.learning_rate)
            before = loss


def index_among(left: Sequence[int], cells: Cells, name: str) -> int | None:
    """Return the index of a cell by its name among sorted ones; None if it is not there."""
    cell = cells.find(name)
    index = len(left) if cell is None else bisect_left(left, cell)
    return index if index < len(left) and left[index] == cell else None


def cell_errors(ctx: Context, cells: Cells, trainer: MixtureTrainer) -> np.ndarray:
    """Return ``|q(D) - n q(D')|`` of all cells, in counts; for the scores of a draw alone."""
    answers = [trainer.answer(clique).astype(np.float64).ravel() for clique in cells.cliques]
    return np.abs(cells.counts(ctx) - ctx.records * np.concatenate(answers))


def cell_targets(cells: Cells, known: dict[int, float]) -> list[CellTarget]:
    """Return what was measured of cells, as fractions, for training."""
    parted: dict[int, list[tuple[tuple[int, ...], float]]] = {}
    for cell, value in known.items():
        columns = cells.columns(cell)
        parted.setdefault(len(columns), []).append((columns, value))
    return [
        CellTarget(
            np.array([columns for columns, _ in those]),
            np.array([value for _, value in those], np.float32),
        )
        for those in parted.values()
    ]
