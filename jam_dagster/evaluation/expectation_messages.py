"""Findings of Great Expectations, in a sentence and in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.tables.domain.attributes import CategoricalAttribute, describe

if TYPE_CHECKING:
    from jam_dagster.evaluation.expectation_specs import ExpectationSpec
    from jam_dagster.evaluation.released_marginals import Agreement
    from jam_dagster.tables.domain.domain import Domain

_EXAMPLES = 5


@dataclass(frozen=True)
class Finding:
    """The finding of an expectation.

    Parameters
    ----------
    message
        A sentence.
    metadata
        The numbers behind it, JSON-serializable.
    expected
        The expected content, in a few words.
    checked, unexpected
        The number of checked rows or cells, and of those that fail; None for an expectation of the
        table as a whole.
    """

    message: str
    metadata: dict[str, Any]
    expected: str
    checked: int | None = None
    unexpected: int | None = None


def describe_expected(spec: ExpectationSpec, domain: Domain, records: int) -> str:
    """Return the expected content, in a few words."""
    match spec.kind:
        case "columns":
            return f"{len(domain.columns):,} columns, in order"
        case "row_count":
            return f"{records:,} rows"
        case "impossible":
            return "no such row"
        case "nulls":
            return "no null"
        case "marginal":
            return "every cell within the tolerance"
        case "dtype":
            return domain.columns[str(spec.subject)]
    attribute = domain.attribute(str(spec.subject))
    if isinstance(attribute, CategoricalAttribute):
        return describe(attribute)
    return " to ".join(attribute.bounds_text)


def describe_result(
    spec: ExpectationSpec, outcome: Mapping[str, Any], domain: Domain, records: int
) -> Finding:
    """Put the outcome of an expectation about shape or values into words."""
    expected = describe_expected(spec, domain, records)
    raised = _raised(outcome.get("exception_info") or {})
    if raised is not None:
        return Finding(f"cannot be checked: {raised}", {"exception": raised}, expected)
    result: Mapping[str, Any] = outcome["result"]
    if spec.kind == "columns":
        return Finding(*_columns(list(result["observed_value"]), list(domain.columns)), expected)
    if spec.kind == "row_count":
        rows = result["observed_value"]
        metadata: dict[str, Any] = {"rows": rows, "expected": records}
        return Finding(f"{rows:,} rows, {records:,} expected", metadata, expected)
    if spec.kind == "dtype":
        if outcome["success"]:
            return Finding(f"dtype {expected}", {"dtype": expected}, expected)
        found = result["partial_unexpected_list"][0]
        metadata = {"dtype": found, "expected": expected}
        return Finding(f"dtype {found}, expected {expected}", metadata, expected)
    checked, unexpected = int(result["element_count"]), int(result["unexpected_count"])
    metadata = {"rows": result["element_count"], "unexpected": unexpected}
    if unexpected == 0:
        return Finding(f"all {checked:,} rows", metadata, expected, checked, unexpected)
    share = _percent(unexpected, checked)
    of_rows = "row" if unexpected == 1 else "rows"
    message = f"{unexpected:,} {of_rows} ({share}) {_FAULT[spec.kind]}"
    if spec.kind in ("values", "bounds"):
        examples = list(dict.fromkeys(map(str, result["partial_unexpected_list"])))[:_EXAMPLES]
        metadata["examples"] = examples
        message += f", such as {', '.join(examples)}"
    return Finding(message, metadata, expected, checked, unexpected)


def _percent(part: int, whole: int) -> str:
    """Return a share of the rows in two digits; only all of them are 100%."""
    share = 100.0 * part / whole
    if part < whole and share >= 99.5:
        return "more than 99%"
    if share < 0.01:
        return "less than 0.01%"
    return f"{share:.0f}%" if share >= 9.95 else f"{share:.2g}%"


_FAULT = {
    "values": "with a value that the domain does not list",
    "bounds": "out of bounds",
    "nulls": "with a null that the domain does not allow",
    "impossible": "with a combination that the domain declares impossible",
}


def describe_agreement(
    agreement: Agreement, labels: Sequence[str], level: float, expected: str
) -> Finding:
    """Put the comparison of a one-way marginal with its released measurement into words."""
    use = agreement.use_of_tolerance
    worst = int(use.argmax())
    beyond = int((use > 1.0).sum())
    released = agreement.released
    metadata = {
        "measured": True,
        "rounds": [one + 1 for one in released.rounds],
        "sigma": released.sigma,
        "l1_distance": agreement.distance,
        "cells": int(use.size),
        "cells_beyond_tolerance": beyond,
        "largest_use_of_tolerance": float(use[worst]),
        "worst_cell": labels[worst],
        "misfit": agreement.misfit,
        "false_alarm_level": level,
    }
    found = (
        f"L1 distance {agreement.distance:.4f} to the released measurement "
        f"(noise of {released.sigma:,.0f} records a cell)"
    )
    message = f"all {use.size} cells within the tolerance; {found}"
    if beyond:
        message = (
            f"{beyond} of {use.size} cells beyond the tolerance; worst {labels[worst]!r}: "
            f"{agreement.synthetic[worst]:,.0f} records, measured {released.counts[worst]:,.0f}, "
            f"tolerance {agreement.tolerance[worst]:,.0f}; {found}"
        )
    elif agreement.misfit > 0:
        message += (
            f"; the model itself departs by up to {agreement.misfit:.2%} of the records in a cell "
            "more than noise explains, because of other measurements"
        )
    return Finding(message, metadata, expected, int(use.size), beyond)


def _columns(found: list[str], wanted: list[str]) -> tuple[str, dict[str, Any]]:
    metadata = {
        "columns": found,
        "missing": [name for name in wanted if name not in found],
        "unexpected": [name for name in found if name not in wanted],
    }
    faults = [
        f"{word} {', '.join(metadata[word])}"
        for word in ("missing", "unexpected")
        if metadata[word]
    ]
    if not faults and found == wanted:
        return f"{len(wanted)} columns, in order", metadata
    return "; ".join(faults) or f"another order: {', '.join(found)}", metadata


def _raised(info: Mapping[str, Any]) -> str | None:
    """Return the message of an exception that Great Expectations caught, None without one.

    It is flat, or, where a metric failed, nested under the metric's identifier.
    """
    for one in (info, *(value for value in info.values() if isinstance(value, Mapping))):
        if one.get("raised_exception"):
            return str(one.get("exception_message")).splitlines()[0]
    return None
