"""One trial: a mechanism with seeded noise on a split, its errors measured exactly.

Benchmarks and plans make the same trials, so an error of one is an error of the other.
"""

from __future__ import annotations

import json
import math
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.common.operating_system import peak_memory_mb
from jam_dagster.common.worker_processes import cores
from jam_dagster.errors import InputError
from jam_dagster.evaluation.best_mixture import best_mixture
from jam_dagster.evaluation.coarse_pairs import CoarsePairs
from jam_dagster.evaluation.independent_table import IndependentTable
from jam_dagster.evaluation.sample_equivalent import SampleErrors, log_choose
from jam_dagster.evaluation.utility import Classifier, can_classify
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.mechanisms.loops.rows import finished
from jam_dagster.models.row_search import search_rows
from jam_dagster.models.tilted.corrected import with_moments
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.tables import EncodedTable, MarginalSource, Workload
from jam_dagster.tables.codes.marginals import marginal_blocks
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import (
    BEST_MIXTURE,
    PRIOR_ROWS,
    PUBLIC_TABLE,
    TRUE_ONE_WAYS,
    Run,
)
from jam_dagster.trials.splits import RepeatedTable
from jam_dagster.version import __version__

if TYPE_CHECKING:
    from jam_dagster.mechanisms import MechanismResult
    from jam_dagster.mechanisms.context import OnRound
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.trials.splits import Split

Judged = MarginalSource | IndependentTable

_PROCESSORS = Path("/proc/cpuinfo")

MOST_LEARNT = 100_000
"""Rows that a classifier learns from at most; it learns no more from more."""

MOST_SAMPLED = 1_000_000
"""Rows of a trial's table at most; more would hardly move its marginals."""


def run_trial(
    run: Run,
    split: Split,
    *,
    on_round: OnRound | None = None,
    on_result: Callable[[MechanismResult], None] = lambda result: None,
) -> Row:
    """Make one synthetic table, or take a baseline, and return the row of its measures.

    Its errors are exact statistics of the private table, so it is restricted unless that table is
    no secret. A mechanism's rounds and its result are passed on.
    """
    known = describe(run, split)
    made = _baseline(run, split) if run.is_baseline else _mechanism(run, split, on_round, on_result)
    # The mechanism's device is known only now.
    now = {"machine": machine_in_words(), "peak_memory_mb": peak_memory_mb()}
    return {**known, "status": "done", "message": "", **made, **now}


def describe(run: Run, split: Split) -> Row:
    """Return the part of a row that is known before the run."""
    names = ("split", "mechanism", "workload", "degree", "epsilon", "delta", "seed")
    return {
        **{name: getattr(run, name) for name in names},
        "key": run.key(split.fingerprint),
        "kind": "baseline" if run.is_baseline else "mechanism",
        "label": run.title,
        "settings": json.dumps(dict(run.settings), sort_keys=True),
        "parameters": run.parameters_json(),
        "split_of": split.of,
        "records": split.private.records,
        "public_records": None if split.public is None else split.public.records,
        "attributes": len(split.domain.names),
        "fingerprint": split.fingerprint,
        "noise": "none" if run.is_baseline else "numpy, seeded",
        "rho_budget": run.rho,
        "version": __version__,
        "machine": machine_in_words(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _mechanism(
    run: Run,
    split: Split,
    on_round: OnRound | None,
    on_result: Callable[[MechanismResult], None],
) -> Row:
    mechanism = run.make()
    if mechanism.uses_public and split.public is None:
        raise InputError(f"{run.mechanism} needs a public table, and {run.split!r} has none.")
    workload = run.marginals(split.domain)
    draws = run.draws()
    started, used = time.monotonic(), time.process_time()
    public = split.public if mechanism.uses_public else None
    result = mechanism.run(split.private, public, workload, draws, on_round=on_round)
    ran = time.monotonic()
    on_result(result)
    model, transcript = result.model, result.transcript
    tables: dict[str, Judged] = {"model_": model}
    searched = sampled = ran
    cpu = time.process_time() - used
    # A mechanism that only answers has no table.
    rows = min(transcript.records, MOST_SAMPLED) if mechanism.samples else 0
    if mechanism.samples:
        rng = np.random.default_rng(run.seed or 0)
        drawn = model.sample(rows, rng)
        sampled, cpu = time.monotonic(), time.process_time() - used
        tables[""] = finished(drawn, deepcopy(rng))
        if run.searches(split.domain, transcript.records):
            tables["searched_"] = finished(search_rows(model, drawn, workload, rng).table, rng)
        searched = time.monotonic()
    errors = _errors(split, tables, workload)
    stages = {
        "mechanism": ran - started,
        **{f"mechanism.{part}": taken for part, taken in result.seconds.items()},
        "sample": sampled - ran,
        "search": searched - sampled,
        "evaluate": time.monotonic() - searched,
    }
    return {
        **errors,
        "rho_spent": transcript.rho_spent,
        "seconds": sampled - started,
        "cpu_seconds": cpu,
        "seconds_by_stage": json.dumps({key: round(value, 4) for key, value in stages.items()}),
        "sampled": rows,
        **_of_rounds(transcript),
        "ended": transcript.ended,
        "model_mb": model.size_mb,
    }


def _of_rounds(transcript: Transcript) -> Row:
    """Return what the rounds chose from, what they measured and with how much noise."""
    rounds, picks = transcript.rounds, transcript.picks
    first = next((one for one in rounds if one.rho_select > 0), None)
    sigmas = [one.sigma for one in rounds if one.source == "private"]
    return {
        "rounds": len(rounds),
        "private_picks": picks["private"],
        "public_picks": picks["public"],
        "first_candidates": None if first is None else first.candidates,
        "first_limit_mb": None if first is None else first.size_limit_mb,
        "last_candidates": rounds[-1].candidates if rounds else 0,
        "most_candidates": max((one.candidates for one in rounds), default=0),
        "largest_model_mb": max((one.model_mb for one in rounds), default=0.0),
        "sigma_least": min(sigmas, default=None),
        "sigma_median": statistics.median(sigmas) if sigmas else None,
        "sigma_most": max(sigmas, default=None),
    }


def _baseline(run: Run, split: Split) -> Row:
    workload = run.marginals(split.domain)
    started = time.monotonic()
    table: Judged
    if run.mechanism in (PUBLIC_TABLE, PRIOR_ROWS, BEST_MIXTURE):
        if split.public is None:
            raise InputError(f"The split {run.split!r} has no public table.")
        table = split.public
        if run.mechanism == PRIOR_ROWS:
            table = _prior_rows(run, split, split.public, workload)
        if run.mechanism == BEST_MIXTURE:
            table = best_mixture(split.private, split.public, workload).model
    elif run.mechanism == TRUE_ONE_WAYS:
        table = IndependentTable.of(split.private)
    else:
        records = split.private.records
        drawn = np.random.default_rng(run.seed).integers(0, records, records)
        table = split.private.take(np.sort(drawn))
    errors = _errors(split, {"": table}, workload)
    return {**errors, "seconds": time.monotonic() - started, "rho_spent": 0.0}


def _prior_rows(run: Run, split: Split, public: EncodedTable, workload: Workload) -> EncodedTable:
    """Return the rows that the public prior gives, searched as a release's are."""
    records, rng = split.private.records, np.random.default_rng(run.seed or 0)
    model = with_moments(PublicPrior.of(split.domain, public).model(records))
    drawn = model.sample(min(records, MOST_SAMPLED), rng)
    if run.searches(split.domain, records):
        drawn = search_rows(model, drawn, workload, rng).table
    return finished(drawn, rng)


def _errors(split: Split, tables: Mapping[str, Judged], workload: Workload) -> Row:
    """Return the errors of tables and models, by the beginning of their columns."""
    row: Row = {"marginals": len(workload.cliques)}
    drawn = DrawnErrors(split.private, workload)
    judged = table_errors(split.private, list(tables.values()), workload)
    for prefix, found in zip(tables, judged, strict=True):
        row[f"{prefix}error_mean"], row[f"{prefix}error_max"] = found.mean, found.maximum
        row[f"{prefix}sample_share"] = drawn.share(found.mean)
    judged_cells = tables.get("", next(iter(tables.values())))
    released = tables.get("searched_", judged_cells)
    row |= cell_errors(split.private, judged_cells, workload)
    return row | _relations(split, released) | _learnt(split, released)


def _relations(split: Split, table: Judged) -> Row:
    """Return how far the pairs of a table are from the private ones."""
    (found,) = CoarsePairs.of(split.domain, split.public).apart(split.private, [table])
    return {
        "pairs8": found.pairs,
        "association": found.association,
        "correlation": found.correlation,
    }


def _learnt(split: Split, table: Judged) -> Row:
    """Return how well a classifier predicts the split's target if it learns from a table."""
    rows = split.private.table if isinstance(split.private, RepeatedTable) else split.private
    tested = rows if split.test is None else split.test
    if split.target is None or not isinstance(table, EncodedTable) or not can_classify():
        return {"tstr_auc": None, "tested_on": None}
    most = table.take(np.arange(min(table.records, MOST_LEARNT)))
    return {
        "tstr_auc": Classifier.of(most, split.target).area(tested),
        "tested_on": "private rows" if split.test is None else "held-out rows",
    }


def machine_in_words() -> str:
    """Return the machine's description: system, Python, processor, cores, and jax if used."""
    words = [
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        _processor(),
        "1 core" if cores() == 1 else f"{cores()} cores",
    ]
    if (jax := sys.modules.get("jax")) is not None:
        words.append(f"jax {jax.__version__}")
        try:
            device = jax.devices()[0]
        except RuntimeError:
            # The requested platform is not available.
            return ", ".join(filter(None, words))
        words[-1] += f" on {device.platform}"
        if device.device_kind != device.platform:
            words[-1] += f" ({device.device_kind})"
    return ", ".join(filter(None, words))


def _processor() -> str:
    """Return the model of the processor; empty if it is unknown."""
    if _PROCESSORS.exists():
        for line in _PROCESSORS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor()


def cell_errors(
    private: MarginalSource, table: MarginalSource | IndependentTable, workload: Workload
) -> dict[str, float]:
    """Return the columns of the exact errors of cells, in parts of the records; restricted.

    The largest is the measure of PMW^Pub (Liu et al. 2021a) and of GEM (Liu et al. 2021b), which
    also has the mean and the root mean square. The table or model is scaled to the private records.
    The weights of the workload do not count.
    """
    records, cells, largest, total, squares = private.records, 0, 0.0, 0.0, 0.0
    for block in marginal_blocks(private, workload.cliques):
        answers = table.marginals(block)
        for clique, counts in block.items():
            scaled = answers[clique] * (records / max(1, table.records))
            apart = np.abs(private.domain.as_released(clique, counts - scaled)) / records
            cells += counts.size
            largest = max(largest, float(apart.max()))
            total += float(apart.sum())
            squares += float(np.square(apart).sum())
    rmse = math.sqrt(squares / cells)
    return {"cell_max": largest, "cell_mean": total / cells, "cell_rmse": rmse}


_MOST_SHARE = 1000
"""The largest sample, as a multiple of the records."""


class DrawnErrors(SampleErrors):
    """The expected errors of records drawn with replacement: AIM's Appendix C, exactly.

    McKenna et al. 2022 approximate the binomial mean absolute deviation of a cell.
    """

    def expected(self, rows: int) -> float:
        """Return the expected mean workload error of K records, as a fraction of them.

        Notes
        -----
        The number X of drawn records in a cell of share p is binomial, with
        ``E|X - K p| = 2 s C(K, s) p^s (1 - p)^(K - s + 1)`` for ``s = ceil(K p)`` (De Moivre).
        """
        n, c = self.records, self._counts
        s = -(-rows * c // n)
        chance = np.exp(
            log_choose(np.full_like(s, rows), s)
            + s * np.log(c / n)
            + (rows - s + 1) * np.log1p(-c / n)
        )
        return float(self._often @ (2 * s * chance)) / rows

    def share(self, error: float) -> float:
        """Return K / n for the largest sample with an expected error of at least `error`."""
        return self.equivalent(error, most=_MOST_SHARE * self.records) / self.records
