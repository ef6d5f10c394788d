"""What every mechanism offers, so that pipelines, ledgers and benchmarks treat them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from jam_dagster.errors import DomainError, InputError
from jam_dagster.mechanisms.estimation import make_estimator
from jam_dagster.mechanisms.model import FittedModel
from jam_dagster.mechanisms.transcript import Round, Transcript
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
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

    model: FittedModel
    transcript: Transcript
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True)


class Mechanism(Protocol):
    """A differentially private way to a model of the private table."""

    @property
    def name(self) -> str:
        """The name by which configuration selects the mechanism."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings that influence the outcome, as plain values."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start with `rho`, before anything is reserved."""

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`."""


def refit(transcript: Transcript, domain: Domain) -> FittedModel:
    """Rebuild the model of a transcript, without private data and without cost.

    Parameters
    ----------
    transcript
        A whole transcript.
    domain
        The domain that it refers to.

    Returns
    -------
    FittedModel
        The model that the run returned: the same fits in the same order.

    Raises
    ------
    DomainError
        If `domain` is not the transcript's.
    InputError
        If the transcript does not say how the model was fitted.
    """
    if domain.digest != transcript.domain_digest:
        raise DomainError(
            "This transcript belongs to another domain "
            f"(digest {transcript.domain_digest[:12]}, given {domain.digest[:12]}); "
            "give the domain that was stored with it."
        )
    settings = transcript.parameters
    missing = [name for name in ("estimator", "iterations", "tolerance") if name not in settings]
    if missing:
        raise InputError(
            f"This transcript does not say with which {missing[0]} its model was fitted: it comes "
            "from an earlier version. Load the model that was stored beside it instead."
        )
    estimator = make_estimator(
        settings["estimator"],
        domain,
        transcript.records,
        iterations=settings["iterations"],
        tolerance=settings["tolerance"],
        weighting=settings.get("weighting", "alike"),
    )
    for measurement in transcript.measurements:
        estimator.add(measurement)
    return estimator.model.recalibrated()
