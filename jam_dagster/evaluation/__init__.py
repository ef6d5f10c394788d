"""Workload error, expectations of a synthetic table, plots and the release report.

This package imports nothing heavy: `expectations/` imports Great Expectations on first use.
"""

from jam_dagster.evaluation.best_mixture import best_mixture
from jam_dagster.evaluation.bounds.error_bounds import error_bounds
from jam_dagster.evaluation.bounds.table import ErrorBounds
from jam_dagster.evaluation.expectations.kinds import expectation_names
from jam_dagster.evaluation.expectations.spec import ExpectationResult, ExpectationSpec
from jam_dagster.evaluation.independence import IndependenceTest
from jam_dagster.evaluation.intervals import Answer
from jam_dagster.evaluation.released_marginals import released_marginal
from jam_dagster.evaluation.verdict import Verdict, verdict_of
from jam_dagster.evaluation.workload_error import TableErrors, WorkloadErrors, workload_error

__all__ = [
    "Answer",
    "ErrorBounds",
    "ExpectationResult",
    "ExpectationSpec",
    "IndependenceTest",
    "TableErrors",
    "Verdict",
    "WorkloadErrors",
    "best_mixture",
    "error_bounds",
    "expectation_names",
    "released_marginal",
    "verdict_of",
    "workload_error",
]
