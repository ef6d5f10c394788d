"""JSON schemas of keys that may be a text or a mapping, so that `dg check yaml` finds the line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, get_args

from jam_dagster.mechanisms import DEFAULT_MECHANISM, mechanism_class
from jam_dagster.mechanisms.configuration import synthesizing
from jam_dagster.mechanisms.loops.settings import Setting, settings_of
from jam_dagster.pipeline.yaml.configuration import NUMBER_OR_TEMPLATE, TEMPLATE
from jam_dagster.release.partitions import Cadence
from jam_dagster.tables.sources.base import SOURCES
from jam_dagster.tables.sources.previous_release import PREVIOUS_RELEASE
from jam_dagster.tables.sources.public import PUBLIC_TABLES, TABLE_NAME

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
_NAMES: Schema = {
    "type": "array",
    "items": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"},
    "minItems": 1,
    "uniqueItems": True,
}


def _mapping(keys: Iterable[str], required: Iterable[str] = (), **known: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {key: known.get(key, {}) for key in keys},
        "required": list(required),
        "additionalProperties": False,
    }


PARTITIONS: Schema = {
    "if": {"type": "object"},
    "then": _mapping(["static"], ["static"], static=_NAMES),
    "else": {"enum": list(get_args(Cadence))},
}


def _source(kind: str) -> Schema:
    source, first = SOURCES[kind]
    fields = {one.name: one for one in dataclasses.fields(source) if one.name != first}
    needed = [name for name, one in fields.items() if one.default is dataclasses.MISSING]
    known: dict[str, Schema] = {} if kind == "split" else {kind: TEXT}
    if "part" in fields:
        known["part"] = {"enum": ["private", "public"]}
    return _mapping([kind, *fields], [kind, *needed], **known)


def _source_of(kinds: Iterable[str]) -> Schema:
    """Return the schema of a source; its first key names its kind."""
    kinds = list(kinds)
    schema: Schema = _mapping(kinds, kinds[:1])
    # What has the key of a kind is measured by that kind; for the rest the first kind counts.
    for kind in reversed(kinds):
        schema = {"if": {"required": [kind]}, "then": _source(kind), "else": schema}
    return {"if": TEXT, "else": {"type": "object", **schema}}


SOURCE: Schema = _source_of(SOURCES)

PUBLIC: Schema = {
    "if": {"type": "object", "required": [PREVIOUS_RELEASE]},
    "then": _mapping(
        [PREVIOUS_RELEASE],
        **{
            PREVIOUS_RELEASE: _mapping(
                ["first", "first_share"],
                ["first"],
                first=SOURCE,
                first_share={"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            )
        },
    ),
    "else": {
        "if": {"type": "object", "required": [PUBLIC_TABLES]},
        "then": _mapping(
            [PUBLIC_TABLES],
            **{
                PUBLIC_TABLES: {
                    "type": "object",
                    "additionalProperties": SOURCE,
                    "propertyNames": {"pattern": f"^{TABLE_NAME.pattern}$"},
                    "minProperties": 1,
                }
            },
        ),
        "else": SOURCE,
    },
}

_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}
_BOUNDS = {
    "minimum": "minimum",
    "above": "exclusiveMinimum",
    "maximum": "maximum",
    "below": "exclusiveMaximum",
}


def _setting(one: Setting) -> Schema:
    """Return the schema of a mechanism's setting; what begins as a template may stand there."""
    schema: Schema = {"type": [_TYPES[one.kind], "null"] if one.optional else _TYPES[one.kind]}
    for name, keyword in _BOUNDS.items():
        if (bound := getattr(one, name)) is not None:
            schema[keyword] = bound
    if one.choices:
        schema = {"enum": [*one.choices, *([None] if one.optional else [])]}
    if one.kind is str and not one.choices:
        return schema
    # YAML 1.1 reads 1e-9 as text.
    text = TEMPLATE if one.kind in (str, bool) else NUMBER_OR_TEMPLATE
    return {"if": {"type": "string", "pattern": text}, "else": schema}


def setting_schemas(name: str) -> dict[str, Schema]:
    """Return the schema of each setting of a mechanism, with its text and its default."""
    return {
        key: {"description": one.text, "default": one.default, **_setting(one)}
        for key, one in settings_of(mechanism_class(name)).items()
    }


def _mechanism() -> Schema:
    """Return the schema of a mechanism: its name, or a mapping of its name and settings."""
    mechanisms = synthesizing()
    names: Schema = {"enum": mechanisms}
    name = {"if": {"type": "string", "pattern": TEMPLATE}, "else": names}
    schema: Schema = _settings_of(DEFAULT_MECHANISM)
    for one in mechanisms:
        if one != DEFAULT_MECHANISM:
            named = {"required": ["name"], "properties": {"name": {"const": one}}}
            schema = {"if": named, "then": _settings_of(one), "else": schema}
    # What the name is of is wrong first: no settings belong to a mechanism that there is not.
    known = {"properties": {"name": names}}
    whole = {"type": "object", "properties": {"name": name}, "if": known, "then": schema}
    return {"if": TEXT, "then": names, "else": whole}


def _settings_of(name: str) -> Schema:
    settings = setting_schemas(name)
    return {
        "type": "object",
        "properties": {"name": {}, **settings},
        "additionalProperties": False,
    }


MECHANISM: Schema = _mechanism()

DOMAIN: Schema = {
    "if": TEXT,
    "else": {
        "type": "object",
        "if": {"required": ["identify"]},
        "then": _mapping(
            ["identify", "bins", "columns"],
            identify={"enum": ["public"]},
            bins={"type": "integer", "minimum": 2},
            columns={"type": "array", "items": {"type": "string"}, "minItems": 1},
        ),
    },
}
