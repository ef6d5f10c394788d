"""The certificate of a release: a versioned document of its guarantee and its charges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    PaidDraw,
    RequestedBudget,
    Sampling,
    Signature,
    Standing,
    Withdrawal,
)
from jam_dagster.common.files import read_text_bytes, write_whole
from jam_dagster.common.html_pages import figures
from jam_dagster.common.json_text import DAMAGE, OR_ITS_VERSION, parse_json
from jam_dagster.common.section import parsed
from jam_dagster.errors import InputError
from jam_dagster.privacy import (
    Neighbours,
    NoiseCall,
    ReleaseId,
    describe_advantage,
    epsilon_from_rho,
    rho_within,
)
from jam_dagster.privacy.accounting import describe_factor
from jam_dagster.privacy.ledger.release_id import canonical_digest, canonical_json
from jam_dagster.privacy.noise.calls import THRESHOLD
from jam_dagster.privacy.warnings import configuration_warnings

if TYPE_CHECKING:
    from upath import UPath


SCHEMA = "jam_dagster certificate"

FILE_NAME = "certificate.json"


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The facts of a release with their judgement; it can be written and read.

    `records` is n where neighbours share it, else its measured value. `draws` are all paid draws,
    in order, lost ones included. `entries` is empty, and `standing` None, if no ledger was charged.
    `made` is the time of the release's last entry: UTC, to the second. `drawn_on` are
    the releases that it was drawn on, one on the other, the latest first.
    """

    release_id: ReleaseId
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
    drawn_on: tuple[ReleaseId, ...] = ()
    withdrawn: Withdrawal | None = None
    signature: Signature | None = None
    version: int = VERSION

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
        asked = self.asked
        return tuple(charge_faults(self.draws, self.entries, asked.shares, asked.selections))

    @property
    def rho_spent(self) -> float:
        """The charged rho of all draws."""
        return rho_within(spent_units(self.draws))

    @property
    def epsilon_spent(self) -> float:
        """The spent rho, as epsilon at the release's delta."""
        return (
            epsilon_from_rho(self.rho_spent, self.asked.budget.converts_at) if self.draws else 0.0
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the certificate's facts about its release, in hexadecimal.

        It identifies the certificate: a certificate that is issued again has the same digest,
        although the ledger has a later head by then.
        """
        return digest_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the document, with its derived parts, its signature and its seal."""
        return dict(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        # A verification compares, hashes and shows it: it is made once.
        standing = self.standing
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": self.version,
            "release": asdict(self.release_id),
            "made": self.made,
            "made_with": dict(self.made_with),
            "mechanism": {
                "name": self.mechanism,
                "parameters": dict(self.parameters),
            },
            "specification": dict(self.specification),
            "privacy": {
                "neighbours": {**self.neighbours.to_dict(), "unit": self.neighbours.describe()},
                "records": {"n": self.records, "public": self.neighbours.records_public},
                "asked": {
                    "epsilon": self.asked.epsilon,
                    "delta": self.asked.delta,
                    "rho": self.asked.budget.rho,
                    "shares": dict(self.asked.shares),
                    **({"selections": selections} if (selections := self.asked.selections) else {}),
                },
                "spent": {"rho": self.rho_spent, "epsilon": self.epsilon_spent},
                "guarantee": list(guarantee_of(self, releasable=self.releasable)),
            },
            "domain": self.domain.to_dict(),
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
        if self.drawn_on:
            content["drawn_on"] = [asdict(one) for one in self.drawn_on]
        if self.withdrawn is not None:
            content["withdrawn"] = self.withdrawn.to_dict()
        # JSON reads lists for tuples.
        content = json.loads(canonical_json(content))
        if self.signature is not None:
            content["signature"] = asdict(self.signature)
        return {**content, "seal": seal_of(content)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: object = "The document") -> Certificate:
        """Return the certificate of a document; its derived parts are ignored.

        `where` names the document in errors.

        Raises
        ------
        InputError
            If it is not a certificate, or one of another version.
        """
        version = content.get("version")
        if content.get("schema") != SCHEMA or type(version) is not int or version != VERSION:
            raise InputError(
                f"{where} is not a certificate of version {VERSION}: give the {FILE_NAME} of a "
                f"release, {OR_ITS_VERSION}."
            )
        try:
            certificate = cls._parsed(content)
            # The derived parts need the right types throughout.
            certificate.to_dict()
        except DAMAGE as wrong:
            raise InputError(
                f"{where} is damaged ({type(wrong).__name__}: {wrong}). Restore it, issue it again "
                f"from its release, which charges nothing, {OR_ITS_VERSION}."
            ) from None
        return certificate

    @classmethod
    def _parsed(cls, content: Mapping[str, Any]) -> Certificate:
        privacy, ledger = content["privacy"], content["ledger"]
        relation = {name: privacy["neighbours"][name] for name in ("relation", "max_rows")}
        asked = {name: privacy["asked"][name] for name in ("epsilon", "delta", "shares")}
        asked["selections"] = privacy["asked"].get("selections", 0.0)
        calls = [dict(one) for one in content["noise"]["draws"]]
        own = {
            **{name: content[name] for name in ("made", "made_with", "specification", "version")},
            "mechanism": content["mechanism"]["name"],
            "parameters": content["mechanism"]["parameters"],
            "records": privacy["records"]["n"],
            "source_restriction": content["source_restriction"],
            "noise": content["noise"]["backend"],
        }
        # Pages and records name both.
        if missing := {"jam_dagster", "opendp"} - own["made_with"].keys():
            raise LookupError(f"made_with lacks {min(missing)}")
        standing = {"totals": ledger["dataset"]} if ledger else {}
        standing |= {name: ledger[name] for name in ("events", "head") if ledger}
        return parsed(
            cls,
            own,
            release_id=parsed(ReleaseId, content["release"]),
            neighbours=Neighbours(**relation),
            domain=parsed(DomainFacts, content["domain"]),
            asked=parsed(RequestedBudget, asked),
            draws=tuple(
                parsed(PaidDraw, {"share": one.pop("share")}, call=parsed(NoiseCall, one))
                for one in calls
            ),
            entries=tuple(parsed(Entry, one) for one in ledger["entries"]) if ledger else (),
            standing=parsed(Standing, standing) if ledger else None,
            sampling=parsed(Sampling, content["sampling"]),
            files={name: parsed(FileHash, file) for name, file in content["files"].items()},
            drawn_on=tuple(parsed(ReleaseId, one) for one in content.get("drawn_on", ())),
            withdrawn=parsed(Withdrawal, content["withdrawn"]) if "withdrawn" in content else None,
            signature=parsed(Signature, content["signature"]) if "signature" in content else None,
        )

    def save(self, folder: Path | UPath) -> None:
        """Write ``certificate.json`` to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.to_dict(), indent=1, sort_keys=True, ensure_ascii=False)
        write_whole(folder / FILE_NAME, (text + "\n").encode())

    @classmethod
    def load(cls, path: Path | UPath) -> Certificate:
        """Read a certificate, or the one in a folder; see `read_document`."""
        return cls.from_dict(read_document(path), file_in(path))


def file_in(path: Path | UPath) -> Path | UPath:
    """Return the certificate's file at a path, which may be its folder."""
    return path / FILE_NAME if path.is_dir() else path


def read_document(path: Path | UPath) -> dict[str, Any]:
    """Return the document in a file, or in the ``certificate.json`` of a folder."""
    file = file_in(path)
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
    """Return the SHA-256 of a document's lasting facts, canonically; see `Certificate.digest`."""
    facts = facts_of(content)
    return canonical_digest({name: part for name, part in facts.items() if name not in MOVING})


def facts_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without its sentences, which another version may word differently.

    The guarantee also quotes the dataset's spending over its lifetime, which grows.
    """
    privacy = {name: part for name, part in content["privacy"].items() if name != "guarantee"}
    neighbours = {name: part for name, part in privacy["neighbours"].items() if name != "unit"}
    releasable = content["releasable"]
    met = [condition["met"] for condition in releasable["conditions"]]
    return {
        **content,
        "privacy": {**privacy, "neighbours": neighbours},
        "releasable": {"may_leave": releasable["may_leave"], "met": met},
    }


def seal_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal, in canonical JSON."""
    return canonical_digest({name: value for name, value in content.items() if name != "seal"})


_ORIGINS = {
    "declared": "The domain was declared by a person.",
    "public": "The domain was identified from public data.",
    "private": "The domain was identified from the private table, which nothing paid for.",
}


@dataclass(frozen=True)
class Condition:
    """A condition for releasing a table, whether it holds, and why."""

    condition: str
    met: bool
    because: str


_BOUGHT = (
    "A person declared which values and edges it asks for, and they follow from draws that the "
    "budget paid for."
)


def conditions_of(certificate: Certificate, faults: Sequence[str]) -> tuple[Condition, ...]:
    """Return all conditions of a release, given the faults of its charges."""
    exact = certificate.noise == "exact"
    domain = certificate.domain.identified_from
    restriction = certificate.source_restriction
    fault = setting_fault(certificate)
    known = ", whose digest the ledger had before the first draw" if certificate.entries else ""
    return (
        Condition(
            "The noise is exact and unseeded",
            exact,
            "All noise was drawn exactly, from a secure generator without a seed."
            if exact
            else f"The noise ({certificate.noise}) is seeded: everyone who knows the seed can "
            "remove it.",
        ),
        Condition(
            "The domain owes nothing to private data",
            domain in ("declared", "public"),
            _BOUGHT
            if certificate.domain.asked
            else _ORIGINS.get(domain, "The domain does not say where it came from."),
        ),
        Condition(
            "No setting comes from private data",
            fault is None,
            fault
            or f"Every setting is in the specification{known}; the software computes none from "
            "private data.",
        ),
        Condition(
            "The private table may be released from",
            restriction is None,
            "Its source carries no restriction." if restriction is None else f"{restriction}.",
        ),
        Condition(
            "Every draw was charged",
            not faults,
            f"{len(certificate.draws)} draws, and as many charges in the ledger."
            if not faults
            else f"The charges do not add up: {faults[0]}.",
        ),
        # A certificate without a withdrawal has no such condition.
        *(
            [Condition("The certificate is valid", False, certificate.withdrawn.sentence)]
            if certificate.withdrawn is not None
            else []
        ),
    )


def setting_fault(certificate: Certificate) -> str | None:
    """Return the differences between the settings and the reserved specification."""
    said = certificate.specification
    if canonical_digest(said) != certificate.release_id.specification:
        return "The specification is not the one that the release was reserved by."
    budget = said.get("privacy", {})
    asked = certificate.asked
    if (budget.get("epsilon"), budget.get("delta")) != (asked.epsilon, asked.delta):
        return "The specification asks for another epsilon or delta."
    unit = budget.get("unit") or {}
    protected = (budget.get("neighbours", "replace_one"), unit.get("max_rows", 1))
    if protected != (certificate.neighbours.relation, certificate.neighbours.max_rows):
        return "The specification protects something else."
    used = {"name": certificate.mechanism, **certificate.parameters}
    if said.get("mechanism") != used:
        return "The mechanism ran with other settings than the specification's."
    if certificate.domain.identified_from != "private" and (
        said.get("domain") != (certificate.domain.asked or certificate.domain.digest)
    ):
        return "The specification is over another domain."
    return None


def guarantee_of(certificate: Certificate, *, releasable: bool) -> tuple[str, ...]:
    """Return the guarantee in sentences; without one, if the table must not be released."""
    if not releasable:
        return (
            "This run makes no promise: what is named below does not hold, and neither its table "
            "nor anything else that it left may leave.",
        )
    asked = certificate.asked
    epsilon, delta = figures(asked.epsilon), figures(asked.delta)
    said = [
        f"The release is (epsilon, delta)-differentially private with epsilon = {epsilon} and "
        f"delta = {delta}. {_replaced(certificate)}: nothing that one may look for in "
        f"the whole release becomes more than {describe_factor(asked.epsilon)}, plus delta. This "
        "holds whatever else anybody knows, and whatever is computed from the release later.",
        "It was accounted for in zero-concentrated differential privacy: the amounts of rho of all "
        "draws add up, and rho is converted once, for the release as a whole.",
        "An attacker who knows both of these tables decides from the release whether it was made "
        "from the first. The share of right alarms less that of false ones is at most "
        f"{describe_advantage(asked.budget)}, where a coin has 0 and a proof has 100 "
        "(sqrt(rho / 2), by Pinsker's inequality).",
    ]
    if asked.selections:
        said.append(
            "Values of private columns were selected, and are published: one that a single person "
            f"has is among them with a probability of at most {figures(asked.selections)}, which "
            f"is a part of delta. {'; '.join(_selections(certificate))}."
        )
    if certificate.neighbours.records_public:
        said.append(
            "The number of private records is exact, and public, as the budget's grant says."
        )
    else:
        said.append(
            "The number of private records is not public: the number given here was measured, with "
            "noise that the budget paid for."
        )
    if certificate.standing is not None:
        said += _counted(certificate.standing.totals)
    said.append(
        "It protects people, not facts about all of them, and not the public table. Other releases "
        "from the same dataset add to what can be learned; the ledger keeps their sum."
    )
    return tuple(said)


def _selections(certificate: Certificate) -> Iterator[str]:
    """Yield what each selection of values published, and its price."""
    for call in (one.call for one in certificate.draws if one.call.kind == THRESHOLD):
        price = f"at rho = {figures(call.rho)} and delta = {figures(call.delta)}"
        if call.lost:
            yield f"{call.step}: lost, {price}"
        else:
            name, values = parse_json(call.subject)
            least = f"from a noisy count of {call.threshold:,} on"
            yield f"{name}: {len(values)} values, {least}, {price}"


def _counted(totals: Mapping[str, Any]) -> list[str]:
    """Return what the budget's policy adds to the guarantee; empty if nothing."""
    policy = totals["policy"]
    said = []
    if policy["period"] != "lifetime":
        lifetime = epsilon_from_rho(rho_within(totals["lifetime_spent_units"]), totals["delta"])
        said.append(
            f"The dataset's budget renews each {policy['period']}: it bounds what the data of each "
            f"{policy['period']} may spend, and is no bound over a lifetime, in which epsilon = "
            f"{figures(lifetime)} was spent at delta = {figures(totals['delta'])}."
        )
    if policy["partitions"] != "add":
        among = " of all its tables" if policy["partitions"] == "disjoint in all tables" else ""
        said.append(
            "Only the partition of the dataset from which most was released counts, on the "
            f"ground: {policy['ground']}. It holds as long as each person is in one of them"
            f"{among} only."
        )
    return said


def _replaced(certificate: Certificate) -> str:
    """Return the compared neighbours, as the beginning of a sentence."""
    if "children" in certificate.files:
        return (
            "Add any one row of the first private table, with all rows of the second one that "
            "belong to it, or take them out"
        )
    neighbours = certificate.neighbours
    k = neighbours.max_rows
    rows = "the record" if k == 1 else f"all rows, at most {k}, "
    if neighbours.relation == "replace_one":
        other = "any other" if k == 1 else "those of any other person"
        return f"Replace {rows.strip()} of any one person in the private table by {other}"
    return f"Add {rows.strip()} of any one person to the private table, or take them out"
