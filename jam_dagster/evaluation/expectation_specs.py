"""The expectations of a synthetic table, named from its domain before any data exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jam_dagster.tables.domain.domain import CategoricalAttribute, ImpossibleCombination

if TYPE_CHECKING:
    from jam_dagster.tables.domain.domain import Domain

Severity = Literal["ERROR", "WARN"]
Kind = Literal[
    "columns", "row_count", "dtype", "values", "bounds", "nulls", "impossible", "marginal"
]


@dataclass(frozen=True)
class ExpectationSpec:
    """One expectation of a synthetic table.

    Parameters
    ----------
    name
        Letters, digits and underscores: it is also the name of an asset check.
    description
        The expectation in words.
    blocking
        Whether a failure breaks consumers of the table.
    kind
        The checked property.
    subject
        The attribute, or the position among what the domain forbids; None for the table as a
        whole.
    """

    name: str
    description: str
    blocking: bool
    kind: Kind
    subject: str | int | None = None

    @property
    def severity(self) -> Severity:
        """``"ERROR"`` if blocking, else ``"WARN"``."""
        return "ERROR" if self.blocking else "WARN"


@dataclass(frozen=True)
class ExpectationResult:
    """The result of one expectation.

    Parameters
    ----------
    name
        The name of its `ExpectationSpec`.
    passed
        Whether the table meets it.
    severity
        How bad a failure is: ``"ERROR"`` breaks consumers, ``"WARN"`` is worth a look.
    message
        The finding in a sentence.
    metadata
        Numbers and examples behind it, JSON-serializable; of the synthetic table and of released
        measurements only.
    expected
        The expected content, in a few words.
    checked, unexpected
        The number of checked rows or cells, and of those that fail; None for an expectation of the
        table as a whole.
    """

    name: str
    passed: bool
    severity: Severity
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expected: str = ""
    checked: int | None = None
    unexpected: int | None = None

    @property
    def measured(self) -> bool:
        """Whether it was compared: no private measurement covers some marginals."""
        return bool(self.metadata.get("measured", True))


def expectation_names(domain: Domain) -> list[ExpectationSpec]:
    """List the expectations of a synthetic table over a domain.

    Parameters
    ----------
    domain
        The domain; nothing else is read.

    Returns
    -------
    list of ExpectationSpec
        Table-wide expectations first, then those of each attribute in domain order, then the types
        of derived columns. Names are unique: a number distinguishes columns with names that differ
        only in characters that a check's name cannot hold.
    """
    specs = [
        ExpectationSpec(
            "columns",
            "The columns are those of the domain, in its order: " + ", ".join(domain.columns) + ".",
            blocking=True,
            kind="columns",
        ),
        ExpectationSpec(
            "row_count",
            "There are as many rows as the release says that there are private records.",
            blocking=True,
            kind="row_count",
        ),
    ]
    specs += [
        ExpectationSpec(
            f"impossible_combination_{position + 1}",
            f"No row holds a combination that cannot be: {combination.describe(domain)}.",
            blocking=True,
            kind="impossible",
            subject=position,
        )
        for position, combination in enumerate(domain.impossible)
    ]
    specs += [
        ExpectationSpec(
            f"constraint_{position - len(domain.impossible) + 1}",
            f"Every row keeps the constraint: {constraint.describe(domain)}.",
            blocking=True,
            kind="impossible",
            subject=position,
        )
        for position, constraint in enumerate(domain.forbidden)
        if not isinstance(constraint, ImpossibleCombination)
    ]
    slugs = _slugs((*domain.names, *(one.name for one in domain.derived)))
    for attribute in domain.attributes:
        name, slug = attribute.name, slugs[attribute.name]

        def spec(
            kind: Kind, description: str, blocking: bool, name: str = name, slug: str = slug
        ) -> ExpectationSpec:
            return ExpectationSpec(f"{slug}__{kind}", description, blocking, kind, name)

        specs.append(spec("dtype", f"{name} has the type that the domain declares.", True))
        if isinstance(attribute, CategoricalAttribute):
            specs.append(
                spec("values", f"{name} holds only the values that the domain lists.", True)
            )
        else:
            low, high = attribute.bounds_text
            specs.append(spec("bounds", f"{name} lies between {low} and {high}.", True))
        if not attribute.nullable:
            specs.append(spec("nulls", f"{name} has no nulls: the domain allows none.", True))
        specs.append(
            spec(
                "marginal",
                f"The distribution of {name} agrees with the released measurement of it, as far as "
                "noise, fit and sampling allow.",
                False,
            )
        )
    specs += [
        ExpectationSpec(
            f"{slugs[one.name]}__dtype",
            f"{one.name} has the type that the domain declares.",
            blocking=True,
            kind="dtype",
            subject=one.name,
        )
        for one in domain.derived
    ]
    return specs


def _slugs(names: tuple[str, ...]) -> dict[str, str]:
    """Map attribute names to unique names of letters, digits and underscores."""
    slugs: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        base = slug = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "attribute"
        number = 1
        while slug in taken:
            number += 1
            slug = f"{base}_{number}"
        taken.add(slug)
        slugs[name] = slug
    return slugs
