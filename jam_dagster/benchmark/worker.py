"""The process of one run."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Mapping
from multiprocessing import parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.trial import describe, run_trial
from jam_dagster.errors import JamError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"),
    # By default each process takes most of an accelerator's memory, which leaves none to others.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
"""Runs share the cores, so each uses one thread."""

AT_WORK = "at work"
"""The first message of the process of a run."""


def work(
    run: Mapping[str, Any], files: Mapping[str, Any], data: str | None, to: Connection
) -> None:
    """Make a run and send `AT_WORK`, then its row; the target of a new process.

    Parameters
    ----------
    run, files
        A `Run` and its `SplitFiles`, as plain values.
    data
        The folder of published tables.
    to
        The connection for the row.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    to.send(AT_WORK)
    requested = Run.from_dict(run)
    split = SplitFiles(**files).load(None if data is None else Path(data))
    try:
        row = run_trial(requested, split)
    except Exception as error:
        row = {**describe(requested, split), "status": "failed", "message": why(error)}
    to.send(row)
    to.close()


def why(error: Exception) -> str:
    """Return the cause of a failure: this package's message, or the place of another error.

    Messages of other libraries may quote a private value.
    """
    if isinstance(error, JamError):
        return " ".join(f"{type(error).__name__}: {error}".split())
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {place.name}, {Path(place.filename).name}:{place.lineno}"


def _end_with_parent() -> None:
    """End this process if its parent, which would take the row, is gone."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
