"""The certificate of a release: a versioned document that says what was promised and paid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.charges import STORED, charge_faults, spent_units
from jam_dagster.certificates.withdrawal import Withdrawal
from jam_dagster.certificates.wording import Condition, conditions_of, guarantee_of
from jam_dagster.common.files import write_whole
from jam_dagster.errors import InputError
from jam_dagster.privacy import (
    Budget,
    Neighbours,
    NoiseCall,
    ReleaseKey,
    epsilon_from_rho,
    rho_within,
)
from jam_dagster.privacy.ledger.key import canonical_digest, canonical_json
from jam_dagster.privacy.warnings import configuration_warnings

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy import Event

SCHEMA = "jam_dagster certificate"
VERSION = 2
"""What is written; those of version 1 have no digests of outcomes, and are read all the same."""

READ_VERSIONS = (1, VERSION)

FILE_NAME = "certificate.json"

DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What reading something damaged ends in: wrong types, missing parts, bottomless lists."""


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
class Asked:
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


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What a release promises, what it cost, and what it left.

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
    asked: Asked
    noise: str
    draws: tuple[PaidDraw, ...]
    entries: tuple[Entry, ...]
    standing: Standing | None
    sampling: Sampling
    files: Mapping[str, FileHash]
    withdrawn: Withdrawal | None = None
    signature: Signature | None = None
    version: int = VERSION

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """What has to hold for the table to leave, and whether it does."""
        return conditions_of(self)

    @property
    def releasable(self) -> bool:
        """Whether the table may leave."""
        return all(condition.met for condition in self.conditions)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it may not leave; empty where it may."""
        return tuple(one.because for one in self.conditions if not one.met)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the settings is allowed and yet deserves a second look."""
        return configuration_warnings(self.asked.epsilon, self.asked.delta, self.records)

    @property
    def charge_faults(self) -> tuple[str, ...]:
        """What is wrong with the charges; empty where every draw was paid for."""
        return tuple(charge_faults(self.draws, self.entries, self.asked.shares))

    @property
    def rho_spent(self) -> float:
        """Rho of all draws, as it was charged."""
        return rho_within(spent_units(self.draws))

    @property
    def epsilon_spent(self) -> float:
        """What was spent, as epsilon at the release's delta."""
        return epsilon_from_rho(self.rho_spent, self.asked.delta) if self.draws else 0.0

    @property
    def digest(self) -> str:
        """SHA-256 of what the certificate says of its release, in hexadecimal.

        It names the certificate: one that is made again for nothing has the same, though the
        ledger has a later head by then.
        """
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with all that follows from it, its signature and its seal."""
        standing = self.standing
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "release": asdict(self.key),
            "made": self.made,
            "made_with": dict(self.made_with),
            "mechanism": {"name": self.mechanism, "parameters": dict(self.parameters)},
            "specification": dict(self.specification),
            "privacy": {
                "neighbours": {**self.neighbours.to_dict(), "unit": self.neighbours.describe()},
                "records": {"n": self.records, "public": self.neighbours.records_public},
                "asked": {
                    "epsilon": self.asked.epsilon,
                    "delta": self.asked.delta,
                    "rho": Budget(self.asked.epsilon, self.asked.delta).rho,
                    "shares": dict(self.asked.shares),
                },
                "spent": {"rho": self.rho_spent, "epsilon": self.epsilon_spent},
                "guarantee": list(guarantee_of(self)),
            },
            "domain": asdict(self.domain),
            "source_restriction": self.source_restriction,
            "noise": {
                "backend": self.noise,
                "draws": [{"share": one.share, **one.call.to_dict()} for one in self.draws],
            },
            "ledger": standing
            and {
                "entries": [entry.to_dict() for entry in self.entries],
                "events": standing.events,
                "head": standing.head,
                "dataset": dict(standing.totals),
            },
            "sampling": asdict(self.sampling),
            "files": {name: asdict(file) for name, file in self.files.items()},
            "releasable": {
                "may_leave": self.releasable,
                "conditions": [asdict(condition) for condition in self.conditions],
                "warnings": list(self.warnings),
            },
        }
        if self.withdrawn is not None:
            content["withdrawn"] = asdict(self.withdrawn)
        # As JSON gives it back: lists for tuples.
        content = json.loads(canonical_json(content))
        if self.signature is not None:
            content["signature"] = asdict(self.signature)
        return {**content, "seal": seal_of(content)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Certificate:
        """Return the certificate of a document; what follows from the rest is not looked at.

        Raises
        ------
        InputError
            If it is no certificate, or one of another version.
        """
        version = content.get("version")
        if (
            content.get("schema") != SCHEMA
            or type(version) is not int
            or (version not in READ_VERSIONS)
        ):
            raise InputError(
                f"This is no certificate of version {VERSION} or before: give the {FILE_NAME} of a "
                "release, or verify it with the version of jam-dagster that made it."
            )
        try:
            certificate = cls._parsed(content)
            # What follows from it needs the right types throughout.
            certificate.to_dict()
        except DAMAGE as wrong:
            raise InputError(
                f"The certificate is damaged ({type(wrong).__name__}: {wrong}). Restore it, or "
                "make it anew from its release, for nothing."
            ) from None
        return certificate

    @classmethod
    def _parsed(cls, content: Mapping[str, Any]) -> Certificate:
        privacy, ledger = content["privacy"], content["ledger"]
        relation = {name: privacy["neighbours"][name] for name in ("relation", "max_rows")}
        asked = {name: privacy["asked"][name] for name in ("epsilon", "delta", "shares")}
        calls = [dict(one) for one in content["noise"]["draws"]]
        return cls(
            key=ReleaseKey(**content["release"]),
            made=content["made"],
            made_with=content["made_with"],
            mechanism=content["mechanism"]["name"],
            parameters=content["mechanism"]["parameters"],
            specification=content["specification"],
            neighbours=Neighbours(**relation),
            records=content["privacy"]["records"]["n"],
            domain=DomainFacts(**content["domain"]),
            source_restriction=content["source_restriction"],
            asked=Asked(**asked),
            noise=content["noise"]["backend"],
            draws=tuple(PaidDraw(one.pop("share"), NoiseCall(**one)) for one in calls),
            entries=tuple(Entry(**one) for one in ledger["entries"]) if ledger else (),
            standing=Standing(ledger["events"], ledger["head"], ledger["dataset"])
            if ledger
            else None,
            sampling=Sampling(**content["sampling"]),
            files={name: FileHash(**file) for name, file in content["files"].items()},
            withdrawn=Withdrawal.from_dict(content["withdrawn"])
            if "withdrawn" in content
            else None,
            signature=Signature(**content["signature"]) if "signature" in content else None,
            version=content["version"],
        )

    def save(self, folder: Path | UPath) -> None:
        """Write ``certificate.json`` to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=1, sort_keys=True, ensure_ascii=False)
        write_whole(folder / FILE_NAME, (text + "\n").encode())

    @classmethod
    def load(cls, path: Path | UPath) -> Certificate:
        """Read a certificate, or the one in a folder; see `read_document`."""
        return cls.from_dict(read_document(path))


def read_document(path: Path | UPath) -> dict[str, Any]:
    """Return the document in a file, or in the ``certificate.json`` of a folder.

    Raises
    ------
    InputError
        If there is none.
    """
    file = path / FILE_NAME if path.is_dir() else path
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"There is no certificate to read at {file} ({reason}): give a {FILE_NAME}, or the "
            "folder that holds one."
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{file} is no JSON: give the {FILE_NAME} of a release.") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} is no certificate: give the {FILE_NAME} of a release.")
    return content


MOVING = frozenset({"ledger", "releasable", "seal", "signature", "withdrawn"})
"""The parts of a document that differ where the ledger has a later head, or follow from others."""


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what stays of a document, in canonical JSON; see `Certificate.digest`.

    The guarantee in words is left out too: it quotes the dataset's spending over its lifetime.
    """
    stays = {name: value for name, value in content.items() if name not in MOVING}
    said = {name: value for name, value in stays["privacy"].items() if name != "guarantee"}
    return canonical_digest({**stays, "privacy": said})


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal, in canonical JSON."""
    return canonical_digest({name: value for name, value in content.items() if name != "seal"})
