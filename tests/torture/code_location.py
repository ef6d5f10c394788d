"""The code location whose steps die: Dagster runs each in a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dagster as dg

from tests.pipeline.conftest import Bench
from tests.torture.pipeline_victim import EVALUATION, PipelineRelease
from tests.torture.points import Points, Target

HOME = "TORTURE_HOME"
TARGET = "target.json"


@dg.definitions
def defs() -> dg.Definitions:
    home = Path(os.environ[HOME])
    described = json.loads((home / TARGET).read_text())
    PipelineRelease(home=home).arm(Points(described and Target(**described)))
    return Bench(home).definitions(evaluation=EVALUATION)
