"""Planner: cost, time and error of a release, estimated from public data alone.

Nothing here could open a private table: a `PlanRequest` holds none. The ledger is only read.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from jam_dagster.errors import EmptyCandidateSetError, InputError
from jam_dagster.mechanisms.registry import known_classes
from jam_dagster.planning.ledger_outlook import ledger_outlook
from jam_dagster.planning.plan import Cost, Plan, RoundNoise, Size
from jam_dagster.planning.simulation import (
    CurvePoint,
    Halves,
    Trial,
    counting_seconds,
    run_trial,
)
from jam_dagster.privacy import gaussian_sigma
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.tables import EncodedTable, PublicSources, Workload, encode
from jam_dagster.tables.sources.public import lacking
from jam_dagster.tables.sources.public_apart import check_headers, check_no_people

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.mechanisms import Round
    from jam_dagster.planning.request import PlanRequest
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain

COMPARED = ("tilt", "jam_pgm", "aim", "public_prior")
"""The mechanisms that are tried once each, whichever is asked for."""

MOST_COUNTED = 200_000
"""Records that are counted at most to measure what counting takes."""


def make_plan(
    request: PlanRequest,
    *,
    on_stage: Callable[[str], None] = lambda name: None,
    on_start: Callable[[int | None], None] = lambda rounds: None,
    on_round: Callable[[int, Round], None] = lambda number, outcome: None,
    on_trial: Callable[[int, Trial], None] = lambda number, trial: None,
) -> Plan:
    """Plan a release.

    Parameters
    ----------
    request
        The release, and how to try it.
    on_stage
        Called with the name of each stage as it begins.
    on_start
        Called with the number of a trial's rounds, None where it is unknown.
    on_round
        Called after every round, with the number of its trial from 0.
    on_trial
        Called after every trial, with its number.

    Returns
    -------
    Plan
        What is to be expected.

    Raises
    ------
    InputError
        If something given is wrong.
    EmptyCandidateSetError
        If the mechanism could not start.
    BudgetError
        If the ledger cannot be read. That a release does not fit is no error.
    """
    spec = request.spec
    notes: list[str] = []
    on_stage("read")
    frame, read = _tried_table(request, notes)
    domain = _domain(spec, frame, notes)
    on_stage("encode")
    started = time.monotonic()
    public = encode(frame, domain, private=False)
    encoded = time.monotonic() - started
    row_bytes = float(frame.memory_usage(deep=True, index=False).sum()) / len(frame)
    del frame

    workload = request.workload(domain)
    mechanism = spec.mechanism.build()
    mechanism.check(domain, workload, spec.shares[MECHANISM])
    on_start(mechanism.expected_rounds(domain, workload))
    records = public.records if request.records is None else request.records
    if request.records is None:
        notes.append(
            f"The private table was assumed to have as many records as the public one, "
            f"{records:,}: say how many it has with --records N."
        )
    outlook = ledger_outlook(request, domain, notes)
    curve, left_out = _simulate(request, public, workload, records, on_stage, on_round, on_trial)
    others = _others(request, public, workload, records, on_stage, on_trial)
    if left_out:
        listed = ", ".join(f"{epsilon:g}" for epsilon in left_out)
        notes.append(f"Too small to leave every round a budget, and not tried: epsilon {listed}.")
    asked = next(point for point in curve if point.epsilon == spec.privacy.epsilon)
    mechanisms = {mechanism.name: asked.trials[0], **others}
    return Plan(
        mechanism=mechanism.name,
        specification=request.key(domain).specification,
        epsilon=spec.privacy.epsilon,
        delta=spec.privacy.delta,
        shares=spec.shares,
        records=records,
        records_assumed=request.records is None,
        public_records=public.records,
        size=_size(request, public, workload, asked.trials),
        cost=_cost(read, encoded, row_bytes, public, records, workload, asked.trials),
        noise=_noise(request, public, workload, records, asked.trials),
        ledger=outlook,
        curve=curve,
        mechanisms={name: mechanisms[name] for name in known_classes() if name in mechanisms},
        warnings=configuration_warnings(spec.privacy.epsilon, spec.privacy.delta, records),
        notes=tuple(notes),
    )


def _domain(spec: ReleaseSpec, frame: pd.DataFrame, notes: list[str]) -> Domain:
    """Return the domain that is declared, else a draft from the public table."""
    domain = spec.domain.declared
    if domain is None:
        draft = spec.domain.drafted({"": frame})
        domain = draft.domain
        notes.append(f"The domain was drafted from the public table. {draft.remark}".rstrip())
    if spec.privacy.unit is not None:
        spec.privacy.unit.build().check(domain)
    return domain


def _tried_table(request: PlanRequest, notes: list[str]) -> tuple[pd.DataFrame, float]:
    """Read the public table that is tried, of several the first that has all attributes.

    The seconds that reading it took come with it.
    """
    source, domain = request.spec.public, request.spec.domain.declared
    unit = request.spec.privacy.unit
    column = None if unit is None else unit.column
    if source is None:
        raise InputError("A plan is tried on a public table: name one with --public TABLE.")
    several = source.tables if isinstance(source, PublicSources) else {"": source}
    for name, one in several.items():
        started = time.monotonic()
        check_headers(one, column)
        frame = one.read(private=False)
        check_no_people(frame.columns, column, name)
        seconds = time.monotonic() - started
        if not len(frame):
            raise InputError("The public table has no rows: give a table that has.")
        if not name or domain is None or not lacking(frame, domain):
            if len(several) > 1:
                notes.append(
                    f"Of the public tables {name} was tried, the first with all attributes."
                )
            return frame, seconds
    raise InputError(
        "A plan is tried on a public table with all attributes of the domain, and none has them of"
        f" {', '.join(several)}: name one that has with --public TABLE."
    )


def _simulate(
    request: PlanRequest,
    public: EncodedTable,
    workload: Workload,
    records: int,
    on_stage: Callable[[str], None],
    on_round: Callable[[int, Round], None],
    on_trial: Callable[[int, Trial], None],
) -> tuple[tuple[CurvePoint, ...], list[float]]:
    """Return the curve, and the epsilons at which the mechanism could not start."""
    asked, tried, left_out = request.spec.privacy.epsilon, [], []
    for epsilon in request.tried:
        try:
            at = request.at(epsilon)
            at.mechanism.build().check(public.domain, workload, at.shares[MECHANISM])
            tried.append(epsilon)
        except (InputError, EmptyCandidateSetError):
            left_out.append(epsilon)
    # What was asked for first: it is what an interrupted plan has learned.
    tried.sort(key=lambda epsilon: (epsilon != asked, epsilon))
    points, number = [], 0
    for epsilon in tried:
        trials = []
        for seed in range(request.seeds):
            on_stage(f"epsilon {epsilon:g}")
            trial = run_trial(
                request.at(epsilon),
                Halves.of(public, records, seed),
                workload,
                seed,
                partial(on_round, number),
            )
            on_trial(number, trial)
            trials.append(trial)
            number += 1
        points.append(CurvePoint(epsilon, tuple(trials)))
    return tuple(sorted(points, key=lambda point: point.epsilon)), left_out


def _others(
    request: PlanRequest,
    public: EncodedTable,
    workload: Workload,
    records: int,
    on_stage: Callable[[str], None],
    on_trial: Callable[[int, Trial], None],
) -> dict[str, Trial]:
    """Try the other mechanisms once, on the first pair of halves; those that can start."""
    found: dict[str, Trial] = {}
    halves = Halves.of(public, records, 0)
    for name in COMPARED:
        if name == request.spec.mechanism.name:
            continue
        other = request.spec.changed(mechanism=MechanismSpec(name))
        mechanism = other.mechanism.build()
        on_stage(mechanism.title)
        try:
            mechanism.check(public.domain, workload, other.shares[MECHANISM])
        except (InputError, EmptyCandidateSetError):
            continue
        found[name] = run_trial(other, halves, workload, 0, lambda outcome: None)
        on_trial(len(request.tried) * request.seeds + len(found) - 1, found[name])
    return found


def _size(
    request: PlanRequest, public: EncodedTable, workload: Workload, trials: Sequence[Trial]
) -> Size:
    from jam_dagster.models.graphical.tractability import TractabilityFilter

    fitted = [trial.candidates for trial in trials]
    limit = request.spec.mechanism.build().parameters().get("size_limit_mb")
    closure = workload.downward_closure()
    fit_last = None
    if limit is not None:
        fit_last = len(TractabilityFilter(public.domain, closure).fitting([], limit))
    return Size(
        workload=len(workload.cliques),
        candidates=max(trial.most_candidates for trial in trials)
        if limit is None
        else len(closure),
        first_limit_mb=trials[0].first_limit_mb,
        last_limit_mb=limit,
        fit_first=trials[0].first_candidates,
        fit_last=fit_last,
        last_round=(min(fitted), max(fitted)),
        largest_model_mb=max(trial.largest_model_mb for trial in trials),
    )


def _cost(
    read: float,
    encoded: float,
    row_bytes: float,
    public: EncodedTable,
    records: int,
    workload: Workload,
    trials: Sequence[Trial],
) -> Cost:
    measured = {
        name: statistics.fmean(trial.seconds[name] for trial in trials)
        for name in ("mechanism", "count", "sample")
    }
    tried = trials[0].counted
    both = records + public.records
    counted = max(tried, min(both, MOST_COUNTED))
    closure = workload.downward_closure()
    longer, shorter = (counting_seconds(public, closure, number) for number in (counted, tried))
    each = max(0.0, longer - shorter) / max(1, counted - tried)
    code_bytes = sum(column.itemsize for column in public.columns)
    return Cost(
        measured_seconds={"read": read, "encode": encoded, **measured},
        expected_seconds={
            "read": read * both / public.records,
            "encode": encoded * both / public.records,
            "count": measured["count"] + each * max(0, both - tried),
            "mechanism": measured["mechanism"] - measured["count"],
            "sample": measured["sample"] * max(1.0, records / trials[0].sampled),
        },
        # Later trials find what earlier ones left on the heap.
        measured_peak_mb=trials[0].peak_memory_mb,
        private_table_mb=records * (row_bytes + code_bytes) / 2**20,
        counted=counted,
        records=records,
        public_records=public.records,
    )


def _noise(
    request: PlanRequest,
    public: EncodedTable,
    workload: Workload,
    records: int,
    trials: Sequence[Trial],
) -> RoundNoise:
    spec, mechanism = request.spec, request.spec.mechanism.build()
    rounds = mechanism.expected_rounds(public.domain, workload)
    alpha = mechanism.parameters().get("alpha")
    neighbours = spec.neighbours
    rho = spec.shares[MECHANISM]
    if not neighbours.records_public:
        rho *= 1.0 - spec.privacy.records_share
    sigmas = sorted(sigma for trial in trials for sigma in trial.sigmas)
    cells = statistics.median(public.domain.size(clique) for clique in workload.cliques)
    return RoundNoise(
        # Without either, the budget of a round is unknown.
        sigma=None
        if rounds is None or alpha is None
        else gaussian_sigma(neighbours.marginal_l2, alpha * rho / rounds),
        measured=(sigmas[0], statistics.median(sigmas), sigmas[-1]) if sigmas else None,
        median_cell=records / cells,
    )
