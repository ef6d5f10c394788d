"""JSON schemas of keys that may be a text or a mapping, so that `dg check yaml` finds the line.

`anyOf` writes the forms out for `dg utils inspect-component`, and lets everything through: a
validator names no fault within an alternative. What is wrong is said by `if` and `else`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import get_args

from jam_dagster.common.choices import RECOMMENDED
from jam_dagster.common.section import adapter_of
from jam_dagster.mechanisms import mechanism_class
from jam_dagster.mechanisms.configuration import synthesizing
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.pipeline.yaml.configuration import TEMPLATE, Schema
from jam_dagster.release.partitions import Cadence
from jam_dagster.tables.sources.base import COMPOSED, SOURCES, field_types
from jam_dagster.tables.sources.previous_release import PREVIOUS_RELEASE
from jam_dagster.tables.sources.public import PUBLIC_TABLES, TABLE_NAME

TEXT: Schema = {"type": "string"}
_TEMPLATE: Schema = {"type": "string", "pattern": TEMPLATE}
_NAMES: Schema = {
    "type": "array",
    "items": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"},
    "minItems": 1,
    "uniqueItems": True,
}
DEFINITIONS: dict[str, Schema] = {}


def _mapping(known: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(known),
        "required": list(required),
        "additionalProperties": False,
    }


def _form(name: str, schema: Schema) -> Schema:
    """Return a reference to a form that is written out."""
    DEFINITIONS[name] = schema
    return {"$ref": f"#/$defs/{name}"}


def _source(kind: str) -> Schema:
    source, first = SOURCES[kind]
    hints = field_types(source, first)
    needed = [one.name for one in dataclasses.fields(source) if one.default is dataclasses.MISSING]
    types = {name: adapter_of(hint).json_schema() for name, hint in hints.items()}
    held: Schema = {"type": ["string", "object"]} if kind in COMPOSED else TEXT
    return _mapping({kind: held, **types}, [kind, *(name for name in needed if name in hints)])


def _source_of(forms: Mapping[str, Schema]) -> Schema:
    """Return the schema of a source; its first key names its kind."""
    schema = _mapping({kind: {} for kind in forms}, list(forms)[:1])
    # What has the key of a kind is measured by that kind; for the rest the first kind counts.
    for kind, form in reversed(list(forms.items())):
        schema = {"if": {"required": [kind]}, "then": form, "else": schema}
    return {"if": TEXT, "else": {"type": "object", **schema}}


_SOURCES = {kind: _form(f"{kind}_source", _source(kind)) for kind in SOURCES}
_SOURCE = _source_of(_SOURCES)

_FIRST_SHARE: Schema = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
_PREVIOUS = _mapping(
    {PREVIOUS_RELEASE: _mapping({"first": _SOURCE, "first_share": _FIRST_SHARE}, ["first"])},
    [PREVIOUS_RELEASE],
)
_TABLES = {
    "type": "object",
    "additionalProperties": _SOURCE,
    "propertyNames": {"pattern": f"^{TABLE_NAME.pattern}$"},
    "minProperties": 1,
}
_PUBLIC = {
    **_SOURCES,
    PUBLIC_TABLES: _form("public_tables", _mapping({PUBLIC_TABLES: _TABLES}, [PUBLIC_TABLES])),
    PREVIOUS_RELEASE: _form(PREVIOUS_RELEASE, _PREVIOUS),
}


def _settings(name: str) -> dict[str, Schema]:
    return {
        key: {"description": one.text, "default": one.default, **one.schema}
        for key, one in settings_of(mechanism_class(name)).items()
    }


def _mechanism() -> Schema:
    """Return the schema of a mechanism: its name, or a mapping of its name and settings."""
    mechanisms = synthesizing()
    names: Schema = {"enum": mechanisms}
    forms = {
        one: _form(one, _mapping({"name": {"type": "string"}, **_settings(one)}))
        for one in mechanisms
    }
    # Without a name it is one of the recommended; which one, the key `public` decides.
    either = {key: one for name in RECOMMENDED for key, one in _settings(name).items()}
    schema = _form("recommended_mechanism", _mapping(either))
    for one, form in forms.items():
        named = {"required": ["name"], "properties": {"name": {"const": one}}}
        schema = {"if": named, "then": form, "else": schema}
    # What the name is of is wrong first: no settings belong to a mechanism that there is not.
    name = {"if": _TEMPLATE, "else": names}
    known = {"properties": {"name": names}}
    whole = {"type": "object", "properties": {"name": name}, "if": known, "then": schema}
    return {"anyOf": [*forms.values(), {}], "if": TEXT, "then": names, "else": whole}


_IDENTIFIED = _form(
    "identified_domain",
    _mapping(
        {
            "identify": {"enum": ["public"], "type": "string"},
            "bins": {"type": "integer", "minimum": 2},
            "columns": {"type": "array", "items": TEXT, "minItems": 1},
        },
        ["identify"],
    ),
)
_DECLARED = _form(
    "declared_domain", {"type": "object", "properties": {"attributes": {"type": "object"}}}
)

VALUES: Schema = {
    "private": {"anyOf": [*_SOURCES.values(), {}], **_SOURCE},
    "public": {"anyOf": [*_PUBLIC.values(), {}], **_source_of(_PUBLIC)},
    "domain": {
        "anyOf": [_IDENTIFIED, _DECLARED, {}],
        "if": TEXT,
        "else": {"type": "object", "if": {"required": ["identify"]}, "then": _IDENTIFIED},
    },
    "mechanism": _mechanism(),
    "partitions": {
        "type": ["string", "object", "null"],
        "if": {"type": "object"},
        "then": _mapping({"static": _NAMES}, ["static"]),
        "else": {
            "if": {"type": ["null", "string"], "pattern": TEMPLATE},
            "else": {"enum": list(get_args(Cadence))},
        },
    },
    "$defs": DEFINITIONS,
}
"""Schemas of the keys that no section declares, by key."""
