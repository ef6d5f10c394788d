"""The code location that `test_launch` launches from outside: two releases and their resources."""

import os
from pathlib import Path

import dagster as dg

from jam_dagster.pipeline import build_synthetic_release, check_definitions
from jam_dagster.release import PrivacySpec
from jam_dagster.tables import source_from_config
from tests.pipeline.conftest import DOMAIN, Bench


@dg.definitions
def defs() -> dg.Definitions:
    bench = Bench(Path(os.environ["JAM_LAUNCH_HOME"]))
    towns = build_synthetic_release(
        "towns",
        dataset="people",
        private=source_from_config(str(bench.home / "people_{partition}.csv")),
        public=source_from_config(str(bench.public)),
        domain=DOMAIN,
        privacy=PrivacySpec(epsilon=1.0),
        partitions={"static": ["A", "B"]},
    )
    more = dg.Definitions(executor=dg.in_process_executor)
    return check_definitions(dg.Definitions.merge(bench.definitions(), towns, more))
