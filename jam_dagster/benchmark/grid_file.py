"""Grids as YAML files: presets of the package, and users' own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.grid import Contender, Grid, check_epsilons
from jam_dagster.common.validation import (
    as_boolean,
    as_integer,
    as_list,
    as_number,
    as_text,
    check_keys,
    is_integer,
)
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
    "seconds",
)
_OWN_KEYS = ("mechanism", "settings", "label", "splits", "epsilons", "seeds", "seconds")


def _grid(name: str, text: str, folder: Path, *, preset: bool) -> Grid:
    what = f"the grid {name!r}"
    try:
        content = parse_yaml(text)
    except yaml.YAMLError as error:
        raise SpecificationError(f"{what} is not YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise SpecificationError(f"{what} must be a mapping with the keys {', '.join(_KEYS)}.")
    check_keys(what, content, _KEYS)
    for key in ("splits", "mechanisms"):
        if key not in content:
            raise SpecificationError(f"{what} needs {key}.")
    shared = _settings(what, content.get("settings", {}))
    contenders, missing = _contenders(what, content["mechanisms"], shared, preset=preset)
    if "epsilons" not in content and any(one.epsilons is None for one in contenders):
        raise SpecificationError(f"{what} needs epsilons, or each of its mechanisms its own.")
    splits = tuple(
        SplitFiles.from_config(one, folder) for one in _some(what, "splits", content["splits"])
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
    epsilons: tuple[float, ...] = ()
    if "epsilons" in content:
        epsilons = check_epsilons(as_list(what, "epsilons", content["epsilons"]))
    delta = float(as_number(what, "delta", content.get("delta", 1e-9)))
    # Any epsilon serves to check delta.
    Budget(1.0, delta)
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
        seconds=_seconds(what, content.get("seconds")),
        missing=missing,
    )


def _contenders(
    what: str, given: object, shared: Mapping[str, tuple[Any, ...]], *, preset: bool
) -> tuple[tuple[Contender, ...], tuple[str, ...]]:
    """Return the mechanisms of a grid, and the unknown ones of a preset."""
    entries = list(MECHANISMS) if given == "all" else as_list(what, "mechanisms", given)
    if not entries:
        raise SpecificationError(f"{what} has no mechanisms.")
    made, missing = [], []
    taken: set[str] = set()
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
        taken.update(known)
        fitting = {key: value for key, value in shared.items() if key in known}
        splits = own.get("splits")
        made.append(
            Contender(
                name,
                {**fitting, **_settings(where, own.get("settings", {}))},
                label=as_text(where, "label", own.get("label", "")),
                splits=None
                if splits is None
                else tuple(as_text(where, "splits", n) for n in _some(where, "splits", splits)),
                epsilons=check_epsilons(as_list(where, "epsilons", own["epsilons"]))
                if "epsilons" in own
                else None,
                seeds=_seeds(where, own["seeds"]) if "seeds" in own else None,
                seconds=_seconds(where, own.get("seconds")),
            )
        )
    if not missing:
        _check_shared(what, shared, taken)
    return tuple(made), tuple(dict.fromkeys(missing))


def _check_shared(what: str, shared: Iterable[str], taken: Iterable[str]) -> None:
    """Raise for a setting of the whole grid that no mechanism has."""
    known = sorted(taken)
    for key in shared:
        if key not in known:
            near = get_close_matches(key, known) or known
            raise SpecificationError(
                f"{what}: {key} is no setting of any of its mechanisms; "
                f"they have {', '.join(near) or 'none'}."
            )


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


def _seconds(what: str, given: object) -> float | None:
    if given is None:
        return None
    seconds = float(as_number(what, "seconds", given))
    if not 0 < seconds < math.inf:
        raise SpecificationError(f"{what}: seconds must be a positive number, got {given!r}")
    return seconds


def _some(what: str, key: str, given: object) -> list[Any]:
    """Return a list that is not empty."""
    made = as_list(what, key, given)
    if not made:
        raise SpecificationError(f"{what}: {key} must name at least one")
    return made


def _seeds(what: str, given: object) -> tuple[int, ...]:
    seeds = list(range(given)) if is_integer(given) else as_list(what, "seeds", given)
    if not seeds or any(not is_integer(one) or one < 0 for one in seeds):
        raise SpecificationError(
            f"{what}: seeds must be how many (1 or more), or a list of whole numbers from 0 on"
        )
    return tuple(dict.fromkeys(seeds))
