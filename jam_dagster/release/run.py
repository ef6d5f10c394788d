"""From two tables to a synthetic one.

The order of the steps is the point. What can be wrong without the private table is found before a
ledger reserves anything; the whole release is reserved before the private table is opened; and what
a release has drawn once is never drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.certificates import RequestedBudget, certify, write_table
from jam_dagster.certificates.signing import Signer, configured_signer
from jam_dagster.common.redaction import redacted
from jam_dagster.errors import InputError, LostDrawError, ReleaseClosedError
from jam_dagster.evaluation import WorkloadErrors, workload_error
from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.evaluation.expectations import ExpectationResult, validate
from jam_dagster.mechanisms import Round, load_model, sampling_generator
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.privacy import ReleaseKey
from jam_dagster.privacy.ledger.key import canonical_digest
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.folder_place import ReleaseFolder
from jam_dagster.release.funding import Funding, Funds, LedgerFunding, ResearchFunding
from jam_dagster.release.result import Synthesis
from jam_dagster.release.stopwatch import Stopwatch, peak_memory_mb
from jam_dagster.reports.checks_page import render_checks
from jam_dagster.reports.release_report import ReleaseFacts, render_report
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    FrameSource,
    LimitedParquet,
    MarginalSource,
    ParquetSource,
    PublicTables,
    Workload,
    decode,
    encode,
    encode_parquet,
    private_values,
    secret_key,
    seeded_key,
)
from jam_dagster.tables.codes.spreadsheet import check_cells
from jam_dagster.tables.codes.table import contents_digest, digest_of
from jam_dagster.tables.sources.public import (
    draft_public,
    encode_public,
    encoded_tables,
    read_public,
)
from jam_dagster.tables.sources.public_apart import check_headers, check_no_people

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.release.options import SynthesisRequest

MECHANISM, EVALUATION = "mechanism", "evaluation"


def synthesize(
    request: SynthesisRequest,
    *,
    on_stage: Callable[[str], None] = lambda name: None,
    on_start: Callable[[int | None], None] = lambda rounds: None,
    on_round: Callable[[Round], None] = lambda outcome: None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Synthesis:
    """Make a synthetic table, and write it and its story to a folder.

    Parameters
    ----------
    request
        What is wanted.
    on_stage
        Called with the name of each stage as it begins.
    on_start
        Called with the number of rounds before the first, None where nobody knows it.
    on_round
        Called after every round of the mechanism.
    tell
        Called with a sentence where the user should know what was done.

    Returns
    -------
    Synthesis
        What was made, and what it took.

    Raises
    ------
    InputError
        If something given is wrong; nothing was charged. Where it is the private table, the
        release stays reserved: the same request finds its reservation again, and a corrected one
        supersedes it.
    BudgetExceededError
        If the release asks for more than its dataset has left; the private table was not opened.
    SourceBindingError
        If the release was reserved for another source; the private table was not opened.
    AttemptsError
        If too many attempts to open the private data did not end well.
    PrivateStepError
        If a step that holds private values failed. The reservation stays: the same request
        goes on where this one stopped.
    """
    with ExitStack() as until_done:
        return _synthesize(request, Stopwatch(on_stage), until_done, on_start, on_round, tell)


def _synthesize(
    request: SynthesisRequest,
    watch: Stopwatch,
    until_done: ExitStack,
    on_start: Callable[[int | None], None],
    on_round: Callable[[Round], None],
    tell: Callable[[str], None],
) -> Synthesis:
    """Make the table; what is held until all is written goes into `until_done`."""
    request.validate()
    folder = ReleaseFolder(request.out)
    folder.check_writable()
    if request.noise != "exact":
        # Matplotlib, Great Expectations and pandas write files too, each with modes of its own.
        until_done.enter_context(folder.closed_to_others())

    with watch.stage("read"):
        # By their headers first: a table of persons is not even read.
        check_headers(request.public, request.privacy_unit)
        public_records = {} if request.public is None else read_public(request.public)
        for name, frame in public_records.items():
            check_no_people(frame.columns, request.privacy_unit, name)
        domain = _domain(request, public_records)
    protection = request.protection
    if protection.unit is not None:
        protection.unit.check(domain)
    with watch.stage("encode"):
        mechanism = request.made_mechanism()
        public = None
        if public_records:
            may_be_named = mechanism.takes_named_public
            public = encode_public(public_records, domain, may_be_named=may_be_named)
        workload = Workload.all_k_way(domain, request.degree)
        mechanism.check(domain, workload, request.shares()["mechanism"])
        on_start(mechanism.expected_rounds(domain, workload))

    release_key, funding, described = _funding(request, domain, public, tell)
    folder.check_free_for(described)
    if funding.ledger is not None and funding.ledger.release(release_key) is None:
        # A release that began before such domains were refused goes on.
        check_cells(domain)
    funding.check(folder)
    signer = _signer(request, funding)
    funds = funding.open(folder)
    until_done.enter_context(funding.alone())
    # Until the private table is needed no more: what fails meanwhile counts as an attempt.
    opened = until_done.enter_context(ExitStack())
    opened.enter_context(funding.opening(folder, described))

    key = _row_key(request, folder, described, tell)
    private = _private_table(request, domain, key, watch)
    public_n = private.records if protection.neighbours.records_public else None
    with redacted("reading the private table"), private_values():
        if public_n == 0:
            raise InputError("The private table has no rows: give a table that has.")
    contents = _contents(request, private)
    # Where the key that chose the rows of a person was lost, other rows are no other table.
    if contents is not None and (protection.unit is None or folder.row_key(described) == key):
        folder.check_contents(same=funding.began_with(contents))
    folder.check_records(public_n, funding.records())

    # How many rows there are is shown once a draw is paid, and not before.
    funding.keep_records(public_n)
    if contents is not None:
        funding.keep_contents(contents)
    folder.claim({**described, "records": None})
    if protection.unit is not None and request.noise == "exact":
        folder.keep_row_key(key)
    domain.save(folder.domain)

    with watch.stage("mechanism"), redacted("the mechanism"):
        finished = folder.finished(
            noise=request.noise,
            mechanism=mechanism.name,
            parameters=mechanism.parameters(),
            domain=domain,
            neighbours=protection.neighbours,
        )
        if finished is not None:
            tell("This release was drawn before: its transcript is used again, at no cost.")
            transcript = finished
            model = load_model(folder.model)
        else:
            draws = funds.draws(MECHANISM, protection)
            result = mechanism.run(private, public, workload, draws, on_round=on_round)
            model, transcript = result.model, result.transcript
            watch.add_parts("mechanism", result.seconds)
            model.save(folder.model)
            transcript.save(folder.transcript)
        funds.close(MECHANISM)

    for warning in configuration_warnings(request.epsilon, request.delta, transcript.records):
        tell(f"Warning: {warning}")

    with watch.stage("sample"):
        # A release that is made again must give the table whose errors were measured, so no
        # seed of the user's samples it.
        rng = (
            sampling_generator(transcript)
            if request.noise == "exact"
            else np.random.default_rng(request.seed)
        )
        synthetic = model.sample(transcript.records, rng)
        rounding = sampling_distance(model, synthetic)
        table = decode(synthetic, rng)
        write_table(table, folder.table)

    with watch.stage("evaluate"), redacted("the evaluation"):
        errors = _evaluate(
            request, private, synthetic, public, workload, transcript.records, funds, tell
        )
        folder.write_errors(errors)
    opened.close()

    checks: list[ExpectationResult] = []
    if request.wants_checks:
        with watch.stage("checks"), redacted("the checks"):
            found = validate(
                table,
                domain,
                records=transcript.records,
                transcript=transcript,
                model=model,
            )
            checks = found.results
            research = request.noise != "exact"
            checked = render_checks(
                found,
                release=request.release_name,
                domain=domain,
                not_releasable_because=["The noise is seeded, for research"] if research else [],
            )
            folder.write_checks(checked, found.to_json(), restricted=research)

    if request.wants_report:
        with watch.stage("report"), redacted("the report"):
            page = partial(
                render_report,
                _facts(request, funding),
                domain=domain,
                transcript=transcript,
                synthetic=synthetic,
                public=public,
                checks=checks,
                bounds=known_bounds(transcript, domain, workload, released=synthetic),
            )
            measured = None if errors.restricted or errors.synthetic is None else errors
            folder.write_report(page(error=measured), restricted=False)
            if errors.restricted:
                folder.write_report(page(error=errors, restricted=True), restricted=True)

    with watch.stage("certificate"):
        certificate = certify(
            folder.path,
            folder.released_files(errors=errors, report=request.wants_report),
            key=release_key,
            specification=described["specification"],
            asked=RequestedBudget(request.epsilon, request.delta, request.shares()),
            transcript=transcript,
            domain=domain,
            evaluation=errors.call,
            ledger=funding.ledger,
            source_restriction=request.private.restricted_because,
            trusted_mechanisms=request.trusted_mechanisms,
            seed=None if request.noise == "exact" else request.seed,
            signer=signer,
        )
        if certificate.withdrawn is not None:
            tell(
                f"Warning: the certificate of this release stands no longer. "
                f"{certificate.withdrawn.sentence}"
            )
        # Rendering brings jinja2, for which research need not wait.
        folder.write_certificate(certificate, page=request.noise == "exact" or request.wants_report)

    return Synthesis(
        table=table,
        errors=errors,
        sampling_error=rounding.mean,
        seconds=watch.total(),
        peak_memory_mb=peak_memory_mb(),
        rho_budget=request.budget().rho,
        rho_spent=funds.spent,
        picks=transcript.picks,
        rows=len(table),
        releasable=certificate.releasable,
        output=folder.path,
        report=folder.report if request.wants_report else None,
        checks=checks,
        checks_page=folder.checks if request.wants_checks else None,
        certificate=folder.certificate,
    )


def _signer(request: SynthesisRequest, funding: Funding) -> Signer | None:
    """Return who signs, once the ledger is known to accept it; nobody signs research."""
    if funding.ledger is None:
        return None
    signer = configured_signer(request.signing_key)
    if signer is not None:
        funding.ledger.keys.check(signer.public)
    return signer


def _domain(request: SynthesisRequest, public: Mapping[str, pd.DataFrame]) -> Domain:
    """Return the domain: the given one, or one that is drafted from the public tables."""
    if request.domain is None:
        return draft_public(public)
    return request.domain if isinstance(request.domain, Domain) else Domain.load(request.domain)


def _row_key(
    request: SynthesisRequest,
    folder: ReleaseFolder,
    described: dict[str, Any],
    tell: Callable[[str], None],
) -> bytes:
    """Return the key that decides which rows of a person are kept: the release's own, if it began.

    A key that was lost costs no privacy: every draw is paid for with all that the rows of a person
    can do to it, whichever they are.
    """
    if request.noise != "exact":
        return seeded_key(request.seed)
    key = folder.row_key(described)
    if key is None and request.privacy_unit is not None and folder.has_draws:
        tell(
            f"{folder.restricted} no longer holds the key that chose which rows of a person are "
            "kept: from here on other rows are."
        )
    return secret_key() if key is None else key


def _private_table(
    request: SynthesisRequest, domain: Domain, key: bytes, watch: Stopwatch
) -> MarginalSource:
    """Return the private table, once every record of it lies in the domain."""
    source, unit = request.private, request.protection.unit
    if isinstance(source, ParquetSource):
        with watch.stage("encode"), redacted("reading and encoding the private table"):
            limited = source if unit is None else LimitedParquet.of(source, unit, key)
            return encode_parquet(limited, domain, private=True)
    with watch.stage("read"), redacted("reading the private table"):
        records = source.read(private=True)
        if unit is not None:
            records = unit.limit(records, key)
    with watch.stage("encode"), redacted("encoding the private table"):
        return encode(records, domain, private=True)


def _contents(request: SynthesisRequest, private: MarginalSource) -> str | None:
    """Return a digest of the private records, where nothing but they tells a changed table.

    A file is the same under its path, and its owner knows when it changes. A table in memory may
    be another in every call.
    """
    if not isinstance(request.private, FrameSource) or not isinstance(private, EncodedTable):
        return None
    with redacted("reading the private table"):
        return contents_digest(private)


def _funding(
    request: SynthesisRequest,
    domain: Domain,
    public: EncodedTable | PublicTables | None,
    tell: Callable[[str], None],
) -> tuple[ReleaseKey, Funding, dict[str, Any]]:
    """Return a release's key, what pays for it, and how its folder describes it."""
    specification = request.specification(domain_digest=domain.digest)
    key = ReleaseKey(
        dataset=request.dataset or "not named",
        release=request.release_name,
        specification=canonical_digest(specification),
        edition=request.edition,
    )
    described: dict[str, Any] = {
        "noise": request.noise,
        "key": None,
        "specification": specification,
        "public": None if public is None else digest_of(encoded_tables(public)),
    }
    if request.retention_days is not None:
        described["retention_days"] = request.retention_days
    if request.noise != "exact":
        return key, ResearchFunding(request.shares(), request.seed), described
    if (reason := request.private.restricted_because) is not None:
        raise InputError(
            f"Nothing made from the private table may leave, whatever is paid: {reason} "
            "(--noise numpy)."
        )
    if domain.restricted:
        raise InputError(
            "The domain was identified from private data, so nothing made with it may leave, "
            "whatever is paid: experiment for free with seeded noise (--noise numpy), or give a "
            "domain that was declared or drafted from public data."
        )
    # The ledger brings SQLAlchemy, for which research need not wait.
    from jam_dagster.privacy import Ledger

    described["key"] = asdict(key)
    ledger = Ledger(str(request.ledger))
    neighbours = request.protection.neighbours
    funding = LedgerFunding(
        ledger,
        key,
        request.budget(),
        request.shares(),
        neighbours,
        source=request.private.identity(),
        private_store=request.private_store,
        tell=tell,
    )
    return key, funding, described


def _facts(request: SynthesisRequest, funding: Funding) -> ReleaseFacts:
    made, remaining = funding.ended() or (datetime.now(UTC), None)
    return ReleaseFacts(
        release=request.release_name,
        dataset=request.dataset or "not named",
        epsilon=request.epsilon,
        delta=request.delta,
        reserved=request.shares(),
        edition=request.edition,
        public_source="" if request.public is None else request.public.describe(),
        made=made,
        remaining_epsilon=remaining,
    )


def _evaluate(
    request: SynthesisRequest,
    private: MarginalSource,
    synthetic: EncodedTable,
    public: EncodedTable | PublicTables | None,
    workload: Workload,
    records: int,
    funds: Funds,
    tell: Callable[[str], None],
) -> WorkloadErrors:
    if request.evaluation_mode != "private":
        return workload_error(
            private,
            synthetic,
            public,
            workload,
            mode=request.evaluation_mode,
            records=records,
        )
    draws = funds.draws(EVALUATION, request.protection)
    try:
        errors = workload_error(
            private, synthetic, public, workload, mode="private", draws=draws, records=records
        )
    except (LostDrawError, ReleaseClosedError) as lost:
        # The synthetic table is there and paid for; that its error is unknown is no reason to
        # withhold it.
        tell(f"The workload errors are lost: {lost}")
        errors = WorkloadErrors.unknown(draws)
    funds.close(EVALUATION)
    return errors
