"""Mechanisms and models by their names in configuration, transcripts and stored models."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import read_text_bytes
from jam_dagster.common.json_text import OR_ITS_VERSION, parse_json
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.models.storage import GRAPHICAL, KINDS

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms.base import Mechanism
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.base import Model
    from jam_dagster.tables import Domain


class _Registry(Mapping[str, "type[Mechanism]"]):
    """The classes in modules of this folder by their names; the first look imports the modules."""

    @cached_property
    def _found(self) -> dict[str, type[Mechanism]]:
        found: list[type[Any]] = []
        for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
            if not module.ispkg:
                loaded = import_module(f"{__package__}.{module.name}")
                found += [one for one in vars(loaded).values() if _declares(one, loaded.__name__)]
        return {one.name: one for one in sorted(found, key=lambda one: (one.rank, one.name))}

    def __getitem__(self, name: str) -> type[Mechanism]:
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        # A damaged document may hold a value that is no name.
        return isinstance(name, str) and name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


MECHANISMS: Mapping[str, type[Mechanism]] = _Registry()
"""The class of every mechanism by its name, by rank."""

GIVEN: dict[str, type[Mechanism]] = {}
"""The classes of mechanisms that this process was given as objects."""


def _declares(one: object, module: str) -> bool:
    """Return whether a module defines a class with a mechanism's name."""
    return (
        isinstance(one, type)
        and one.__module__ == module
        and isinstance(vars(one).get("name"), str)
    )


def find_mechanism(name: str) -> type[Mechanism] | None:
    """Return the class of a mechanism, if this process has one of that name."""
    return MECHANISMS[name] if name in MECHANISMS else GIVEN.get(name)


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of a mechanism.

    Raises
    ------
    SpecificationError
        If there is no mechanism of that name.
    """
    found = find_mechanism(name)
    if found is None:
        raise SpecificationError(
            f"The mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}. For a mechanism "
            "of your own, give synthesize() the object, with seeded noise."
        )
    return found


def title_of(name: str) -> str:
    """Return a mechanism's title; an unknown name is its own title."""
    found = find_mechanism(name)
    return name if found is None else found.title


def make_mechanism(name: str, **settings: Any) -> Mechanism:
    """Return the mechanism of that name.

    Parameters
    ----------
    name
        A name in `MECHANISMS`.
    settings
        The settings that differ from the mechanism's defaults.

    Raises
    ------
    SpecificationError
        If there is no mechanism of that name, it lacks a setting, or a value is out of range.
    """
    found = mechanism_class(name)
    known = settings_of(found)
    unknown = [key for key in settings if key not in known]
    if unknown:
        having = [one for one, kind in MECHANISMS.items() if unknown[0] in settings_of(kind)]
        others = f" It is one of {', '.join(having)}: name the mechanism." if having else ""
        raise SpecificationError(
            f"{unknown[0]} is no setting of {name}; it has {', '.join(known) or 'none'}.{others}"
        )
    return found(**settings)


def check_domain(transcript: Transcript, domain: Domain) -> None:
    """Raise unless a transcript is of a run over a domain."""
    if domain.digest != transcript.domain_digest:
        raise DomainError(
            "This transcript belongs to another domain "
            f"(digest {transcript.domain_digest[:12]}, given {domain.digest[:12]}); "
            "give the domain that was stored with it."
        )


def load_model(directory: Path | UPath) -> Model:
    """Read a stored model of any kind.

    Raises
    ------
    InputError
        If the folder does not hold a model.
    """
    path = directory / "model.json"
    if not path.exists():
        raise InputError(f"{directory} holds no model.json; give a folder from save().")
    text = read_text_bytes(path)
    try:
        # The mechanisms' modules load the models'.
        len(MECHANISMS)
        kind = KINDS[parse_json(text).get("kind", GRAPHICAL)]
    except (ValueError, KeyError, AttributeError, TypeError) as damaged:
        raise InputError(
            f"The model in {directory} is damaged, or of an unknown kind; refit it from its "
            f"transcript, restore the folder, {OR_ITS_VERSION}."
        ) from damaged
    model: Model = kind.load(directory)
    return model
