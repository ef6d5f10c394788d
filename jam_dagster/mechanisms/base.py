"""The base of all mechanisms, and the checks that they share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms.context import SMALLEST_RHO, Context, OnRound
from jam_dagster.mechanisms.live import Live, MechanismResult
from jam_dagster.mechanisms.loops.settings import check_settings, settings_of
from jam_dagster.models.base import Model
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload
from jam_dagster.tables.codes.block_counts import CountedTable

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws


PublicUse = Literal["must", "may", "cannot"]
"""Whether a mechanism learns from a public table: always, as its settings say, or never."""

MOST_SUBSETS = 20_000
"""Marginals that a mechanism may choose from, if they are not the workload's."""


class Mechanism(ABC):
    """A differentially private way to a model of the private table: one function of its draws.

    A subclass is a frozen dataclass whose fields are its settings
    (`jam_dagster.mechanisms.loops.settings`). `jam_dagster.mechanisms.make_mechanism` makes it by
    its name. Its class attributes are shown to readers.
    """

    name: ClassVar[str]
    """The mechanism's name in configuration."""

    title: ClassVar[str]
    """Its name for readers, from its paper."""

    summary: ClassVar[str]
    """Its particular feature, in a few words."""

    rank: ClassVar[int]
    """Its place in lists and legends, the lowest first. A mechanism of your own needs none."""

    page: ClassVar[str]
    """Its page in the documentation, from ``docs/mechanisms``, such as ``aim.md``, with an anchor
    on a shared page: ``without_public_data.md#mst``. A mechanism of your own gives a URL."""

    takes_public: ClassVar[PublicUse] = "cannot"
    """Whether the mechanism must, may or cannot learn from a public table."""

    samples: ClassVar[bool] = True
    """Whether its model samples rows; otherwise it gives answers and no synthetic table."""

    compared: ClassVar[bool] = False
    """Whether a plan tries it in addition to the requested mechanism."""

    pace: ClassVar[float] = 5.0
    """Seconds that a run takes for each hundred marginals, roughly; plans begin with it."""

    chooses_source: ClassVar[bool] = False
    """Whether a round may choose to take a marginal from the public table, for free, in place of
    measuring it on the private one."""

    takes_named_public: ClassVar[bool] = True
    """Whether it accepts public tables by name, each of which may lack attributes. A mechanism
    that weights the records of one whole table does not."""

    bounds_errors: ClassVar[bool] = False
    """Whether its rounds select by `GraphicalFit.select` alone, from which bounds on a release's
    errors follow; see `jam_dagster.evaluation.bounds`."""

    reads_values: ClassVar[bool] = True
    """Whether it looks at values of the private table. Otherwise a release counts the records,
    encodes none of them, and gives `run` a `RecordsOnly` as its private table."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def uses_public(self) -> bool:
        """Whether the mechanism, with its settings, learns from a public table and requires one."""
        return self.takes_public == "must"

    @property
    def titled(self) -> str:
        """The title of a run with these settings, which says if a public table is left out."""
        return self.title

    @property
    def described(self) -> str:
        """The title and all settings, in a line."""
        settings = ", ".join(f"{name} = {value}" for name, value in self.parameters().items())
        return f"{self.titled} ({settings})" if settings else self.titled

    @classmethod
    def without_public(cls) -> dict[str, Any]:
        """Return settings that are the default of a release without a public table.

        A mechanism that may learn from one has the setting that says so; by default none.
        """
        return {}

    def parameters(self) -> dict[str, Any]:
        """Return the settings that influence the outcome, as plain values."""
        return {name: getattr(self, name) for name in settings_of(type(self))}

    def marginals(self, domain: Domain, workload: Workload) -> Sequence[Clique]:
        """Return all private marginals that a run may ask for; some sources answer no others.

        By default the workload's downward closure.
        """
        return workload.downward_closure()

    def expected_rounds(self, domain: Domain, workload: Workload) -> int | None:
        """Return the maximal number of rounds; None, the default, if the run decides it."""
        return None

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for the settings alone.

        By default if it is too little for a draw.
        """
        check_share(rho, 1, remedy="use fewer attributes")

    @abstractmethod
    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start with `rho`, before anything is reserved."""

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
        self.check(private.domain, workload, draws.total)
        if self.uses_public:
            public_of(self, public)
        if isinstance(private, CountedTable):
            # Before any charge.
            private.check(self.marginals(private.domain, workload))
        live = Live(private, public, workload, draws)
        live.on_round = on_round
        return live.result(self.name, self.parameters(), self.draw(live))


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


def check_pairs(domain: Domain, names: Sequence[str], uses: str) -> None:
    """Raise SpecificationError if a pair of attributes is too large to be counted.

    `uses` says what the mechanism does with pairs.
    """
    check_countable(
        domain,
        subsets_of(names, 2),
        prefix=f"{uses} pairs of attributes, whatever the workload's degree:",
        remedy="Give the attributes fewer values, or choose a mechanism that measures only "
        "marginals of the workload, such as independent or tilt.",
    )


def subsets_of(names: Sequence[str], most: int) -> list[Clique]:
    """Return the marginals of at most so many attributes, the smallest first.

    Marginals of fewer attributes, but at least of pairs, if they are more than `MOST_SUBSETS`.
    """
    degrees = range(1, min(len(names), most) + 1)
    while len(degrees) > 2 and sum(math.comb(len(names), k) for k in degrees) > MOST_SUBSETS:
        degrees = degrees[:-1]
    return [clique for degree in degrees for clique in combinations(names, degree)]


def maximal_of(marginals: Iterable[Clique]) -> list[Clique]:
    """Return the marginals that are within no other one, in their order."""
    sets = {one: frozenset(one) for one in marginals}
    return [one for one, names in sets.items() if not any(names < more for more in sets.values())]


def public_of(mechanism: Mechanism, public: MarginalSource | None) -> MarginalSource:
    """Return the public table of a mechanism that needs one, or raise DomainError."""
    if public is None:
        raise DomainError(
            f"{mechanism.name} needs a public table: give one, or {instead_of_public(mechanism)}."
        )
    return public


def instead_of_public(mechanism: Mechanism) -> str:
    """Return what else than a public table mends a release with a mechanism that needs one."""
    without = [f"set {key}: {one}" for key, one in mechanism.without_public().items()]
    return ", ".join(without) or f"choose a mechanism that needs none, such as {RECOMMENDED}"


def attributes_of(workload: Workload) -> Clique:
    """Return the attributes that a workload names, in the order of the domain."""
    named = {name for clique in workload.cliques for name in clique}
    return tuple(name for name in workload.attributes if name in named)
