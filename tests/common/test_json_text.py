"""JSON that says two things at once is refused."""

from __future__ import annotations

import pytest

from jam_dagster.common.json_text import parse_json


def test_a_document_is_read() -> None:
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 1}', "key 'a' occurs twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "key 'a' occurs twice"),
        ("[" * 100_000, "nesting is too deep"),
        ("1" * 5_000, "digits"),
        ("{", "line 1"),
    ],
)
def test_what_is_none_is_a_value_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)
