"""What a run says last: the verdict, where the files are, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jam_dagster.common.shown_text import one_line
from jam_dagster.pipeline.assets.step import ReleaseStep, ledger_funding
from jam_dagster.pipeline.storage.formats import CertificateFormat, PageFormat, TableFormat
from jam_dagster.privacy.accounting import describe_rho
from jam_dagster.release.documents import checks_of, counts_of, judged

if TYPE_CHECKING:
    from jam_dagster.certificates import Certificate
    from jam_dagster.evaluation import WorkloadErrors
    from jam_dagster.release.engine import Engine
    from jam_dagster.release.run import ReleaseRun
    from jam_dagster.tables.sources.table_file import TableFile

_WIDTH = 18


def run_summary(
    step: ReleaseStep,
    engine: Engine,
    run: ReleaseRun,
    table: TableFile,
    certificate: Certificate,
    error: WorkloadErrors | None,
) -> str:
    """Return the end of a run in a few lines, for the log.

    `error` is what was paid for. Exact errors are not shown: a launcher's output may lie anywhere.
    """
    graph, key = step.graph, run.release.key
    of = f"release {key.release}" + (f", partition {key.partition}" if key.partition else "")
    may = "may leave" if certificate.releasable else "may not leave"
    lines = {}
    if graph.tells_data("release_certificate"):
        counts = counts_of(graph.spec, run, table, evaluated=not graph.public_codes)
        checks = checks_of(run, table).results
        verdict = judged(graph.spec, run, counts, error, checks=checks)
        lines["Verdict"] = one_line(" ".join((verdict.headline, *verdict.notes[:1])))
    csv = run.transcript.chunk_rows is None
    paths = {
        "Synthetic table": ("synthetic_records", ".csv" if csv else TableFormat.suffix),
        "Report": ("release_report", PageFormat.suffix),
        "Restricted report": ("release_report_restricted", PageFormat.suffix),
    }
    for name, (asset, suffix) in paths.items():
        # A run may be of the certificate alone.
        if asset in graph.names and (path := step.beside(asset, suffix)).exists():
            lines[name] = step.store(asset).shown(path)
    folder = step.beside("release_certificate", CertificateFormat.suffix)
    page = folder / CertificateFormat.page
    lines["Certificate"] = step.store("release_certificate").shown(page)
    lines["Privacy spent"] = _spent(step, engine, certificate)
    told = "\n".join(f"{name:<{_WIDTH}}{line}" for name, line in lines.items())
    return f"Made {of}, which {may}.\n{told}"


def _spent(step: ReleaseStep, engine: Engine, certificate: Certificate) -> str:
    funding, delta = ledger_funding(engine), step.graph.spec.privacy.delta
    if funding is None:
        return "nothing: seeded noise is for research, and is not charged"
    left = funding.ledger.balance(funding.key.dataset)
    return (
        f"{describe_rho(certificate.rho_spent, delta)};"
        f" {describe_rho(left.remaining, left.delta)} is left of dataset {funding.key.dataset}"
    )
