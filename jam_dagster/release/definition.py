"""A release as its ``defs.yaml`` configures it, read without Dagster and without its tables.

`jam_dagster.pipeline` reads the same file for Dagster; a test holds both to the same keys and the
same defaults.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.common.validation import check_keys
from jam_dagster.common.yaml_text import parse_yaml, yaml_place
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.mechanisms.configuration import KEY, configured_mechanism, read_mechanism
from jam_dagster.tables import (
    AssetSource,
    Domain,
    PreviousRelease,
    PublicSources,
    Source,
    public_from_config,
    source_from_config,
)
from jam_dagster.tables.sources.relative_paths import absolute_paths

# By section: the keys, each with the name that a synthesis has for it.
SECTIONS: dict[str, dict[str, str]] = {
    "privacy": {
        "epsilon": "epsilon",
        "delta": "delta",
        "noise": "noise",
        "seed": "seed",
        "edition": "edition",
        "neighbours": "neighbours",
        "unit": "unit",
        "records_share": "records_share",
        "retention_days": "retention_days",
    },
    "workload": {"degree": "degree", "cliques": "cliques", "weights": "weights"},
    "evaluation": {"mode": "evaluate", "share": "evaluation_share"},
}

UNIT = {"column": "privacy_unit", "max_rows": "max_rows"}

_WHOLE = ("degree", "max_rows", "seed", "retention_days")
_NUMBERS = (*_WHOLE, "epsilon", "delta", "records_share")


def read_definition(path: Path, given: Collection[str] = ()) -> dict[str, Any]:
    """Read what a plan needs to know of a release from its component's file.

    Parameters
    ----------
    path
        The ``defs.yaml``, or the folder that holds it.
    given
        Settings that take the place of the file's: a table or domain among them is not looked at.

    Returns
    -------
    dict
        Settings by the names of `SynthesisRequest`, those only that the file gives, and
        ``cliques``, ``weights``, ``bins``, ``identify`` and ``partitioned``. The
        private table is never one of them.

    Raises
    ------
    InputError
        If the file cannot be read, or is no release; the message names the key.
    """
    file = path / "defs.yaml" if path.is_dir() else path
    attributes = _attributes(file)
    settings: dict[str, Any] = {
        "evaluate": "private",
        "partitioned": attributes.get("partitions") is not None,
    }
    try:
        for section, names in SECTIONS.items():
            settings |= _section(section, attributes.get(section, {}), names)
        settings |= _unit(settings)
        settings |= _mechanism(attributes.get(KEY))
        if settings["evaluate"] is False:
            # YAML 1.1 reads a bare `off` as false.
            settings["evaluate"] = "off"
        if settings["evaluate"] != "private":
            settings.pop("evaluation_share", None)
        for name in ("release", "dataset"):
            if attributes.get(name) is not None:
                settings[name] = str(_value(name, name, attributes[name]))
        if "public" not in given and attributes.get("public") is not None:
            settings["public"] = _public(attributes["public"], file.parent)
        if "domain" not in given and attributes.get("domain") is not None:
            settings |= _domain(attributes["domain"], file.parent)
    except InputError as error:
        raise type(error)(f"{file}: {error}") from None
    return settings


def private_of(path: Path) -> Source | None:
    """Return the private source that a component's file names, never opened, for comparison.

    Parameters
    ----------
    path
        The ``defs.yaml``, or the folder that holds it.

    Returns
    -------
    Source or None
        None where the file names none that is known without Dagster, such as a template.
    """
    file = path / "defs.yaml" if path.is_dir() else path
    try:
        return source_from_config(absolute_paths(_attributes(file).get("private"), file.parent))
    except SpecificationError:
        return None


def _attributes(file: Path) -> Mapping[str, Any]:
    try:
        texts = file.read_text(encoding="utf-8").split("\n---")
        found = [parse_yaml(text) for text in texts]
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}): name a release's defs.yaml, or describe "
            "the release with options."
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8: save it as UTF-8.") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file} is no YAML {yaml_place(error)}: mend it there.") from None
    documents = [one for one in found if isinstance(one, Mapping) and "attributes" in one]
    if len(documents) != 1:
        raise InputError(
            f"{file} must hold one component with attributes, such as jam_dagster.SyntheticRelease;"
            f" it holds {len(documents)}. Name another file, or describe the release with options."
        )
    attributes = documents[0]["attributes"]
    if not isinstance(attributes, Mapping):
        kind = type(attributes).__name__
        raise SpecificationError(f"{file}: attributes must be a mapping, got a {kind}.")
    return attributes


def _section(section: str, given: Any, names: Mapping[str, str]) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SpecificationError(f"{section} must be a mapping of {', '.join(names)}.")
    check_keys(section, given, names)
    return {
        names[key]: _value(f"{section}.{key}", names[key], value)
        for key, value in given.items()
        if value is not None
    }


def _mechanism(given: Any) -> dict[str, Any]:
    """Return the name of a mechanism and its settings, once they are known to be right."""
    for key, value in given.items() if isinstance(given, Mapping) else [("", given)]:
        _value(f"{KEY}.{key}" if key else KEY, key, value)
    name, settings = read_mechanism(given)
    configured_mechanism(name, settings, f"{KEY}.")
    return {"mechanism": name, "settings": settings}


def _unit(settings: dict[str, Any]) -> dict[str, Any]:
    return _section("privacy.unit", settings.pop("unit", None), UNIT)


def _value(where: str, name: str, value: Any) -> Any:
    """Return a setting as its type; YAML 1.1 reads ``1e-9`` as text."""
    if isinstance(value, str) and "{{" in value:
        raise SpecificationError(
            f"{where} is a template ({value}), which only Dagster fills in: give its value as an "
            "option."
        )
    if name == "edition":
        return str(value)
    if name not in (*_NUMBERS, "evaluation_share"):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
        if name in _WHOLE and number != int(number):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        kind = "a whole number" if name in _WHOLE else "a number"
        raise SpecificationError(f"{where} must be {kind}, got {value!r}.") from None
    return int(number) if name in _WHOLE else number


def _public(config: Any, folder: Path) -> Any:
    try:
        public = public_from_config(absolute_paths(config, folder))
    except SpecificationError as error:
        raise SpecificationError(
            f"public: {error}. Name a table that stands for it with --public."
        ) from None
    # Later partitions have tables that are not made yet; the given one stands for them.
    source = public.first if isinstance(public, PreviousRelease) else public
    tables = source.tables.values() if isinstance(source, PublicSources) else [source]
    if any(isinstance(one, AssetSource) for one in tables):
        raise SpecificationError(
            f"public is {source.describe()}, which only a Dagster run can load: name a table that"
            f" stands for it with --public, such as an extract of it."
        )
    return source


def _domain(config: Any, folder: Path) -> dict[str, Any]:
    if isinstance(config, str):
        return {"domain": Domain.load(folder / config)}
    if isinstance(config, Mapping) and "identify" in config:
        check_keys("domain", config, ("identify", "bins"))
        bins = config.get("bins", 32)
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 2:
            raise SpecificationError(f"domain.bins must be a whole number of 2 or more, got {bins}")
        return {"domain": None, "bins": bins, "identify": config["identify"]}
    if not isinstance(config, Mapping):
        raise SpecificationError("domain must be a file, its content, or {identify: public}.")
    return {"domain": Domain.from_dict(config)}
