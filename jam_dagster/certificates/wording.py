"""Texts of a certificate: the guarantee, and the conditions of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.common.html_pages import figures
from jam_dagster.privacy import epsilon_from_rho, rho_within
from jam_dagster.privacy.ledger.key import canonical_digest

if TYPE_CHECKING:
    from jam_dagster.certificates.facts import MechanismPackage, ReleaseFacts
    from jam_dagster.privacy import Neighbours

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


def conditions_of(certificate: ReleaseFacts, faults: Sequence[str]) -> tuple[Condition, ...]:
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
            else f"The noise ({certificate.noise}) is seeded: whoever knows the seed can take it "
            "off again.",
        ),
        Condition(
            "The domain owes nothing to private data",
            domain in ("declared", "public"),
            _ORIGINS.get(domain, "The domain does not say where it came from."),
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
        # A mechanism of jam-dagster records no package.
        *([_trusted(certificate.package)] if certificate.package is not None else []),
        Condition(
            "Every draw was charged",
            not faults,
            f"{len(certificate.draws)} draws, and as many charges in the ledger."
            if not faults
            else f"The charges do not add up: {faults[0]}.",
        ),
        # A certificate without a withdrawal has no such condition.
        *(
            [Condition("The certificate stands", False, certificate.withdrawn.sentence)]
            if certificate.withdrawn is not None
            else []
        ),
    )


def _trusted(package: MechanismPackage) -> Condition:
    comes = f"It comes from the package {package.name} {package.version}, which the release"
    return Condition(
        "The mechanism comes from a trusted package",
        package.trusted is True,
        f"{comes} trusts by name." if package.trusted is True else f"{comes} does not trust.",
    )


def setting_fault(certificate: ReleaseFacts) -> str | None:
    """Return the differences between the settings and the reserved specification."""
    said = certificate.specification
    if canonical_digest(said) != certificate.key.specification:
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
        said.get("domain") != certificate.domain.digest
    ):
        return "The specification is over another domain."
    return None


def guarantee_of(certificate: ReleaseFacts, *, releasable: bool) -> tuple[str, ...]:
    """Return the guarantee in sentences; without one, if the table must not be released."""
    if not releasable:
        return (
            "This run makes no promise: what is named below does not hold, and neither its table "
            "nor anything else that it left may leave.",
        )
    asked = certificate.asked
    factor = f"{math.exp(min(asked.epsilon, 700.0)):.3g}"
    epsilon, delta = figures(asked.epsilon), figures(asked.delta)
    said = [
        f"The release is (epsilon, delta)-differentially private with epsilon = {epsilon} and "
        f"delta = {delta}. {_replaced(certificate.neighbours)}: no outcome of the whole release "
        f"becomes more than {factor} times as likely or unlikely, except with probability delta. "
        f"This holds whatever else anybody knows, and whatever is computed from the release later.",
        "It was accounted for in zero-concentrated differential privacy: the amounts of rho of all "
        "draws add up, and rho is converted once, for the release as a whole.",
    ]
    if certificate.neighbours.records_public:
        said.append(
            "The number of private records is exact, and public, as the budget's grant says."
        )
    else:
        said.append(
            "The number of private records is not public: the number told here was measured, with "
            "noise that the budget paid for."
        )
    if certificate.standing is not None:
        said += _counted(certificate.standing.totals)
    said.append(
        "It protects people, not facts about all of them, and not the public table. Other releases "
        "from the same dataset add to what can be learned; the ledger keeps their sum."
    )
    return tuple(said)


def _counted(totals: Mapping[str, Any]) -> list[str]:
    """Return the effect of the budget's policy on the guarantee; empty if it has none."""
    policy = totals["policy"]
    said = []
    if policy["period"] != "lifetime":
        lifetime = epsilon_from_rho(rho_within(totals["lifetime_spent_units"]), totals["delta"])
        said.append(
            f"The dataset's budget renews each {policy['period']}: it bounds what the data of each "
            f"{policy['period']} may spend, and is no bound over a lifetime, in which epsilon = "
            f"{figures(lifetime)} was spent at delta = {figures(totals['delta'])}."
        )
    if policy["partitions"] == "disjoint":
        said.append(
            "Of the dataset's partitions only the one from which most was released counts, on the "
            f"ground: {policy['ground']}. It holds as long as each person is in one of them only."
        )
    return said


def _replaced(neighbours: Neighbours) -> str:
    """Return the compared neighbours, as the beginning of a sentence."""
    k = neighbours.max_rows
    rows = "the record" if k == 1 else f"all rows, at most {k}, "
    if neighbours.relation == "replace_one":
        other = "any other" if k == 1 else "those of any other person"
        return f"Replace {rows.strip()} of any one person in the private table by {other}"
    return f"Add {rows.strip()} of any one person to the private table, or take them out"
