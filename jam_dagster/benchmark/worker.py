"""The process of one run: `python -m jam_dagster.benchmark.worker REQUEST`."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.trial import describe, run_trial
from jam_dagster.common.worker_processes import end_with_parent
from jam_dagster.errors import JamError


def work(request: dict[str, Any]) -> None:
    """Make a run: print a line, then its row as JSON in another."""
    end_with_parent(request["parent"])
    with os.fdopen(os.dup(1), "w") as answer:
        # What libraries print is no part of the answer.
        os.dup2(2, 1)
        print("begun", file=answer, flush=True)
        run, data = Run.from_dict(request["run"]), request["data"]
        split = SplitFiles(**request["files"]).load(None if data is None else Path(data))
        try:
            row = run_trial(run, split)
        except Exception as error:
            row = {**describe(run, split), "status": "failed", "message": why(error)}
        print(json.dumps(row, default=np.generic.item), file=answer)


def why(error: Exception) -> str:
    """Return the cause of a failure: this package's message, or the place of another error.

    Messages of other libraries may quote a private value.
    """
    if isinstance(error, JamError):
        return " ".join(f"{type(error).__name__}: {error}".split())
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}, {Path(place.filename).name}:{place.lineno}"


if __name__ == "__main__":
    work(json.loads(sys.argv[1]))
