"""Asset checks: expectations of the synthetic table, releasability, and the verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.certificates import Certificate
from jam_dagster.common.shown_text import one_line
from jam_dagster.evaluation import (
    ExpectationResult,
    ExpectationSpec,
    WorkloadErrors,
    expectation_names,
)
from jam_dagster.evaluation.domain_fit import misfit_sentence, remedy_sentence
from jam_dagster.evaluation.expectations.expectation import CheckGroup
from jam_dagster.evaluation.expectations.kinds import (
    DOMAIN_FITS,
    EXPECTATION_KINDS,
    GROUPS,
    MEASURED_MARGINALS,
    RULES,
)
from jam_dagster.evaluation.sentences import TABLES, said
from jam_dagster.pipeline.assets.assessment import verdict_on
from jam_dagster.pipeline.assets.descriptions import CHILDREN, MECHANISM_RUN, PUBLIC_CODES
from jam_dagster.pipeline.assets.metadata import verdict_metadata
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.launch import NO_CONFIG
from jam_dagster.pipeline.markdown import literal
from jam_dagster.pipeline.storage.identity import check_made, made_release
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.run import ReleaseRun
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.evaluation.expectations.validation import TableChecks
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore


def release_checks(graph: ReleaseGraph) -> list[dg.AssetChecksDefinition]:
    """Build the asset checks of a release, one for each expectation if so asked."""
    tables = ("synthetic_records", *graph.children)
    checks = [_expectations(graph)]
    checks += [_releasable(graph, name) for name in tables]
    if "workload_error" in graph.names:
        checks.append(_verdict(graph))
    if graph.stops_at_misfit:
        checks.append(_drawable(graph))
    return checks


def _checks_of(graph: ReleaseGraph, name: str) -> Sequence[CheckGroup]:
    """Return the checks of a synthetic table that stand for expectations."""
    domain, blocks = graph.spec.domain, graph.blocks_at_misfit
    # A domain that is not known before the run, or must not be shown, has no expectations to name.
    known = None if domain.restricted else domain.declared
    if graph.options.checks == "grouped" or known is None:
        own = None if known is None else known.roots
        if known is not None and known.children is not None and name == CHILDREN:
            own = known.children.domain
        rules = own is None or bool(own.rules)
        if known is not None and known.children is not None:
            two = known.children
            rules = rules or bool((two.rules or two.numbers) if name == CHILDREN else two.totals)
        groups = [one for one in GROUPS if one != RULES or rules]
        if name == CHILDREN:
            groups.remove(MEASURED_MARGINALS)
        return [replace(one, blocking=blocks) if one == DOMAIN_FITS else one for one in groups]
    return [
        CheckGroup(one.name, literal(one.description), one.blocking or (blocks and _of_fit(one)))
        for one in expectation_names(known)
        if _asset_of(one) == name
    ]


def _asset_of(one: ExpectationSpec) -> str:
    return CHILDREN if one.table else "synthetic_records"


def _of_fit(one: ExpectationSpec) -> bool:
    return EXPECTATION_KINDS[one.kind].group == DOMAIN_FITS


def _expectations(graph: ReleaseGraph) -> dg.AssetChecksDefinition:
    spec = graph.spec
    tables = ("synthetic_records", *graph.children)
    checks = {name: _checks_of(graph, name) for name in tables}
    store_key = graph.store("synthetic_records")

    @dg.multi_asset_check(
        name=f"{spec.release}__expectations",
        description="Great Expectations on the synthetic table.",
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        specs=[
            dg.AssetCheckSpec(
                check.name,
                asset=graph.key(name),
                description=check.description,
                blocking=check.blocking,
                additional_deps=[
                    graph.key(one)
                    for one in (*tables, MECHANISM_RUN, *graph.public_codes)
                    if one != name
                ],
                partitions_def=graph.partitions_def,
            )
            for name in tables
            for check in checks[name]
        ],
        can_subset=True,
        ins=graph.ins(*tables, MECHANISM_RUN, *graph.public_codes),
        required_resource_keys={store_key},
    )
    def expectations(
        context: dg.AssetCheckExecutionContext,
        synthetic_records: TableFile,
        mechanism_run: ReleaseRun,
        **inputs: Any,
    ) -> Iterator[dg.AssetCheckResult]:
        store: ReleaseStore = getattr(context.resources, store_key)
        domain = mechanism_run.model.domain
        partition = graph.partition_of(context)
        made = made_release(graph, partition, mechanism_run, synthetic_records, inputs)
        context.log.info("The synthetic table is checked.")
        validated, fits = made.checks, made.fits
        if graph.blocks_at_misfit:
            validated = validated.with_blocking_misfits()
        path = _stored(graph, store, partition, mechanism_run, validated)
        found = {one.name: one for one in validated.results}
        if (sentence := misfit_sentence(fits)) and graph.tells_data("synthetic_records"):
            context.log.warning(one_line(f"{sentence} {remedy_sentence(fits)}"))
        selected = context.selected_asset_check_keys
        for name, check in ((table, one) for table in tables for one in checks[table]):
            if dg.AssetCheckKey(graph.key(name), check.name) in selected:
                behind = [
                    found[one.name]
                    for one in expectation_names(domain)
                    if _asset_of(one) == name
                    and check.name in (one.name, EXPECTATION_KINDS[one.kind].group.name)
                ]
                yield _result(
                    graph.key(name),
                    check,
                    behind,
                    store.files.shown(path),
                    shown=graph.tells_data("synthetic_records"),
                )

    return expectations


def _stored(
    graph: ReleaseGraph,
    store: "ReleaseStore",
    partition: str,
    run: ReleaseRun,
    validated: "TableChecks",
) -> "UPath":
    """Write the page of checks and their results next to the table; return the page's path."""
    # The import takes seconds, and a code location should load in less.
    from jam_dagster.reports.checks_page import render_checks

    page = render_checks(
        validated,
        release=graph.spec.release,
        domain=run.model.domain,
        partition=partition,
        not_releasable_because=_reasons(graph, run),
    )
    path = store.beside(graph.key("synthetic_records"), partition, ".checks.html")
    store.files.write(path, page.encode())
    store.files.write(path.with_suffix(".json"), validated.to_json().encode())
    return path


def _result(
    key: dg.AssetKey,
    check: CheckGroup,
    behind: list[ExpectationResult],
    page: str,
    *,
    shown: bool,
) -> dg.AssetCheckResult:
    """Sum up the expectations behind a check; of a restricted one, the outcome only."""
    failed = [one for one in behind if not one.passed]
    metadata: dict[str, Any] = {"page": dg.MetadataValue.path(page)}
    skipped = sum(not one.measured for one in behind)
    description = f"{len(behind) - len(failed) - skipped} of {len(behind)} expectations met"
    if skipped:
        description += f", {skipped} not measured"
    if not shown:
        # Not even how many there are: that depends on the domain, which may be private.
        description = "not met" if failed else "met"
    elif not behind:
        description = "the domain has nothing to which this applies"
    elif len(behind) == 1:
        description = literal(behind[0].message)
        metadata |= _shown(behind[0].metadata)
    else:
        metadata["expectations"] = dg.MetadataValue.table(
            [
                dg.TableRecord(
                    {
                        "expectation": one.name,
                        "met": _met(one),
                        "finding": one_line(one.message),
                    }
                )
                for one in sorted(behind, key=lambda one: one.passed)
            ]
        )
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=check.name,
        passed=not failed,
        severity=_severity(check, failed),
        description=description,
        metadata=metadata,
    )


def _severity(check: CheckGroup, failed: list[ExpectationResult]) -> dg.AssetCheckSeverity:
    """Return how bad a failure is: one that could not be checked blocks nothing."""
    if not check.blocking or (failed and not any(one.severity == "ERROR" for one in failed)):
        return dg.AssetCheckSeverity.WARN
    return dg.AssetCheckSeverity.ERROR


def _met(one: ExpectationResult) -> str:
    if not one.measured:
        return "not measured"
    return "yes" if one.passed else "no"


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as Dagster takes it: containers as JSON, nothing for None."""
    return {
        name: dg.MetadataValue.json(value) if isinstance(value, dict | list | tuple) else value
        for name, value in metadata.items()
        if value is not None
    }


def _reasons(graph: ReleaseGraph, run: ReleaseRun) -> list[str]:
    """Return why the table may not leave; empty if it may."""
    reasons = list(graph.spec.not_releasable_because)
    if not run.transcript.releasable and not reasons:
        reasons.append(f"the transcript was drawn with {run.transcript.noise} noise")
    return reasons


def _releasable(graph: ReleaseGraph, name: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name="releasable",
        asset=graph.key(name),
        description="The table may leave: exact noise, and a domain from public data.",
        additional_ins=graph.ins(MECHANISM_RUN),
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        partitions_def=graph.partitions_def,
    )
    def releasable(
        context: dg.AssetCheckExecutionContext,
        table: TableFile,
        mechanism_run: ReleaseRun,
    ) -> dg.AssetCheckResult:
        made = MadeRelease(graph.spec, mechanism_run, table)
        own = graph.key(name).path[-1] if name == CHILDREN else name
        check_made(graph, made, graph.partition_of(context), table=own)
        reasons = _reasons(graph, mechanism_run)
        return dg.AssetCheckResult(
            passed=not reasons,
            description="Not releasable: " + "; ".join(map(literal, reasons)) + "."
            if reasons
            else "It may leave.",
            metadata={"noise": mechanism_run.transcript.noise},
        )

    return releasable


def _verdict(graph: ReleaseGraph) -> dg.AssetChecksDefinition:
    """Build the checks of the error: that it is known, and that it is the smaller one."""
    other = "public" if graph.public_codes else "uniform"
    key, better = graph.key("workload_error"), f"better_than_{other}"
    store_key = graph.store("synthetic_records")
    needed = (MECHANISM_RUN, "synthetic_records", *graph.children, *graph.public_codes)
    descriptions = {
        "error_known": said("error_known"),
        better: said("closer_than" if graph.public_codes else "better_than", table=TABLES[other]),
    }

    @dg.multi_asset_check(
        name=f"{graph.spec.release}__verdict",
        description="The finding of the workload error.",
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        specs=[
            dg.AssetCheckSpec(
                name,
                asset=key,
                description=description,
                additional_deps=[*map(graph.key, needed)],
                partitions_def=graph.partitions_def,
            )
            for name, description in descriptions.items()
        ],
        can_subset=True,
        ins=graph.ins("workload_error", *needed),
        required_resource_keys={store_key},
    )
    def verdict_checks(
        context: dg.AssetCheckExecutionContext,
        workload_error: WorkloadErrors,
        mechanism_run: ReleaseRun,
        synthetic_records: TableFile,
        **inputs: Any,
    ) -> Iterator[dg.AssetCheckResult]:
        given = {**inputs, "workload_error": workload_error}
        partition = graph.partition_of(context)
        made = made_release(graph, partition, mechanism_run, synthetic_records, given)
        verdict = verdict_on(graph, made)
        told = not workload_error.restricted and graph.tells_data("workload_error")
        if told:
            # A launch by the command line shows no page.
            context.log.info(one_line(f"Verdict: {' '.join(verdict.sentences)}"))
        met = {"error_known": verdict.known, better: verdict.better}
        numbers = {"difference": verdict.difference, "margin": verdict.margin}
        for name in (one.name for one in context.selected_asset_check_keys):
            outcome = "met" if met[name] else "not met"
            shown = verdict_metadata(verdict)
            if name != better:
                shown.pop("verdict_notes", None)
            metadata: dict[str, Any] = {}
            if verdict.difference is None:
                description = verdict.headline
            elif not graph.tells_data("workload_error"):
                description, metadata = outcome, {"restricted": True}
            elif workload_error.restricted:
                # Dagster prints descriptions, and a launcher's output may be kept anywhere.
                description = f"{outcome}. Restricted: exact statistics of private data."
                metadata = {**shown, **numbers, "restricted": True}
            else:
                description = literal(shown.pop("verdict"))
                metadata = {**shown, **numbers, "restricted": False}
            yield dg.AssetCheckResult(
                asset_key=key,
                check_name=name,
                passed=met[name],
                severity=dg.AssetCheckSeverity.WARN,
                description=description,
                metadata=metadata,
            )

    return verdict_checks


def _drawable(graph: ReleaseGraph) -> dg.AssetChecksDefinition:
    """Build the check that fails where the next partition is refused.

    It is a check of the certificate, so that everything is stored by then.
    """
    names = (MECHANISM_RUN, "synthetic_records", PUBLIC_CODES)

    @dg.asset_check(
        name="may_be_drawn_on",
        asset=graph.key("release_certificate"),
        description="The domain fits, so the next partition may be drawn on this release.",
        blocking=True,
        additional_ins=graph.ins(*names),
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        partitions_def=graph.partitions_def,
    )
    def may_be_drawn_on(
        context: dg.AssetCheckExecutionContext,
        release_certificate: Certificate,
        mechanism_run: ReleaseRun,
        synthetic_records: TableFile,
        public_discretized: Any,
    ) -> dg.AssetCheckResult:
        partition = graph.partition_of(context)
        given = {PUBLIC_CODES: public_discretized}
        made = made_release(graph, partition, mechanism_run, synthetic_records, given)
        sentence, passed_over = misfit_sentence(made.fits), said("passed_over")
        accepted = partition in graph.options.accept_misfit
        if sentence and not graph.tells_data("synthetic_records"):
            sentence = said("misfit_withheld")
        elif sentence:
            sentence = f"{sentence} {remedy_sentence(made.fits)}"
        found = sentence or said("domain_fits")
        return dg.AssetCheckResult(
            passed=accepted or not sentence,
            severity=dg.AssetCheckSeverity.ERROR,
            description=literal(one_line(f"{passed_over} {found}" if accepted else found)),
        )

    return may_be_drawn_on
