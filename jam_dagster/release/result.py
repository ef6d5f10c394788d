"""Result of a release without Dagster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.evaluation import Verdict, WorkloadErrors
    from jam_dagster.evaluation.expectations.spec import ExpectationResult


@dataclass(frozen=True)
class Synthesis:
    """What `synthesize` made, and what it took.

    Parameters
    ----------
    sampled
        The synthetic table, with the dtypes that the domain states, or its file.
    children
        The synthetic children, if the release has two tables.
    errors
        The workload errors.
    verdict
        Whether the table is better than what was there without it, by errors that may be exact.
    sampling_error
        How far the synthetic table is from the model, for want of half rows: the mean L1 error of
        the marginals that the model was fitted to, a fraction of the rows.
    seconds
        Wall-clock time of every stage and, as ``mechanism.fit``, of the parts of a stage.
    peak_memory_mb
        The most memory that the process ever held, in 2^20 bytes.
    rho_budget, rho_spent
        The budget of the whole release, and the charges of all its draws.
    picks
        Number of rounds that measured private and public marginals, and of those whose measurement
        was lost where there are any.
    rows
        Rows of the synthetic table.
    releasable
        Whether the synthetic table may leave.
    output
        The folder.
    report
        The report that may leave, if one was written.
    checks
        The findings of the checks of the synthetic table; empty if none were wanted.
    checks_page
        The page about them; Great Expectations' own results lie beside it in JSON.
    certificate
        The certificate, to be verified; the page beside it is for reading.
    """

    sampled: pd.DataFrame | TableFile = field(repr=False)
    errors: WorkloadErrors
    verdict: Verdict
    sampling_error: float
    seconds: dict[str, float]
    peak_memory_mb: float
    rho_budget: float
    rho_spent: float
    picks: dict[str, int]
    rows: int
    releasable: bool
    output: Path
    report: Path | None = None
    checks: Sequence[ExpectationResult] = ()
    checks_page: Path | None = None
    certificate: Path | None = None
    children: pd.DataFrame | None = field(default=None, repr=False)

    @property
    def restricted_report(self) -> Path | None:
        """The report with exact errors, if one was written."""
        if self.report is None or not self.errors.restricted:
            return None
        return self.output / "restricted" / "report.html"

    @property
    def table(self) -> pd.DataFrame:
        """The synthetic table, with the dtypes that the domain states."""
        return self.sampled.read() if isinstance(self.sampled, TableFile) else self.sampled

    @property
    def table_path(self) -> Path:
        """The file of the synthetic table."""
        if isinstance(self.sampled, TableFile):
            return Path(str(self.sampled.path))
        return self.output / "synthetic.csv"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``synthesize --json`` prints them.

        Where ``restricted`` is true, the errors are exact statistics of private data, and so are
        the verdict and all else that follows from them.
        """
        return {
            "restricted": self.errors.restricted,
            "verdict": asdict(self.verdict),
            "workload_error": self.errors.to_dict(),
            "sample_equivalent": self.errors.sample_equivalent,
            "equivalent_within": self.errors.equivalent_within,
            "utility": None if self.errors.utility is None else asdict(self.errors.utility),
            "sampling_error": self.sampling_error,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
            "peak_memory_mb": round(self.peak_memory_mb, 1),
            "rho": {"budget": self.rho_budget, "spent": self.rho_spent},
            "picks": self.picks,
            "rows": self.rows,
            "releasable": self.releasable,
            "output": str(self.output),
        }
