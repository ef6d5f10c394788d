"""YAML of a stranger is as long, as deep and as large as its text, or refused."""

from __future__ import annotations

import pytest
import yaml

from jam_dagster.common import yaml_text
from jam_dagster.common.yaml_text import parse_yaml
from tests.tiers import slow_rows

LAUGHS = "\n".join(
    ["a0: &a0 [ha, ha]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))]
)


def test_aliases_repeat_what_they_name() -> None:
    assert parse_yaml("a: &x [1, {b: 2}]\nc: *x\nd: [*x, *x]")["d"] == [[1, {"b": 2}]] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "aliases repeat more than 1,048,576 values"),
        ("a: &a [1, *a]", "an alias repeats what it is in"),
        ("&a {b: *a}", "an alias repeats what it is in"),
        *slow_rows(("[" * 100_000, "nesting is too deep: 64 levels")),
        ("{a: " * 100_000, "nesting is too deep: 64 levels"),
        ("- " * 100_000, "nesting is too deep: 64 levels"),
        ("a: 1" + "0" * 5_000, "has 5,001 digits, of 100"),
        ("a: -" + "9" * 100, "has 101 digits, of 100"),
    ],
    ids=["laughs", "itself", "its mapping", "lists", "mappings", "blocks", "digits", "sign"],
)
def test_what_goes_beyond_a_limit_is_a_yaml_error(text: str, message: str) -> None:
    with pytest.raises(yaml.YAMLError, match=message):
        parse_yaml(text)


def test_what_is_too_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MOST_CHARACTERS", 10)
    assert parse_yaml("[1, 2, 34]") == [1, 2, 34]
    with pytest.raises(yaml.YAMLError, match="longer than the 10 characters"):
        parse_yaml("[1, 2, 345]")
