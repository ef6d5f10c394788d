"""A run in its own process, so that runs share neither memory nor threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

import numpy as np

from jam_dagster.common.worker_processes import ONE_THREAD, end_with_parent
from jam_dagster.errors import InputError, JamError
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import Split, SplitFiles
from jam_dagster.trials.trial import describe, run_trial

# -P: no module of the working directory is run.
_COMMAND = (sys.executable, "-P", "-c", f"from {__name__} import work; work()")
_ENVIRONMENT = {
    **ONE_THREAD,
    # By default each process takes most of an accelerator's memory, which leaves none to others.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
# Windows has no signals, and a process that is killed there ends with a status.
_KILL = int(getattr(signal, "SIGKILL", 9))


class RunProcess:
    """A run in its own process, with one thread; it takes at most so many seconds (None: any)."""

    def __init__(
        self,
        run: Run,
        files: SplitFiles,
        split: Split,
        data: Path | None,
        limit_s: float | None = None,
    ) -> None:
        self._run, self._split, self._limit_s = run, split, limit_s
        self._started = time.monotonic()
        request = {
            "run": asdict(run),
            "files": asdict(files),
            "data": None if data is None else str(data),
            "parent": os.getpid(),
        }
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter, on what is read here
            [*_COMMAND, json.dumps(request)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **_ENVIRONMENT},
            # An interrupt from the keyboard reaches the benchmark alone, which ends its runs.
            process_group=0,
        )

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def over(self) -> bool:
        """Return whether the process has ended, or reached its time limit."""
        late = self._limit_s is not None and self.seconds >= self._limit_s
        return late or self._process.poll() is not None

    def row(self) -> Row:
        """Wait for the row, or return one with the cause of the failure.

        A process that ends before the run begins says nothing of the run: that is an InputError.
        """
        ended = self._limit_s is None or self._process.poll() is not None
        left = None if ended else max(0.0, (self._limit_s or 0.0) - self.seconds)
        try:
            output, _ = self._process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            self.end()
            return self._failed(f"it took more than {self._limit_s:g} s")
        # A line when the run begins, and one that is the row.
        if output.count("\n") == 2:
            row: Row = json.loads(output.splitlines()[1])
            return row
        code = self._process.returncode
        if not output and code >= 0:
            raise InputError(
                f"The process of a run ended with status {code} before the run began; its output "
                "is above."
            )
        return self._failed(_how(code))

    def _failed(self, message: str) -> Row:
        known = describe(self._run, self._split)
        return {**known, "status": "failed", "message": message, "seconds": self.seconds}

    def end(self) -> None:
        """End the run and remove its process."""
        with self._process:
            self._process.kill()


def _how(code: int) -> str:
    """Return how a process without a row ended."""
    if code == -_KILL:
        return (
            f"its process was killed by signal {_KILL}, usually for lack of memory; with --jobs 1"
            " it has more"
        )
    if code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process ended with status {code} and no result; its output is above"


def work() -> None:
    """Make the run of the request in the command line: print a line, then its row as JSON."""
    request = json.loads(sys.argv[1])
    end_with_parent(request["parent"])
    with os.fdopen(os.dup(1), "w") as answer:
        # Output of libraries is no part of the answer.
        os.dup2(2, 1)
        print("begun", file=answer, flush=True)
        run, data = Run(**request["run"]), request["data"]
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
