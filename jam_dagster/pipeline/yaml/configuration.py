"""What configuration classes share: what does not fit is refused with the keys that there are."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

import dagster as dg
from pydantic import BaseModel, Field, GetJsonSchemaHandler, create_model, model_validator
from pydantic_core import CoreSchema

from jam_dagster.common.section import Section
from jam_dagster.errors import JamError
from jam_dagster.pipeline.dagster_internals import parse_yamls_with_source_position

NOTHING_DONE = "Nothing was read or charged."

_MODELS: dict[type, type[BaseModel]] = {}

# In the JSON schema of a property, until `_located` puts it to use.
_VALUES = "jam/values"

TEMPLATE = r"\{\{"
# YAML 1.1 reads 1e-9 as text.
NUMBER_OR_TEMPLATE = rf"{TEMPLATE}|^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def described(
    text: str, *examples: Any, values: Mapping[str, Any] | None = None, **limits: Any
) -> dg.Resolver:
    """Return what a field is called in documentation, and what the schema says of its values."""
    extra = {**limits} if values is None else {**limits, **valued(values)}
    resolver: dg.Resolver = dg.Resolver.default(
        description=text, examples=list(examples) or None, json_schema_extra=extra or None
    )
    return resolver


def valued(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a resolver of one's own says of its values: their JSON schema."""
    return {_VALUES: dict(values)}


def section(kind: type[Section], text: str) -> dg.Resolver:
    """Return how Dagster reads a section of a release's specification."""

    def resolved(context: dg.ResolutionContext, given: Any) -> Any:
        content = given.model_dump(exclude_unset=True) if isinstance(given, BaseModel) else given
        return kind.of(context.resolve_value(content))

    return dg.Resolver(resolved, model_field_type=section_model(kind), description=text)


@cache
def section_model(kind: type[Section]) -> type[BaseModel]:
    """Return the model that a section is checked with while its templates are not filled in.

    A text may be a template, so the limits of a value are only in the JSON schema; the section
    itself checks the values that the templates yield.
    """
    schema = kind.model_json_schema()["properties"]
    fields: dict[str, Any] = {}
    for name, annotation in get_type_hints(kind).items():
        info = kind.model_fields.get(name)
        if info is None:
            continue
        nested = _section_in(annotation)
        plain = annotation if nested is None else section_model(nested)
        given = plain if nested is None or info.is_required() else plain | None
        limits = _limits(schema[name])
        fields[name] = (
            given | str,
            Field(
                default=info.default if not info.is_required() else ...,
                description=info.description,
                json_schema_extra=limits or None,
            ),
        )
    model = create_model(f"{kind.__name__}Model", __base__=dg.Model, **fields)
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in fields}
    sections = {name: _section_in(hint) for name, hint in hints.items()}
    nested_models = {name: section_model(one) for name, one in sections.items() if one is not None}
    texts = frozenset(name for name, hint in hints.items() if _takes_text(hint))
    made = _known_keys(model, nested_models, texts)
    _SECTIONS.append(made)
    return made


_SECTIONS: list[Any] = []


def _section_in(hint: Any) -> type[Section] | None:
    """Return the section that a field holds, None if it holds none."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((one for one in kinds if isinstance(one, type) and issubclass(one, Section)), None)


_LIMITS = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength")


def _limits(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of a value from its JSON schema, whatever its alternatives."""
    found: dict[str, Any] = {}
    for one in (schema, *schema.get("anyOf", ())):
        found |= {name: one[name] for name in _LIMITS if name in one}
    return found


class Configured(dg.Resolvable):
    """Base of the dataclasses that ``defs.yaml`` is read into."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the schema that Dagster derives, so that mistakes are found where they stand.

        A validator explains unknown keys, and the JSON schema, which `dg check yaml` goes by,
        names what is wrong with a value instead of that it fits no alternative.
        """
        if cls not in _MODELS:
            hints = get_type_hints(cls)
            nested = {
                name: model
                for name, hint in hints.items()
                if (model := _model_of(hint)) is not None
            }
            texts = frozenset(name for name, hint in hints.items() if _takes_text(hint))
            _MODELS[cls] = _known_keys(super().model(), nested, texts)
        return _MODELS[cls]


def _model_of(hint: Any) -> type[BaseModel] | None:
    """Return the model of a field that is a mapping, None of another one."""
    annotated = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for one in annotated:
        if isinstance(one, type) and issubclass(one, Configured):
            return one.model()
        if isinstance(one, dg.Resolver) and one.model_field_type in _SECTIONS:
            return cast("type[BaseModel]", one.model_field_type)
    return None


def _known_keys(
    derived: type[BaseModel], nested: Mapping[str, type[BaseModel]], texts: frozenset[str]
) -> type[BaseModel]:
    """Return a model whose validator explains unknown keys."""
    allowed = list(derived.model_fields)

    def known_keys(_: type[BaseModel], data: Any) -> Any:
        for key, value in data.items() if isinstance(data, dict) else ():
            if key not in allowed:
                raise ValueError(f"unknown key {key!r}: allowed are {', '.join(allowed)}")
            # Dagster lets any text through, for it may be a template.
            if key in nested and isinstance(value, str) and "{{" not in value:
                keys = ", ".join(nested[key].model_fields)
                raise ValueError(f"{key} must be a mapping of {keys}; got {value!r}")
        return data

    # Pydantic's decorator takes class methods; its annotations do not say so.
    method: Any = classmethod(known_keys)
    validators: dict[str, Any] = {"known_keys": model_validator(mode="before")(method)}
    located = type("Located", (_Located, derived), {"__module__": __name__})
    made: type[BaseModel] = create_model(
        derived.__name__, __base__=located, __validators__=validators
    )
    _TEXTS[made] = texts
    return made


# By model, the fields whose values may be any text.
_TEXTS: dict[type[BaseModel], frozenset[str]] = {}


class _Located(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, one in properties.items():
            properties[name] = _located(one, text=name in _TEXTS.get(cls, ()))
        return schema


def _located(schema: Mapping[str, Any], *, text: bool) -> dict[str, Any]:
    """Return a property's schema without alternatives, of which a validator names none.

    What begins as a template stays allowed everywhere, and numbers may be texts.
    """
    kept = dict(schema)
    alternatives = kept.pop("anyOf", None)
    values = kept.pop(_VALUES, None)
    if alternatives is None and values is None:
        return kept
    others = [one for one in alternatives or () if one != {"type": "string"}]
    null = {"type": "null"}
    if values is not None:
        # Whether it may be left out as null follows from the type all the same.
        others = [*(one for one in others if one == null), values]
    plain = [one["type"] for one in others if set(one) == {"type"} and one["type"] != "object"]
    others = [one for one in others if set(one) != {"type"} or one["type"] == "object"]
    if text and values is None:
        plain.insert(0, "string")
    # The last one tells what is wrong.
    types = plain[0] if len(plain) == 1 else plain
    ordered = [*([{"type": types}] if plain else []), *others]
    schema_of_value: dict[str, Any] = dict(ordered.pop())
    for one in reversed(ordered):
        schema_of_value = {"if": one, "else": schema_of_value}
    if not text or values is not None:
        numeric = {"integer", "number"} & {*plain}
        pattern = NUMBER_OR_TEMPLATE if numeric else TEMPLATE
        schema_of_value = {"if": {"type": "string", "pattern": pattern}, "else": schema_of_value}
    return {**kept, **schema_of_value}


def _takes_text(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return hint is str or (get_origin(hint) in (Union, UnionType) and str in get_args(hint))


@contextmanager
def error_location(context: dg.ComponentLoadContext, key: str = "") -> Iterator[None]:
    """Let an error say in which file it is, and at which line where `key` has one."""
    try:
        yield
    except JamError as error:
        # Of a release, the reader of its specification knows the key.
        at = key or error.key
        what = f" - attributes.{at}" if at else ""
        raise type(error)(f"{_place_of(Path(context.path), at)}{what}: {error}") from None


def _place_of(folder: Path, key: str) -> str:
    """Return the file of a component, with the line of a key that only one component in it has."""
    files = [folder / name for name in ("defs.yaml", "defs.yml", "component.py")]
    file = next((file for file in files if file.is_file()), folder)
    if key and file.suffix in (".yaml", ".yml"):
        documents = parse_yamls_with_source_position(file.read_text(encoding="utf-8"), str(file))
        trees = [one.source_position_tree for one in documents]
        found = [place for one in trees if (place := one.lookup(["attributes", key]))]
        if len(found) == 1:
            return f"{file}:{found[0].start.line}"
    return str(file)
