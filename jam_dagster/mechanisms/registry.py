"""Mechanisms and models by their names in configuration, transcripts and stored models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import read_text_bytes
from jam_dagster.common.json_text import parse_json
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.mechanisms.discovery import Registration, found_mechanisms
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.models.storage import GRAPHICAL, KINDS

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms.base import Mechanism
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.base import Model
    from jam_dagster.tables import Domain


class _Registry(Mapping[str, Registration]):
    """Every mechanism by its name; discovery runs on first use."""

    @cached_property
    def _found(self) -> dict[str, list[Registration]]:
        found: dict[str, list[Registration]] = {}
        for one in found_mechanisms():
            found.setdefault(one.name, []).append(one)
        return found

    def __getitem__(self, name: str) -> Registration:
        first, *others = self._found[name]
        if others:
            (other, *_) = others
            raise SpecificationError(
                f"Two packages provide the mechanism {name}: {first.package} ({first.place}) and "
                f"{other.package} ({other.place}). Uninstall {other.package}, or rename its "
                "mechanism."
            )
        return first

    def __contains__(self, name: object) -> bool:
        # A damaged document may hold a value that is no name.
        return isinstance(name, str) and name in self._found

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


MECHANISMS: Mapping[str, Registration] = _Registry()
"""Every mechanism by name, with its origin: those of jam-dagster by rank, then those of other
packages from entry points of the group ``jam_dagster.mechanisms``. Looking up a name that two
packages provide raises SpecificationError."""


def mechanism_class(name: str) -> type[Mechanism]:
    """Return the class of a mechanism.

    Raises
    ------
    SpecificationError
        If there is no mechanism of that name, two packages provide it, or it cannot be loaded.
    """
    if name not in MECHANISMS:
        raise SpecificationError(
            f"The mechanism must be one of {', '.join(MECHANISMS)}, got {name!r}. For a mechanism "
            "of another package, install the package."
        )
    return MECHANISMS[name].load()


def known_classes() -> dict[str, type[Mechanism]]:
    """Return the classes of all mechanisms by name, in their order.

    Mechanisms that cannot be loaded, or with a taken name, are left out: see `unusable_mechanisms`.
    """
    return dict(_loaded()[0])


def unusable_mechanisms() -> dict[str, str]:
    """Return the errors of unusable mechanisms of other packages, by name."""
    return dict(_loaded()[1])


@cache
def _loaded() -> tuple[dict[str, type[Mechanism]], dict[str, str]]:
    found, faults = {}, {}
    for name in MECHANISMS:
        try:
            found[name] = mechanism_class(name)
        except SpecificationError as error:
            faults[name] = str(error)
    return found, faults


def title_of(name: str) -> str:
    """Return a mechanism's title; an unregistered name is its own title."""
    found = known_classes().get(name)
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
        having = [one for one, kind in known_classes().items() if unknown[0] in settings_of(kind)]
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
        # The mechanisms' modules, of other packages too, load the models'.
        known_classes()
        kind = KINDS[parse_json(text).get("kind", GRAPHICAL)]
    except (ValueError, KeyError, AttributeError, TypeError) as damaged:
        raise InputError(
            f"The model in {directory} is damaged, or of an unknown kind; "
            "refit it from its transcript, or restore the folder."
        ) from damaged
    model: Model = kind.load(directory)
    return model
