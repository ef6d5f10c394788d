"""Settings of mechanisms, each declared once with its meaning and range.

A mechanism is a frozen dataclass with fields from `setting`. The declaration checks the values, and
feeds the YAML schema, the command line and the documentation.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from jam_dagster.errors import InputError, SpecificationError

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript

_KEY, _LAST = "setting", "last"

MOST_ITERATIONS = 100_000
"""The most steps of a fit. Who verifies a release makes each of them again."""

_NONE = ("none", "null", "")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}

_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


@dataclass(frozen=True)
class Setting:
    """One setting of a mechanism.

    Attributes
    ----------
    name
        Its name in configuration.
    kind
        ``int``, ``float``, ``str`` or ``bool``.
    default
        The value without configuration; None if it follows from the domain.
    text
        Its meaning, in one line.
    optional
        Whether None is a value.
    minimum, above, maximum, below
        Bounds of a number, the second and the last excluded. None: no bound.
    choices
        The allowed texts; empty: any.
    """

    name: str
    kind: type
    default: Any
    text: str
    optional: bool = False
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds = [
            f"{words} {bound:g}"
            for words, bound in (
                ("at least", self.minimum),
                ("above", self.above),
                ("at most", self.maximum),
                ("below", self.below),
            )
            if bound is not None
        ]
        return ", ".join([_KINDS[self.kind], " and ".join(bounds)]) if bounds else _KINDS[self.kind]

    def read(self, value: object) -> Any:
        """Convert a value to the setting's kind; return it unchanged if that fails.

        A text may be a number: YAML 1.1 reads ``1e-9`` as a text, and templates and the command
        line give texts, also for true and false.
        """
        if isinstance(value, bool) or self.kind is str or value is None:
            return value
        if isinstance(value, str) and value.strip().lower() in _NONE and self.optional:
            return None
        if self.kind is bool:
            return _TRUTH.get(value.strip().lower(), value) if isinstance(value, str) else value
        if not isinstance(value, str | int | float):
            return value
        try:
            number = float(value)
            if self.kind is int:
                return int(number) if number == int(number) else value
        except (ValueError, OverflowError):
            return value
        return number

    def accepts(self, value: object) -> bool:
        """Return whether `value` is of the kind and within the bounds."""
        if value is None:
            return self.optional
        if isinstance(value, bool) or self.kind is bool:
            return isinstance(value, bool) and self.kind is bool
        if self.kind is str:
            return isinstance(value, str) and (not self.choices or value in self.choices)
        number = int if self.kind is int else int | float
        # math.isfinite fails for integers beyond the range of floats.
        if not isinstance(value, number) or not abs(value) <= sys.float_info.max:
            return False
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )


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
    """Return the dataclass field of a setting; see `Setting` for the parameters.

    One that is `last` comes after those of subclasses.
    """
    declared = {
        "text": text,
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "below": below,
        "choices": choices,
    }
    return dataclasses.field(default=default, metadata={_KEY: declared, _LAST: last})


def settings_of(mechanism: type) -> dict[str, Setting]:
    """Return the settings of a mechanism's class by name, in order."""
    return dict(_settings_of(mechanism))


@cache
def _settings_of(mechanism: type) -> dict[str, Setting]:
    hints = get_type_hints(mechanism)
    found = {}
    for one in sorted(dataclasses.fields(mechanism), key=lambda one: bool(one.metadata[_LAST])):
        kinds = get_args(hints[one.name]) or (hints[one.name],)
        # The arguments of a Literal are its texts.
        kind = next((k for k in kinds if isinstance(k, type) and k is not NoneType), str)
        found[one.name] = Setting(
            one.name, kind, one.default, optional=NoneType in kinds, **one.metadata[_KEY]
        )
    return found


def check_settings(mechanism: Any) -> None:
    """Raise SpecificationError with setting and remedy unless all values are allowed."""
    for name, one in settings_of(type(mechanism)).items():
        value = getattr(mechanism, name)
        if not one.accepts(value):
            raise SpecificationError(f"{name} must be {one.allowed}, got {value!r}.")


def check_recorded(mechanism: type, transcript: Transcript) -> None:
    """Raise SpecificationError unless a transcript's settings are allowed, where it has them.

    Somebody may have written it by hand, to keep busy whoever fits its model again.
    """
    for name, one in settings_of(mechanism).items():
        if name in transcript.parameters and not one.accepts(transcript.parameters[name]):
            raise SpecificationError(
                f"The transcript's {name} must be {one.allowed}, got "
                f"{transcript.parameters[name]!r:.100}: no run has recorded that."
            )


def recorded_settings(mechanism: type, transcript: Transcript) -> dict[str, Any]:
    """Return the settings of a mechanism's class from a transcript."""
    recorded = transcript.parameters
    missing = [name for name in settings_of(mechanism) if name not in recorded]
    if missing:
        raise InputError(
            f"This transcript does not record the {missing[0]} of its model's fit: it "
            "comes from another version. Load the model that was stored beside it instead."
        )
    return {name: recorded[name] for name in settings_of(mechanism)}
