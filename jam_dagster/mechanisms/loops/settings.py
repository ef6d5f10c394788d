"""Settings of mechanisms, each declared once with its meaning and range.

A mechanism is a frozen dataclass with fields from `setting`. The declaration checks the values, and
feeds the YAML schema, the command line and the documentation.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache, cached_property
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field

from jam_dagster.common.section import adapter_of, allowed, is_of, readable
from jam_dagster.errors import InputError, SpecificationError

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript

_KEY, _LAST = "setting", "last"

MOST_ITERATIONS = 100_000
"""The most steps of a fit. Who verifies a release makes each of them again."""

_NONE = ("none", "null", "")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True)
class Setting:
    """One setting of a mechanism.

    A `default` of None follows from the domain.
    """

    name: str
    hint: Any
    kind: type
    default: Any
    text: str

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its values."""
        return adapter_of(self.hint).json_schema()

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return allowed(self.schema)

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed texts; empty: any."""
        return tuple(self.schema.get("enum", ()))

    def read(self, value: object) -> Any:
        """Convert a value to the setting's kind; return it unchanged if that fails.

        A text may be a number: YAML 1.1 reads ``1e-9`` as a text, and templates and the command
        line give texts, also for true and false.
        """
        if isinstance(value, str) and value.strip().lower() in _NONE and self.accepts(None):
            return None
        if self.kind is str or isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        if self.kind is bool:
            return _TRUTH.get(str(value).strip().lower(), value)
        try:
            given: Any = readable(value)
            return adapter_of(self.kind).validate_python(float(given))
        except (ValueError, OverflowError):
            return value

    def accepts(self, value: object) -> bool:
        """Return whether `value` is of the kind and within the bounds."""
        return is_of(self.hint, value)


def setting(
    default: Any,
    text: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    last: bool = False,
) -> Any:
    """Return the dataclass field of a setting with its bounds, or the texts that it may be.

    One that is `last` comes after those of subclasses.
    """
    bounds = {"ge": minimum, "gt": above, "le": maximum, "lt": below}
    declared = {"text": text, "bounds": bounds, "choices": choices}
    return dataclasses.field(default=default, metadata={_KEY: declared, _LAST: last})


def settings_of(mechanism: type) -> dict[str, Setting]:
    """Return the settings of a mechanism's class by name, in order."""
    return dict(_settings_of(mechanism))


@cache
def _settings_of(mechanism: type) -> dict[str, Setting]:
    hints = get_type_hints(mechanism)
    bare = [one.name for one in dataclasses.fields(mechanism) if _KEY not in one.metadata]
    if bare:
        raise SpecificationError(
            f"{mechanism.__qualname__} has fields that are no settings: {', '.join(bare)}; make "
            "them by setting()."
        )
    ordered = sorted(dataclasses.fields(mechanism), key=lambda one: bool(one.metadata[_LAST]))
    return {one.name: _setting(one, hints[one.name]) for one in ordered}


def _setting(field: dataclasses.Field[Any], hint: Any) -> Setting:
    kinds = get_args(hint) or (hint,)
    # The arguments of a Literal are its texts.
    kind = next((k for k in kinds if isinstance(k, type) and k is not NoneType), str)
    declared = field.metadata[_KEY]
    typed: Any = Literal[declared["choices"]] if declared["choices"] else kind
    limits: dict[str, Any] = {k: one for k, one in declared["bounds"].items() if one is not None}
    if kind is float:
        limits["allow_inf_nan"] = False
    typed = Annotated[typed, Field(**limits)] if limits else typed
    whole = typed | None if NoneType in kinds else typed
    return Setting(field.name, whole, kind, field.default, declared["text"])


def check_settings(mechanism: Any) -> None:
    """Raise SpecificationError with setting and remedy unless all values are allowed."""
    for name, one in settings_of(type(mechanism)).items():
        value = getattr(mechanism, name)
        if not one.accepts(value):
            raise SpecificationError(f"{name} must be {one.allowed}, got {value!r:.100}.")


def recorded_settings(mechanism: type, transcript: Transcript) -> dict[str, Any]:
    """Return the settings of a mechanism's class from a transcript."""
    recorded = transcript.parameters
    missing = [name for name in settings_of(mechanism) if name not in recorded]
    if missing:
        raise InputError(
            f"This transcript does not record the {missing[0]} of its model's fit: it "
            "comes from another version. Load the model that was stored with it instead."
        )
    return {name: recorded[name] for name in settings_of(mechanism)}
