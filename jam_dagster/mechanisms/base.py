"""What every mechanism offers, so that pipelines, ledgers and benchmarks treat them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.base import Model
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws

OnRound = Callable[[Round], None]


@dataclass(frozen=True, eq=False)
class MechanismResult:
    """A fitted model and the transcript from which it can be refitted.

    Attributes
    ----------
    model, transcript
        What was released.
    seconds
        Wall-clock time of each stage of the run.
    """

    model: Model
    transcript: Transcript
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True)


class Described(Protocol):
    """A mechanism as transcripts tell it."""

    @property
    def name(self) -> str:
        """The name by which configuration selects the mechanism."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings that influence the outcome, as plain values."""


class Mechanism(Described, Protocol):
    """A differentially private way to a model of the private table.

    A mechanism is a frozen dataclass of settings (`jam_dagster.mechanisms.loops.settings`).
    `jam_dagster.mechanisms.make_mechanism` makes it by its name.
    """

    @property
    def uses_public(self) -> bool:
        """Whether the mechanism learns from a public table, and needs one."""

    @property
    def samples(self) -> bool:
        """Whether its model samples rows; without, there are answers and no synthetic table."""

    def expected_rounds(self, domain: Domain, workload: Workload) -> int | None:
        """Return how many rounds a run takes at most; None where that is not known before."""

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little, as far as settings alone can tell."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start with `rho`, before anything is reserved."""

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`."""

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return what the sensitivity of each round's selection must be, from the first round on.

        A certificate holds every selection to it: that of round t, as `run.step_of` numbers it, to
        the element t - 1. It may be endless, where all rounds select alike. What a measurement
        must be follows from the transcript: `Neighbours.marginal_l2` of a marginal, and
        `Neighbours.cell` of a single cell.
        """

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> Model:
        """Rebuild the model of a transcript of this mechanism; see `mechanisms.refit`."""
