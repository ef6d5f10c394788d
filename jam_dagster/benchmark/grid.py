"""The grid of a benchmark: mechanisms on splits, at every epsilon, with every seed."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.runs import (
    BEST_MIXTURE,
    PUBLIC_TABLE,
    SAMPLING_FLOOR,
    TRUE_ONE_WAYS,
    Run,
    Settings,
)
from jam_dagster.common.section import is_of
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import mechanism_class

_Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Contender:
    """A mechanism in a grid.

    Parameters
    ----------
    mechanism
        Its registered name.
    settings
        The values of each setting; every combination is run.
    label
        Its name in figures.
    splits, epsilons, seeds
        Replace the grid's; None: the grid's.
    seconds
        Known duration of a run, for the estimate before there are results.
    """

    mechanism: str
    settings: Mapping[str, tuple[Any, ...]]
    label: str = ""
    splits: tuple[str, ...] | None = None
    epsilons: tuple[float, ...] | None = None
    seeds: tuple[int, ...] | None = None
    seconds: float | None = None

    def combinations(self) -> list[Settings]:
        """Return every combination of the settings."""
        names = sorted(self.settings)
        chosen = itertools.product(*(self.settings[name] for name in names))
        return [tuple(zip(names, values, strict=True)) for values in chosen]


@dataclass(frozen=True)
class Grid:
    """A benchmark: see `load_grid` for the file.

    Parameters
    ----------
    name, description
        Its name and description.
    splits
        The tables.
    contenders
        The mechanisms.
    epsilons, seeds, delta, degree
        Defaults of all mechanisms; no epsilons if each mechanism has its own.
    baselines
        Whether baselines are measured, too.
    seconds
        Default duration of a run, for the estimate.
    missing
        Mechanisms of a preset that this version lacks.
    """

    name: str
    splits: tuple[SplitFiles, ...]
    contenders: tuple[Contender, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    delta: float = 1e-9
    degree: int = 3
    baselines: bool = True
    description: str = ""
    seconds: float | None = None
    missing: tuple[str, ...] = ()

    def narrowed(
        self,
        *,
        splits: Sequence[str] = (),
        mechanisms: Sequence[str] = (),
        epsilons: Sequence[float] = (),
        seeds: int | None = None,
    ) -> Grid:
        """Return a part of the grid; None does not restrict.

        Parameters
        ----------
        splits, mechanisms
            Names in the grid. A published split that the grid lacks is added.
        epsilons
            Replace all others.
        seeds
            Number of seeds, from the first one on.

        Raises
        ------
        SpecificationError
            If the grid has no such mechanism, no remaining one runs on a split, or the grid has
            fewer seeds.
        """
        held = {one.name: one for one in self.splits}
        known = list(dict.fromkeys(one.mechanism for one in self.contenders))
        for name in mechanisms:
            if name not in known:
                raise SpecificationError(
                    f"The grid {self.name!r} has no mechanism {name!r}; it has {', '.join(known)}."
                )
        if seeds is not None and seeds < 1:
            raise SpecificationError(f"seeds must be at least 1, got {seeds}.")
        contenders = []
        for one in self.contenders:
            if mechanisms and one.mechanism not in mechanisms:
                continue
            own_splits = one.splits
            if splits and own_splits is not None:
                own_splits = tuple(name for name in own_splits if name in splits)
                if not own_splits:
                    continue
            contenders.append(
                replace(
                    one,
                    splits=own_splits,
                    epsilons=None if epsilons else one.epsilons,
                    seeds=None if one.seeds is None else one.seeds[:seeds],
                )
            )
        self._check_left(contenders, splits, seeds)
        return replace(
            self,
            splits=tuple(held.get(name, SplitFiles(name)) for name in splits) or self.splits,
            contenders=tuple(contenders),
            epsilons=check_epsilons(epsilons) if epsilons else self.epsilons,
            seeds=self.seeds[:seeds],
        )

    def _check_left(
        self, contenders: Sequence[Contender], splits: Sequence[str], seeds: int | None
    ) -> None:
        """Raise if a part of the grid lacks something requested."""
        everywhere = not self.contenders or any(one.splits is None for one in contenders)
        for name in splits:
            if not everywhere and all(name not in (one.splits or ()) for one in contenders):
                named = [split for one in self.contenders for split in one.splits or ()]
                raise SpecificationError(
                    f"No requested mechanism runs on the split {name!r}: those of the grid "
                    f"{self.name!r} are for {', '.join(dict.fromkeys(named))}."
                )
        most = max((len(one.seeds or self.seeds) for one in contenders), default=len(self.seeds))
        if seeds is not None and seeds > most:
            raise SpecificationError(
                f"The grid {self.name!r} has {most} seeds, fewer than {seeds}: ask for fewer, or "
                "raise seeds in a grid of your own."
            )

    def runs(self) -> list[Run]:
        """Return every run once, baselines first, then seed by seed.

        The first seed gives a complete picture, which the others refine.

        Raises
        ------
        SpecificationError
            If a mechanism does not take its settings, or needs a public table where there is none.
        """
        made: list[Run] = []
        if self.baselines:
            for split in self.splits:
                made += self._baselines(split)
        drawn: list[Run] = []
        for split in self.splits:
            for one in self.contenders:
                if one.splits is None or split.name in one.splits:
                    self._check_public(split, one)
                    drawn += self._of(split, one)
        order = sorted(range(len(drawn)), key=lambda place: drawn[place].seed or 0)
        # An explicit default value makes the same run.
        once: dict[str, Run] = {}
        for run in [*made, *(drawn[place] for place in order)]:
            once.setdefault(run.key(""), run)
        return list(once.values())

    def _of(self, split: SplitFiles, one: Contender) -> Iterable[Run]:
        for settings in one.combinations():
            run = Run(split.name, one.mechanism, settings, label=one.label)
            run.make()
            run = replace(run, delta=self.delta, degree=self.degree)
            for epsilon in one.epsilons or self.epsilons:
                for seed in one.seeds or self.seeds:
                    yield replace(run, epsilon=epsilon, seed=seed)

    def _baselines(self, split: SplitFiles) -> Iterable[Run]:
        run = Run(split.name, PUBLIC_TABLE, delta=self.delta, degree=self.degree)
        if split.private is None or split.public is not None:
            yield run
            yield replace(run, mechanism=BEST_MIXTURE)
        yield replace(run, mechanism=TRUE_ONE_WAYS)
        for seed in self.seeds:
            yield replace(run, mechanism=SAMPLING_FLOOR, seed=seed)

    def _check_public(self, split: SplitFiles, one: Contender) -> None:
        lacks = split.private is not None and split.public is None
        if lacks and mechanism_class(one.mechanism).uses_public:
            raise SpecificationError(
                f"{one.mechanism} learns from a public table, and the split {split.name!r} has "
                "none: give it one, or give the mechanism splits of its own."
            )

    def hint(self, run: Run) -> float | None:
        """Return the grid's estimate of a run's seconds, if it has one."""
        names = {name for name, _ in run.settings}
        for one in self.contenders:
            same = one.mechanism == run.mechanism and set(one.settings) == names
            if same and one.seconds is not None:
                return one.seconds
        return self.seconds

    @cached_property
    def by_name(self) -> dict[str, SplitFiles]:
        """The splits by name."""
        return {one.name: one for one in self.splits}


def check_epsilons(given: Iterable[object]) -> tuple[float, ...]:
    """Return epsilons without repetition, or raise SpecificationError."""
    made = []
    for one in given:
        if not is_of(_Epsilon, one):
            raise SpecificationError(f"epsilons must be positive numbers, got {one!r}")
        made.append(float(one))  # type: ignore[arg-type]
    return tuple(dict.fromkeys(made))
