"""Gaussian: every marginal of the workload is measured once, without a model.

The baseline of Section 6 of McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative
Mechanism for Differentially Private Synthetic Data", VLDB 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import (
    Mechanism,
    check_countable,
    check_share,
)
from jam_dagster.mechanisms.context import SMALLEST_RHO, Context
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.measured_answers import MeasuredAnswers
from jam_dagster.tables import Domain, Workload


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """The mechanism; it has no settings.

    Notes
    -----
    There is no selection. A marginal of weight c and n possible cells gets a share of the budget in
    proportion to ``(c n)^(2/3)``, which minimises the expected workload error of the noise,
    ``sum_r c_r n_r sqrt(2/pi) sigma_r``. Equal weights and sizes give equal shares.

    The answers are the measured tables without negative counts and with the sum n, which are more
    accurate than the raw measurements in the transcript. They need not be consistent with any
    table, so no rows are sampled.
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian"
    summary: ClassVar[str] = "answers a workload, marginal by marginal; samples no table"
    rank: ClassVar[int] = 60
    page: ClassVar[str] = "without_public_data.md#gaussian"
    samples: ClassVar[bool] = False

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of marginals of the workload."""
        return len(workload)

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a measurement."""
        check_share(rho, 1, remedy="use a smaller workload")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a marginal, or a marginal is too large to be counted.
        """
        check_countable(domain, workload.cliques)
        parts = shares_of(domain, workload) * rho
        least = int(parts.argmin())
        if parts[least] < SMALLEST_RHO:
            raise SpecificationError(
                f"A budget of rho = {rho:.3g} leaves the marginal "
                f"{' x '.join(workload.cliques[least])} {parts[least]:.3g}, less than the "
                f"{SMALLEST_RHO:.0e} that is worth its noise. Raise epsilon, or use a smaller "
                "workload."
            )

    def draw(self, ctx: Context) -> MeasuredAnswers:
        """Measure each marginal with its share of what is left."""
        cliques, shares = ctx.workload.cliques, shares_of(ctx.domain, ctx.workload)
        answers = MeasuredAnswers(ctx.domain, ctx.records)
        ctx.hold(cliques)
        ctx.model = lambda: answers
        for t in ctx.rounds(len(cliques)):
            rho = ctx.remaining * float(shares[t] / shares[t:].sum())
            ctx.fit(answers, ctx.measure(cliques[t], rho, among=len(cliques)))
        return answers


def shares_of(domain: Domain, workload: Workload) -> np.ndarray:
    """Return the share of the budget of each marginal of the workload; they sum to one.

    ``sum_r c_r n_r rho_r^(-1/2)`` for a given sum of all rho_r is least where its derivatives
    ``c_r n_r rho_r^(-3/2)`` are equal.
    """
    # Answers are zero in impossible cells, so only possible cells count.
    cells = possible_sizes(domain, workload.cliques)
    parts: np.ndarray = (np.array(workload.weights) * cells) ** (2 / 3)
    parts /= parts.sum()
    return parts
