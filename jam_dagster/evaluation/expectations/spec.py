"""An expectation of a synthetic table, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["ERROR", "WARN"]


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
    table
        The table of children that it is of; empty: the table itself.
    """

    name: str
    description: str
    blocking: bool
    kind: str
    subject: str | int | None = None
    table: str = ""

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
