"""Independent: every attribute is measured by itself, without relations between attributes.

The baseline of Section 6 of McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative
Mechanism for Differentially Private Synthetic Data", VLDB 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.base import attributes_of, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.tables import Domain, Workload


@dataclass(frozen=True)
class Independent(GraphicalMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    There is no selection. The attributes of the workload share the budget equally; all others stay
    uniform, as in AIM. The model is the product of the fitted one-way marginals, except for the
    impossible combinations of the domain.
    """

    name: ClassVar[str] = "independent"
    title: ClassVar[str] = "Independent"
    summary: ClassVar[str] = "each attribute by itself, without relations"
    rank: ClassVar[int] = 50
    page: ClassVar[str] = "without_public_data.md#independent"

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of attributes that the workload names."""
        return len(attributes_of(workload))

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for an attribute."""
        check_share(rho, len(attributes_of(workload)), remedy="use fewer attributes")

    def draw(self, ctx: Context) -> FittedModel:
        """Measure each attribute with an equal share of what is left."""
        singles = [(name,) for name in attributes_of(ctx.workload)]
        fit = GraphicalFit(ctx, self, singles)
        for t in ctx.rounds(len(singles)):
            rho = ctx.remaining / (len(singles) - t)
            fit.add(ctx.measure(singles[t], rho, among=len(singles)))
        return fit.model
