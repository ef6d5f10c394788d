"""Independent: every attribute is measured by itself, without relations between attributes.

The baseline of Section 6 of McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative
Mechanism for Differentially Private Synthetic Data", VLDB 2022.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jam_dagster.mechanisms.base import (
    LineStyle,
    MechanismResult,
    OnRound,
    OrdinaryMechanism,
)
from jam_dagster.mechanisms.loops.base import attributes_of, check_share, in_rounds
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalRun,
    estimator_setting,
    iterations_setting,
    refit_graphical,
    tolerance_setting,
)
from jam_dagster.mechanisms.loops.settings import check_settings
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws


@dataclass(frozen=True)
class Independent(OrdinaryMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.mirror_descent.make_estimator`.

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

    estimator: str = estimator_setting()
    iterations: int = iterations_setting()
    tolerance: float = tolerance_setting()

    name: ClassVar[str] = "independent"
    title: ClassVar[str] = "Independent"
    summary: ClassVar[str] = "each attribute by itself, without relations"
    rank: ClassVar[int] = 50
    page: ClassVar[str] = "without_public_data.md#independent"
    line_style: ClassVar[LineStyle] = LineStyle("#6b7785", "cross")
    uses_public: ClassVar[bool] = False
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return the number of attributes that the workload names."""
        return len(attributes_of(workload))

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a measurement."""
        check_share(rho, 1, remedy="use fewer attributes")

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for an attribute."""
        check_share(rho, len(attributes_of(workload)), remedy="use fewer attributes")

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private`; see `Mechanism`.

        Raises
        ------
        DomainError
            If the private table is empty.
        SpecificationError
            If the budget is too little.
        BudgetExceededError
            If the account holds less than `draws` states.
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        self.check(private.domain, workload, draws.total)
        singles = [(name,) for name in attributes_of(workload)]
        run = GraphicalRun(self, private, singles, draws)

        def one_attribute(index: int) -> Round | str:
            started = time.monotonic()
            return run.complete(
                started,
                index,
                singles[index],
                candidates=len(singles),
                rho_measure=draws.remaining / (len(singles) - index),
            )

        return run.result(in_rounds(len(singles), one_attribute, on_round), workload)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return no sensitivity: this mechanism makes no selection."""
        return ()

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> FittedModel:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        return refit_graphical(transcript, domain)
