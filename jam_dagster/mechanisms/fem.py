"""FEM: follow the perturbed leader, with the exponential mechanism.

Vietri, Tian, Bun, Steinke, Wu: "New Oracle-Efficient Algorithms for Private Synthetic Data
Release", ICML 2020, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.game import Game, GameMechanism
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.tables import Domain, Workload

MOST_PROGRAMS = 50_000
"""Programs of a run at most: each takes some hundredths of a second, and again for a verifier."""


@dataclass(frozen=True)
class Fem(GameMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    rounds
        T, the number of rounds, each of which but the last selects a query.
    s
        The number of records that a round finds.
    scale
        The mean of the exponential noise on each value of an attribute.

    Raises
    ------
    SpecificationError
        If a setting is out of range, or rounds and records are too many programs.

    Notes
    -----
    - The queries are the cells of the workload's marginals and their negations. As in the authors'
      code a run begins with one of each, drawn alike, and the table has the records of those rounds
      before which at least a quarter of rho is spent, which is about a half of epsilon.
    - A selection costs ``eps_0^2 / 8`` of rho, with equal parts for all. The authors charge four
      times that. They state eps_0, from which T follows; here T is stated, for the programs are
      what takes time.
    - The last round selects nothing, for no record would follow. A round after a lost choice finds
      no new records, and chooses again.
    - The noise comes from a fixed seed and depends on no data. HiGHS stops after 20 nodes; the
      authors' loop stops after ten minutes, so its results depend on the machine.
    """

    rounds: int = setting(50, "T, the number of rounds", minimum=2, maximum=1000)
    s: int = setting(20, "records that a round finds", minimum=1, maximum=1000)
    scale: float = setting(2.0, "mean of the noise on each value", above=0, maximum=1e6)

    name: ClassVar[str] = "fem"
    title: ClassVar[str] = "FEM"
    summary: ClassVar[str] = "selects cells by their errors, and finds records with perturbed ones"
    rank: ClassVar[int] = 137
    page: ClassVar[str] = "without_public_data.md#fem"
    pace: ClassVar[float] = 20.0

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little, or a run takes too many programs."""
        check_share(rho, self.rounds - 1)
        if self.rounds * self.s > MOST_PROGRAMS:
            raise SpecificationError(
                f"{self.rounds:,} rounds of {self.s:,} records are {self.rounds * self.s:,} "
                f"integer programs, more than {MOST_PROGRAMS:,}: lower rounds or s."
            )

    def draw(self, ctx: Context) -> WeightedTable:
        """Find records and select a query that they answer worst, in T rounds.

        - s records, each of which satisfies most of the queries so far, less random noise on its
          values
        - select a query by the exponential mechanism with q(D) - n q(D_t), from both signs
        """
        game = Game(ctx)
        cells, last = game.cells.number, self.rounds - 1
        chosen = [game.uniform(0, cells), game.uniform(cells, 2 * cells)]
        late: list[np.ndarray] = []
        early: list[np.ndarray] = []
        held, more = np.zeros(cells), chosen
        for t in ctx.rounds(self.rounds, again=False):
            if more:
                noise = -self.scale * np.log1p(-game.bonuses(self.s))
                found = game.found(chosen, -noise)
                if found is None:
                    continue
                (late if 4 * t >= last else early).append(found)
                held = game.cells.held(found)
            elif t == last:
                ctx.end("the last choice was lost")
            if t < last:
                more = game.select(self.s, held, choices=1, rho=ctx.share(last - t))
                chosen = chosen + more
        return game.model(late or early)
