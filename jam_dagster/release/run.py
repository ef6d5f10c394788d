"""A mechanism's run, and the workload errors of its table, each with the release they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jam_dagster.evaluation import WorkloadErrors
from jam_dagster.mechanisms import MechanismResult
from jam_dagster.mechanisms.loops.transcript import measurements_hash
from jam_dagster.privacy import ReleaseKey

if TYPE_CHECKING:
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain


@dataclass(frozen=True)
class ReleaseIdentity:
    """Which release a run made, and what that release guarantees.

    Parameters
    ----------
    key
        As the ledger knows it; for seeded noise, which no ledger knows, it holds the seed by its
        specification's digest.
    epsilon, delta
        The guarantee of the whole release.
    shares
        rho by share.
    """

    key: ReleaseKey
    epsilon: float
    delta: float
    shares: Mapping[str, float]

    @classmethod
    def of(cls, spec: ReleaseSpec, domain: Domain | None, partition: str) -> ReleaseIdentity:
        """Return the identity of the release that is configured now."""
        privacy = spec.privacy
        return cls(spec.key(domain, partition), privacy.epsilon, privacy.delta, spec.shares)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ReleaseIdentity:
        """Return what `to_dict` described."""
        return cls(**{**content, "key": ReleaseKey(**content["key"])})


@dataclass(frozen=True, eq=False)
class ReleaseRun(MechanismResult):
    """A mechanism's result, with the release that it made.

    Parameters
    ----------
    release
        Which release.
    """

    release: ReleaseIdentity

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the release's key and all measurements, both of which may leave."""
        key = json.dumps(asdict(self.release.key), sort_keys=True).encode()
        return measurements_hash(self.transcript, prefix=key).hexdigest()


@dataclass(frozen=True)
class ReleaseErrors(WorkloadErrors):
    """Workload errors, with the digest of the run that made the evaluated table."""

    run: str = ""
