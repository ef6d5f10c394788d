"""One command as a process of its own: how long it took and how much memory it held.

A process inherits the peak memory of the one that starts it until it has replaced its image, so a
benchmark that starts others must stay small: this module imports nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any


class RunFailedError(Exception):
    """A measured command failed, or ran out of time or memory; the message says which."""


@dataclass(frozen=True)
class Measured:
    """What a process took.

    Parameters
    ----------
    seconds
        Wall clock, from its start to its end, imports and all.
    cpu_seconds
        Of all its threads, in user and in system mode.
    peak_bytes
        The most memory that it ever held (resident set).
    output
        What it wrote on standard output.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def measure(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    memory_bytes: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """Run a command to its end and measure it.

    Parameters
    ----------
    command
        The program and its arguments.
    timeout
        Seconds after which it is killed.
    memory_bytes
        Limit of the memory that it may allocate.
    environment
        Variables that it gets beside those of this process.

    Raises
    ------
    RunFailedError
        If it ends with another status than 0, or is killed.
    """
    limit = None if memory_bytes is None else partial(_limit_memory, memory_bytes)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen(
            list(command),
            stdout=out,
            stderr=err,
            env={**os.environ, **(environment or {})},
            preexec_fn=limit,
        )
        try:
            usage = _wait(process, None if timeout is None else started + timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        seconds = time.monotonic() - started
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            said = err.read().decode(errors="replace").strip().splitlines()
            raise RunFailedError(
                f"exit status {process.returncode}: {said[-1] if said else 'it said nothing'}"
            )
        # Linux counts in kilobytes, macOS in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        return Measured(
            seconds,
            usage.ru_utime + usage.ru_stime,
            usage.ru_maxrss * unit,
            out.read().decode(),
        )


def _limit_memory(allowed: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, allowed))


def _wait(process: subprocess.Popen[bytes], due: float | None) -> resource.struct_rusage:
    """Wait for the end of a process and return what it, and only it, used."""
    options = 0 if due is None else os.WNOHANG
    while True:
        pid, status, usage = os.wait4(process.pid, options)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage
        if due is not None and time.monotonic() > due:
            raise RunFailedError("it ran out of time")
        time.sleep(0.02)


def synthesize(
    *,
    private: Path,
    public: Path,
    domain: Path,
    options: Mapping[str, object],
    settings: Mapping[str, object],
    run: Callable[[Sequence[str]], Measured] = measure,
) -> tuple[Measured, dict[str, Any]]:
    """Run ``jam-dagster synthesize --json`` in a process of its own and in a folder that vanishes.

    With exact noise the release is charged to a ledger that vanishes too; neither checks nor report
    are made, as with seeded noise.

    Parameters
    ----------
    private, public, domain
        The files.
    options
        Names of further options, without dashes, and their values; None leaves one out.
    settings
        The mechanism's settings; None leaves one out.
    run
        Measures the command.

    Returns
    -------
    tuple of Measured and dict
        What the process took, and the object that it printed.
    """
    with tempfile.TemporaryDirectory(prefix="jam-benchmark-") as folder:
        given: dict[str, object] = {
            "private": private,
            "public": public,
            "domain": domain,
            "out": Path(folder) / "release",
            "mechanism": "jam_pgm",
            **options,
        }
        if given.get("noise") == "exact":
            given |= {"ledger": Path(folder) / "ledger.db", "dataset": "benchmark"}
        command = [sys.executable, "-m", "jam_dagster.cli", "synthesize", "--json"]
        command += ["--no-checks", "--no-report", "--records-public"]
        for name, value in given.items():
            if value is not None:
                command += [f"--{name.replace('_', '-')}", str(value)]
        for name, value in settings.items():
            if value is not None:
                command += ["--setting", f"{name}={value}"]
        measured = run(command)
    made: dict[str, Any] = json.loads(measured.output)
    return measured, made


def stages(measured: Measured, made: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of every stage: `start` (interpreter and imports) and what was timed."""
    timed: dict[str, float] = dict(made["seconds"])
    total = timed.pop("total")
    return {"start": measured.seconds - total, **timed}


def describe_stages(seconds: Mapping[str, float]) -> str:
    """Return stages in words; what has a dot is a part of the stage before the dot."""
    texts = []
    for name, taken in seconds.items():
        if "." in name:
            continue
        parts = [
            f"{part.partition('.')[2]} {value:.2f}"
            for part, value in seconds.items()
            if part.startswith(f"{name}.")
        ]
        texts.append(f"{name} {taken:.2f}" + (f" ({', '.join(parts)})" if parts else ""))
    return ", ".join(texts)
