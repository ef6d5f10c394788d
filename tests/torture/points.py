"""The named points of a run at which it can kill itself."""

from __future__ import annotations

import os
import signal
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from jam_dagster.models.graphical.belief_propagation import Beliefs
from jam_dagster.models.graphical.mirror_descent import MirrorDescent
from jam_dagster.privacy import DirectoryStore, Ledger
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from tests.torture.tally import Tally


@dataclass(frozen=True)
class Target:
    """Where to die: the n-th time that a point is reached, of one step or of any."""

    point: str
    occurrence: int = 1
    step: str | None = None


class Points:
    """Counts the points that a run reaches, and kills it at its target.

    SIGKILL, as the kernel's out-of-memory killer sends it: nothing is flushed, nothing cleaned up.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.reached: Counter[str] = Counter()
        self.target = target
        self._hits = 0

    def reach(self, point: str, step: str = "") -> None:
        if self.due(point, step):
            die()

    def due(self, point: str, step: str = "") -> bool:
        """Count a point that is reached; return whether it is the one to die at."""
        self.reached[point] += 1
        target = self.target
        if target is None or target.point != point or target.step not in (None, step):
            return False
        self._hits += 1
        return self._hits == target.occurrence


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def install(points: Points, tally: Tally) -> None:
    """Put the points into the code that runs, for the rest of this process."""
    _around_ledger(points)
    _around_files(points)
    _around_outcomes(points, tally)
    around(MirrorDescent, "add", points, "fit")
    around(Beliefs, "update", points, "fit step", after=False)


def around(owner: Any, name: str, points: Points, label: str, *, after: bool = True) -> None:
    """Put points before and after a function of a class or a module."""
    function: Callable[..., Any] = getattr(owner, name)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        points.reach(f"{label}: before")
        result = function(*args, **kwargs)
        if after:
            points.reach(f"{label}: after")
        return result

    setattr(owner, name, wrapped)


def _around_ledger(points: Points) -> None:
    """Before and after each write, and within it: written and not committed."""
    doing = [""]

    for owner, name, label in (
        (Ledger, "grant", "grant"),
        (Ledger, "open_release", "reserve"),
        (LedgerAccount, "publish_records", "count"),
        (LedgerAccount, "charge", "charge"),
        (LedgerAccount, "confirm", "confirm"),
        (Ledger, "certify", "certify"),
        (LedgerAccount, "close", "close"),
    ):

        def wrap(function: Callable[..., Any], label: str) -> Callable[..., Any]:
            @wraps(function)
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                doing.append(label)
                try:
                    points.reach(f"{label}: before")
                    result = function(*args, **kwargs)
                    points.reach(f"{label}: committed")
                    return result
                finally:
                    doing.pop()

            return wrapped

        setattr(owner, name, wrap(getattr(owner, name), label))

    @sa.event.listens_for(sa.Engine, "after_cursor_execute")
    def executed(connection: sa.Connection, cursor: Any, statement: str, *others: Any) -> None:
        # Dagster keeps its own databases.
        if doing[-1] and statement.lstrip().upper().startswith(("INSERT", "UPDATE", "CREATE")):
            connection.info["written"] = True
            points.reach(f"{doing[-1]}: written")

    @sa.event.listens_for(sa.Engine, "commit")
    def committing(connection: sa.Connection) -> None:
        if connection.info.pop("written", False):
            points.reach(f"{doing[-1]}: before commit")


def _around_files(points: Points) -> None:
    """Half of a temporary file, the whole of it, and the file under its own name."""
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        described = os.fstat(descriptor)
        if not stat.S_ISREG(described.st_mode):
            fsync(descriptor)
            return
        name = _kind(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        if points.due(f"{name}: half written"):
            os.ftruncate(descriptor, described.st_size // 2)
            die()
        fsync(descriptor)
        points.reach(f"{name}: written")

    def replaced(path: Path, target: Any) -> Path:
        points.reach(f"{_kind(Path(target))}: before rename")
        moved = replace(path, target)
        points.reach(f"{_kind(Path(target))}: renamed")
        return moved

    os.fsync = synced
    Path.replace = replaced  # type: ignore[method-assign,assignment]


def _kind(path: Path) -> str:
    """What a file is to its release, by its folder or its name."""
    folder = path.parent.name
    if folder == "draws":
        return "outcome"
    if folder in ("transcript", "model"):
        return folder
    # A temporary name is a dot, the name, and a random part.
    name = path.name[1:].rsplit(".", 1)[0] if path.name.startswith(".") else path.name
    return "description" if name == "release.json" else "another file"


def _around_outcomes(points: Points, tally: Tally) -> None:
    """Around each outcome; what is told to be stored is noted, so that it can be asked for."""
    put = DirectoryStore.put

    def stored(store: DirectoryStore, step: str, outcome: dict[str, Any]) -> None:
        points.reach("store: before", step)
        put(store, step, outcome)
        if "rho" in outcome:
            tally.add(what="stored", step=step)
        points.reach("store: after", step)

    DirectoryStore.put = stored  # type: ignore[method-assign]
