"""Base of the YAML models: errors list the allowed keys, and templates stand for any value."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, cast

import dagster as dg
from pydantic import BaseModel, create_model, model_validator

from jam_dagster.common.section import Section
from jam_dagster.common.validation import unknown_key
from jam_dagster.errors import JamError

NOTHING_DONE = "Nothing was read or charged."

Schema = dict[str, Any]

TEMPLATE = r"\{\{"
# YAML 1.1 reads 1e-9 as text.
NUMBER_OR_TEMPLATE = rf"{TEMPLATE}|^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def described(text: str, *examples: Any, **limits: Any) -> dg.Resolver:
    """Return what a field is called in documentation, and what the schema says of its values."""
    resolver: dg.Resolver = dg.Resolver.default(
        description=text, examples=list(examples) or None, json_schema_extra=limits or None
    )
    return resolver


def section(kind: type[Section]) -> dg.Resolver:
    """Return how Dagster reads a section of a release's specification."""

    def resolved(context: dg.ResolutionContext, given: Any) -> Any:
        return kind.of(context.resolve_value(given))

    return dg.Resolver(resolved, model_field_type=str | dict[str, Any] | None)


def as_written(context: dg.ResolutionContext, given: Any) -> Any:
    """Fill in templates and leave any other text alone.

    Dagster reads each text as a literal of Python's: the value ``"1"`` would become a number.
    """
    if isinstance(given, dict):
        return {key: as_written(context.at_path(key), one) for key, one in given.items()}
    if isinstance(given, list):
        return [as_written(context.at_path(place), one) for place, one in enumerate(given)]
    template = isinstance(given, str) and ("{{" in given or "{%" in given)
    return context.resolve_value(given) if template else given


class _Explained(dg.Model):
    """A model that is checked while its templates are not filled in: for its keys alone."""

    declared_keys: ClassVar[type[Section] | None] = None
    """The class that declares the keys, unless a derived model does."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                raise ValueError(unknown_key(key, cls.model_fields))
        return data

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> Schema:
        """Return the JSON schema that `dg check yaml` goes by: a template may be any value."""
        schema = super().model_json_schema(*args, **options)
        definitions = schema.setdefault("$defs", {})
        if cls.declared_keys is not None:
            # A subclass may have further keys.
            declared = cls.declared_keys.model_json_schema(*args, **options)
            schema["properties"] |= declared["properties"]
            definitions |= declared["$defs"]
        for one in (schema, *definitions.values()):
            for name, field in one.get("properties", {}).items():
                one["properties"][name] = templated(field)
        return schema


class Configured(dg.Resolvable):
    """Base of the dataclasses that ``defs.yaml`` is read into."""

    declared_keys: ClassVar[type[Section] | None] = None

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the model that Dagster derives, with errors that list the allowed keys."""
        configured: Any = cls
        return _explained(configured, super().model())


@cache
def _explained(cls: Any, derived: Any) -> type[BaseModel]:
    made: Any = create_model(derived.__name__, __base__=(_Explained, derived))
    made.declared_keys = cls.declared_keys
    return cast("type[BaseModel]", made)


_SHOWN = ("title", "description", "default", "examples")


def templated(schema: Schema) -> Schema:
    """Return the schema of a value, or of a template in its place.

    A validator names no fault within an alternative, so `else` measures what is not a template.
    """
    options = schema.get("anyOf", [schema])
    null = {"type": "null"} in options
    # A text in addition to other forms is the template that Dagster allows itself.
    others = [one for one in options if one not in ({"type": "string"}, {"type": "null"})]
    types = [one.get("type") for one in [*others, *[{"type": "null"}] * null]]
    shown = {name: one for name, one in schema.items() if name in _SHOWN}
    text = NUMBER_OR_TEMPLATE if {"integer", "number"} & {*map(str, types)} else TEMPLATE
    template = {"type": ["string", "null"] if null else "string", "pattern": text}
    if others and "$ref" in others[0]:
        # The alternative is there for `dg utils inspect-component`, which writes it out.
        section = {"$ref": others[0]["$ref"]}
        return {**shown, "anyOf": [section, {}], "if": template, "else": section}
    if types == [None]:
        # A source, a domain or a mechanism: what is wrong within is found when it is loaded.
        return {**schema, "type": ["string", "object", *["null"] * ("default" in schema)]}
    if len(others) != 1 or not isinstance(types[0], str):
        return dict(schema)
    value = {**others[0], **{name: one for name, one in schema.items() if name != "anyOf"}}
    if isinstance(inner := value.get("additionalProperties"), dict):
        value["additionalProperties"] = templated(inner)
    kinds = [*dict.fromkeys([*types, "string"])]
    return {**shown, "type": kinds[0] if len(kinds) == 1 else kinds, "if": template, "else": value}


@contextmanager
def error_location(context: dg.ComponentLoadContext, key: str = "") -> Iterator[None]:
    """Add to an error its file and its key, as far as that is known."""
    try:
        yield
    except JamError as error:
        # The reader of a release's specification knows the key.
        at = key or error.key
        folder = Path(context.path)
        files = [folder / name for name in ("defs.yaml", "defs.yml", "component.py")]
        file = next((file for file in files if file.is_file()), folder)
        what = f" - attributes.{at}" if at else ""
        raise type(error)(f"{file}{what}: {error}") from None


def catalogue_entry(
    description: str | None, *, tags: Sequence[str], produces: Sequence[str]
) -> dg.ComponentTypeSpec:
    """Return the entry of a component."""
    shown: dict[str, Any] = {"description": description, "tags": list(tags)}
    if "produces" in inspect.signature(dg.ComponentTypeSpec.__new__).parameters:
        shown["produces"] = list(produces)
    return dg.ComponentTypeSpec(**shown)
