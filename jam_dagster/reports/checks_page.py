"""The page of a synthetic table's checks by Great Expectations, failures first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from jam_dagster.evaluation.expectations.kinds import EXPECTATION_KINDS
from jam_dagster.evaluation.expectations.spec import ExpectationResult, ExpectationSpec
from jam_dagster.tables.domain.derived import PlannedColumn

if TYPE_CHECKING:
    from jam_dagster.evaluation.expectations.validation import TableChecks
    from jam_dagster.tables.domain.domain import Domain

_WHOLE_TABLE = "whole table"

Row = tuple[ExpectationSpec, ExpectationResult]


def render_checks(
    checks: TableChecks,
    *,
    release: str,
    domain: Domain,
    partition: str = "",
    not_releasable_because: Sequence[str] = (),
) -> str:
    """Render the checks as one HTML page without network; it works without scripts.

    If scripts run, the page's own script sorts the table.
    """
    from jam_dagster.common.html_pages import environment, script_text
    from jam_dagster.version import __version__

    rows = list(zip(checks.specs, checks.results, strict=True))
    failed = [one for one in checks.results if not one.passed]
    return (
        environment("jam_dagster.reports")
        .get_template("checks.html")
        .render(
            version=__version__,
            engine=version("great_expectations"),
            release=release,
            partition=partition,
            reasons=not_releasable_because,
            rows=sorted(rows, key=_worst_first),
            kinds=_kinds(rows),
            marginals=[row for row in rows if "rounds" in row[1].metadata],
            column=partial(_column, domain),
            failed=len(failed),
            blocking=sum(one.severity == "ERROR" for one in failed),
            unmeasured=sum(not one.measured for one in checks.results),
            script=script_text("sorting.js"),
        )
    )


def _column(domain: Domain, spec: ExpectationSpec) -> str:
    """Return the column or columns of an expectation."""
    domain = domain.children.domain if spec.table and domain.children else domain.roots
    if isinstance(spec.subject, int):
        rule = EXPECTATION_KINDS[spec.kind].rules(domain)[spec.subject]
        names = [rule.name] if isinstance(rule, PlannedColumn) else rule.attributes
        return " \N{MULTIPLICATION SIGN} ".join(names)
    return _WHOLE_TABLE if spec.subject is None else str(spec.subject)


def _worst_first(row: Row) -> tuple[bool, bool, bool]:
    """Order blocking failures before warnings, and unmeasured marginals last."""
    _, result = row
    return result.passed, result.severity == "WARN", not result.measured


def _kinds(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Count the checks by kind, in the order of checking."""
    counted = []
    for name, kind in EXPECTATION_KINDS.items():
        of_kind = [(spec, result) for spec, result in rows if spec.kind == name]
        if of_kind:
            results = [result for _, result in of_kind]
            unmeasured = sum(not one.measured for one in results)
            failed = sum(not one.passed for one in results)
            counted.append(
                {
                    "title": kind.heading,
                    "passed": len(results) - failed - unmeasured,
                    "failed": failed,
                    "unmeasured": unmeasured,
                    "blocking": any(spec.blocking for spec, _ in of_kind),
                }
            )
    return counted
