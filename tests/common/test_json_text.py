"""JSON that says two things at once is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jam_dagster.common import files
from jam_dagster.common.json_text import parse_json
from jam_dagster.errors import InputError


def test_a_document_is_read() -> None:
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 1}', "key 'a' occurs twice"),
        ('[{"b": {"a": 1, "\\u0061": 2}}]', "key 'a' occurs twice"),
        ("[" * 100_000, "nesting is too deep"),
        ("[" * 65 + "]" * 65, "nesting is too deep: 64 levels"),
        ('{"a": [' * 33 + "]}" * 33, "nesting is too deep: 64 levels"),
        ("1" * 5_000, "has 5,000 digits, of 100"),
        ('{"a": [-1' + "0" * 100 + "]}", "has 102 digits, of 100"),
        ("{", "line 1"),
        ('{"a": NaN}', "NaN is no finite number"),
        ('{"a": [-Infinity]}', "-Infinity is no finite number"),
        ('{"a": 1e999}', "1e999 is no finite number"),
    ],
)
def test_what_is_none_is_a_value_error(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_what_is_as_deep_and_as_long_as_allowed_is_read() -> None:
    assert parse_json("[" * 64 + "9" * 100 + "]" * 64) is not None


def test_no_more_of_a_file_is_read_than_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_TEXT_BYTES", 10)
    path = tmp_path / "model.json"
    path.write_bytes(b"0" * 10)
    assert files.read_text_bytes(path) == b"0" * 10
    path.write_bytes(b"0" * 11)
    with pytest.raises(InputError, match=r"model\.json is larger than the 10 bytes"):
        files.read_text_bytes(path)
