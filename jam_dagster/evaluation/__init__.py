"""Workload error, expectations of a synthetic table, plots and the release report.

This package imports nothing heavy: `expectations/` imports Great Expectations on first use.
"""

from jam_dagster.common.choices import EvaluationMode
from jam_dagster.evaluation.best_mixture import (
    BestMixture,
    best_mixture,
)
from jam_dagster.evaluation.bounds.error_bounds import error_bounds
from jam_dagster.evaluation.bounds.table import ErrorBound, ErrorBounds
from jam_dagster.evaluation.expectations.kinds import expectation_names
from jam_dagster.evaluation.expectations.spec import ExpectationResult, ExpectationSpec
from jam_dagster.evaluation.released_marginals import (
    Agreement,
    ReleasedMarginal,
    one_way_agreement,
    released_marginal,
)
from jam_dagster.evaluation.sample_equivalent import SampleErrors
from jam_dagster.evaluation.verdict import Verdict, verdict_of
from jam_dagster.evaluation.workload_error import (
    TableErrors,
    WorkloadErrors,
    marginal_errors,
    workload_error,
)

__all__ = [
    "Agreement",
    "BestMixture",
    "ErrorBound",
    "ErrorBounds",
    "EvaluationMode",
    "ExpectationResult",
    "ExpectationSpec",
    "ReleasedMarginal",
    "SampleErrors",
    "TableErrors",
    "Verdict",
    "WorkloadErrors",
    "best_mixture",
    "error_bounds",
    "expectation_names",
    "marginal_errors",
    "one_way_agreement",
    "released_marginal",
    "verdict_of",
    "workload_error",
]
