"""The grid of a benchmark: mechanisms on splits, at every epsilon, with every seed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo

from jam_dagster.common.section import Number, Positive, PositiveNumber, Section, is_of
from jam_dagster.common.validation import is_integer
from jam_dagster.common.yaml_text import parse_yaml
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, mechanism_class
from jam_dagster.mechanisms.base import instead_of_public
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.privacy import Budget
from jam_dagster.trials.runs import (
    BEST_MIXTURE,
    PRIOR_ROWS,
    PUBLIC_TABLE,
    SAMPLING_FLOOR,
    TRUE_ONE_WAYS,
    Run,
    Settings,
)
from jam_dagster.trials.splits import SplitFiles

_Epsilon = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_ORDER = ("smoke", "quick")


def _some(given: object, info: ValidationInfo) -> object:
    """Refuse everything but a list of at least one."""
    if not isinstance(given, list | tuple) or not given:
        raise SpecificationError(f"{info.field_name} must be a list of at least one, got {given!r}")
    return given


def _each_epsilon(given: object, info: ValidationInfo) -> object:
    made = []
    for one in _some(given, info):  # type: ignore[attr-defined]
        if not is_of(_Epsilon, one):
            raise SpecificationError(f"epsilons must be positive numbers, got {one!r}")
        made.append(float(one))
    return tuple(dict.fromkeys(made))


def _each_seed(given: object) -> object:
    seeds = range(given) if is_integer(given) else given
    if not isinstance(seeds, range | list | tuple):
        seeds = ()
    if not seeds or any(not is_integer(one) or one < 0 for one in seeds):
        raise SpecificationError(
            "seeds must be how many (1 or more), or a list of whole numbers from 0 on"
        )
    return tuple(dict.fromkeys(seeds))


def _each_workload(given: object, info: ValidationInfo) -> object:
    for one in _some(given, info):  # type: ignore[attr-defined]
        if not isinstance(one, str) or not re.fullmatch(r"all|target|skewed|random [1-9]\d*", one):
            raise SpecificationError(
                f"workloads must be all, target, skewed or random N with a number N, got {one!r}"
            )
    return tuple(dict.fromkeys(given))  # type: ignore[call-overload]


def _tried(given: object) -> object:
    """Return the values of each setting; a file may give a single one without a list."""
    if not isinstance(given, Mapping):
        raise SpecificationError(f"settings must be a mapping, got {given!r}")
    made = {}
    for key, value in given.items():
        made[str(key)] = tuple(value) if isinstance(value, list | tuple) else (value,)
        if not made[str(key)]:
            raise SpecificationError(f"the setting {key} has no values to try")
    return made


_Epsilons = Annotated[tuple[float, ...], BeforeValidator(_each_epsilon)]
_Seeds = Annotated[tuple[int, ...], BeforeValidator(_each_seed)]
_Workloads = Annotated[tuple[str, ...], BeforeValidator(_each_workload)]


class _Keys(Section):
    epsilons: _Epsilons | None = None
    settings: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(_tried)] = {}
    seconds: PositiveNumber | None = None

    @classmethod
    def where(cls, name: str) -> str:
        return name


class Contender(_Keys):
    """A mechanism in a grid.

    `splits`, `epsilons`, `workloads` and `seeds` replace the grid's; None: the grid's. Every
    combination of the settings' values is run, under the `label`; `seconds` is the known duration
    of a run, for the estimate before there are results.
    """

    path = "a mechanism"

    mechanism: str
    label: str = ""
    splits: Annotated[tuple[str, ...], BeforeValidator(_some)] | None = None
    seeds: _Seeds | None = None
    workloads: _Workloads | None = None

    def combinations(self) -> list[Settings]:
        """Return every combination of the settings."""
        names = sorted(self.settings)
        chosen = itertools.product(*(self.settings[name] for name in names))
        return [tuple(zip(names, values, strict=True)) for values in chosen]


class _GridFile(_Keys):
    path = "a grid"

    splits: Annotated[tuple[SplitFiles, ...], BeforeValidator(_some)]
    mechanisms: Annotated[tuple[Contender, ...], BeforeValidator(_some)]
    seeds: _Seeds = (0,)
    description: str = ""
    delta: Number = 1e-9
    degree: Positive = 3
    workloads: _Workloads = ("all",)
    baselines: StrictBool = True


class Grid(_GridFile):
    """A benchmark: the keys of a file (see `load_grid`), and its name.

    `preset` is whether it comes with the package; `missing` says why each split of a preset
    that is not there is left out.
    """

    name: str
    preset: bool = False
    missing: dict[str, str] = {}

    def at_hand(self, data: Path | None = None, *, requested: bool = False) -> Grid:
        """Return a preset without what the folder of published tables lacks.

        A split whose test is not there is tested on its private rows. A split that was requested
        by its name is never left out.
        A grid of one's own is returned as it is: a split that is not there is an error.
        """
        if not self.preset:
            return self
        reasons = {} if requested else {one.name: one.missing(data) for one in self.splits}
        return self.changed(
            splits=[one.with_test_at_hand(data) for one in self.splits],
            missing={name: why for name, why in reasons.items() if why},
        )

    def narrowed(
        self,
        *,
        splits: Sequence[str] = (),
        mechanisms: Sequence[str] = (),
        epsilons: Sequence[float] = (),
        seeds: int | None = None,
    ) -> Grid:
        """Return a part of the grid, with these splits, mechanisms, epsilons and first seeds.

        A published split that the grid lacks is added, and epsilons replace all others. Raises
        SpecificationError if the grid has no such mechanism, no remaining one runs on a split, or
        the grid has fewer seeds.
        """
        known = list(dict.fromkeys(one.mechanism for one in self.mechanisms))
        for name in mechanisms:
            if name not in known:
                raise SpecificationError(
                    f"The grid {self.name!r} has no mechanism {name!r}; it has {', '.join(known)}."
                )
        if seeds is not None and seeds < 1:
            raise SpecificationError(f"seeds must be at least 1, got {seeds}.")
        contenders = []
        for one in self.mechanisms:
            own = one.splits
            if splits and own is not None:
                own = tuple(name for name in own if name in splits)
            if (not mechanisms or one.mechanism in mechanisms) and own != ():
                contenders.append(
                    one.changed(
                        splits=own,
                        epsilons=None if epsilons else one.epsilons,
                        seeds=None if one.seeds is None else one.seeds[:seeds],
                    )
                )
        self._check_left(contenders, splits, seeds)
        return self.changed(
            splits=[self.by_name.get(name, SplitFiles(name)) for name in splits] or self.splits,
            mechanisms=contenders,
            epsilons=list(epsilons) or self.epsilons,
            seeds=self.seeds[:seeds],
        )

    def _check_left(
        self, contenders: Sequence[Contender], splits: Sequence[str], seeds: int | None
    ) -> None:
        """Raise if a part of the grid lacks something requested."""
        for name in splits:
            if not any(one.splits is None or name in one.splits for one in contenders):
                named = dict.fromkeys(name for one in self.mechanisms for name in one.splits or ())
                raise SpecificationError(
                    f"No requested mechanism runs on the split {name!r}: those of the grid "
                    f"{self.name!r} are for {', '.join(named)}."
                )
        most = max(len(one.seeds or self.seeds) for one in contenders)
        if (seeds or 0) > most:
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
        drawn: list[Run] = []
        there = [one for one in self.splits if one.name not in self.missing]
        for split in there:
            for one in self.mechanisms:
                if one.splits is None or split.name in one.splits:
                    drawn += self._of(split, one)
        drawn.sort(key=lambda run: run.seed or 0)
        if self.baselines:
            drawn = [run for split in there for run in self._baselines(split)] + drawn
        # An explicit default value makes the same run.
        once: dict[str, Run] = {}
        for run in drawn:
            once.setdefault(run.key(""), run)
        return list(once.values())

    def _run(self, split: SplitFiles, mechanism: str, workload: str = "all", **given: Any) -> Run:
        if workload == "target":
            if split.target is None:
                raise SpecificationError(
                    f"The workload target needs a target of the split {split.name!r}: name one of "
                    "its attributes."
                )
            workload = f"target {split.target}"
        given |= {"delta": self.delta, "degree": self.degree, "workload": workload}
        return Run(split.name, mechanism, **given)

    def _of(self, split: SplitFiles, one: Contender) -> Iterable[Run]:
        # A split without a public table has the settings of a release without one.
        given = {} if split.has_public else mechanism_class(one.mechanism).without_public()
        for combination in one.combinations():
            settings = tuple((given | dict(combination)).items())
            # A wrong setting is found before anything runs.
            mechanism = self._run(split, one.mechanism, settings=settings).make()
            if mechanism.uses_public and not split.has_public:
                raise SpecificationError(
                    f"{one.mechanism} learns from a public table, and the split {split.name!r} has "
                    f"none: give it one, give the mechanism splits of its own, or "
                    f"{instead_of_public(mechanism)}."
                )
            every = itertools.product(
                one.workloads or self.workloads,
                one.epsilons or self.epsilons or (),
                one.seeds or self.seeds,
            )
            for workload, epsilon, seed in every:
                about = {"settings": settings, "epsilon": epsilon, "seed": seed}
                yield self._run(split, one.mechanism, workload, label=one.label, **about)

    def _baselines(self, split: SplitFiles) -> Iterable[Run]:
        there = [one for one in self.mechanisms if split.name in (one.splits or [split.name])]
        used = (one.workloads or self.workloads for one in there)
        for workload in dict.fromkeys(itertools.chain(*used)):
            if split.has_public:
                yield self._run(split, PUBLIC_TABLE, workload)
                yield self._run(split, BEST_MIXTURE, workload)
                for seed in self.seeds:
                    yield self._run(split, PRIOR_ROWS, workload, seed=seed)
            yield self._run(split, TRUE_ONE_WAYS, workload)
            for seed in self.seeds:
                yield self._run(split, SAMPLING_FLOOR, workload, seed=seed)

    def hint(self, run: Run) -> float | None:
        """Return the grid's estimate of a run's seconds, if it has one."""
        names = {name for name, _ in run.settings}
        for one in self.mechanisms:
            if one.mechanism != run.mechanism or one.seconds is None:
                continue
            added = names - set(one.settings)
            if set(one.settings) <= names and added <= set(run.make().without_public()):
                return one.seconds
        return self.seconds

    @property
    def by_name(self) -> dict[str, SplitFiles]:
        """The splits by name."""
        return {one.name: one for one in self.splits}


def presets() -> list[str]:
    """Return the names of the presets."""
    folder = resources.files("jam_dagster.trials") / "presets"
    names = [Path(one.name).stem for one in folder.iterdir() if one.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else 99, name))


def load_grid(name: str | Path) -> Grid:
    """Read a grid: a preset by its name, or a YAML file.

    Parameters
    ----------
    name
        A preset, or the path of a file. A file has the keys ``splits`` (names, or mappings with
        ``name`` and other keys of `SplitFiles`), ``mechanisms`` (names, or mappings with
        ``mechanism``, ``settings``, ``label``, ``splits``, ``epsilons``, ``workloads``, ``seeds``
        and ``seconds``; or ``all``), ``epsilons`` (for mechanisms that have none of their own),
        ``workloads`` (``all``, ``target``, ``skewed``, ``random N``; see `Run`), ``seeds`` (how
        many, or a list), ``delta``, ``degree``, ``baselines``, ``settings``, ``seconds`` and
        ``description``. A setting may be a list of values, all of which are tried;
        a value is read as in a release's file. The grid's own ``settings`` go to every mechanism
        that has a setting of that name.

    Raises
    ------
    SpecificationError
        If there is no such grid, or a key or value is wrong; it names both and the remedy.
    """
    if str(name) in presets():
        place = resources.files("jam_dagster.trials") / "presets" / f"{name}.yaml"
        return _grid(str(name), place.read_text(encoding="utf-8"), Path.cwd(), preset=True)
    path = Path(name)
    if not path.is_file():
        raise SpecificationError(
            f"There is no grid {str(name)!r}: name {', '.join(presets())}, or a YAML file."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecificationError(f"The grid {path} is not UTF-8: save it as UTF-8.") from None
    return _grid(path.stem, text, path.parent, preset=False)


@contextmanager
def _within(name: str) -> Iterator[None]:
    """Begin a refusal with the name of the refused part."""
    try:
        yield
    except SpecificationError as error:
        raise SpecificationError(f"{name}: {error}") from None


def _grid(name: str, text: str, folder: Path, *, preset: bool) -> Grid:
    with _within(f"the grid {name!r}"):
        try:
            content = parse_yaml(text)
        except yaml.YAMLError as error:
            raise SpecificationError(f"it is not YAML: {error}") from None
        given = dict(content) if isinstance(content, Mapping) else content
        if isinstance(given, dict):
            if isinstance(splits := given.get("splits"), list):
                given["splits"] = [
                    made for one in splits for made in SplitFiles.from_config(one, folder)
                ]
            if given.get("mechanisms") == "all":
                given["mechanisms"] = list(MECHANISMS)
            if isinstance(entries := given.get("mechanisms"), list):
                given["mechanisms"] = [_contender(one) for one in entries]
        keys = _GridFile.of(given)
        contenders = _with_shared(keys)
        if keys.epsilons is None and any(one.epsilons is None for one in contenders):
            raise SpecificationError("it needs epsilons, or each of its mechanisms its own.")
        _check_splits([one.name for one in keys.splits], contenders)
        # Any epsilon serves to check delta.
        Budget(1.0, keys.delta)
        own = {**dict(keys), "mechanisms": contenders}
        return Grid(**own, name=name, preset=preset)


def _contender(entry: object) -> Contender:
    given = {"mechanism": entry} if isinstance(entry, str) else entry
    named = isinstance(given, Mapping) and given.get("mechanism")
    with _within(str(named or "mechanisms")):
        return Contender.of(given)


def _with_shared(keys: _GridFile) -> list[Contender]:
    """Return the mechanisms with the settings of the whole grid, each of which fits one of them."""
    made: list[Contender] = []
    taken: set[str] = set()
    for one in keys.mechanisms:
        known = settings_of(mechanism_class(one.mechanism))
        taken.update(known)
        fitting = {key: value for key, value in keys.settings.items() if key in known}
        made.append(one.changed(settings=fitting | one.settings))
    for key in keys.settings:
        if key not in taken:
            near = get_close_matches(key, sorted(taken)) or sorted(taken)
            raise SpecificationError(
                f"{key} is no setting of any of its mechanisms; "
                f"they have {', '.join(near) or 'none'}."
            )
    return made


def _check_splits(names: list[str], contenders: Iterable[Contender]) -> None:
    for one in names:
        if names.count(one) > 1:
            raise SpecificationError(f"it has two splits called {one!r}.")
    for contender in contenders:
        for one in contender.splits or ():
            if one not in names:
                raise SpecificationError(
                    f"{contender.mechanism} names the split {one!r}, which the grid's splits lack."
                )
