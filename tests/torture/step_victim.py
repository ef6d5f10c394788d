"""A release whose steps Dagster's own executor runs, each in a process that it watches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.torture.campaign import Tormented, bring_to_its_end
from tests.torture.code_location import HOME, TARGET
from tests.torture.execution import execute
from tests.torture.judge import State, judge
from tests.torture.pipeline_victim import PipelineRelease
from tests.torture.points import Points, Target, die

ROOT = Path(__file__).parents[2]

STEP = ",".join(
    f"people/{name}"
    for name in (
        "private_records",
        "private_discretized",
        "jam_pgm",
        "synthetic_records",
        "workload_error",
    )
)

TARGETS = (
    Target("charge: before commit", 2),
    Target("draw: tallied", step="round-002/select"),
    Target("outcome: half written", 2),
    Target("transcript: half written", 1),
)
"""Where a step dies, in this order, of one release."""


@dataclass(frozen=True, kw_only=True)
class SteppedRelease(PipelineRelease):
    """The step that draws as ``dagster asset materialize`` runs it: in a child of its run."""

    def prepare(self) -> None:
        super().prepare()
        self.instance.mkdir()
        (self.instance / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    @property
    def instance(self) -> Path:
        return self.home / "dagster"

    def run(self, points: Points) -> None:
        target = points.target
        (self.home / TARGET).write_text(json.dumps(target and asdict(target)))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "dagster", "asset", "materialize"),
                *("-m", "tests.torture.code_location", "--select", STEP),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                HOME: str(self.home),
                "DAGSTER_HOME": str(self.instance),
                "DAGSTER_DISABLE_TELEMETRY": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout + done.stderr
        # Dagster outlives its step, and says how that died.
        if done.returncode and "signal 9" in output:
            die()
        assert not done.returncode, output


def torture_steps(home: Path, kills: int) -> Tormented:
    """Kill the step that draws, of one release again and again, and bring it to its end."""
    victim, tormented = SteppedRelease(home=home), Tormented(releases=1)
    victim.prepare()
    # All that the step needs is made by a run that dies before its first charge.
    whole = PipelineRelease(home=home)
    execute(whole, Target("charge: before"))
    state = State.of(victim)
    for target in TARGETS[:kills]:
        ended = execute(victim, target)
        tormented.runs += 1
        tormented.kills[target.point] += ended.killed
        state, margin = judge(victim, state)
        tormented.margin = max(tormented.margin, margin)
    bring_to_its_end(whole, state)
    tormented.runs += 3
    return tormented
