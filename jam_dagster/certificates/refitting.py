"""Refits of a transcript's model: in this process, and with another processor's instructions.

OpenBLAS and NumPy choose their instructions by the processor, which changes the last digits of sums
and can change a fit. Environment variables make both choose an older processor's instructions, but
only before they are loaded, so in a separate process.
"""

from __future__ import annotations

import math
import os
import pickle
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jam_dagster.common.worker_processes import isolated
from jam_dagster.mechanisms import Model, Replay, Transcript
from jam_dagster.mechanisms.replay import ReplayError
from jam_dagster.models.graphical import kernels
from jam_dagster.tables import Domain, MarginalSource, Workload

REFIT_TOLERANCE = 1e-6
"""Largest allowed distance between the refitted and the stored model, with the recorded software.

It is the L1 norm of any measured marginal as a fraction of the records; the usual distance is 0."""

FOREIGN_REFIT_TOLERANCE = 0.05
"""The same on another machine or version. Sums with other rounding can end a fit a few steps
earlier or later: 0.014 between the C and the NumPy kernels on the demo's release."""

PROCESSORS = (
    "Haswell",
    "SkylakeX",
    "Zen",
    "Cooperlake",
    "SapphireRapids",
    "Sandybridge",
    "Nehalem",
    "Prescott",
)
"""The processors that OpenBLAS can emulate, by its own names; the commonest first."""

_LEAST_SECONDS, _TIMES_SLOWER = 60.0, 10.0
"""Time limit of another process, for its imports and a fit with slower instructions."""


class Nearness(NamedTuple):
    """How near a refit came to a stored model.

    `apart` is their `Model.distance`, `differing` the number of the run's decisions that these fits
    would have made otherwise, `processor` the emulated one, empty for this one.
    """

    apart: float
    differing: int
    processor: str = ""

    @property
    def exact(self) -> bool:
        """Whether the model is the stored one, by the software that made it."""
        return self.apart <= REFIT_TOLERANCE and not self.differing


class Refit:
    """A run again from its transcript, in this process.

    Parameters
    ----------
    transcript, domain, workload, public
        What `jam_dagster.mechanisms.refit` takes.
    made_with
        The software that made the run, so far as it is known.

    Attributes
    ----------
    fault
        Why the transcript is not what its mechanism does; empty if it is.
    lacks_tables
        See `Replay`.

    Raises
    ------
    DomainError
        If the run needs a public table, and there is none.
    """

    def __init__(
        self,
        transcript: Transcript,
        domain: Domain,
        workload: Workload,
        public: MarginalSource | None,
        made_with: Mapping[str, str],
    ) -> None:
        self._given, self._made_with = (transcript, domain, workload, public), made_with
        self.fault, started = "", time.monotonic()
        self._model: Model | None = None
        replay = Replay(*self._given)
        try:
            self._model = replay.run()
        except ReplayError as error:
            self.fault = str(error)
        self.lacks_tables = replay.lacks_tables
        self._differing, self._seconds = replay.differing, time.monotonic() - started

    def closest(self, model: Model) -> Nearness:
        """Return how near it came to a model: here, or as on a processor that comes exactly there.

        Infinitely far if the transcript has a fault.
        """
        if self._model is None:
            return Nearness(math.inf, 0)
        here = Nearness(self._model.distance(model), self._differing)
        if here.exact or not math.isfinite(here.apart):
            return here
        work = pickle.dumps((self._given, model))
        limit = max(_LEAST_SECONDS, _TIMES_SLOWER * self._seconds)
        for name, variables in _other_processors(self._made_with):
            near = _nearness_elsewhere(work, variables, limit)
            if near is not None and near.exact:
                return near._replace(processor=name)
        return here


def _other_processors(made_with: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the processors to try, the recorded one first, with the variables that choose them."""
    here = kernels.blas_architecture()
    if platform.machine() != "x86_64" or here in ("none", "unknown"):
        return
    recorded = made_with.get("blas", "")
    extensions = kernels.simd_extensions()
    known = made_with.get("simd")
    disabled = [] if known is None else [one for one in extensions if one not in known.split()]
    for name in dict.fromkeys([*([recorded] if recorded in PROCESSORS else []), *PROCESSORS]):
        variables = {"OPENBLAS_CORETYPE": name}
        if disabled:
            variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
        if name != here or disabled:
            yield name, variables


def _nearness_elsewhere(
    work: bytes, variables: Mapping[str, str], seconds: float
) -> Nearness | None:
    """Return the nearness with another processor's instructions; None if unsupported."""
    try:
        done = subprocess.run(  # noqa: S603  # this interpreter, on what this process made
            isolated(f"from {__name__} import answer; answer()"),
            input=work,
            cwd=sys.prefix,
            env={**os.environ, **variables},
            capture_output=True,
            check=False,
            timeout=seconds,
        )
        apart, differing = done.stdout.split()
        return Nearness(float(apart), int(differing)) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, OSError, ValueError):
        return None


def answer() -> None:
    """Make the run of standard input again, and write the nearness to standard output."""
    given, model = pickle.load(sys.stdin.buffer)  # noqa: S301  # see above
    replay = Replay(*given)
    apart = replay.run().distance(model)
    sys.stdout.write(f"{apart!r} {replay.differing}")
