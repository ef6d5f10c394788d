"""What configuration classes share: unknown keys are refused with the keys that there are."""

from typing import Any

import dagster as dg
from pydantic import BaseModel, create_model, model_validator

_MODELS: dict[type, type[BaseModel]] = {}


class Configured(dg.Resolvable):
    """Base of the dataclasses that ``defs.yaml`` is read into."""

    @classmethod
    def model(cls) -> type[BaseModel]:
        """Return the schema that Dagster derives, with a validator that explains unknown keys."""
        if cls not in _MODELS:
            derived = super().model()
            allowed = list(derived.model_fields)

            def known_keys(_: type[BaseModel], data: Any) -> Any:
                for key in data if isinstance(data, dict) else ():
                    if key not in allowed:
                        raise ValueError(f"unknown key {key!r}: allowed are {', '.join(allowed)}")
                return data

            # Pydantic's decorator takes class methods; its annotations do not say so.
            method: Any = classmethod(known_keys)
            validators: dict[str, Any] = {"known_keys": model_validator(mode="before")(method)}
            _MODELS[cls] = create_model(
                derived.__name__, __base__=derived, __validators__=validators
            )
        return _MODELS[cls]
