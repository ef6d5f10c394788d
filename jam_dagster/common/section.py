"""The base class of the sections of a file, and what a value must be, in words.

Pydantic validates the values, and derives the JSON schema that the YAML files are checked with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.errors import PydanticInvalidForJsonSchema

from jam_dagster.common.validation import shown_key, unknown_key
from jam_dagster.errors import JamError, SpecificationError


def readable(value: object) -> object:
    """Return the number that a text stands for; anything else is returned as it is.

    YAML 1.1 reads ``1e-9`` as text, and templates and options yield texts too.
    """
    if isinstance(value, bool):
        # Pydantic takes true for 1.
        raise ValueError("not a number")
    if isinstance(value, str):
        return int(value) if value.strip().lstrip("+-").isdigit() else float(value)
    return value


def _finite(value: object) -> object:
    """Return an integer as a float, infinite where no float is as large."""
    value = readable(value)
    try:
        return float(value) if isinstance(value, int) else value
    except OverflowError:
        return math.inf


Number = Annotated[float, BeforeValidator(_finite)]
PositiveNumber = Annotated[float, Field(gt=0), BeforeValidator(_finite)]
Whole = Annotated[int, BeforeValidator(readable)]
Count = Annotated[int, Field(ge=0), BeforeValidator(readable)]
Positive = Annotated[int, Field(ge=1), BeforeValidator(readable)]

_KINDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "array": "a list",
    "object": "a mapping",
    "boolean": "true or false",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


class ContradictionError(SpecificationError):
    """Two keys of a section that do not go together.

    Parameters
    ----------
    message
        What is wrong.
    *yields
        The keys that give way where an option says the other one.
    to
        The keys that they give way to; by default each other.
    """

    def __init__(self, message: str, *yields: str, to: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.yields = yields
        self.to = to or yields


class Section(BaseModel):
    """A section of a specification: immutable, and complete once it is made."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )

    path: ClassVar[str] = ""
    """The keys that lead to the section in a file, joined by dots; empty for the whole."""

    def __init__(self, /, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            refused = self._refusal(error)
        else:
            return
        raise refused

    @classmethod
    def of(cls, given: object) -> Self:
        """Return the section that a file describes."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise SpecificationError(
                f"{cls.path} must be a mapping of {', '.join(cls.model_fields)}; got {given!r}."
            )
        return cls(**{str(key): value for key, value in given.items()})

    def changed(self, **changes: Any) -> Self:
        """Return the section with other values, validated again."""
        return type(self)(**{**dict(self), **changes})

    @property
    def without_effect(self) -> dict[str, str]:
        """The keys that have no effect with the values of the others, with the reason.

        A file may have them, as a scaffolded one does. An option that has none is refused.
        """
        return {}

    @classmethod
    def named(cls, name: str) -> str:
        """Return a key as an error names one that is missing."""
        return repr(name)

    @classmethod
    def settled(cls, written: object, asked: Collection[str]) -> object:
        """Return what a file and options say, without the file's keys that options contradict.

        `asked` are the keys that the options say. Any other fault is left in, for `of` to name.
        """
        while isinstance(written, Mapping):
            try:
                cls.of(written)
            except ContradictionError as found:
                given_way = {*found.yields}.difference(asked)
                if not given_way or not {*found.to}.intersection(asked):
                    break
                written = {key: one for key, one in written.items() if key not in given_way}
            except JamError:
                break
            else:
                break
        return written

    @classmethod
    def where(cls, name: str) -> str:
        """Return a key with the keys that lead to it."""
        return f"{cls.path}.{name}" if cls.path else name

    @classmethod
    def _refusal(cls, error: ValidationError) -> JamError:
        """Return what is wrong, in one sentence a key; an error of the package keeps its class."""
        causes = [one.get("ctx", {}).get("error") for one in error.errors()]
        if len(causes) == 1 and isinstance(causes[0], JamError):
            return causes[0]
        sentences: dict[str, str] = {}
        for one in error.errors():
            name = str(one["loc"][0]) if one["loc"] else ""
            sentences.setdefault(name, cls._sentence(name, one))
        return SpecificationError(" ".join(sentences.values()))

    @classmethod
    def _sentence(cls, name: str, error: Mapping[str, Any]) -> str:
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, JamError):
            return str(cause)
        # A key that is no valid text has no place.
        if error["type"] == "extra_forbidden" or not name:
            what = cls.path or "the release"
            if name:
                return f"{what} has the {unknown_key(name, cls.model_fields)}."
            allowed = ", ".join(cls.model_fields)
            return f"{what} has the unknown key of no valid text: allowed are {allowed}."
        if error["type"] == "missing":
            return f"{cls.path or 'The release'} needs the key {cls.named(name)}."
        value = error["input"]
        return f"{cls.where(name)} must be {cls._allowed(name)}, got {value!r}."

    @classmethod
    def _allowed(cls, name: str) -> str:
        """Return what a key may be, in words, from its JSON schema."""
        field = cls.model_fields[name]
        nested = field.annotation
        if isinstance(nested, type) and issubclass(nested, Section):
            return f"a mapping of {', '.join(nested.model_fields)}"
        try:
            return allowed(TypeAdapter(field.rebuild_annotation()).json_schema())
        except PydanticInvalidForJsonSchema:
            # A source or a domain has no schema of its own.
            return "of another kind"


def allowed(schema: Mapping[str, Any]) -> str:
    """Return what a JSON schema allows, in words; null is not named."""
    forms = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    plain = next((one for one in forms if "enum" in one), forms[0])
    if "enum" in plain:
        return f"one of {', '.join(map(str, plain['enum']))}"
    types = [kind for one in forms for kind in _listed(one.get("type", ""))]
    kind = " or ".join(dict.fromkeys(_KINDS.get(one, "of another kind") for one in types))
    if plain.get("items", {}).get("type") == "string":
        return "a list of texts"
    if plain.get("minLength"):
        return f"{kind} that is not empty"
    bounds = [f"{words} {plain[key]:g}" for key, words in _BOUNDS.items() if key in plain]
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


@cache
def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Return what validates a value of a type."""
    return TypeAdapter(hint)


def is_of(hint: Any, value: object) -> bool:
    """Return whether a value is of a type, without any conversion."""
    try:
        adapter_of(hint).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


Made = TypeVar("Made")


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def parsed(kind: Callable[..., Made], parts: Mapping[str, Any], **others: Any) -> Made:
    """Return a dataclass of parts that were read from a document, and of others.

    Raises
    ------
    TypeError
        If a part is unknown, missing, or of another type than the class declares.
    """
    hints = _hints_of(kind)
    for name, value in parts.items():
        if name not in hints:
            raise TypeError(f"it has the unknown key {shown_key(name)}")
        if not is_of(hints[name], value):
            raise TypeError(f"{name} is {value!r:.40}")
    return kind(**parts, **others)
