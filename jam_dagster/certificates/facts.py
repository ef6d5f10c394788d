"""The facts of a release in its certificate, as data without judgement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jam_dagster.privacy import Budget, NoiseCall, ReleaseId
from jam_dagster.tables.domain.domain import Provenance
from jam_dagster.tables.sources.dialect import DEFAULT_DIALECT, Dialect

if TYPE_CHECKING:
    from jam_dagster.privacy import Event
    from jam_dagster.tables import Domain

VERSION = 2
"""The version of the document; none of another version is read."""

STORED = "stored"
"""The kind of the entries that hold the digest of an outcome."""

DERIVED = "derived"
"""The kind of the entries that hold the digest of what follows from outcomes."""

RAN = "ran"
"""The kind of the entries that hold the digest of a run."""

COUNTED = "counted"
"""The kind of the entries that hold a public number of records."""


def to_the_second(at: str) -> str:
    """Return an instant of the ledger in the form of certificates."""
    return datetime.fromisoformat(at).astimezone(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class PaidDraw:
    """A draw and the share that paid for it."""

    share: str
    call: NoiseCall


@dataclass(frozen=True)
class Entry:
    """An entry of the ledger, without its author and time.

    A released document must not name people, and the times of single charges would reveal how long
    each round took to count, which no guarantee covers. The ledger's own hash of the entry covers
    both.
    """

    seq: int
    kind: str
    opening: str
    share: str
    step: str
    units: int
    hash: str
    previous: str
    digest: str = ""
    records: str = ""
    selections: int | None = None

    @classmethod
    def of(cls, event: Event) -> Entry:
        """Return the entry of an event."""
        own = {one.name: getattr(event, one.name) for one in fields(cls)}
        return cls(**own | {"kind": event.kind.value})

    @staticmethod
    def is_listed(event: Event) -> bool:
        """Return whether certificates list an event."""
        return event.moves_amount or event.kind.value in (STORED, DERIVED, COUNTED, RAN)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a digest, a number of records and a delta only if there is one."""
        optional = ("digest", "records", "selections")
        return {
            name: value for name, value in asdict(self).items() if name not in optional or value
        }


@dataclass(frozen=True)
class Standing:
    """The state of the ledger and the dataset's budget when the certificate was issued.

    Parameters
    ----------
    events, head
        Number of entries in the ledger, and the hash of the last one.
    totals
        The dataset's balance in its period and over its lifetime, in units of 1e-15 rho, and the
        policy of its budget.
    """

    events: int
    head: str
    totals: Mapping[str, Any]


@dataclass(frozen=True)
class RequestedBudget:
    """The requested budget: (epsilon, delta) of the whole release, and rho by share.

    `selections` is the part of delta that selections of values have.
    """

    epsilon: float
    delta: float
    shares: Mapping[str, float]
    selections: float = 0.0

    @property
    def budget(self) -> Budget:
        """The budget of the whole release."""
        return Budget(self.epsilon, self.delta, self.selections)


@dataclass(frozen=True, kw_only=True)
class ReleaseTerms:
    """Facts of a release and its request, which do not depend on its run's draws.

    Parameters
    ----------
    release_id, specification
        The release's id, and its specification.
    asked
        The requested guarantee, and its shares.
    source_restriction
        Why results of the private table must not be released.
    dialect
        The dialect of the table, if it is a CSV file.
    drawn_on
        The releases that it was drawn on, one on the other, the latest first.
    """

    release_id: ReleaseId
    specification: Mapping[str, Any]
    asked: RequestedBudget
    source_restriction: str | None = None
    dialect: Dialect = DEFAULT_DIALECT
    drawn_on: Sequence[ReleaseId] = ()


@dataclass(frozen=True)
class DomainFacts:
    """The domain's digest and origin, and the digest of the domain that asked if it was bought."""

    digest: str
    identified_from: Provenance
    attributes: int
    asked: str = ""

    @classmethod
    def of(cls, domain: Domain) -> DomainFacts:
        """Return the facts of a domain."""
        asked = "" if domain.bought is None else domain.specified
        return cls(domain.digest, domain.identified_from, len(domain.names), asked)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a certificate holds them, without what there is none of."""
        return {name: value for name, value in asdict(self).items() if value != ""}

    @property
    def restricted(self) -> bool:
        """Whether it was identified from private data, without a charge."""
        return self.identified_from == "private"


@dataclass(frozen=True)
class Sampling:
    """The sampling of the table.

    Parameters
    ----------
    rows
        Number of rows.
    measurements
        SHA-256 of all measurements.
    seed
        Seed of NumPy's default generator, in hexadecimal.
    derived
        Whether the seed is the first 16 bytes of `measurements`, as in every release.
    search
        The settings of the search for rows, with its workload; None: rows were sampled alone.
    chunk_rows
        The most rows that were sampled at a time, each time with a generator of its own; None: all
        rows were sampled at once.
    dialect
        The separator, encoding and decimal mark of the table's CSV file as `Dialect` has them, if
        they differ from the default.
    """

    rows: int
    measurements: str
    seed: str
    derived: bool
    search: Mapping[str, Any] | None = None
    chunk_rows: int | None = None
    dialect: Mapping[str, str] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a certificate holds them, without what there is none of."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class FileHash:
    """A file of the release: its path relative to the certificate, and its SHA-256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Signature:
    """The signature of a certificate.

    `key` is the public key: 32 bytes in base64. `value` signs `signing.signed_bytes`.
    """

    key: str
    algorithm: str
    value: str


@dataclass(frozen=True)
class Withdrawal:
    """The withdrawal of a release's certificates: its day, UTC, and its reason.

    `of` names the withdrawn release if a certificate's release was drawn on it, by itself or by
    others; it is empty if the release itself was withdrawn.
    """

    on: str
    reason: str
    of: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return plain values; the name of another release only if there is one."""
        return {name: value for name, value in asdict(self).items() if name != "of" or value}

    @property
    def sentence(self) -> str:
        """The withdrawal in a sentence."""
        which = f"It was drawn on {self.of}, which" if self.of else "It"
        return f"{which} was withdrawn on {self.on}: {self.reason}"
