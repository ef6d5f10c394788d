"""What configuration classes share: what does not fit is refused with the keys that there are."""

import os
import re
from typing import Any, get_type_hints

import dagster as dg
from pydantic import BaseModel, create_model, model_validator

from jam_dagster.errors import SpecificationError

NOTHING_DONE = "Nothing was read or charged."

_MODELS: dict[type, type[BaseModel]] = {}


class Configured(dg.Resolvable):
    """Base of the dataclasses that ``defs.yaml`` is read into."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the schema that Dagster derives, with a validator that explains unknown keys."""
        if cls not in _MODELS:
            derived = super().model()
            allowed = list(derived.model_fields)
            hints = get_type_hints(cls)
            nested = {
                name: hint
                for name, hint in hints.items()
                if isinstance(hint, type) and issubclass(hint, Configured)
            }

            def known_keys(_: type[BaseModel], data: Any) -> Any:
                for key, value in data.items() if isinstance(data, dict) else ():
                    if key not in allowed:
                        raise ValueError(f"unknown key {key!r}: allowed are {', '.join(allowed)}")
                    # Dagster lets any text through, for it may be a template.
                    if key in nested and isinstance(value, str) and "{{" not in value:
                        keys = ", ".join(nested[key].model().model_fields)
                        raise ValueError(f"{key} must be a mapping of {keys}; got {value!r}")
                return data

            # Pydantic's decorator takes class methods; its annotations do not say so.
            method: Any = classmethod(known_keys)
            validators: dict[str, Any] = {"known_keys": model_validator(mode="before")(method)}
            _MODELS[cls] = create_model(
                derived.__name__, __base__=derived, __validators__=validators
            )
        return _MODELS[cls]


def expanded(place: str, what: str) -> str:
    """Return a path or URL with ``~`` and ``${VARIABLES}`` replaced.

    Raises
    ------
    SpecificationError
        If a variable is not set: what it stands for would lie somewhere else, under its name.
    """
    found = os.path.expanduser(os.path.expandvars(place))
    if missing := re.search(r"\$\{\w+\}", found):
        raise SpecificationError(
            f"{what} names {missing.group()}, which is not set in the environment of this"
            f" process: set it, or write the place out. {NOTHING_DONE}"
        )
    return found
