"""Options of a release from the command line or Python, which extend or replace its file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.common.yaml_text import parse_yaml, yaml_place
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.keys import DAGSTER_KEYS, OPTIONS, SpecificationKeys, named, section_in
from jam_dagster.mechanisms import Mechanism
from jam_dagster.mechanisms.configuration import KEY, read_mechanism, read_settings
from jam_dagster.privacy.ledger.identity import read_ledger_id
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.sections import MechanismSpec
from jam_dagster.release.spec import ReleaseSpec, check_names
from jam_dagster.tables.sources.partition_template import check_partition


def read_attributes(path: Path) -> tuple[Path, dict[str, Any]]:
    """Read the attributes of a release's component."""
    file = path / "defs.yaml" if path.is_dir() else path
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
        raise InputError(
            f"{file} is not valid YAML {yaml_place(error)}: correct it there."
        ) from None
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
    return file, dict(attributes)


def release_spec(
    definition: Path | None = None,
    /,
    *,
    unread: Collection[str] = (),
    changed: Callable[[dict[str, Any], Path], dict[str, Any]] | None = None,
    **options: Any,
) -> ReleaseSpec:
    """Return the release that a file and options describe.

    A file may have templates in keys that are `unread`. `changed` returns the attributes of another
    release, of those of this one and of the folder that relative paths start from.
    """
    file, attributes = _attributes(definition, unread, options)
    folder = Path() if file is None else file.parent
    try:
        attributes = attributes if changed is None else changed(attributes, folder)
        spec = ReleaseSpec.from_config(attributes, folder)
        if file is not None:
            spec = spec.model_copy(update={"ledger_id": read_ledger_id(folder)})
            # The names of a file are those of assets too; options alone may say any.
            check_names(spec)
        _check_effective(spec, options)
    except InputError as error:
        if file is None:
            raise
        raise type(error)(f"{file}: {error}") from None
    return spec


def _attributes(
    definition: Path | None, unread: Collection[str], options: Mapping[str, Any]
) -> tuple[Path | None, dict[str, Any]]:
    """Return the attributes of a release from its file and options."""
    if unknown := options.keys() - {*OPTIONS, "settings"}:
        raise TypeError(f"A release has no option {min(unknown)!r}.")
    file, attributes = (None, {}) if definition is None else read_attributes(definition)
    given = {name: value for name, value in options.items() if value is not None}
    if KEY in given:
        given[KEY] = _mapping(given[KEY])
    if file is not None:
        _check_filled_in(file, attributes, given, unread)
    if file is not None and isinstance(given.get("mechanism"), Mechanism):
        raise SpecificationError("A release's file names its mechanism: give the name of one.")
    if definition is None:
        how = "public" if given.get("public") is not None else "paid"
        attributes = {"domain": {"identify": how}}
        if given.get("noise") == "numpy":
            # Research is free to look at exact errors; a release must ask for them.
            attributes["evaluation"] = {"mode": "exact"}
    for name, key in OPTIONS.items():
        if name in given and name != KEY:
            _put(attributes, key.path.split("."), given[name])
    # An option replaces the keys of the file that contradict it, but no other option.
    paths = [OPTIONS[name].path for name in given if name in OPTIONS]
    for name, field in SpecificationKeys.model_fields.items():
        section = section_in(field.annotation)
        asked = [path.removeprefix(f"{name}.") for path in paths if path.startswith(f"{name}.")]
        if section is not None and asked:
            attributes[name] = section.settled(attributes[name], asked)
    privacy = attributes.get("privacy")
    if "edition" in given and isinstance(privacy, Mapping):
        attributes["privacy"] = {name: privacy[name] for name in privacy if name != "editions"}
    if "mechanism" in given or "settings" in given:
        attributes[KEY] = _mechanism(attributes, given)
    return file, attributes


def check_partition_named(partitions: PartitionsSpec | None, partition: str) -> None:
    """Raise unless `partition` is one of the release's, or empty if it has none."""
    if partitions is None:
        if partition:
            raise SpecificationError("The release has no partitions: drop --partition.")
        return
    if not partition:
        raise SpecificationError("The release has partitions: name one with --partition NAME.")
    check_partition(partition)
    if not partitions.holds(partition):
        near = ", ".join(partitions.nearest(partition))
        raise SpecificationError(
            f"The release has no partition {partition!r}: name one that it has"
            f"{f', such as {near}' if near else ''}."
        )


def _check_filled_in(
    file: Path,
    attributes: Mapping[str, Any],
    given: Mapping[str, Any],
    unread: Collection[str],
) -> None:
    """Raise if the file has a template in a key that no option replaces."""
    # The keys of the asset graph are Dagster's alone.
    paths = [OPTIONS[name].path for name in given if name in OPTIONS and name != KEY]
    replaced = {*unread, *DAGSTER_KEYS, *paths}
    replaced |= {f"{KEY}.{setting}" for setting in given.get("settings", {})}
    if "mechanism" in given:
        replaced.add(f"{KEY}.name" if _keeps_settings(attributes, given) else KEY)
    for name, text in _templates(attributes):
        if not any(name == key or name.startswith(f"{key}.") for key in replaced):
            raise SpecificationError(
                f"{file}: {name} is a template ({text}), which only Dagster fills in: give its"
                " value as an option."
            )


def _templates(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield each key that holds a template, with its text."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _templates(one, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _templates(one, name)
    elif isinstance(value, str) and "{{" in value:
        yield name, value


def _mapping(given: object) -> object:
    """Return a mechanism; a text may have it with settings, as a release's file does."""
    if not isinstance(given, str) or not given.lstrip().startswith("{"):
        return given
    try:
        return parse_yaml(given)
    except yaml.YAMLError as error:
        raise SpecificationError(
            f"--mechanism is not valid YAML {yaml_place(error)}: give a name, or a mapping such as "
            "{name: aim, rounds: 10}."
        ) from None


def _keeps_settings(attributes: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return whether the file's mechanism is the one that is wanted."""
    configured = attributes.get(KEY)
    name = configured.get("name") if isinstance(configured, Mapping) else configured
    name = name or RECOMMENDED
    # A mapping takes the place of the file's, whole.
    return "mechanism" not in given or given["mechanism"] == name


def _has_public(attributes: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    return given.get("public", attributes.get("public")) is not None


def _mechanism(
    attributes: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any] | MechanismSpec:
    """Return the mechanism with the given settings; another mechanism has settings of its own."""
    found = given.get("mechanism")
    if isinstance(found, type):
        raise SpecificationError(f"{KEY} is a class: give an object of it, {found.__name__}().")
    if isinstance(found, Mechanism):
        if "settings" in given:
            raise SpecificationError("The mechanism is an object and has its settings: drop them.")
        return MechanismSpec.of_object(found)
    configured = attributes.get(KEY)
    if not _keeps_settings(attributes, given):
        configured = found
    changed = given.get("settings", {})
    if "name" in changed:
        raise SpecificationError("A mechanism has no setting 'name': name it by --mechanism.")
    name, settings = read_mechanism(configured, public=_has_public(attributes, given))
    if isinstance(found, Mapping):
        _check_same(name, found, changed)
    return {**settings, **changed, "name": name}


def _check_same(name: str, given: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    """Raise if a mechanism's own settings and further ones contradict each other."""
    one, other = read_settings(name, given), read_settings(name, changed)
    for key in one.keys() & other.keys():
        if one[key] != other[key]:
            raise SpecificationError(
                f"--mechanism says {key}: {one[key]}, and --setting says {key}={other[key]}: "
                "give it once."
            )


def _put(attributes: dict[str, Any], keys: list[str], value: Any) -> None:
    section = attributes
    for key in keys[:-1]:
        inner = section.get(key)
        section[key] = section = dict(inner) if isinstance(inner, Mapping) else {}
    section[keys[-1]] = value


def _check_effective(spec: ReleaseSpec, options: Mapping[str, Any]) -> None:
    """Raise if an option has no effect; a file may have such keys, as scaffolded ones do."""
    for name, key in OPTIONS.items():
        if options.get(name) is None:
            continue
        *sections, leaf = key.path.split(".")
        section = reduce(getattr, sections, spec)
        if leaf in section.without_effect:
            raise SpecificationError(f"{named(key.path)} {section.without_effect[leaf]}")


def check_may_leave(spec: ReleaseSpec) -> None:
    """Raise if exact noise would pay for results that may not leave anyway."""
    if not spec.exact or spec.releasable:
        return
    raise InputError(
        "No result of this release may leave, whatever is paid: "
        f"{'; '.join(spec.not_releasable_because)}. For a release, declare the domain or draft "
        "it from public data; or experiment for free with seeded noise (--noise numpy)."
    )
