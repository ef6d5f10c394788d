"""Stores for the outcomes of draws."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jam_dagster.common.files import read_plain, write_whole
from jam_dagster.common.json_text import check_keys, damaged
from jam_dagster.errors import DamagedOutcomeError
from jam_dagster.privacy.ledger.release_id import canonical_digest

if TYPE_CHECKING:
    from upath import UPath

Outcome = dict[str, Any]

_DECISION, _SOLUTION = "decision-", "solution-"
"""How the names of what follows from outcomes begin; it costs nothing."""


_KEYS = (
    *("index", "names", "rho", "sigma", "subject", "threshold", "values"),
    *("holds", "records"),
)
"""The keys of outcomes, and of what follows from them."""


class OutcomeStore(Protocol):
    """The store of outcomes of draws and their consequences: all of it is releasable."""

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored."""

    def put(self, step: str, outcome: Outcome) -> None:
        """Store the outcome of `step`, durably."""


class MemoryStore:
    """An `OutcomeStore` that lives as long as the process."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored."""
        return self._outcomes.get(step)

    def put(self, step: str, outcome: Outcome) -> None:
        """Keep the outcome of `step`."""
        self._outcomes[step] = outcome


class DirectoryStore:
    """An `OutcomeStore` with one ``.npz`` file a draw, on a local disk or any fsspec store.

    Parameters
    ----------
    directory
        The folder; it is made on the first `put`.
    """

    def __init__(self, directory: Path | UPath) -> None:
        self._directory = directory

    def _path(self, step: str) -> Path | UPath:
        return self._directory / _file_of(step)

    @property
    def files(self) -> frozenset[str]:
        """The names of the files that hold an outcome."""
        if not self._directory.exists():
            return frozenset()
        names = {path.name for path in self._directory.iterdir()}
        return frozenset(name for name in names if not name.startswith("."))

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored.

        Raises
        ------
        DamagedOutcomeError
            If its file cannot be read.
        """
        path = self._path(step)
        if not path.exists():
            return None
        content = io.BytesIO(read_plain(self._directory.parent, path))
        try:
            with np.load(content, allow_pickle=False) as stored:
                outcome: Outcome = json.loads(str(stored["scalars"]))
                outcome.update({name: stored[name] for name in stored.files if name != "scalars"})
        except Exception as error:
            # The bytes are here, so it is they that NumPy, zip and JSON cannot read.
            raise DamagedOutcomeError(
                f"{path} is damaged ({type(error).__name__}): restore it from a copy. Nothing was"
                " charged"
            ) from None
        try:
            check_keys(outcome, _KEYS)
        except TypeError as fault:
            raise DamagedOutcomeError(f"{damaged(path, fault)}. Nothing was charged") from None
        return outcome

    def put(self, step: str, outcome: Outcome) -> None:
        """Store the outcome of `step`; on a local disk it is whole and synced, or not there."""
        arrays = {name: value for name, value in outcome.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in outcome.items() if name not in arrays}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, scalars=json.dumps(scalars), **arrays)
        path = self._path(step)
        self._directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, buffer.getvalue())


def uncharged(files: Collection[str], steps: Iterable[str]) -> frozenset[str]:
    """Return the files of a `DirectoryStore` that hold the outcome of an uncharged step.

    Such a file means that the ledger is another one, or an older copy of the one that paid. List
    the files before reading the ledger: a concurrent run charges first and stores afterwards.
    """
    drawn = frozenset(one for one in files if not one.startswith((_DECISION, _SOLUTION)))
    return drawn - {_file_of(step) for step in steps}


def _file_of(step: str) -> str:
    return step.replace("/", "-") + ".npz"


def choice_digest(chosen: str, rho: float) -> str:
    """Return the digest of a selection, in hexadecimal.

    `chosen` is the name of the candidate, not its index.
    """
    return canonical_digest({"chosen": chosen, "rho": float(rho)})


def derived_digest(follows: object) -> str:
    """Return the digest of what follows from outcomes, a decision or records, in hexadecimal.

    Records are int64 of any shape, hashed little-endian, in C order. Anything else that a store may
    hold has none: it is empty.
    """
    if isinstance(follows, bool):
        return canonical_digest({"holds": follows})
    if not isinstance(follows, np.ndarray) or follows.dtype != np.int64:
        return ""
    packed = np.ascontiguousarray(follows, dtype="<i8").tobytes()
    records = hashlib.sha256(packed).hexdigest()
    return canonical_digest({"shape": list(np.shape(follows)), "records": records})


def derived_steps(
    decisions: Sequence[bool], solutions: Mapping[str, np.ndarray]
) -> dict[str, bool | np.ndarray]:
    """Return what follows from outcomes by the names under which it is stored and journalled."""
    decided = {decision_step(number): holds for number, holds in enumerate(decisions, 1)}
    return {**decided, **{solution_step(step): found for step, found in solutions.items()}}


def decision_step(number: int) -> str:
    """Return the name of a run's decision, counted from 1."""
    return f"{_DECISION}{number:03d}"


def solution_step(step: str) -> str:
    """Return the name of the records that a solver found in a step."""
    return f"{_SOLUTION}{step}"


def values_digest(values: np.ndarray, sigma: float, rho: float, subject: str = "") -> str:
    """Return the digest of noisy values, in hexadecimal.

    Values of any shape are hashed as float64, little-endian, in C order; `sigma` is in their unit.
    """
    packed = np.ascontiguousarray(values, dtype="<f8").tobytes()
    return canonical_digest(
        {
            "subject": subject,
            "shape": list(np.shape(values)),
            "values": hashlib.sha256(packed).hexdigest(),
            "sigma": float(sigma),
            "rho": float(rho),
        }
    )
