"""JSON schemas of keys that may be a text or a mapping, so that `dg check yaml` finds the line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, get_args

from jam_dagster.pipeline.partitions import Cadence
from jam_dagster.tables.previous_release import PREVIOUS_RELEASE
from jam_dagster.tables.sources import SOURCES

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
    """Return the schema of a source, whose first key says of which kind it is."""
    kinds = list(kinds)
    schema: Schema = _mapping(kinds, kinds[:1])
    # What has the key of a kind is measured by that kind; the rest is told the first one's.
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
    "else": SOURCE,
}

DOMAIN: Schema = {
    "if": TEXT,
    "else": {
        "type": "object",
        "if": {"required": ["identify"]},
        "then": _mapping(
            ["identify", "bins"],
            identify={"enum": ["public", "both"]},
            bins={"type": "integer", "minimum": 2},
        ),
    },
}
