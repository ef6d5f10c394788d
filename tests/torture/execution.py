"""One run of a victim in a process of its own, forked from one that imported everything."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.torture.points import Points, Target
from tests.torture.victims import Victim

LONGEST_SECONDS = 300.0


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Parameters
    ----------
    killed
        Whether it was killed; else it finished.
    seconds
        How long it ran.
    """

    killed: bool
    seconds: float


class RunFailedError(AssertionError):
    """A run ended with an error of its own, or not at all."""


def execute(
    victim: Victim,
    target: Target | None = None,
    *,
    after_seconds: float | None = None,
    fault: Callable[[], None] | None = None,
) -> Ended:
    """Run a victim, to its end or until it is killed.

    Parameters
    ----------
    victim
        The release.
    target
        Where it kills itself.
    after_seconds
        When it is killed from outside.
    fault
        Plants a fault in the process before it runs.

    Raises
    ------
    RunFailedError
        If it ended with an error, or hung.
    """
    return _end(victim, _start(victim, target, fault), after_seconds)


def execute_two(victim: Victim, target: Target, *, rival_after_seconds: float) -> Ended:
    """Run a victim twice at once: one run dies at its target, the other goes on beside it.

    Parameters
    ----------
    victim
        The release.
    target
        Where the first run kills itself.
    rival_after_seconds
        When the second starts.

    Returns
    -------
    Ended
        How the first ended.

    Raises
    ------
    RunFailedError
        If one ended with an error, other than that it should wait for the other.
    """
    first = _start(victim, target, None)
    time.sleep(rival_after_seconds)
    second = _start(victim, None, None)
    endings = []
    for run in (first, second):
        try:
            endings.append(_end(victim, run, None))
        except RunFailedError as error:
            # It waits for some seconds only, and a busy machine takes longer.
            if "another run is drawing" not in str(error):
                raise
            endings.append(Ended(killed=False, seconds=0.0))
    return endings[0]


@dataclass(frozen=True)
class _Started:
    pid: int
    at: float


def _start(victim: Victim, target: Target | None, fault: Callable[[], None] | None) -> _Started:
    victim.acknowledge()
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _in_child(victim, target, fault)
    return _Started(child, started)


def _end(victim: Victim, run: _Started, after_seconds: float | None) -> Ended:
    status = _wait(run, after_seconds)
    seconds = time.monotonic() - run.at
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Ended(killed=True, seconds=seconds)
    if status != 0:
        raise RunFailedError(f"the run failed: {_failure(victim, run.pid).read_text()}")
    return Ended(killed=False, seconds=seconds)


def _failure(victim: Victim, pid: int) -> Path:
    return victim.home / f"failure-{pid}.txt"


def reached_by(victim: Victim) -> dict[str, int]:
    """The points that the last run which finished had reached, and how often."""
    reached: dict[str, int] = json.loads((victim.home / "reached.json").read_text())
    return reached


def _in_child(victim: Victim, target: Target | None, fault: Callable[[], None] | None) -> None:
    code = 1
    try:
        _silence(victim.home)
        if fault is not None:
            fault()
        points = Points(target)
        victim.run(points)
        (victim.home / "reached.json").write_text(json.dumps(points.reached))
        code = 0
    except BaseException:
        _failure(victim, os.getpid()).write_text(traceback.format_exc())
    finally:
        # Neither the handlers nor the buffers of the parent are this process's to flush.
        os._exit(code)


def _silence(home: Path) -> None:
    log = os.open(home / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)


def _wait(run: _Started, after_seconds: float | None) -> int:
    limit = LONGEST_SECONDS if after_seconds is None else after_seconds
    while True:
        pid, status = os.waitpid(run.pid, os.WNOHANG)
        if pid:
            return status
        if time.monotonic() - run.at >= limit:
            os.kill(run.pid, signal.SIGKILL)
            _, status = os.waitpid(run.pid, 0)
            if after_seconds is None:
                raise RunFailedError(f"the run did not end within {LONGEST_SECONDS:g} seconds")
            return status
        time.sleep(0.002)
