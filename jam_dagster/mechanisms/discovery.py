"""Discovery of mechanisms in modules of this folder and in other packages' entry points."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import Mechanism
from jam_dagster.version import __version__

GROUP = "jam_dagster.mechanisms"
"""The group of entry points for mechanisms of other packages."""

OWN_PACKAGE = "jam-dagster"

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Registration:
    """A discovered mechanism: its name and its origin.

    Attributes
    ----------
    name
        Its name in configuration.
    place
        Module and class, as ``jam_dagster.mechanisms.aim:Aim``.
    package, version
        The distribution that provides it.
    own
        Whether that is jam-dagster.
    """

    name: str
    place: str
    package: str
    version: str
    own: bool
    _load: Callable[[], Any] = field(repr=False, compare=False)

    @property
    def described(self) -> str:
        """Name, package and version in words."""
        return f"The mechanism {self.name} of the package {self.package} {self.version}"

    def load(self) -> type[Mechanism]:
        """Return the class.

        Raises
        ------
        SpecificationError
            If another package provides it, and it cannot be imported or is not a mechanism of that
        name.
        """
        try:
            found = self._load()
        except Exception as error:
            raise SpecificationError(
                f"{self.described} cannot be loaded from {self.place} "
                f"({type(error).__name__}: {error}): repair or uninstall {self.package}, or choose "
                "another mechanism."
            ) from error
        if fault := None if self.own else _fault(found, self.name):
            raise SpecificationError(
                f"{self.described} is not a mechanism: {self.place} {fault}. Repair or uninstall "
                f"{self.package}, or choose another mechanism."
            )
        made: type[Mechanism] = found
        return made


def found_mechanisms() -> list[Registration]:
    """Return all mechanisms: those of jam-dagster by rank, then others by name."""
    return [*_own(), *sorted(_others(), key=lambda one: (one.name, one.package))]


def _own() -> list[Registration]:
    found: list[type[Any]] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.ispkg:
            loaded = import_module(f"{__package__}.{module.name}")
            found += [one for one in vars(loaded).values() if _declares(one, loaded.__name__)]
    return [
        Registration(
            one.name,
            f"{one.__module__}:{one.__qualname__}",
            OWN_PACKAGE,
            __version__,
            own=True,
            _load=partial(_itself, one),
        )
        for one in sorted(found, key=lambda one: (one.rank, one.name))
    ]


def _itself(made: type[Any]) -> type[Any]:
    return made


def _declares(one: object, module: str) -> bool:
    """Return whether a module defines a class with a mechanism's name."""
    return (
        isinstance(one, type)
        and one.__module__ == module
        and isinstance(vars(one).get("name"), str)
    )


def _others() -> list[Registration]:
    return [_registration(point) for point in entry_points(group=GROUP)]


def _registration(point: EntryPoint) -> Registration:
    package = point.dist
    return Registration(
        point.name,
        point.value,
        "(unnamed)" if package is None else package.name,
        "" if package is None else package.version,
        own=False,
        _load=point.load,
    )


def _fault(found: object, name: str) -> str | None:
    """Return the fault of another package's class as a mechanism of that name, if any."""
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        return "is not a dataclass of settings"
    if _NAME.fullmatch(name) is None:
        return "has a name with characters other than small letters, digits and '_'"
    if vars(found).get("name") != name:
        return f"has the name {getattr(found, 'name', None)!r}"
    if not issubclass(found, Mechanism):
        return "is not a subclass of jam_dagster.mechanisms.Mechanism"
    # The rank orders mechanisms of jam-dagster only.
    stated = [one for one in Mechanism.__annotations__ if one != "rank"]
    lacks = [*(one for one in stated if not hasattr(found, one)), *found.__abstractmethods__]
    return f"lacks {', '.join(sorted(lacks))}" if lacks else None
