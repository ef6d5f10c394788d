"""Grids as YAML files: presets of the package, and users' own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, StrictBool, ValidationInfo

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.grid import Contender, Grid, check_epsilons
from jam_dagster.common.section import Number, Positive, PositiveNumber, Section
from jam_dagster.common.validation import is_integer
from jam_dagster.common.yaml_text import parse_yaml
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MECHANISMS, mechanism_class
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.privacy import Budget


def presets() -> list[str]:
    """Return the names of the presets."""
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
        ``seconds``; or ``all``), ``epsilons`` (for mechanisms that have none of their own),
        ``seeds`` (how many, or a list), ``delta``, ``degree``, ``baselines``, ``settings``,
        ``seconds`` and ``description``. A setting may be a list of values, all of which are tried;
        a value is read as in a release's file. The grid's own ``settings`` go to every mechanism
        that has a setting of that name.

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
            f"There is no grid {str(name)!r}: name {', '.join(presets())}, or a YAML file."
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecificationError(f"The grid {path} is not UTF-8: save it as UTF-8.") from None
    return _grid(path.stem, text, path.parent, preset=False)


def _some(given: object, info: ValidationInfo) -> object:
    """Refuse what is no list, and a list of nothing; all mechanisms may be named by a word."""
    if info.field_name == "mechanisms" and given == "all":
        return tuple(MECHANISMS)
    if not isinstance(given, list | tuple) or not given:
        raise SpecificationError(f"{info.field_name} must be a list of at least one, got {given!r}")
    return given


def _each_epsilon(given: object, info: ValidationInfo) -> object:
    _some(given, info)
    return check_epsilons(given)  # type: ignore[arg-type]


def _each_seed(given: object) -> object:
    seeds = range(given) if is_integer(given) else given
    if not isinstance(seeds, range | list | tuple):
        seeds = ()
    if not seeds or any(not is_integer(one) or one < 0 for one in seeds):
        raise SpecificationError(
            "seeds must be how many (1 or more), or a list of whole numbers from 0 on"
        )
    return tuple(dict.fromkeys(seeds))


def _tried(given: object) -> object:
    """Return the values of each setting, of which a file may give one alone."""
    if not isinstance(given, Mapping):
        raise SpecificationError(f"settings must be a mapping, got {given!r}")
    made = {
        str(key): tuple(value) if isinstance(value, list) else (value,)
        for key, value in given.items()
    }
    for key, values in made.items():
        if not values:
            raise SpecificationError(f"the setting {key} has no values to try")
    return made


class _Keys(Section):
    epsilons: Annotated[tuple[float, ...] | None, BeforeValidator(_each_epsilon)] = None
    settings: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(_tried)] = {}
    seconds: PositiveNumber | None = None

    @classmethod
    def where(cls, name: str) -> str:
        return name


class _GridKeys(_Keys):
    path = "a grid"

    splits: Annotated[tuple[Any, ...], BeforeValidator(_some)]
    mechanisms: Annotated[tuple[Any, ...], BeforeValidator(_some)]
    seeds: Annotated[tuple[int, ...], BeforeValidator(_each_seed)] = (0,)
    description: str = ""
    delta: Number = 1e-9
    degree: Positive = 3
    baselines: StrictBool = True


class _MechanismKeys(_Keys):
    path = "a mechanism"

    mechanism: str
    label: str = ""
    splits: Annotated[tuple[str, ...], BeforeValidator(_some)] | None = None
    seeds: Annotated[tuple[int, ...] | None, BeforeValidator(_each_seed)] = None


@contextmanager
def _within(what: str) -> Iterator[None]:
    """Name the place of what is wrong."""
    try:
        yield
    except SpecificationError as error:
        raise SpecificationError(f"{what}: {error}") from None


def _grid(name: str, text: str, folder: Path, *, preset: bool) -> Grid:
    with _within(f"the grid {name!r}"):
        try:
            content = parse_yaml(text)
        except yaml.YAMLError as error:
            raise SpecificationError(f"it is not YAML: {error}") from None
        keys = _GridKeys.of(content)
        contenders, missing = _contenders(keys, preset=preset)
        if keys.epsilons is None and any(one.epsilons is None for one in contenders):
            raise SpecificationError("it needs epsilons, or each of its mechanisms its own.")
        splits = tuple(SplitFiles.from_config(one, folder) for one in keys.splits)
        _check_splits([one.name for one in splits], contenders)
        # Any epsilon serves to check delta.
        Budget(1.0, keys.delta)
    return Grid(
        name=name,
        description=keys.description.strip(),
        splits=splits,
        contenders=contenders,
        epsilons=keys.epsilons or (),
        seeds=keys.seeds,
        delta=keys.delta,
        degree=keys.degree,
        baselines=keys.baselines,
        seconds=keys.seconds,
        missing=missing,
    )


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


def _contenders(keys: _GridKeys, *, preset: bool) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """Return the mechanisms of a grid, and the unknown ones of a preset."""
    made, missing = [], []
    taken: set[str] = set()
    for entry in keys.mechanisms:
        given = {"mechanism": entry} if isinstance(entry, str) else entry
        named = isinstance(given, Mapping) and given.get("mechanism")
        with _within(str(named or "mechanisms")):
            own = _MechanismKeys.of(given)
        if own.mechanism not in MECHANISMS and preset:
            missing.append(own.mechanism)
            continue
        known = settings_of(mechanism_class(own.mechanism))
        taken.update(known)
        fitting = {key: value for key, value in keys.settings.items() if key in known}
        made.append(Contender(**{**dict(own), "settings": fitting | own.settings}))
    if not missing:
        _check_shared(keys.settings, taken)
    return tuple(made), tuple(dict.fromkeys(missing))


def _check_shared(shared: Iterable[str], taken: Iterable[str]) -> None:
    """Raise for a setting of the whole grid that no mechanism has."""
    known = sorted(taken)
    for key in shared:
        if key not in known:
            near = get_close_matches(key, known) or known
            raise SpecificationError(
                f"{key} is no setting of any of its mechanisms; "
                f"they have {', '.join(near) or 'none'}."
            )
