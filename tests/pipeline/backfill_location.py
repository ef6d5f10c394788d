"""A code location for backfills: a release a month, each drawn on the one before."""

import os
from pathlib import Path

import dagster as dg

from jam_dagster.pipeline import DatasetBudget, build_release_resources, build_synthetic_release
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec, WorkloadSpec
from jam_dagster.tables import PreviousRelease, source_from_config
from tests.pipeline.conftest import DOMAIN

HOME = Path(os.environ["JAM_BACKFILL_HOME"])

defs = dg.Definitions.merge(
    build_synthetic_release(
        "people",
        dataset="people",
        private=source_from_config(str(HOME / "private_{partition}.csv")),
        public=PreviousRelease(source_from_config(str(HOME / "public.csv"))),
        domain=DOMAIN,
        privacy=PrivacySpec(epsilon=2.0),
        # It returns nothing, so that what remains is known.
        mechanism=MechanismSpec("pmw_pub", rounds=2),
        workload=WorkloadSpec(degree=1),
        evaluation=EvaluationSpec(mode="off"),
        partitions="monthly",
        start="2025-01",
    ),
    dg.Definitions(
        resources=build_release_resources(
            {
                "people": DatasetBudget(
                    epsilon=float(os.environ["JAM_BACKFILL_EPSILON"]),
                    delta=1e-9,
                    ground="membership public and fixed",
                    records="public",
                )
            },
            home=HOME,
        ),
        executor=dg.in_process_executor,
    ),
)
