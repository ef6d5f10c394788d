"""What a benchmark runs: mechanisms on splits, at every epsilon, with every seed; a YAML file."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, Mechanism, make_mechanism, mechanism_class
from jam_dagster.mechanisms.settings import settings_of
from jam_dagster.mechanisms.titles import TITLES
from jam_dagster.privacy import Budget
from jam_dagster.privacy.release_key import canonical_digest
from jam_dagster.tables.configuration import (
    as_boolean,
    as_integer,
    as_list,
    as_number,
    as_text,
    check_keys,
    is_integer,
)
from jam_dagster.tables.yaml_text import parse_yaml

PUBLIC_TABLE = "public_table"
TRUE_ONE_WAYS = "true_one_ways"
SAMPLING_FLOOR = "sampling_floor"
BASELINES: Mapping[str, str] = {
    PUBLIC_TABLE: "public table alone",
    TRUE_ONE_WAYS: "true one-way marginals, independent",
    SAMPLING_FLOOR: "sampling floor",
}
"""What needs no mechanism, and how figures call it: the public table scaled to n, the product of
the private one-way marginals without noise, and n rows drawn from the private table."""

Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Run:
    """One row of a grid: everything that decides what the run comes to.

    Parameters
    ----------
    split
        Name of the split.
    mechanism
        A registered mechanism, or one of `BASELINES`.
    settings
        What differs from the mechanism's defaults, sorted by name.
    epsilon, delta
        The budget; epsilon is None for baselines, which cost nothing.
    seed
        Of the noise, and of the rows that are sampled; None where nothing is random.
    degree
        The workload: all marginals of so many attributes.
    label
        How figures call it; no part of what the run is.
    """

    split: str
    mechanism: str
    settings: Settings = ()
    epsilon: float | None = None
    seed: int | None = None
    delta: float = 1e-9
    degree: int = 3
    label: str = ""

    @property
    def is_baseline(self) -> bool:
        """Whether it runs no mechanism."""
        return self.mechanism in BASELINES

    @property
    def title(self) -> str:
        """How figures call it."""
        named = {**TITLES, **BASELINES}
        return self.label or named.get(self.mechanism, self.mechanism)

    def make(self) -> Mechanism:
        """Return the mechanism.

        Raises
        ------
        SpecificationError
            If it is not registered, or does not take the settings.
        """
        return make_mechanism(self.mechanism, **dict(self.settings))

    @property
    def rho(self) -> float:
        """The budget in rho; 0 for a baseline."""
        return 0.0 if self.epsilon is None else Budget(self.epsilon, self.delta).rho

    def parameters(self) -> dict[str, Any]:
        """Return all settings that influence the outcome, defaults included."""
        return {} if self.is_baseline else self.make().parameters()

    def key(self, fingerprint: str) -> str:
        """Return what tells the run from others on the split of that fingerprint, 16 digits.

        Settings that are spelled out and equal the defaults make no other run.
        """
        told = {**asdict(self), "settings": self.parameters(), "fingerprint": fingerprint}
        del told["label"]
        return canonical_digest(told)[:16]

    @property
    def name(self) -> str:
        """What tells the run from others of its grid, without looking at its tables."""
        parts = [self.split, self.mechanism]
        if self.epsilon is not None:
            parts.append(f"epsilon-{self.epsilon:g}")
        if self.seed is not None:
            parts.append(f"seed-{self.seed}")
        if self.settings:
            parts.append(canonical_digest(dict(self.settings))[:8])
        return "_".join(parts)

    def __str__(self) -> str:
        parts = [self.split, self.title]
        parts += [f"{name} {value}" for name, value in self.settings]
        if self.epsilon is not None:
            parts.append(f"epsilon {self.epsilon:g}")
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Run:
        """Return the run that `to_dict` told."""
        return cls(**{**content, "settings": tuple(sorted(content["settings"].items()))})


@dataclass(frozen=True)
class Contender:
    """A mechanism in a grid.

    Parameters
    ----------
    mechanism
        Its registered name.
    settings
        The values to try of each setting that is given; every combination is run.
    label
        How figures call it.
    splits, epsilons, seeds
        In place of the grid's; None: the grid's.
    seconds
        What a run is known to take, for the estimate before there are results.
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
        What it is.
    splits
        The tables.
    contenders
        The mechanisms.
    epsilons, seeds, delta, degree
        For every mechanism that says nothing else.
    baselines
        Whether what needs no mechanism is measured besides.
    missing
        Mechanisms that a preset names and this version does not have.
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
    missing: tuple[str, ...] = ()

    def narrowed(
        self,
        *,
        splits: Sequence[str] = (),
        mechanisms: Sequence[str] = (),
        epsilons: Sequence[float] = (),
        seeds: int | None = None,
    ) -> Grid:
        """Return a part of the grid: what is given restricts, what is not given does not.

        Parameters
        ----------
        splits, mechanisms
            Names that the grid has. A split that is published, and that the grid lacks, is added.
        epsilons
            In place of every other.
        seeds
            How many, from the first one on.

        Raises
        ------
        SpecificationError
            If the grid has no such mechanism, or there are no seeds.
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
        return replace(
            self,
            splits=tuple(held.get(name, SplitFiles(name)) for name in splits) or self.splits,
            contenders=tuple(contenders),
            epsilons=_epsilons(epsilons) if epsilons else self.epsilons,
            seeds=self.seeds[:seeds],
        )

    def runs(self) -> list[Run]:
        """Return every run once, baselines first, then seed by seed.

        With the first seed done there is a whole picture, which the others make sharper.

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
        return list(dict.fromkeys([*made, *(drawn[place] for place in order)]))

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
        yield replace(run, mechanism=TRUE_ONE_WAYS)
        for seed in self.seeds:
            yield replace(run, mechanism=SAMPLING_FLOOR, seed=seed)

    def _check_public(self, split: SplitFiles, one: Contender) -> None:
        lacks = split.private is not None and split.public is None
        if lacks and mechanism_class(one.mechanism)().uses_public:
            raise SpecificationError(
                f"{one.mechanism} learns from a public table, and the split {split.name!r} has "
                "none: give it one, or give the mechanism splits of its own."
            )

    def hint(self, run: Run) -> float | None:
        """Return the seconds that the grid says a run takes, if it does."""
        names = {name for name, _ in run.settings}
        for one in self.contenders:
            if one.mechanism == run.mechanism and set(one.settings) == names:
                return one.seconds
        return None

    @cached_property
    def by_name(self) -> dict[str, SplitFiles]:
        """The splits by name."""
        return {one.name: one for one in self.splits}


def presets() -> list[str]:
    """Return the names of the grids that come with the package."""
    folder = resources.files("jam_dagster.benchmark") / "presets"
    order = ("smoke", "quick", "paper")
    names = [Path(one.name).stem for one in folder.iterdir() if one.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (order.index(name) if name in order else 99, name))


def load_grid(name: str | Path) -> Grid:
    """Read a grid: a preset by its name, or a YAML file.

    Parameters
    ----------
    name
        A preset, or the path of a file. A file has the keys ``splits`` (names, or mappings with
        ``name``, ``private``, ``public`` and ``domain``), ``mechanisms`` (names, or mappings with
        ``mechanism``, ``settings``, ``label``, ``splits``, ``epsilons``, ``seeds`` and
        ``seconds``; or ``all``), ``epsilons``, ``seeds`` (how many, or a list), ``delta``,
        ``degree``, ``baselines``, ``settings`` and ``description``. A setting may be a list of
        values, all of which are tried. The grid's own ``settings`` go to every mechanism that has
        a setting of that name.

    Raises
    ------
    SpecificationError
        If there is no such grid, or a key or value is wrong; it names both and the remedy.
    """
    if str(name) in presets():
        place = resources.files("jam_dagster.benchmark") / "presets" / f"{name}.yaml"
        return _grid(str(name), place.read_text(encoding="utf-8"), Path.cwd(), preset=True)
    path = Path(name)
    if not path.is_file():
        raise SpecificationError(
            f"There is no grid {str(name)!r}: name one of {', '.join(presets())}, or a YAML file."
        )
    return _grid(path.stem, path.read_text(encoding="utf-8"), path.parent, preset=False)


_KEYS = (
    "description",
    "splits",
    "mechanisms",
    "epsilons",
    "seeds",
    "delta",
    "degree",
    "baselines",
    "settings",
)
_OWN_KEYS = ("mechanism", "settings", "label", "splits", "epsilons", "seeds", "seconds")


def _grid(name: str, text: str, folder: Path, *, preset: bool) -> Grid:
    what = f"the grid {name!r}"
    try:
        content = parse_yaml(text)
    except yaml.YAMLError as error:
        raise SpecificationError(f"{what} is no YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise SpecificationError(f"{what} must be a mapping with the keys {', '.join(_KEYS)}.")
    check_keys(what, content, _KEYS)
    for key in ("splits", "mechanisms", "epsilons"):
        if key not in content:
            raise SpecificationError(f"{what} needs {key}.")
    shared = _settings(what, content.get("settings", {}))
    contenders, missing = _contenders(what, content["mechanisms"], shared, preset=preset)
    splits = tuple(
        SplitFiles.from_config(one, folder) for one in as_list(what, "splits", content["splits"])
    )
    names = [one.name for one in splits]
    for one in names:
        if names.count(one) > 1:
            raise SpecificationError(f"{what} has two splits called {one!r}.")
    for contender in contenders:
        for one in contender.splits or ():
            if one not in names:
                raise SpecificationError(
                    f"{what}: {contender.mechanism} names the split {one!r}, which the grid's "
                    "splits lack."
                )
    degree = as_integer(what, "degree", content.get("degree", 3))
    if degree < 1:
        raise SpecificationError(f"{what}: degree must be at least 1, got {degree}.")
    epsilons = _epsilons(as_list(what, "epsilons", content["epsilons"]))
    delta = float(as_number(what, "delta", content.get("delta", 1e-9)))
    Budget(epsilons[0], delta)
    return Grid(
        name=name,
        description=as_text(what, "description", content.get("description", "")).strip(),
        splits=splits,
        contenders=contenders,
        epsilons=epsilons,
        seeds=_seeds(what, content.get("seeds", 1)),
        delta=delta,
        degree=degree,
        baselines=as_boolean(what, "baselines", content.get("baselines", True)),
        missing=missing,
    )


def _contenders(
    what: str, given: object, shared: Mapping[str, tuple[Any, ...]], *, preset: bool
) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """Return the mechanisms of a grid, and those that a preset names and nobody knows."""
    entries = list(MECHANISMS) if given == "all" else as_list(what, "mechanisms", given)
    if not entries:
        raise SpecificationError(f"{what} has no mechanisms.")
    made, missing = [], []
    for entry in entries:
        own: Mapping[str, Any] = {"mechanism": entry} if isinstance(entry, str) else entry
        if not isinstance(own, Mapping) or "mechanism" not in own:
            raise SpecificationError(
                f"{what}: a mechanism is a name, or a mapping with the key mechanism; got {entry!r}"
            )
        name = as_text(what, "mechanism", own["mechanism"])
        where = f"{what}, {name}"
        check_keys(where, own, _OWN_KEYS)
        if name not in MECHANISMS and preset:
            missing.append(name)
            continue
        known = settings_of(mechanism_class(name))
        fitting = {key: value for key, value in shared.items() if key in known}
        seconds, splits = own.get("seconds"), own.get("splits")
        made.append(
            Contender(
                name,
                {**fitting, **_settings(where, own.get("settings", {}))},
                label=as_text(where, "label", own.get("label", "")),
                splits=None
                if splits is None
                else tuple(as_text(where, "splits", n) for n in as_list(where, "splits", splits)),
                epsilons=_epsilons(as_list(where, "epsilons", own["epsilons"]))
                if "epsilons" in own
                else None,
                seeds=_seeds(where, own["seeds"]) if "seeds" in own else None,
                seconds=None if seconds is None else float(as_number(where, "seconds", seconds)),
            )
        )
    return tuple(made), tuple(dict.fromkeys(missing))


def _settings(what: str, given: object) -> dict[str, tuple[Any, ...]]:
    if not isinstance(given, Mapping):
        raise SpecificationError(f"{what}: settings must be a mapping, got {given!r}")
    made: dict[str, tuple[Any, ...]] = {}
    for key, value in given.items():
        values = tuple(value) if isinstance(value, list) else (value,)
        if not values:
            raise SpecificationError(f"{what}: the setting {key} has no values to try")
        made[str(key)] = values
    return made


def _epsilons(given: Iterable[object]) -> tuple[float, ...]:
    made = []
    for one in given:
        number = as_number("a grid", "epsilons", one)
        if not math.isfinite(number) or number <= 0:
            raise SpecificationError(f"epsilons must be positive numbers, got {one!r}")
        made.append(float(number))
    if not made:
        raise SpecificationError("epsilons must hold a number")
    return tuple(dict.fromkeys(made))


def _seeds(what: str, given: object) -> tuple[int, ...]:
    seeds = list(range(given)) if is_integer(given) else as_list(what, "seeds", given)
    if not seeds or any(not is_integer(one) or one < 0 for one in seeds):
        raise SpecificationError(
            f"{what}: seeds must be how many (1 or more), or a list of whole numbers from 0 on"
        )
    return tuple(dict.fromkeys(seeds))
