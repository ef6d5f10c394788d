"""The file of a release, ``defs.yaml``, read without Dagster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jam_dagster.common.yaml_text import parse_yaml, yaml_place
from jam_dagster.errors import InputError, SpecificationError


def read_attributes(path: Path) -> tuple[Path, dict[str, Any]]:
    """Read the attributes of a release's component."""
    file = path / "defs.yaml" if path.is_dir() else path
    try:
        texts = file.read_text(encoding="utf-8").split("\n---")
        found = [parse_yaml(text) for text in texts]
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}): name a release's defs.yaml, or describe "
            "the release with options."
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{file} is not UTF-8: save it as UTF-8.") from None
    except yaml.YAMLError as error:
        raise InputError(f"{file} is no YAML {yaml_place(error)}: mend it there.") from None
    documents = [one for one in found if isinstance(one, Mapping) and "attributes" in one]
    if len(documents) != 1:
        raise InputError(
            f"{file} must hold one component with attributes, such as jam_dagster.SyntheticRelease;"
            f" it holds {len(documents)}. Name another file, or describe the release with options."
        )
    attributes = documents[0]["attributes"]
    if not isinstance(attributes, Mapping):
        kind = type(attributes).__name__
        raise SpecificationError(f"{file}: attributes must be a mapping, got a {kind}.")
    return file, dict(attributes)
