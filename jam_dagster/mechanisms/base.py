"""What every mechanism offers, so that pipelines, ledgers and benchmarks treat them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from jam_dagster.mechanisms.loops.selections import SelectionRule
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.base import Model
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws

OnRound = Callable[[Round], None]

Shape = Literal[
    "circle",
    "cross",
    "diamond",
    "saltire",
    "square",
    "star",
    "triangle-down",
    "triangle-left",
    "triangle-right",
    "triangle-up",
]


class LineStyle(NamedTuple):
    """How a mechanism's line looks in the figures of a benchmark.

    Attributes
    ----------
    colour
        Of the line and its markers, as ``#rrggbb``; no other mechanism has it. Its contrast is 3 or
        more on white and on the dark ground of pages.
    shape
        Of the markers. No other mechanism of the same `Mechanism.uses_public` has it, so that lines
        are told apart without any colour, too.
    """

    colour: str
    shape: Shape


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


class OrdinaryMechanism:
    """What holds for a mechanism whose class does not say otherwise; see `Mechanism`."""

    chooses_source: ClassVar[bool] = False
    takes_named_public: ClassVar[bool] = True
    selection_rule: ClassVar[SelectionRule | None] = None


class Mechanism(Described, Protocol):
    """A differentially private way to a model of the private table.

    A mechanism is a frozen dataclass of settings (`jam_dagster.mechanisms.loops.settings`).
    `jam_dagster.mechanisms.make_mechanism` makes it by its name. What people read about it stands
    on its class.
    """

    uses_public: ClassVar[bool]
    """Whether the mechanism learns from a public table, and needs one."""

    samples: ClassVar[bool]
    """Whether its model samples rows; without, there are answers and no synthetic table."""

    title: ClassVar[str]
    """What it is called where people read, as its paper calls it."""

    summary: ClassVar[str]
    """What is particular about it, in a few words."""

    rank: ClassVar[int]
    """Its place in lists and legends, the lowest first; those of other packages come last."""

    page: ClassVar[str]
    """Its page in the documentation, from ``docs/mechanisms``, such as ``aim.md``; one of several
    on a page has an anchor besides: ``without_public_data.md#mst``. A mechanism of another package
    gives an address."""

    line_style: ClassVar[LineStyle]
    """How its line looks in the figures of a benchmark."""

    chooses_source: ClassVar[bool]
    """Whether a round may choose to take a marginal from the public table, for free, in place of
    measuring it on the private one."""

    takes_named_public: ClassVar[bool]
    """Whether public tables may be given by name, each of which may lack attributes. What weighs
    the records of one whole table can do nothing with such."""

    selection_rule: ClassVar[SelectionRule | None]
    """How its rounds select, where they do so by weighted L1 errors, from which bounds on the
    errors of a release follow; None: in another way."""

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
