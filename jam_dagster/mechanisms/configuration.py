"""Mechanisms from configuration: a name, or a name with settings, in YAML or as texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import Mechanism, instead_of_public
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.mechanisms.registry import GIVEN, MECHANISMS, make_mechanism, mechanism_class
from jam_dagster.tables import PublicSources, Source
from jam_dagster.tables.sources.public import tables_of

_NAME = re.compile(r"[a-z][a-z0-9_]*")

KEY = "mechanism"
"""The section's name in a release's file and in messages."""


def synthesizing() -> list[str]:
    """Return the mechanisms that a release can use: those that sample rows."""
    return [name for name, one in MECHANISMS.items() if one.samples]


def read_mechanism(given: object, *, public: bool) -> tuple[str, dict[str, Any]]:
    """Return a mechanism's name and the settings that were given.

    If no name is given, it is the recommended one. Its settings by default are those of a release
    with a public table or without.
    """
    if given is None:
        given = RECOMMENDED
    if isinstance(given, str):
        _check_name(given, KEY)
        return given, _defaults(given, public=public)
    if not isinstance(given, Mapping):
        raise SpecificationError(
            f"{KEY} must be one of {', '.join(synthesizing())}, or a mapping of name and settings, "
            f"got {given!r}."
        )
    settings = {str(key): value for key, value in given.items()}
    name = settings.pop("name", RECOMMENDED)
    _check_name(name, f"{KEY}.name")
    return name, _defaults(name, public=public) | settings


def _defaults(name: str, *, public: bool) -> dict[str, Any]:
    """Return the settings by default: those of a release without a public table differ."""
    return {} if public else mechanism_class(name).without_public()


def read_settings(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the mechanism of that name declares them; see `Setting.read`.

    Unknown settings and unreadable values stay unchanged, for the mechanism to refuse. None is left
    out where a setting does not allow it.
    """
    known = settings_of(mechanism_class(name))
    return {
        key: known[key].read(value) if key in known else value
        for key, value in given.items()
        if value is not None or key not in known or known[key].accepts(None)
    }


def configured_mechanism(name: str, given: Mapping[str, Any], where: str = "") -> Mechanism:
    """Return a mechanism for a synthetic table."""
    _check_name(name, where.rstrip(".") or "The mechanism")
    settings = read_settings(name, given)
    try:
        mechanism = make_mechanism(name, **settings)
    except SpecificationError as error:
        raise SpecificationError(f"{where}{error}") from None
    if not mechanism.samples:
        raise SpecificationError(
            f"{name} answers marginals and makes no synthetic table: run it from Python, or choose "
            f"one of {', '.join(synthesizing())}."
        )
    return mechanism


def check_given(mechanism: Mechanism) -> None:
    """Check a mechanism that was given as an object, and let this process find its class by name.

    Raises
    ------
    SpecificationError
        If its class is no dataclass of settings, states less than `Mechanism` asks for, has the
        name of a mechanism of jam-dagster, or makes no synthetic table.
    """
    made = type(mechanism)
    name: object = getattr(made, "name", None)
    # The rank orders mechanisms of jam-dagster only.
    stated = [one for one in Mechanism.__annotations__ if one != "rank"]
    lacks = [one for one in stated if not hasattr(made, one)]
    fault = ""
    if lacks:
        fault = f"lacks {', '.join(lacks)}"
    elif "__dataclass_fields__" not in vars(made):
        fault = "is not a dataclass of settings"
    elif not isinstance(name, str) or _NAME.fullmatch(name) is None:
        fault = f"has a name of other characters than small letters, digits and '_': {name!r}"
    elif MECHANISMS.get(name, made) is not made:
        fault = f"has the name of jam-dagster's own {name}"
    elif not made.samples:
        fault = "answers marginals and makes no synthetic table"
    if fault:
        raise SpecificationError(f"The class {made.__qualname__} of the mechanism {fault}.")
    if isinstance(name, str) and name not in MECHANISMS:
        GIVEN[name] = made


def check_public(
    mechanism: Mechanism, public: Source | PublicSources | None, *, declared: bool
) -> None:
    """Raise if a release cannot use its public sources, before anything is opened."""
    if public is None and mechanism.uses_public:
        raise SpecificationError(
            f"{mechanism.name} learns from a public table, and there is none: give public, or "
            f"{instead_of_public(mechanism)}."
        )
    if public is None and not declared:
        raise SpecificationError(
            "Without a public table there is nothing to identify the domain from: declare it, the "
            "attributes and their values, or buy it (domain: {identify: paid})."
        )
    if any(tables_of(public)) and not mechanism.takes_named_public:
        taking = [one for one in MECHANISMS.values() if one.takes_public != "cannot"]
        others = [one.name for one in taking if one.takes_named_public and one.samples]
        raise SpecificationError(
            f"{mechanism.name} weights the records of one public table with all attributes, and "
            "accepts no named tables, which may lack attributes: give one table without a name, or "
            f"choose one of {', '.join(others)}."
        )


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or name not in MECHANISMS:
        raise SpecificationError(
            f"{where} must be one of {', '.join(synthesizing())}, got {name!r}."
        )
