"""A release tried out on public data alone: one half of the public table plays the private one."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.operating_system import peak_memory_mb
from jam_dagster.errors import InputError
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.mechanisms.loops.rows import sample_rows
from jam_dagster.release.engine import Engine, Progress
from jam_dagster.release.funding import ResearchFunding
from jam_dagster.release.place import Place
from jam_dagster.tables import Clique, Domain, EncodedTable, Workload, marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.mechanisms import Round
    from jam_dagster.release.spec import ReleaseSpec

MOST_SAMPLED = 1_000_000
"""Records of a trial's synthetic table at most; more would hardly move its marginals."""


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds.

    The standard error is None from one seed.
    """

    mean: float
    standard_error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the mean of some values."""
        error = None
        if len(values) > 1:
            error = statistics.stdev(values) / math.sqrt(len(values))
        return cls(statistics.fmean(values), error)

    @property
    def low(self) -> float:
        """The lower end of a bar of one standard error."""
        return self.mean - (self.standard_error or 0.0)

    @property
    def high(self) -> float:
        """The upper end of that bar."""
        return self.mean + (self.standard_error or 0.0)


@dataclass(frozen=True, eq=False)
class RepeatedTable:
    """A table that plays a larger (or smaller) one; a `MarginalSource`.

    Every record is there as often as the number of records asks for, and some, chosen at random,
    once more, so that counts stay whole.
    """

    table: EncodedTable
    times: int
    extra: EncodedTable

    @classmethod
    def to(cls, records: int, table: EncodedTable, rng: np.random.Generator) -> RepeatedTable:
        """Return a table as if it had so many records."""
        times, rest = divmod(records, table.records)
        chosen = np.sort(rng.choice(table.records, rest, replace=False))
        return cls(table, times, table.take(chosen))

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        return self.table.domain

    @property
    def records(self) -> int:
        """Number of records that it plays."""
        return self.times * self.table.records + self.extra.records

    @property
    def counted(self) -> int:
        """Number of records that are really gone through."""
        return self.table.records + self.extra.records

    def marginal(self, clique: Clique) -> npt.NDArray[np.int64]:
        """Return the counts of a clique."""
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[np.int64]]:
        """Return the counts of several cliques."""
        wanted = list(cliques)
        extra = self.extra.marginals(wanted)
        return {
            clique: self.times * counts.astype(np.int64) + extra[clique]
            for clique, counts in self.table.marginals(wanted).items()
        }


@dataclass(frozen=True)
class Halves:
    """A public table split in two at random."""

    private: RepeatedTable
    public: EncodedTable

    @classmethod
    def of(cls, table: EncodedTable, records: int, seed: int) -> Halves:
        """Split a table; `records` is how many the private one is to have."""
        if table.records < 2:
            raise InputError(
                "The public table has fewer than two rows, which cannot be split to play both "
                "tables: give a larger one."
            )
        rng = np.random.default_rng([seed, 0x706C616E])
        order = rng.permutation(table.records)
        middle = (table.records + 1) // 2
        private = table.take(np.sort(order[:middle]))
        public = table.take(np.sort(order[middle:]))
        return cls(RepeatedTable.to(records, private, rng), public)


@dataclass(frozen=True)
class Trial:
    """One run of the mechanism on two halves, and what became of it.

    `picks` counts the rounds that measured private and public marginals. `sigmas` are in counts.
    `seconds` are wall-clock, ``count`` part of ``mechanism``. The first round's facts are None
    if none chose, and its limit where there is none. `peak_memory_mb` is the process's when the
    table was sampled, in 2^20 bytes.
    """

    mechanism: str
    epsilon: float
    seed: int
    error: float
    public_error: float
    picks: Mapping[str, int]
    candidates: int
    most_candidates: int
    first_candidates: int | None
    first_limit_mb: float | None
    largest_model_mb: float
    sigmas: tuple[float, ...]
    seconds: Mapping[str, float]
    counted: int
    sampled: int
    rho_spent: float
    peak_memory_mb: float

    @property
    def typical_sigma(self) -> float | None:
        """Median noise of the private measurements; None without one."""
        return statistics.median(self.sigmas) if self.sigmas else None


@dataclass(frozen=True)
class CurvePoint:
    """The summary of all trials at one epsilon.

    `epsilon` is of the whole release; there is one trial a seed.
    """

    epsilon: float
    trials: tuple[Trial, ...]

    @property
    def error(self) -> Estimate:
        """The error of the synthetic tables."""
        return Estimate.of([one.error for one in self.trials])

    @property
    def public(self) -> Estimate:
        """The error of the halves that play the public table."""
        return Estimate.of([one.public_error for one in self.trials])

    @property
    def gain(self) -> Estimate:
        """The difference of each pair: some splits are harder than others for both tables."""
        return Estimate.of([one.public_error - one.error for one in self.trials])

    @property
    def picks(self) -> dict[str, float]:
        """Mean number of rounds that measured private and public marginals."""
        return {
            origin: statistics.fmean(one.picks.get(origin, 0) for one in self.trials)
            for origin in ("private", "public")
        }

    @property
    def spent(self) -> float:
        """Mean rho that the mechanism spent."""
        return statistics.fmean(one.rho_spent for one in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "epsilon": self.epsilon,
            "error": vars(self.error),
            "public_half_error": vars(self.public),
            "gain": vars(self.gain),
            "picks": self.picks,
            "rho_spent_by_mechanism": self.spent,
        }


def run_trial(
    spec: ReleaseSpec,
    halves: Halves,
    workload: Workload,
    seed: int,
    on_round: Callable[[Round], None],
) -> Trial:
    """Run the mechanism with seeded noise on two halves, and compare what it makes."""
    research = spec.privacy.changed(noise="numpy", seed=seed)
    trial = spec.changed(privacy=research)
    place = Place()
    funding = ResearchFunding(trial.shares, research.protection, seed, place)
    progress = Progress(on_round=on_round)
    engine = Engine(trial, halves.public.domain, place, funding, progress=progress)
    started = time.monotonic()
    result, _ = engine.run(halves.private, halves.public)
    ran = time.monotonic()
    transcript = result.transcript
    rows = min(transcript.records, MOST_SAMPLED)
    synthetic = sample_rows(result.model, transcript, np.random.default_rng(seed), rows)
    done, peak = time.monotonic(), peak_memory_mb()
    ours, theirs = table_errors(halves.private, [synthetic, halves.public], workload)
    rounds = transcript.rounds
    first = next((one for one in rounds if one.rho_select > 0), None)
    return Trial(
        mechanism=spec.mechanism.build().title,
        epsilon=spec.privacy.epsilon,
        seed=seed,
        error=ours.mean,
        public_error=theirs.mean,
        picks=transcript.picks,
        candidates=rounds[-1].candidates if rounds else 0,
        most_candidates=max((one.candidates for one in rounds), default=0),
        first_candidates=None if first is None else first.candidates,
        first_limit_mb=None if first is None else first.size_limit_mb,
        largest_model_mb=max((one.model_mb for one in rounds), default=0.0),
        sigmas=tuple(one.sigma for one in rounds if one.source == "private"),
        seconds={
            "mechanism": ran - started,
            "count": result.seconds["count"],
            "sample": done - ran,
        },
        counted=halves.private.counted + halves.public.records,
        sampled=rows,
        rho_spent=transcript.rho_spent,
        peak_memory_mb=peak,
    )


def counting_seconds(table: EncodedTable, cliques: Sequence[Clique], records: int) -> float:
    """Measure how long counting marginals of so many records takes."""
    longer = table.take(np.arange(records) % table.records)
    started = time.monotonic()
    for _ in marginal_blocks(longer, cliques):
        pass
    return time.monotonic() - started
