"""What a certificate says of a release, as data: nothing here judges, writes or reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from jam_dagster.privacy import Neighbours, NoiseCall, ReleaseKey

if TYPE_CHECKING:
    from jam_dagster.privacy import Event

VERSION = 2
"""What is written; those of version 1 have no digests of outcomes, and are read all the same."""

MECHANISM_SHARE, EVALUATION_SHARE = "mechanism", "evaluation"

STORED = "stored"
"""The kind of the entries that hold the digest of an outcome."""


@dataclass(frozen=True)
class PaidDraw:
    """A draw and the share that paid for it."""

    share: str
    call: NoiseCall


@dataclass(frozen=True)
class Entry:
    """An entry of the ledger, without who wrote it and when.

    Names of people have no place in what leaves, and the times of single charges would tell how
    long each round took to count, which no guarantee covers. The ledger's own hash of the entry
    covers both.
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

    @classmethod
    def of(cls, event: Event) -> Entry:
        """Return what a certificate tells of an event."""
        return cls(
            event.seq,
            event.kind.value,
            event.opening,
            event.share,
            event.step,
            event.units,
            event.hash,
            event.previous,
            event.digest,
        )

    @staticmethod
    def tells(event: Event) -> bool:
        """Return whether an event is one that certificates tell of."""
        return event.moves_amount or event.kind.value == STORED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a digest only where there is one."""
        return {name: value for name, value in asdict(self).items() if name != "digest" or value}


@dataclass(frozen=True)
class Standing:
    """Where the ledger and the dataset's budget stood when the certificate was made.

    Parameters
    ----------
    events, head
        Number of entries in the ledger, and the hash of the last one.
    totals
        The dataset's balance in the period that counts and over its lifetime, in units of 1e-15
        rho, and the policy by which it counts.
    """

    events: int
    head: str
    totals: Mapping[str, Any]


@dataclass(frozen=True)
class RequestedBudget:
    """What was asked of the budget: (epsilon, delta) of the whole release, and rho by share."""

    epsilon: float
    delta: float
    shares: Mapping[str, float]


@dataclass(frozen=True)
class DomainFacts:
    """Which domain, and where it came from."""

    digest: str
    identified_from: str
    attributes: int

    @property
    def restricted(self) -> bool:
        """Whether it was identified from private data, which nothing paid for."""
        return self.identified_from == "private"


@dataclass(frozen=True)
class MechanismPackage:
    """The package of somebody else that a mechanism comes from, and whether it was trusted.

    Parameters
    ----------
    name, version
        Of the package.
    trusted
        Whether the release trusts it by name.
    """

    name: str
    version: str
    trusted: bool


@dataclass(frozen=True)
class Sampling:
    """How the table was sampled.

    Parameters
    ----------
    rows
        How many rows.
    measurements
        SHA-256 of all that was measured.
    seed
        Of NumPy's default generator, in hexadecimal.
    derived
        Whether the seed is the first 16 bytes of `measurements`, as a release's always is.
    """

    rows: int
    measurements: str
    seed: str
    derived: bool


@dataclass(frozen=True)
class FileHash:
    """A file of the release: where it lies, from the certificate, and its SHA-256."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Signature:
    """Who signed a certificate.

    Parameters
    ----------
    key
        The public key: 32 bytes in base64.
    algorithm
        ``Ed25519``.
    value
        The signature in base64; see `signing.signed_bytes` for what it is of.
    """

    key: str
    algorithm: str
    value: str


@dataclass(frozen=True)
class Withdrawal:
    """That the certificates of a release were withdrawn: on which day, UTC, and why."""

    on: str
    reason: str

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return what a certificate tells of the ledger's event: not who withdrew it."""
        return cls(event.at[:10], event.reason)

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> Self:
        """Return what a document holds."""
        return cls(str(content["on"]), str(content["reason"]))

    @property
    def told(self) -> str:
        """It in a sentence."""
        return f"It was withdrawn on {self.on}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class ReleaseFacts:
    """What a certificate says of a release, as data.

    Parameters
    ----------
    key
        The release, as the ledger knows it.
    made
        When the release ended, by its last entry in the ledger, or the research was done: UTC, to
        the second.
    made_with
        Versions of what made it, and the table.
    mechanism, parameters
        Name and settings of the mechanism.
    package
        The package that it comes from; None for a mechanism of jam-dagster.
    specification
        All that the draws depend on, private data apart; its digest is part of the key.
    neighbours
        Which tables nobody may be able to tell apart.
    records
        n: as it is where neighbours share it, else as it was measured.
    domain
        The domain's digest and origin.
    source_restriction
        Why nothing made from the private table may leave; None where it may.
    asked
        The guarantee asked for, and its shares of rho.
    noise
        The noise backend.
    draws
        Every draw that was paid for, in order, lost ones included.
    entries
        The ledger's entries about the release; empty where no ledger was charged.
    standing
        The ledger's head and the dataset's totals; None where no ledger was charged.
    sampling
        How the table was sampled.
    files
        The files of the release, by what they are.
    withdrawn
        That the ledger had withdrawn the release's certificates by then; None where it had not.
    signature
        Who signed it; None where nobody did.
    version
        Of the document.
    """

    key: ReleaseKey
    made: str
    made_with: Mapping[str, str]
    mechanism: str
    parameters: Mapping[str, Any]
    specification: Mapping[str, Any]
    neighbours: Neighbours
    records: int
    domain: DomainFacts
    source_restriction: str | None
    asked: RequestedBudget
    noise: str
    draws: tuple[PaidDraw, ...]
    entries: tuple[Entry, ...]
    standing: Standing | None
    sampling: Sampling
    files: Mapping[str, FileHash]
    package: MechanismPackage | None = None
    withdrawn: Withdrawal | None = None
    signature: Signature | None = None
    version: int = VERSION
