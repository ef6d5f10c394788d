"""JSON of files that others may have written."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON document; a key that occurs twice in an object is an error.

    Readers differ in which of two values they take, so a document with both says one thing to its
    verifier and another to somebody else.

    Raises
    ------
    ValueError
        The text is not JSON, or its nesting is too deep.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("its nesting is too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"key {key!r} occurs twice")
        content[key] = value
    return content
