"""Expected durations of runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

from jam_dagster.mechanisms.registry import find_mechanism
from jam_dagster.trials.results import Row, stages
from jam_dagster.trials.runs import BASELINES, BEST_MIXTURE, Run
from jam_dagster.trials.trial import MOST_SAMPLED

QUICK = {"tolerance": 0.3}
"""Settings of looser fits, which err about a hundredth more, in half the time."""

_ROUNDS = 30
_ROWS_A_SECOND = 30_000
"""Rows that are sampled and searched in a second, for each hundred marginals."""

# The best mixture is a large linear program.
_BASELINE_SECONDS = {**dict.fromkeys(BASELINES, 1.0), BEST_MIXTURE: 60.0}


class Durations:
    """Expected durations of runs, from rows of any version, which it notes one by one.

    Parameters
    ----------
    size
        Returns the number of marginals and of private records of a run.
    rows
        The rows of earlier runs.
    hint
        Returns the stated seconds of a run, if there are any.
    start_s, limit_s
        What a run takes before it begins, and the most that it may take.
    """

    def __init__(
        self,
        size: Callable[[Run], tuple[int, int]],
        rows: Iterable[Row] = (),
        *,
        hint: Callable[[Run], float | None] = lambda run: None,
        start_s: float = 0.0,
        limit_s: float = float("inf"),
    ) -> None:
        self._size, self._hint, self._start_s, self._limit_s = size, hint, start_s, limit_s
        self._taken: dict[Hashable, list[float]] = defaultdict(list)
        # How slow this machine and these tables are.
        self._slowness: list[float] = []
        for row in rows:
            self.note(row)

    def note(self, row: Row) -> None:
        """Add the duration of a finished run."""
        if row["status"] != "done":
            return
        # The parts of a stage have a dot in their names.
        parts = stages(row.get("seconds_by_stage")).items()
        seconds = sum(taken for name, taken in parts if "." not in name) or row["seconds"]
        kind = (row["mechanism"], row["split"])
        alike = (*kind, row["parameters"])
        for known in (kind, alike, (*alike, row["epsilon"])):
            self._taken[known].append(seconds)
        if row.get("marginals") and row["mechanism"] not in BASELINES:
            settings = json.loads(row["parameters"])
            guess = _guess(row["mechanism"], settings, row["marginals"], row["records"])
            self._slowness.append(seconds / guess)

    def expected(self, run: Run) -> tuple[float, bool]:
        """Return the expected seconds of a run, and whether they are more than a guess.

        The most similar source counts: runs that differ only in the seed, runs at any epsilon, what
        is stated, then runs of the mechanism with other settings. A guess is by the mechanism's
        pace, times how slow others were.
        """
        known = next(self._known(run), None)
        seconds = known
        if seconds is None:
            slowness = fmean(self._slowness or [1.0])
            seconds = slowness * _guess(run.mechanism, run.parameters(), *self._size(run))
        return min(self._start_s + seconds, self._limit_s), known is not None

    def _known(self, run: Run) -> Iterator[float]:
        kind = (run.mechanism, run.split)
        parameters = run.parameters_json()
        for like in ((*kind, parameters, run.epsilon), (*kind, parameters)):
            if like in self._taken:
                yield fmean(self._taken[like])
        said = _BASELINE_SECONDS.get(run.mechanism, self._hint(run))
        if said is not None:
            yield said
        if kind in self._taken:
            yield fmean(self._taken[kind])


def _guess(mechanism: str, settings: Mapping[str, Any], marginals: int, records: int) -> float:
    """Return about how long a run takes: right within a factor of three or so."""
    hundreds = marginals / 100
    found = find_mechanism(mechanism)
    # Another version may have made the row.
    pace = 1.0 if found is None else found.pace
    pace *= (settings.get("rounds") or _ROUNDS) / _ROUNDS
    pace *= 0.5 if settings.get("tolerance") == QUICK["tolerance"] else 1.0
    return 1.0 + hundreds * (pace + min(records, MOST_SAMPLED) / _ROWS_A_SECOND)
