"""The asset that says what a release promises and what it cost, and the check of what it says."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.certificates import Certificate, released_files
from jam_dagster.certificates.page import PAGE_NAME
from jam_dagster.common.shown_text import one_line
from jam_dagster.pipeline.assets.asset_options import release_asset
from jam_dagster.pipeline.assets.descriptions import CHILDREN, MECHANISM_RUN
from jam_dagster.pipeline.assets.metadata import tidy
from jam_dagster.pipeline.assets.previous_release import ancestors
from jam_dagster.pipeline.assets.step import ReleaseStep, ledger_funding
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.launch import NO_CONFIG
from jam_dagster.pipeline.markdown import literal
from jam_dagster.pipeline.storage.formats import (
    CERTIFICATE,
    ERRORS,
    PAGE,
    RUN,
    TABLE,
)
from jam_dagster.pipeline.storage.identity import check_report, made_release
from jam_dagster.privacy import ReleaseId
from jam_dagster.privacy.accounting import describe_rho
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.engine import Engine
from jam_dagster.release.run import ReleaseRun
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from jam_dagster.privacy import Ledger

NAME = "release_certificate"


def certification_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the certificate of a release."""
    # Exact errors were not charged for, and are not part of the certificate.
    paid = ["workload_error"] if graph.spec.evaluation_mode == "private" else []

    @release_asset(
        graph,
        NAME,
        ins=graph.ins(
            *(MECHANISM_RUN, "synthetic_records", *graph.children, *paid, *graph.public_codes)
        ),
        # The page is made first, and sealed where it is there.
        deps=[graph.key("release_report")],
        resources={*graph.spending_resources, graph.store(NAME)},
    )
    def release_certificate(
        context: dg.AssetExecutionContext,
        mechanism_run: ReleaseRun,
        synthetic_records: TableFile,
        **inputs: Any,
    ) -> Certificate:
        step = ReleaseStep(graph.over(mechanism_run.model.domain), context)
        made = made_release(graph, step.partition, mechanism_run, synthetic_records, inputs)
        store = step.store(NAME)
        folder = step.beside(NAME, CERTIFICATE.suffix)
        run = step.beside(MECHANISM_RUN, RUN.suffix)
        report = step.beside("release_report", PAGE.suffix)
        check_report(graph, mechanism_run, report)
        domain = mechanism_run.model.domain
        in_chunks = mechanism_run.transcript.chunk_rows is not None
        table = TABLE.suffix if in_chunks else ".csv"
        # The domain asset may move on while this certificate stays.
        kept = folder / "domain.yaml"
        store.files.write(kept, domain.to_yaml().encode())
        files = released_files(
            table=step.beside("synthetic_records", table),
            children=None if made.children is None else step.beside(CHILDREN, ".csv"),
            domain=kept,
            transcript=run / "transcript",
            model=run / "model",
            report=report if report.exists() else None,
            errors=None if made.error is None else step.beside("workload_error", ERRORS.suffix),
        )
        engine = step.engine(domain)
        hashes = {
            role: step.store(name).kept_hash(graph.key(name), step.partition, suffix)
            for role, name, suffix in (
                ("table", "synthetic_records", table),
                ("children", CHILDREN, ".csv"),
                ("report", "release_report", PAGE.suffix),
                ("errors", "workload_error", ERRORS.suffix),
            )
            if role in files
        }
        certificate = engine.certify(
            *(mechanism_run, folder, files, made.error),
            # The model is fitted again before it is certified.
            made.public if graph.learns_from_public else None,
            made={role: kept for role, kept in hashes.items() if kept is not None},
            drawn_on=tuple(
                _drawn_on(step, mechanism_run.release.release_id, engine.funding.ledger)
            ),
        )
        metadata: dict[str, Any] = {
            "page": dg.MetadataValue.path(store.files.shown(folder / PAGE_NAME)),
            "releasable": certificate.releasable,
        }
        if graph.tells_data(NAME):
            metadata["draws"] = len(certificate.draws)
            metadata["rho_spent"] = certificate.rho_spent
            metadata["epsilon_spent"] = certificate.epsilon_spent
            metadata["verify"] = f"jam-dagster certificate verify {store.files.shown(folder)}"
        else:
            metadata |= graph.withheld_note()
        context.add_output_metadata(tidy(metadata))
        context.log.info(run_summary(step, engine, made, certificate))
        return certificate

    return [release_certificate]


def _drawn_on(
    step: ReleaseStep, release_id: ReleaseId, ledger: "Ledger | None"
) -> Iterator[ReleaseId]:
    """Yield the releases that a release was drawn on; research keeps none."""
    if ledger is not None and step.graph.spec.previous is not None:
        yield from ancestors(step, release_id, ledger)


def certification_checks(graph: ReleaseGraph) -> list[dg.AssetChecksDefinition]:
    """Build the check that fails where a certificate says that its table may not leave."""

    @dg.asset_check(
        name="releasable",
        asset=graph.key(NAME),
        description="The certificate says that the table may leave.",
        config_schema=NO_CONFIG,
        op_tags=dict(graph.options.op.tags),
        partitions_def=graph.partitions_def,
    )
    def certified_releasable(release_certificate: Certificate) -> dg.AssetCheckResult:
        reasons = release_certificate.reasons
        return dg.AssetCheckResult(
            passed=not reasons,
            severity=dg.AssetCheckSeverity.ERROR,
            description="Not releasable: " + literal(" ".join(reasons))
            if reasons
            else "It may leave.",
            metadata={"noise": release_certificate.noise},
        )

    return [certified_releasable]


_WIDTH = 18


def run_summary(
    step: ReleaseStep, engine: Engine, made: MadeRelease, certificate: Certificate
) -> str:
    """Return the end of a run in a few lines, for the log.

    The errors are those that were paid for. Exact errors are not shown: a launcher's output may be
    kept anywhere.
    """
    graph, release_id = step.graph, made.run.release.release_id
    of = f"release {release_id.release}" + (
        f", partition {release_id.partition}" if release_id.partition else ""
    )
    may = "may leave" if certificate.releasable else "may not leave"
    lines = {}
    if graph.tells_data("release_certificate"):
        verdict = made.verdict(made.checks.results)
        lines["Verdict"] = one_line(" ".join((verdict.headline, *verdict.notes[:1])))
    csv = made.run.transcript.chunk_rows is None
    paths = {
        "Synthetic table": ("synthetic_records", ".csv" if csv else TABLE.suffix),
        "Its children": (CHILDREN, ".csv"),
        "Report": ("release_report", PAGE.suffix),
        "Restricted report": ("release_report_restricted", PAGE.suffix),
    }
    for name, (asset, suffix) in paths.items():
        # A run may be of the certificate alone.
        if asset in graph.names and (path := step.beside(asset, suffix)).exists():
            lines[name] = step.store(asset).files.shown(path)
    folder = step.beside("release_certificate", CERTIFICATE.suffix)
    page = folder / PAGE_NAME
    lines["Certificate"] = step.store("release_certificate").files.shown(page)
    lines["Privacy spent"] = _spent(step, engine, certificate)
    told = "\n".join(f"{name:<{_WIDTH}}{line}" for name, line in lines.items())
    return f"Made {of}, which {may}.\n{told}"


def _spent(step: ReleaseStep, engine: Engine, certificate: Certificate) -> str:
    funding, delta = ledger_funding(engine), step.graph.spec.privacy.delta
    if funding is None:
        return "nothing: seeded noise is for research, and is not charged"
    left = funding.ledger.balance(funding.release_id.dataset)
    return (
        f"{describe_rho(certificate.rho_spent, delta)};"
        f" {describe_rho(left.remaining, left.delta)} is left of dataset "
        f"{funding.release_id.dataset}"
    )
