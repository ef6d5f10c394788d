"""DualQuery: queries that distinguish best, and records that satisfy them.

Gaboardi, Gallego Arias, Hsu, Roth, Wu: "Dual Query: Practical Private Query Release for High
Dimensional Data", ICML 2014, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jam_dagster.mechanisms.base import check_share
from jam_dagster.mechanisms.context import SMALLEST_RHO, Context
from jam_dagster.mechanisms.loops.game import Game, GameMechanism
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.weighted.model import WeightedTable

MOST_ROUNDS = 1000
"""Rounds that a run makes at most; with more budget, it learns faster."""

TIE_BREAK = 0.5
"""The most that a record gains by what is no query: less than one query."""


@dataclass(frozen=True)
class DualQuery(GameMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    eta
        How fast the distribution over queries follows the errors of the records.
    s
        The number of queries that a round draws.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - The queries are the cells of the workload's marginals and their negations. In round t a query
      is drawn with a probability in proportion to ``exp(eta sum_{i<t} (q(D) - q(x_i)))``, where
      q(D) is the part of the records. That is an exponential mechanism with
      ``eps_t = 2 eta (t - 1) k / n``, for k rows a person, and costs ``eps_t^2 / 8`` of rho. Round
      1 draws from all queries alike, which costs nothing.
    - The number of rounds T is the largest that the budget pays for with `eta`, at least 2. The
      rest raises eta, so that all is spent. The paper composes pure epsilons, which pays for far
      fewer rounds.
    - A query and its negation move by one in opposite directions, so both together have the
      sensitivity of one. If rows come and go, the negation of q is n - q(D), n as it was measured.
    - Values that no drawn query names are random: each record gains up to half of a query by
      its values, from a fixed seed. So the best record is one, whichever solver finds it.
    - HiGHS stops after 20 nodes; the authors' solver stops after a time, which gives another record
      on another machine.
    """

    eta: float = setting(3.0, "how fast the drawn queries follow errors", above=0, maximum=1000)
    s: int = setting(25, "queries that a round draws", minimum=1, maximum=1000)

    name: ClassVar[str] = "dualquery"
    title: ClassVar[str] = "DualQuery"
    summary: ClassVar[str] = "draws cells by their errors, and finds records that satisfy them"
    rank: ClassVar[int] = 136
    page: ClassVar[str] = "without_public_data.md#dualquery"
    pace: ClassVar[float] = 200.0

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for the draws of a round."""
        check_share(rho, self.s, remedy="lower s")

    def rounds(self, records: int, rho: float, most_rows: float) -> int:
        """Return T, the number of rounds that `rho` pays for.

        The whole cost is ``s eta^2 k^2 / (2 n^2) sum_{t<T} t^2``, and the first draws take at least
        `SMALLEST_RHO`.
        """
        unit = self.s * (self.eta * most_rows / records) ** 2 / 2
        rounds, squares = 2, 5
        while (
            rounds < MOST_ROUNDS
            and unit * squares <= rho
            and squares * self.s * SMALLEST_RHO <= rho
        ):
            rounds += 1
            squares += rounds**2
        return rounds

    def draw(self, ctx: Context) -> WeightedTable:
        """Draw queries and find a record that satisfies them, in T rounds.

        - draw s queries, in round 1 all alike, then with probabilities by the errors of the records
          so far
        - find the record that satisfies most of them
        """
        game = Game(ctx)
        rounds = self.rounds(ctx.records, ctx.total, ctx.neighbours.cell)
        records: list[np.ndarray] = []
        held = np.zeros(game.cells.number)
        for t in ctx.rounds(rounds, again=False):
            made = len(records)
            if made:
                # Price i of those to come is in proportion to (made + i)^2.
                squares = sum(one**2 for one in range(made, made + rounds - t))
                price = ctx.affordable(ctx.remaining * (made**2 / squares))
                chosen = game.select(1, held, choices=self.s, rho=price, times=made)
            else:
                chosen = [game.uniform(0, game.number) for _ in range(self.s)]
            if not chosen:
                continue
            spread = TIE_BREAK / len(ctx.domain.shape)
            found = game.found(chosen, spread * game.bonuses(1))
            if found is not None:
                records.append(found)
                held += game.cells.held(found)
        return game.model(records)
