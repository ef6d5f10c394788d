"""The certificate of a release: a versioned document of its guarantee and its charges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.charges import charge_faults, spent_units
from jam_dagster.certificates.facts import (
    VERSION,
    DomainFacts,
    Entry,
    FileHash,
    MechanismPackage,
    PaidDraw,
    ReleaseFacts,
    RequestedBudget,
    Sampling,
    Signature,
    Standing,
    Withdrawal,
)
from jam_dagster.certificates.wording import Condition, conditions_of, guarantee_of
from jam_dagster.common.files import read_text_bytes, write_whole
from jam_dagster.common.json_text import parse_json
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


SCHEMA = "jam_dagster certificate"

FILE_NAME = "certificate.json"

DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions from reading a damaged document: wrong types, missing parts, deep nesting."""


@dataclass(frozen=True, kw_only=True)
class Certificate(ReleaseFacts):
    """The facts of a release with their judgement; it can be written and read."""

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions for releasing the table, and whether they hold."""
        return conditions_of(self, self.charge_faults)

    @property
    def releasable(self) -> bool:
        """Whether the table may be released."""
        return all(condition.met for condition in self.conditions)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the table must not be released; empty if it may be."""
        return tuple(one.because for one in self.conditions if not one.met)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about allowed but unusual settings."""
        return configuration_warnings(self.asked.epsilon, self.asked.delta, self.records)

    @property
    def charge_faults(self) -> tuple[str, ...]:
        """The faults of the charges; empty if every draw was paid for."""
        return tuple(charge_faults(self.draws, self.entries, self.asked.shares))

    @property
    def rho_spent(self) -> float:
        """The charged rho of all draws."""
        return rho_within(spent_units(self.draws))

    @property
    def epsilon_spent(self) -> float:
        """The spent rho, as epsilon at the release's delta."""
        return epsilon_from_rho(self.rho_spent, self.asked.delta) if self.draws else 0.0

    @property
    def digest(self) -> str:
        """SHA-256 of the certificate's facts about its release, in hexadecimal.

        It identifies the certificate: a certificate that is issued again has the same digest,
        although the ledger has a later head by then.
        """
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with its derived parts, its signature and its seal."""
        standing = self.standing
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "release": asdict(self.key),
            "made": self.made,
            "made_with": dict(self.made_with),
            "mechanism": {
                "name": self.mechanism,
                "parameters": dict(self.parameters),
                **({} if self.package is None else {"package": asdict(self.package)}),
            },
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
                "guarantee": list(guarantee_of(self, releasable=self.releasable)),
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
            "sampling": self.sampling.to_dict(),
            "files": {name: asdict(file) for name, file in self.files.items()},
            "releasable": {
                "may_leave": self.releasable,
                "conditions": [asdict(condition) for condition in self.conditions],
                "warnings": list(self.warnings),
            },
        }
        if self.counted_by is not None:
            content["counted_by"] = self.counted_by
        if self.drawn_on:
            content["drawn_on"] = [asdict(one) for one in self.drawn_on]
        if self.withdrawn is not None:
            content["withdrawn"] = self.withdrawn.to_dict()
        # As JSON reads it: lists for tuples.
        content = json.loads(canonical_json(content))
        if self.signature is not None:
            content["signature"] = asdict(self.signature)
        return {**content, "seal": seal_of(content)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Certificate:
        """Return the certificate of a document; its derived parts are ignored.

        Raises
        ------
        InputError
            If it is not a certificate, or one of another version.
        """
        version = content.get("version")
        if content.get("schema") != SCHEMA or type(version) is not int or version != VERSION:
            raise InputError(
                f"This is not a certificate of version {VERSION}: give the {FILE_NAME} of a "
                "release, or verify it with the version of jam-dagster that made it."
            )
        try:
            certificate = cls._parsed(content)
            # The derived parts need the right types throughout.
            certificate.to_dict()
        except DAMAGE as wrong:
            raise InputError(
                f"The certificate is damaged ({type(wrong).__name__}: {wrong}). Restore it, or "
                "issue it again from its release, which charges nothing."
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
            made_with=dict(content["made_with"]),
            mechanism=content["mechanism"]["name"],
            parameters=content["mechanism"]["parameters"],
            package=MechanismPackage(**content["mechanism"]["package"])
            if "package" in content["mechanism"]
            else None,
            specification=content["specification"],
            neighbours=Neighbours(**relation),
            records=content["privacy"]["records"]["n"],
            domain=DomainFacts(**content["domain"]),
            source_restriction=content["source_restriction"],
            asked=RequestedBudget(**asked),
            noise=content["noise"]["backend"],
            draws=tuple(PaidDraw(one.pop("share"), NoiseCall(**one)) for one in calls),
            entries=tuple(Entry(**one) for one in ledger["entries"]) if ledger else (),
            standing=Standing(ledger["events"], ledger["head"], ledger["dataset"])
            if ledger
            else None,
            sampling=Sampling(**content["sampling"]),
            files={name: FileHash(**file) for name, file in content["files"].items()},
            counted_by=content.get("counted_by"),
            drawn_on=tuple(ReleaseKey(**one) for one in content.get("drawn_on", ())),
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
    """Return the document in a file, or in the ``certificate.json`` of a folder."""
    file = path / FILE_NAME if path.is_dir() else path
    try:
        content = parse_json(read_text_bytes(file))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(
            f"There is no certificate to read at {file} ({reason}): give a {FILE_NAME}, or the "
            "folder that holds one."
        ) from None
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            f"{file} is not JSON ({error}): give the {FILE_NAME} of a release."
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{file} is not a certificate: give the {FILE_NAME} of a release.")
    return content


MOVING = frozenset({"ledger", "releasable", "seal", "signature", "withdrawn"})
"""The derived parts of a document, and those that change with the ledger's head."""


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document's lasting parts, canonically; see `Certificate.digest`.

    It leaves out the guarantee in words, which quotes the dataset's spending over its lifetime.
    """
    stays = {name: value for name, value in content.items() if name not in MOVING}
    privacy = {name: value for name, value in stays["privacy"].items() if name != "guarantee"}
    return canonical_digest({**stays, "privacy": privacy})


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal, in canonical JSON."""
    return canonical_digest({name: value for name, value in content.items() if name != "seal"})
