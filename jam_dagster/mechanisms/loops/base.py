"""The base of the mechanisms of this package, and the checks that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms.base import MechanismResult, OnRound, OrdinaryMechanism
from jam_dagster.mechanisms.context import SMALLEST_RHO, Context
from jam_dagster.mechanisms.live import Inputs, Live
from jam_dagster.mechanisms.loops.settings import check_settings
from jam_dagster.models.base import Model
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws


def check_countable(
    domain: Domain,
    cliques: Iterable[Clique],
    *,
    prefix: str = "The workload's marginal",
    remedy: str = "Lower the workload's degree, or give the attributes fewer values.",
) -> None:
    """Raise SpecificationError if a marginal that a run may need is too large to be counted."""
    sizes = {q: domain.size(q) for q in cliques}
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] > LARGEST_MARGINAL_CELLS:
        raise SpecificationError(
            f"{prefix} {' x '.join(largest)} has {sizes[largest]:,} cells; at most "
            f"{LARGEST_MARGINAL_CELLS:,} can be counted. {remedy}"
        )


def check_share(rho: float, rounds: int, *, remedy: str = "lower rounds") -> None:
    """Raise SpecificationError if `rho` is too little for `rounds` draws."""
    if rho / rounds < SMALLEST_RHO:
        raise SpecificationError(
            f"A budget of rho = {rho:.3g} leaves {rounds} draws {rho / rounds:.3g} each, less "
            f"than the minimum of {SMALLEST_RHO:.0e}. Raise epsilon, or {remedy}."
        )


def public_of(mechanism: OrdinaryMechanism, public: MarginalSource | None) -> MarginalSource:
    """Return the public table of a mechanism that needs one, or raise DomainError."""
    if public is None:
        raise DomainError(
            f"{mechanism.name} needs a public table: give one, or choose a mechanism that needs "
            "none, such as aim."
        )
    return public


def attributes_of(workload: Workload) -> Clique:
    """Return the attributes that a workload names, in the order of the domain."""
    named = {name for clique in workload.cliques for name in clique}
    return tuple(name for name in workload.attributes if name in named)


class IterativeMechanism(OrdinaryMechanism, ABC):
    """The base of the mechanisms of this package, each of which is one function of its draws.

    A subclass is a frozen dataclass whose fields are its settings.
    """

    def __post_init__(self) -> None:
        check_settings(self)

    @abstractmethod
    def expected_rounds(self, domain: Domain, workload: Workload) -> int | None:
        """Return the number of rounds; None if the run decides it."""

    @abstractmethod
    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""

    @abstractmethod
    def draw(self, ctx: Context) -> Model:
        """Make all draws of a run, and return its model.

        It runs live, and again from a transcript: nothing but the scores of a draw may depend on
        private data, and nothing on the time or on a generator.
        """

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private`; see `Mechanism.run`."""
        self.check(private.domain, workload, draws.total)
        if self.uses_public:
            public_of(self, public)
        live = Live(self, Inputs(private, public, workload, draws), on_round)
        return live.result(self.draw(live))
