"""The plan: facts of a release before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from jam_dagster.common.deferred import pd
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.trials.measures import means
from jam_dagster.trials.results import Row, error_of, stages

NOT_SHOWN = (
    "Both halves come from one table, so they differ by chance alone. The real public table "
    "differs from the private one by its bias too, which only the private table could show: it "
    "raises the line to beat, and makes public marginals worth less. On the other hand the halves "
    "have fewer records than the real tables, and what chance does to them raises all errors, the "
    "line's too, the more the smaller the public table is. So the curve shows how much the noise "
    "and the size of the model matter, and not whether the release will be better than its public "
    "table."
)


@dataclass(frozen=True)
class Size:
    """How large the release's problem is.

    `candidates` are the workload's marginals and all within them. A source that counts in one pass
    has `counted` so many of `counted_cells` together; None if it would refuse. `costly` are
    the columns with the largest share of the workload's cells. Limits, and what fits them, are None
    without one. `fit_last` counts the candidates that fit the last limit by themselves, next to an
    empty model.

    The rest is of the trials, and None before them: `most` is the most that a round chose from,
    `last_round` has the fewest and most that fitted in the last round, next to its model.
    """

    workload: int
    candidates: int
    counted: int | None
    counted_cells: int | None
    costly: tuple[CostlyColumn, ...]
    last_limit_mb: float | None
    fit_last: int | None
    most: int | None = None
    first_limit_mb: float | None = None
    fit_first: int | None = None
    last_round: tuple[int, int] | None = None
    largest_model_mb: float | None = None


@dataclass(frozen=True)
class CostlyColumn:
    """A column, its number of values, and the share of the workload's cells that count it."""

    name: str
    values: int
    share: float


@dataclass(frozen=True)
class Cost:
    """The time and memory of a run, as measured and as extrapolated from that.

    Seconds are CPU-seconds. `measured_seconds` are means of the trials at the epsilon asked for
    (``count`` is part of ``mechanism``); ``read`` and ``encode`` are of the whole public table.
    `expected_seconds` grow with the private records: ``count`` as measured up to `counted` of them
    and in proportion from there, ``sample`` above a million records. Some are of a `Rehearsal`,
    which made `rehearsed` rows (0: none), and read them if the release makes its own `in_chunks`.
    `measured_peak_mb` is the process's, with all that it loaded. In addition, `private_table_mb`
    has the private table's codes, which large Parquet files are read without holding, `counts_mb`
    the counts that large tables keep, and `rows_mb` further rows that are made at once, or
    processes that make them in chunks.
    """

    measured_seconds: dict[str, float]
    expected_seconds: dict[str, float]
    measured_peak_mb: float
    private_table_mb: float
    counts_mb: float
    rows_mb: float
    counted: int
    records: int
    public_records: int
    rehearsed: int
    in_chunks: bool

    @property
    def seconds(self) -> float:
        """Expected CPU-seconds of all these stages."""
        return sum(self.expected_seconds.values())

    @property
    def memory_mb(self) -> float:
        """Expected memory, with the private table's codes."""
        return self.in_files_mb + self.private_table_mb

    @property
    def in_files_mb(self) -> float:
        """Expected memory where the private table stays in its files."""
        return self.measured_peak_mb + self.counts_mb + self.rows_mb


@dataclass(frozen=True)
class RoundNoise:
    """The noise of a typical round.

    `sigma` is in counts, a cell; None if rounds differ, or their number is unknown. `median_cell`
    has the records in a cell of the workload's median marginal, if they were spread evenly.
    `measured` has the smallest of the trials' private measurements, the median of the trials'
    medians, and the largest; None before them.
    """

    sigma: float | None
    median_cell: float
    measured: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class LedgerOutlook:
    """The rest of a dataset's budget after a release.

    Amounts are in epsilon at the delta of the budget; None if the ledger knows no budget, and
    `after_epsilon` if the release does not fit.
    """

    ledger: str
    dataset: str
    remaining_epsilon: float | None
    after_epsilon: float | None
    fits: bool
    note: str


@dataclass(frozen=True)
class Known:
    """Facts of a release that need no simulation.

    `title` is the label of the mechanism's trials, and `described` has its settings too.
    `specification` is a digest, `shares` are in rho, and `seconds` is about how long all `trials`
    will take. `ledger` is None if none was named.
    """

    mechanism: str
    title: str
    described: str
    specification: str
    epsilon: float
    delta: float
    selections: float
    shares: dict[str, float]
    records: int
    records_assumed: bool
    public_records: int
    size: Size
    noise: RoundNoise
    ledger: LedgerOutlook | None
    trials: int
    seconds: float
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``plan --quick --json`` prints them."""
        return {
            "mechanism": self.mechanism,
            "described": self.described,
            "specification": self.specification,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "selection_delta": self.selections,
            "rho": self.shares,
            "records": {"private": self.records, "assumed": self.records_assumed},
            "public_records": self.public_records,
            "size": asdict(self.size),
            "noise": vars(self.noise),
            "ledger": None if self.ledger is None else vars(self.ledger),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Plan:
    """A release that was tried on two halves of its public table, before anything is spent.

    Parameters
    ----------
    known
        What needs no trial.
    cost
        What a run would take.
    rows
        The rows of all trials: of the mechanism asked for, at each epsilon and with each seed, and
        of others that could make the release, on the first pair of halves.
    public_errors, prior_errors
        The errors of the halves that play the public table, and of the rows of their prior, which
        cost nothing, by seed.
    allowed
        Seconds within which all trials but the first were to end.
    not_tried
        The trials that did not start, in words.
    unwritten
        Whether the rows by which the steps after the mechanism are measured could not be written.
    """

    known: Known
    cost: Cost
    rows: tuple[Row, ...]
    public_errors: dict[int, float]
    prior_errors: dict[int, float]
    allowed: float
    not_tried: tuple[str, ...]
    unwritten: bool

    @cached_property
    def asked_rows(self) -> list[Row]:
        """The rows of the release as it is asked for, by seed."""
        return asked_rows(self.known, self.rows)

    @property
    def size(self) -> Size:
        """How large the problem is, with what the trials met."""
        rows = self.asked_rows
        fitted = [row["last_candidates"] for row in rows]
        return replace(
            self.known.size,
            most=max(row["most_candidates"] for row in rows),
            first_limit_mb=rows[0]["first_limit_mb"],
            fit_first=rows[0]["first_candidates"],
            last_round=(min(fitted), max(fitted)),
            largest_model_mb=max(row["largest_model_mb"] for row in rows),
        )

    @property
    def noise(self) -> RoundNoise:
        """The noise of a typical round, with that of the trials."""
        noisy = [row for row in self.asked_rows if row["private_picks"]]
        if not noisy:
            return self.known.noise
        least, most = (row["sigma_least"] for row in noisy), (row["sigma_most"] for row in noisy)
        middle = median(row["sigma_median"] for row in noisy)
        return replace(self.known.noise, measured=(min(least), middle, max(most)))

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The means over seeds of each mechanism by epsilon, ascending, as `means` returns them.

        `error` is of the synthetic tables, `public_error` of the halves that play the public table,
        and `gain` the difference of each pair: some splits are harder than others for both tables.
        `prior_error` is of the public prior's rows, and `bought` that less `error`; None if it was
        not tried.
        """
        error = [error_of(row) for row in self.rows]
        public = [self.public_errors[row["seed"]] for row in self.rows]
        tried = pd.DataFrame(self.rows).assign(error=error, public_error=public)
        tried["gain"] = tried["public_error"] - tried["error"]
        tried["prior_error"] = tried["seed"].map(self.prior_errors).astype(float)
        tried["bought"] = tried["prior_error"] - tried["error"]
        ordered = tried.sort_values("epsilon", kind="stable")
        return means(ordered, ["mechanism", "label", "epsilon"], _MEASURES)

    @property
    def curve(self) -> list[dict[str, Any]]:
        """The line of the mechanism that the release asks for."""
        return [point for point in self.lines if point["label"] == self.known.title]

    @property
    def asked(self) -> dict[str, Any]:
        """The curve at the epsilon that the release asks for."""
        return next(point for point in self.curve if point["epsilon"] == self.known.epsilon)

    @property
    def mechanisms(self) -> dict[str, Row]:
        """A trial of each mechanism at the epsilon asked for, on the first pair of halves.

        By their names; one that is tried with other settings too has the label of that trial.
        """
        first, found = (self.known.epsilon, 0), dict[str, Row]()
        for row in self.rows:
            if (row["epsilon"], row["seed"]) == first:
                known = row["mechanism"] in found
                found[row["label"] if known else row["mechanism"]] = row
        return found

    @property
    def break_even(self) -> str:
        """From which distance of the two tables on the release pays about, in a sentence."""
        return (
            f"A release of one half of the public table, with the other as public, errs by "
            f"{self.asked['error']:.3f}; the halves are {self.asked['public_error']:.3f} apart, by "
            f"chance alone. So the release pays where the private table is further than about "
            f"{self.asked['error']:.3f} from the public one."
        )

    @property
    def bought(self) -> str:
        """How much each budget buys beyond the public prior, in a sentence; empty if not known.

        Halves of one table differ by chance alone, so a prior is at its best.
        """
        known = [point for point in self.curve if point["bought"] is not None]
        if not known:
            return ""
        each = "; ".join(f"epsilon {one['epsilon']:g} buys {one['bought']:.3f}" for one in known)
        return (
            f"{each} here, beyond the rows of the public prior, which cost nothing and err by"
            f" {known[0]['prior_error']:.3f}. It is more if the private table is unlike the public"
            " one"
        )

    @property
    def chooses_source(self) -> bool:
        """Whether rounds may measure on the public table in place of the private one."""
        return chooses_source(self.known.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as ``plan --json`` prints them."""
        return self.known.to_dict() | {
            "size": asdict(self.size),
            "noise": vars(self.noise),
            "cost": {
                **vars(self.cost),
                "seconds": self.cost.seconds,
                "memory_mb": self.cost.memory_mb,
                "in_files_mb": self.cost.in_files_mb,
            },
            "simulation": {
                "curve": [_as_json(point) for point in self.curve],
                "seeds": self.asked["runs"],
                "seconds_allowed": self.allowed,
                "not_tried": list(self.not_tried),
                "mechanisms": {
                    name: {
                        "error": error_of(one),
                        "sigma": one["sigma_median"],
                        "measured": one["private_picks"],
                        "rho_spent": one["rho_spent"],
                        "seconds": stages(one["seconds_by_stage"])["mechanism"],
                    }
                    for name, one in self.mechanisms.items()
                },
                "break_even": {
                    "distance": self.asked["error"],
                    "halves_apart": self.asked["public_error"],
                    "text": self.break_even,
                },
                "not_shown": NOT_SHOWN,
            },
        }


def asked_rows(known: Known, rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the release as it is asked for."""
    asked = (known.title, known.epsilon)
    return [row for row in rows if (row["label"], row["epsilon"]) == asked]


_MEASURES = (
    *("error", "public_error", "gain", "prior_error", "bought"),
    *("private_picks", "public_picks", "rho_spent"),
)


def _as_json(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point of the curve as ``plan --json`` prints it."""
    estimates = {
        "error": "error",
        "public_half_error": "public_error",
        "gain": "gain",
        "prior_error": "prior_error",
        "bought": "bought",
    }
    return {
        "epsilon": point["epsilon"],
        **{
            name: {"mean": point[of], "standard_error": point[f"{of}_se"]}
            for name, of in estimates.items()
        },
        "picks": {origin: point[f"{origin}_picks"] for origin in ("private", "public")},
        "rho_spent_by_mechanism": point["rho_spent"],
    }
