"""Planner: cost, time and error of a release, estimated from public data alone.

Nothing here could open a private table: a `PlanRequest` holds none. The ledger is only read.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.common.json_text import DAMAGE
from jam_dagster.errors import BudgetError, EmptyCandidateSetError, InputError
from jam_dagster.evaluation.domain_fit import (
    ColumnFit,
    column_fits,
    misfit_sentence,
    remedy_sentence,
    unknown_sentences,
)
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.mechanisms.registry import MECHANISMS
from jam_dagster.privacy import describe_rho, gaussian_sigma
from jam_dagster.privacy.ledger.history import history_sentences
from jam_dagster.privacy.ledger.identity import ledger_fault
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.public_side import domain_of, draft_of, public_remarks, with_related
from jam_dagster.release.run import read_run
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.tables import EncodedTable, Workload, encode
from jam_dagster.tables.codes.block_counts import (
    can_be_counted,
    can_be_kept,
    counted_marginals,
    counts_bytes,
)
from jam_dagster.tables.codes.marginals import marginal_blocks
from jam_dagster.tables.domain.bought import nothing
from jam_dagster.tables.domain.changes import domain_changes
from jam_dagster.tables.drafting.person_keys import unit_remark
from jam_dagster.tables.sources.parquet import ENCODED_BYTES
from jam_dagster.tables.sources.public import lacking
from jam_dagster.tables.sources.public_apart import check_headers, check_no_people
from jam_dagster.trials.durations import QUICK, Durations
from jam_dagster.trials.planned_run import PlannedRun
from jam_dagster.trials.pool import Pool
from jam_dagster.trials.rehearsal import MOST_UNREHEARSED, Rehearsal
from jam_dagster.trials.release_plan import (
    Cost,
    CostlyColumn,
    Known,
    LedgerOutlook,
    Plan,
    RoundNoise,
    Size,
    asked_rows,
)
from jam_dagster.trials.results import error_of, stages
from jam_dagster.trials.runs import PRIOR_ROWS, PUBLIC_TABLE
from jam_dagster.trials.splits import Split
from jam_dagster.trials.trial import run_trial

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from jam_dagster.mechanisms import MechanismResult, Round
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Clique, Domain
    from jam_dagster.trials.plan_request import PlanRequest
    from jam_dagster.trials.pool import Outcome
    from jam_dagster.trials.results import Row


MOST_COSTLY = 3
"""Columns that are named for what they cost."""

MOST_COUNTED = 200_000
"""Records that are counted at most to measure what counting takes."""


_DUST_UNITS = 1000
"""The least amount, in units of 1e-15 rho, that pays for anything; see `Balance`."""


@dataclass(frozen=True)
class Prepared:
    """A release that is ready to be simulated, and what is known of it before.

    `runs` are its trials in their order. The public table took `read` and `encoded` seconds.
    """

    request: PlanRequest
    known: Known
    public: EncodedTable
    workload: Workload
    runs: Sequence[PlannedRun]
    durations: Durations
    read: float
    encoded: float


def simulate(
    ready: Prepared,
    *,
    on_start: Callable[[int | None], None] = lambda rounds: None,
    on_stage: Callable[[str], None] = lambda name: None,
    on_round: Callable[[int, Round], None] = lambda number, outcome: None,
    on_trial: Callable[[Outcome], None] = lambda outcome: None,
) -> Plan:
    """Try the release out, and return the whole plan.

    Parameters
    ----------
    ready
        What `prepare` returned.
    on_start
        Called with the number of a trial's rounds, None if it is unknown.
    on_stage
        Called with the name of each trial as it begins.
    on_round
        Called after every round, with the number of its trial from 0.
    on_trial
        Called after every trial.
    """
    request, mechanism = ready.request, ready.request.spec.mechanism.build()
    on_start(mechanism.expected_rounds(ready.public.domain, ready.workload))
    numbers = itertools.count()
    results: list[MechanismResult] = []

    @lru_cache(maxsize=1)
    def halves(seed: int) -> Split:
        return Split.halves(ready.public, ready.known.records, seed)

    def make(run: PlannedRun) -> Row:
        # In this process, which takes memory as a release does.
        on_stage(_stage(run, mechanism.titled))
        number = next(numbers)
        asked = run.title == mechanism.titled
        return run_trial(
            run,
            halves(run.seed or 0),
            on_round=partial(on_round, number) if asked else None,
            on_result=results.append if asked and not results else lambda result: None,
        )

    pool = Pool(make, ready.durations, deadline_s=request.seconds)
    rows: list[Row] = []
    public_errors: dict[int, float] = {}
    prior_errors: dict[int, float] = {}
    counted = 0
    for outcome in pool.outcomes(ready.runs):
        seed = outcome.run.seed or 0
        if outcome.run.is_baseline:
            prior_errors[seed] = error_of(outcome.row)
        else:
            rows.append(outcome.row)
        counted = counted or halves(seed).counted
        if seed not in public_errors:
            public = PlannedRun.of(request.spec, seed, PUBLIC_TABLE)
            public_errors[seed] = error_of(run_trial(public, halves(seed)))
        on_trial(outcome)
    asked, rehearsal, unwritten = asked_rows(ready.known, rows), None, False
    if ready.known.records > MOST_UNREHEARSED and mechanism.samples:
        on_stage("the steps after the mechanism")
        try:
            rehearsal = Rehearsal.of(request.spec, results[0], ready.public, ready.known.records)
        except OSError:
            # Without room for its rows, the plan says that these steps were not measured.
            unwritten = True
    # One of a project's own has no rank.
    ranks = [*MECHANISMS, mechanism.name]
    return Plan(
        ready.known,
        _cost(ready, asked, counted, rehearsal),
        tuple(sorted(rows, key=lambda row: ranks.index(row["mechanism"]))),
        public_errors,
        prior_errors,
        request.seconds,
        tuple(_stage(run, mechanism.titled, seeded=True) for run in pool.late),
        unwritten,
    )


def _stage(run: PlannedRun, asked: str, *, seeded: bool = False) -> str:
    """Return the name of a trial: its epsilon, or the title of another mechanism."""
    if run.title != asked:
        return run.title + (f" with seed {run.seed}" if seeded and run.seed else "")
    return f"epsilon {run.epsilon:g}" + (f" with seed {run.seed}" if seeded else "")


def known_without_public(request: PlanRequest) -> Known:
    """Return what is known of a release without a public table, on which nothing can be tried.

    Raises
    ------
    InputError
        If something given is wrong, or domain or records are not given.
    """
    spec, domain = request.spec, request.spec.domain.declared
    if domain is None or request.records is None:
        raise InputError(
            "A plan is tried on a public table: name one with --public TABLE. Without one, declare"
            " the domain (--domain FILE) and say how many records the private table has"
            " (--records N), and the plan says how large the noise is."
        )
    notes = [
        "There is no public table to try the release on, so its error is not known. The free"
        " baseline is a uniform table: the budget buys what the release is closer than that."
    ]
    if spec.asked is not None:
        notes.append(
            "The budget buys the domain: attributes have at most so many values as this plan"
            " counts, and the release says how many it bought, and how near their product alone"
            " comes."
        )
    workload, mechanism = spec.workload.build(domain), spec.mechanism.build()
    mechanism.check(domain, workload, spec.shares[MECHANISM])
    outlook = _ledger_outlook(request, domain, notes)
    return _known(request, domain, workload, outlook, notes, records=request.records)


def _known(
    request: PlanRequest,
    domain: Domain,
    workload: Workload,
    outlook: LedgerOutlook | None,
    notes: Sequence[str],
    *,
    records: int,
    public_records: int = 0,
    trials: int = 0,
    seconds: float = 0.0,
    warnings: Sequence[str] = (),
) -> Known:
    """Return the facts of a release that need no simulation."""
    privacy, mechanism = request.spec.privacy, request.spec.mechanism.build()
    return Known(
        mechanism=request.spec.mechanism.name,
        title=mechanism.titled,
        described=mechanism.described,
        specification=request.release_id(domain).specification,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        selections=request.spec.budget.selections,
        shares=request.spec.shares,
        records=records,
        records_assumed=request.records is None,
        public_records=public_records,
        size=_known_size(request, domain, workload),
        noise=_known_noise(request, domain, workload, records),
        ledger=outlook,
        trials=trials,
        seconds=seconds,
        warnings=(*configuration_warnings(privacy.epsilon, privacy.delta, records), *warnings),
        notes=tuple(notes),
    )


def prepare(request: PlanRequest) -> Prepared:
    """Read the public table, and compute what needs no simulation.

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
    if spec.public is None:
        raise InputError("A plan is tried on a public table: name one with --public TABLE.")
    notes: list[str] = []
    earlier = None if request.earlier is None else read_earlier(request.earlier)
    frame, read = _tried_table(request, notes)
    domain = _domain(spec, frame, notes)
    if domain.asked is not None:
        request = replace(request, spec=spec.over(domain))
        spec, mechanism = request.spec, request.spec.mechanism.build()
        mechanism.check(domain, spec.workload.build(domain), spec.shares[MECHANISM])
        notes.append(
            "The budget buys values that the public table does not have, and these trials have the"
            " public ones alone."
        )
        domain = domain.buy(nothing)
    started = time.process_time()
    public = encode(frame, domain, private=False)
    encoded = time.process_time() - started
    remarks = public_remarks({"": frame}, domain)
    if spec.privacy.unit is None and not request.rows_are_persons:
        notes += filter(None, [unit_remark(frame)])
    del frame

    workload = spec.workload.build(domain)
    mechanism = spec.mechanism.build()
    mechanism.check(domain, workload, spec.shares[MECHANISM])
    records = public.records if request.records is None else request.records
    if request.records is None:
        notes.append(
            f"The private table was assumed to have as many records as the public one, "
            f"{records:,}: say how many it has with --records N."
        )
    misfits: list[str] = []
    if earlier is None:
        notes.append(
            "It is not known whether the domain fits the private table: an earlier release shows"
            " it, with --earlier FOLDER."
        )
    else:
        misfits, found = domain_fit(earlier, public)
        notes += found
    outlook = _ledger_outlook(request, domain, notes)
    runs = _runs(request, domain, workload, notes)
    durations = Durations(lambda run: (len(workload.cliques), records))
    first, *rest = (durations.expected(run)[0] for run in runs)
    known = _known(
        request,
        domain,
        workload,
        outlook,
        notes,
        records=records,
        public_records=public.records,
        trials=len(runs),
        seconds=max(first, min(request.seconds, first + sum(rest))),
        warnings=(*(f"{remark}." for remark in remarks), *misfits),
    )
    return Prepared(request, known, public, workload, runs, durations, read, encoded)


def _ledger_outlook(request: PlanRequest, domain: Domain, notes: list[str]) -> LedgerOutlook | None:
    """Read from the ledger what a release would leave."""
    spec = request.spec
    if request.ledger is None:
        return None
    if not spec.exact:
        notes.append("Seeded noise charges nothing: the ledger would stay as it is.")
        return None
    if not spec.dataset:
        notes.append("Name the protected dataset with --dataset ID to see what would be left.")
        return None
    # The ledger brings SQLAlchemy, for which a plan without one need not wait.
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.accounting import rho_within
    from jam_dagster.privacy.ledger.opening import share_units

    ledger, release_id = Ledger(request.ledger), request.release_id(domain)
    if fault := ledger_fault(ledger, spec.ledger_id):
        sentence = f"{fault[:1].upper()}{fault[1:]}."
        return LedgerOutlook(ledger.location, release_id.dataset, None, None, False, sentence)
    if release_id.dataset not in ledger.datasets():
        note = (
            "The ledger grants this dataset nothing yet: its budget is granted by "
            "`jam-dagster ledger grant`, or by configuration when it is first used."
        )
        return LedgerOutlook(ledger.location, release_id.dataset, None, None, False, note)
    balance = ledger.balance(release_id.dataset)
    left = balance.remaining_units_in(release_id.partition)
    after = balance.remaining_units_after(
        sum(share_units(spec.shares).values()), release_id.partition
    )
    fits, note = True, f"It reserves {describe_rho(spec.budget.rho, spec.budget.converts_at)}."
    before = ledger.reservation(release_id)
    if before is not None and before.spent:
        after = left
        note = "It was charged before: what it drew is stored, and costs nothing again."
    elif before is not None and not before.closed:
        after = left
        note = "It is reserved already: what is left counts without it."
    try:
        ledger.check(
            release_id, spec.shares, neighbours=spec.neighbours, selections=spec.selections
        )
    except BudgetError as error:
        fits, note = False, str(error)
    journal = ledger.events(release_id.dataset)
    its = journal, release_id, request.edition_of, balance.delta
    history = history_sentences(*its, as_defined=request.as_defined)
    # Rounding may leave so little that it pays for nothing.
    remaining, would_be = (
        balance.epsilon_of(rho_within(units)) if units >= _DUST_UNITS else 0.0
        for units in (left, after)
    )
    return LedgerOutlook(
        ledger.location,
        release_id.dataset,
        remaining,
        would_be if fits else None,
        fits,
        " ".join([note, *history]),
    )


def _domain(spec: ReleaseSpec, frame: pd.DataFrame, notes: list[str]) -> Domain:
    """Return the domain that is declared, else a draft from the public table."""
    domain = spec.domain.declared
    if domain is not None and spec.asks_by_tables:
        domain = domain_of(spec, {"": frame})
    if domain is None:
        draft = draft_of(spec, {"": frame})
        domain = draft.domain
        notes.append(f"The domain was drafted from the public table. {draft.remark}".rstrip())
    domain = with_related(spec, {"": frame}, domain)
    if related := spec.workload.build(domain).related:
        pairs = ", ".join(map(" x ".join, related))
        notes.append(f"The workload has pairs that it lacks and the public table relates: {pairs}.")
    if spec.privacy.unit is not None:
        spec.privacy.unit.build().check(domain)
    return domain


def _tried_table(request: PlanRequest, notes: list[str]) -> tuple[pd.DataFrame, float]:
    """Read the public table that is tried, of several the first that has all attributes.

    The seconds that reading it took come with it.
    """
    domain, column = request.spec.domain.declared, request.spec.person_column
    several = request.spec.public_tables
    for name, one in several.items():
        started = time.process_time()
        check_headers(one, column)
        frame = one.read(private=False)
        check_no_people(frame.columns, column, name)
        seconds = time.process_time() - started
        if not len(frame):
            raise InputError("The public table has no rows: give a table that has.")
        if not name or domain is None or not lacking(frame, domain):
            if len(several) > 1:
                notes.append(
                    f"Among the public tables {name} was tried, the first with all attributes."
                )
            return frame, seconds
    raise InputError(
        "A plan is tried on a public table with all attributes of the domain, and none has them of"
        f" {', '.join(several)}: name one that has with --public TABLE."
    )


def compared() -> list[MechanismSpec]:
    """Return the mechanisms that are tried whichever is asked for, the quickest first.

    One that may learn from a public table is tried with it and without.
    """
    found = sorted((one for one in MECHANISMS.values() if one.compared), key=lambda one: one.pace)
    return [
        MechanismSpec(one.name, **given, **(QUICK if "tolerance" in settings_of(one) else {}))
        for one in found
        for given in ({}, one.without_public())[: 1 + (one.takes_public == "may")]
    ]


def _runs(
    request: PlanRequest, domain: Domain, workload: Workload, notes: list[str]
) -> list[PlannedRun]:
    """Return the trials that can start: of the release, then of the others on the first halves."""

    def startable(make: Callable[[], ReleaseSpec]) -> ReleaseSpec | None:
        try:
            spec = make()
            spec.mechanism.build().check(domain, workload, spec.shares[MECHANISM])
        except (InputError, EmptyCandidateSetError):
            return None
        return spec

    asked = request.spec.privacy.epsilon
    # The requested epsilon comes first: an interrupted plan has learned that one.
    epsilons = sorted(request.tried, key=lambda epsilon: (epsilon != asked, epsilon))
    tried = {epsilon: startable(partial(request.at, epsilon)) for epsilon in epsilons}
    if left_out := [f"{epsilon:g}" for epsilon, spec in tried.items() if spec is None]:
        notes.append(
            f"Too small to leave every round a budget, and not tried: epsilon"
            f" {', '.join(left_out)}."
        )
    seeds = range(request.seeds)
    runs = []
    for epsilon, spec in tried.items():
        if spec is None:
            continue
        # The prior's rows come right after a run that may have made the prior.
        free = (PRIOR_ROWS,) if epsilon == asked else ()
        runs += [PlannedRun.of(spec, seed, one) for seed in seeds for one in ("", *free)]
    title = request.spec.mechanism.build().titled
    for mechanism in compared() if request.compare else ():
        if mechanism.build().titled != title:
            other = startable(partial(request.spec.changed, mechanism=mechanism))
            runs += [] if other is None else [PlannedRun.of(other, 0)]
    return runs


def _known_size(request: PlanRequest, domain: Domain, workload: Workload) -> Size:
    from jam_dagster.models.graphical.tractability import TractabilityFilter

    limit = request.spec.mechanism.build().parameters().get("size_limit_mb")
    closure = workload.downward_closure()
    cells = {clique: domain.size(clique) for clique in workload.cliques}
    of_column = {
        name: sum(size for clique, size in cells.items() if name in clique) for name in domain.names
    }
    asked = request.spec.marginals(domain)
    held = counted_marginals(domain, asked) if can_be_counted(domain, asked) else None
    return Size(
        workload=len(workload.cliques),
        candidates=len(closure),
        counted=None if held is None else len(held),
        counted_cells=None if held is None else sum(map(domain.size, held)),
        costly=tuple(
            CostlyColumn(name, domain.sizes[name], of_column[name] / sum(cells.values()))
            for name in sorted(of_column, key=of_column.__getitem__, reverse=True)[:MOST_COSTLY]
        ),
        last_limit_mb=limit,
        fit_last=None
        if limit is None
        else len(TractabilityFilter(domain, closure).fitting([], limit)),
    )


def _cost(ready: Prepared, rows: Sequence[Row], tried: int, rehearsal: Rehearsal | None) -> Cost:
    """Return the cost by the rows at the epsilon asked for, which counted so many records."""
    public, records = ready.public, ready.known.records
    parts = {
        "mechanism": ["mechanism"],
        "count": ["mechanism.count"],
        "sample": ["sample", "search"],
    }
    taken = [(stages(row["seconds_by_stage"]), row["cpu_seconds"] / row["seconds"]) for row in rows]
    measured = {
        name: statistics.fmean(busy * sum(one.get(part, 0.0) for part in of) for one, busy in taken)
        for name, of in parts.items()
    }
    both = records + public.records
    counted = max(tried, min(both, MOST_COUNTED))
    closure = ready.workload.downward_closure()
    longer, shorter = (counting_seconds(public, closure, number) for number in (counted, tried))
    each = max(0.0, longer - shorter) / max(1, counted - tried)
    # Rounds repeat counts that are not kept, as they did in the trials.
    again = not can_be_kept(public.domain, closure)
    passes = max(1.0, measured["count"] / shorter) if again else 1.0
    code_bytes = sum(column.itemsize for column in public.columns)
    expected = {
        "read": ready.read * both / public.records,
        "encode": ready.encoded * both / public.records,
        "count": measured["count"] + passes * each * max(0, both - tried),
        "mechanism": measured["mechanism"] - measured["count"],
        "sample": measured["sample"] * max(1.0, records / rows[0]["sampled"]),
    }
    if rehearsal is not None:
        expected |= rehearsal.expected(
            statistics.fmean(one["search"] * busy for one, busy in taken)
        )
    if rehearsal is not None and rehearsal.in_chunks:
        # Its batches were read and encoded, which takes as long whenever its files are counted.
        expected["read"] = ready.read
        if again and records * code_bytes > ENCODED_BYTES:
            expected["encode"] *= 1 + rows[0]["rounds"]
        expected["encode"] += ready.encoded
    return Cost(
        measured_seconds={"read": ready.read, "encode": ready.encoded, **measured},
        expected_seconds=expected,
        # Later trials find what earlier ones left on the heap.
        measured_peak_mb=max(rows[0]["peak_memory_mb"], rehearsal.peak_mb if rehearsal else 0.0),
        private_table_mb=records * code_bytes / 2**20,
        counts_mb=counts_bytes(public.domain, closure, records) / 2**20,
        rows_mb=0.0 if rehearsal is None else rehearsal.rows_mb,
        counted=counted,
        records=records,
        public_records=public.records,
        rehearsed=0 if rehearsal is None else rehearsal.rows,
        in_chunks=rehearsal is not None and rehearsal.in_chunks,
    )


def counting_seconds(table: EncodedTable, cliques: Sequence[Clique], records: int) -> float:
    """Measure how long counting marginals of so many records takes."""
    longer = table.take(np.arange(records) % table.records)
    started = time.process_time()
    for _ in marginal_blocks(longer, cliques):
        pass
    return time.process_time() - started


def _known_noise(
    request: PlanRequest, domain: Domain, workload: Workload, records: int
) -> RoundNoise:
    spec, mechanism = request.spec, request.spec.mechanism.build()
    rounds = mechanism.expected_rounds(domain, workload)
    alpha = mechanism.parameters().get("alpha")
    neighbours = spec.neighbours
    rho = spec.shares[MECHANISM]
    if not neighbours.records_public:
        rho *= 1.0 - spec.privacy.records_share
    cells = statistics.median(domain.size(clique) for clique in workload.cliques)
    return RoundNoise(
        # Without either, the budget of a round is unknown.
        sigma=None
        if rounds is None or alpha is None
        else gaussian_sigma(neighbours.marginal_l2, alpha * rho / rounds),
        median_cell=records / cells,
    )


def read_earlier(folder: Path) -> ReleaseRun:
    """Return the run of an earlier release from its folder; an InputError if it may not leave."""
    try:
        run = read_run(folder)
    except (OSError, InputError, *DAMAGE):
        raise InputError(
            f"--earlier {folder} holds no release: name the folder that --out named, or that of"
            " the mechanism's asset. It has the file run.json."
        ) from None
    if run.model.domain.restricted or not run.transcript.releasable:
        raise InputError(
            f"--earlier {folder} is not releasable, so a plan cannot show what it measured: name"
            " a release with exact noise and a public domain."
        )
    return run


def domain_fit(earlier: ReleaseRun, public: EncodedTable) -> tuple[list[str], list[str]]:
    """Return warnings and notes on how the next domain fits, by what was released earlier.

    The public table is encoded over the domain of the next release. A column that this domain
    declares otherwise than the earlier one has no measurement.
    """
    then = {one.name: one for one in earlier.model.domain.attributes}
    same = [one.name for one in public.domain.attributes if then.get(one.name) == one]
    found: list[ColumnFit] = []
    if same:
        kept = EncodedTable.from_frame(public.domain.project(same), public.to_frame()[same])
        found = column_fits(earlier.transcript, kept.domain, kept)
    warnings, notes = [], []
    if misfit := misfit_sentence(found):
        warnings.append(f"The earlier release shows a misfit. {misfit} {remedy_sentence(found)}")
    elif any(one.shares and not one.unknown for one in found):
        notes.append("The earlier release shows no misfit of the domain.")
    notes += [f"By the earlier release: {sentence}" for sentence in unknown_sentences(found)]
    if changes := domain_changes(earlier.model.domain, public.domain):
        notes.append(f"Since the earlier release the domain was edited: {'; '.join(changes)}.")
    return warnings, notes
