"""The assets that judge a release: its error on the workload, and the reports."""

from typing import Any

import dagster as dg
import pandas as pd

from jam_dagster.evaluation import WorkloadError, compare_with_public, plots, workload_error
from jam_dagster.pipeline.archive import DataFingerprint
from jam_dagster.pipeline.graph import EVALUATION_SHARE, ReleaseGraph
from jam_dagster.pipeline.ingestion import private_step, spending
from jam_dagster.pipeline.metadata import pictures
from jam_dagster.pipeline.spending import ResearchSpending
from jam_dagster.tables import Domain, EncodedTable, encode

RESTRICTED = "restricted: exact statistics of private data"


def assessment_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the workload error and the reports, as far as the evaluation's mode has them."""
    build = {
        "workload_error": _workload_error,
    }
    return [build[name](graph) for name in graph.names if name in build]


def _workload_error(graph: ReleaseGraph) -> dg.AssetsDefinition:
    spec = graph.spec
    mode = spec.evaluation_mode
    from_ledger = graph.charges("workload_error")

    @graph.asset(
        "workload_error",
        ins=graph.ins("private_discretized", "public_discretized", "synthetic_records", "domain"),
        resources=graph.spending_resources if from_ledger else (),
    )
    def error(
        context: dg.AssetExecutionContext,
        private_discretized: EncodedTable,
        public_discretized: EncodedTable,
        synthetic_records: pd.DataFrame,
        domain: Domain,
    ) -> WorkloadError:
        draws = None
        if from_ledger:
            spends = spending(graph, context, domain)
            spends.archive.begin(DataFingerprint.of(private_discretized, public_discretized))
            draws = spends.draws(EVALUATION_SHARE, run_id=context.run.run_id)
        elif mode == "private":
            draws = ResearchSpending(graph).draws(EVALUATION_SHARE)
        with private_step("measuring the workload error"):
            measured = workload_error(
                private_discretized,
                encode(synthetic_records, domain, private=False),
                public_discretized,
                spec.workload.build(domain),
                mode=mode,
                draws=draws,
            )
        if from_ledger:
            spends.close(EVALUATION_SHARE, "evaluation measured")
        context.add_output_metadata(_error_metadata(measured))
        return measured

    return error


def _error_metadata(measured: WorkloadError) -> dict[str, Any]:
    metadata: dict[str, Any] = {"mode": measured.mode, "rho_spent": measured.rho}
    if measured.restricted:
        metadata["note"] = RESTRICTED
        metadata["error_by_marginal"] = pictures(
            {f"Error by marginal ({RESTRICTED})": plots.png(plots.error_by_marginal(measured))}
        )
    else:
        metadata["sigma"] = measured.sigma
    for table, error in measured.to_dict().items():
        for statistic, value in (error or {}).items():
            if value is not None:
                metadata[f"{table}_{statistic}"] = value
    compared = compare_with_public(measured)
    if compared is not None:
        metadata["synthetic_minus_public"] = compared.difference
        metadata["finding"] = compared.description
    return metadata
