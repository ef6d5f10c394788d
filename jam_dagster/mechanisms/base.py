"""The protocol of mechanisms for pipelines, ledgers and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.mechanisms.loops.transcript import Round, Transcript
from jam_dagster.models.base import Model
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws

OnRound = Callable[[Round], None]


@dataclass(frozen=True, eq=False)
class MechanismResult:
    """A fitted model and the transcript from which it can be refitted.

    Attributes
    ----------
    model, transcript
        The released results.
    seconds
        Wall-clock time of each stage of the run.
    """

    model: Model
    transcript: Transcript
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True)


class OrdinaryMechanism:
    """Defaults of what a mechanism says of itself; see `Mechanism`."""

    name: ClassVar[str]
    uses_public: ClassVar[bool]
    chooses_source: ClassVar[bool] = False
    takes_named_public: ClassVar[bool] = True
    bounds_errors: ClassVar[bool] = False
    compared: ClassVar[bool] = False
    pace: ClassVar[float] = 5.0
    reads_values: ClassVar[bool] = True

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {name: getattr(self, name) for name in settings_of(type(self))}

    def marginals(self, domain: Domain, workload: Workload) -> Sequence[Clique]:
        """Return the workload's downward closure."""
        return workload.downward_closure()


class Mechanism(Protocol):
    """A differentially private way to a model of the private table.

    A mechanism is a frozen dataclass of settings (`jam_dagster.mechanisms.loops.settings`).
    `jam_dagster.mechanisms.make_mechanism` makes it by its name. Its class attributes are shown to
    readers.
    """

    name: ClassVar[str]
    """The mechanism's name in configuration."""

    uses_public: ClassVar[bool]
    """Whether the mechanism learns from a public table and requires one."""

    samples: ClassVar[bool]
    """Whether its model samples rows; otherwise it gives answers and no synthetic table."""

    title: ClassVar[str]
    """Its name for readers, from its paper."""

    summary: ClassVar[str]
    """Its particular feature, in a few words."""

    rank: ClassVar[int]
    """Its place in lists and legends, the lowest first; those of other packages come last."""

    page: ClassVar[str]
    """Its page in the documentation, from ``docs/mechanisms``, such as ``aim.md``, with an anchor
    on a shared page: ``without_public_data.md#mst``. A mechanism of another package gives a URL."""

    compared: ClassVar[bool]
    """Whether a plan tries it beside whichever mechanism is asked for."""

    pace: ClassVar[float]
    """Seconds that a run takes for each hundred marginals, roughly; plans begin with it."""

    chooses_source: ClassVar[bool]
    """Whether a round may choose to take a marginal from the public table, for free, in place of
    measuring it on the private one."""

    takes_named_public: ClassVar[bool]
    """Whether it accepts public tables by name, each of which may lack attributes. A mechanism
    that weights the records of one whole table does not."""

    bounds_errors: ClassVar[bool]
    """Whether its rounds select by `GraphicalFit.select` alone, from which bounds on a release's
    errors follow; see `jam_dagster.evaluation.bounds`."""

    reads_values: ClassVar[bool]
    """Whether it looks at values of the private table. Otherwise a release counts the records,
    encodes none of them, and gives `run` a `RecordsOnly` as its private table."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings that influence the outcome, as plain values."""

    def expected_rounds(self, domain: Domain, workload: Workload) -> int | None:
        """Return the maximal number of rounds; None if it is not known before the run."""

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for the settings alone."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start with `rho`, before anything is reserved."""

    def marginals(self, domain: Domain, workload: Workload) -> Sequence[Clique]:
        """Return all private marginals that `run` may ask for; some sources answer no others."""

    def draw(self, ctx: Any) -> Model:
        """Make all draws of a run by its `Context`, and return its model."""

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`.

        Parameters
        ----------
        private
            The table to protect.
        public
            A related table over the same domain, or over a projection of it if it lacks
            attributes, or `PublicTables`; rows are not protected. A mechanism that uses no public
            data ignores it.
        workload
            The marginals that matter.
        draws
            Charges, draws and stores. Stored outcomes are reused without a charge, so an
            interrupted run resumes.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If there is no public table and the mechanism needs one, the tables' domains differ, or
            a table is empty.
        SpecificationError, EmptyCandidateSetError
            As `check` does; nothing is charged then.
        BudgetExceededError
            If the account holds less than `draws` states.
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
