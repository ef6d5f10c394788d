"""Expected durations of runs, from similar runs or from the grid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from statistics import fmean

from jam_dagster.benchmark.grid import Grid
from jam_dagster.benchmark.results import Row
from jam_dagster.benchmark.runs import BASELINES, BEST_MIXTURE, Run

_START_SECONDS = 2.0
_UNKNOWN_SECONDS = 60.0
# The best mixture is a large linear program.
_BASELINE_SECONDS = {**dict.fromkeys(BASELINES, 1.0), BEST_MIXTURE: 60.0}


class Durations:
    """Expected durations, which improve with every finished run.

    Parameters
    ----------
    grid
        The grid, with estimates for runs without a similar finished run.
    rows
        Earlier results, by this or another version.
    limit_s
        Seconds after which a run is ended. None: never.
    """

    def __init__(self, grid: Grid, rows: Iterable[Row], limit_s: float | None = None) -> None:
        self._grid = grid
        self._limit_s = limit_s
        self._taken: dict[Hashable, list[float]] = defaultdict(list)
        for row in rows:
            self.note(row)

    def note(self, row: Row) -> None:
        """Add the duration of a finished run."""
        if row["status"] == "done":
            kind = (row["mechanism"], row["split"])
            alike = (*kind, row["parameters"])
            for known in (kind, alike, (*alike, row["epsilon"])):
                self._taken[known].append(row["seconds"])

    def expected(self, run: Run) -> tuple[float, bool]:
        """Return the expected seconds of a run, and whether they are more than a guess.

        The most similar source counts: runs that differ only in the seed, runs at any epsilon, the
        grid's estimate, then runs of the mechanism with other settings.
        """
        known = next(self._known(run), None)
        seconds = _START_SECONDS + (_UNKNOWN_SECONDS if known is None else known)
        if self._limit_s is not None:
            seconds = min(seconds, self._limit_s)
        return seconds, known is not None

    def _known(self, run: Run) -> Iterator[float]:
        kind = (run.mechanism, run.split)
        parameters = run.parameters_json()
        for like in ((*kind, parameters, run.epsilon), (*kind, parameters)):
            if like in self._taken:
                yield fmean(self._taken[like])
        said = _BASELINE_SECONDS.get(run.mechanism, self._grid.hint(run))
        if said is not None:
            yield said
        if kind in self._taken:
            yield fmean(self._taken[kind])
