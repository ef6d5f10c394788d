"""A release as a run: what a plan tries on two halves of the public table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from jam_dagster.mechanisms.loops.rows import MOST_AT_ONCE
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.ledger.release_id import canonical_digest
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import HALVES

if TYPE_CHECKING:
    from jam_dagster.mechanisms import Mechanism
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain, Workload


@dataclass(frozen=True)
class PlannedRun(Run):
    """A release with seeded noise, or a baseline for it: its specification says what is run."""

    spec: ReleaseSpec = field(kw_only=True)

    @classmethod
    def of(cls, spec: ReleaseSpec, seed: int, baseline: str = "") -> Self:
        """Return the run of a release, or a baseline over its workload."""
        asked: dict[str, Any] = {"delta": spec.privacy.delta, "spec": spec}
        asked["degree"] = spec.workload.degree or 0
        if baseline:
            return cls(HALVES, baseline, seed=seed, **asked)
        mechanism = spec.mechanism.build()
        settings = tuple(spec.mechanism.settings.items())
        epsilon, label = spec.privacy.epsilon, mechanism.titled
        return cls(HALVES, mechanism.name, settings, epsilon, seed, label=label, **asked)

    def make(self) -> Mechanism:
        """Return the release's mechanism."""
        return self.spec.mechanism.build()

    @property
    def rho(self) -> float:
        """The mechanism's share of the budget, in rho; 0 for a baseline."""
        return 0.0 if self.is_baseline else self.spec.shares[MECHANISM]

    def marginals(self, domain: Domain) -> Workload:
        """Return the release's workload."""
        return self.spec.workload.build(domain)

    def draws(self) -> Draws:
        """Return seeded draws by the neighbours that the release protects."""
        protection = self.spec.privacy.protection
        return Draws(
            SeededNoise(self.seed or 0),
            UnledgeredAccount(self.rho),
            neighbours=protection.neighbours,
            records_share=protection.records_share,
        )

    def searches(self, domain: Domain, rows: int) -> bool:
        """Return whether the release searches so many rows: none that are made in chunks."""
        whole = rows <= MOST_AT_ONCE or domain.children is not None
        return whole and self.spec.sampling.search

    def key(self, fingerprint: str) -> str:
        """Return the run's key, which no other run of a benchmark has."""
        parts = (super().key(fingerprint), self.spec.configured)
        return canonical_digest({"run": parts[0], "release": parts[1]})[:16]
