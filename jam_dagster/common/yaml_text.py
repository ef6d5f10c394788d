"""YAML by the core schema of version 1.2, where ``no`` and ``12:30`` are texts."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from jam_dagster.common.json_text import MOST_DEPTH, integer

MOST_CHARACTERS = 2**24
"""The longest document: it is read at about a million characters a second."""

MOST_REPEATED = 2**20
"""The most values that aliases may repeat."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML document; a key that occurs twice in a mapping is an error."""
    if len(text) > MOST_CHARACTERS:
        raise yaml.YAMLError(f"it is longer than the {MOST_CHARACTERS:,} characters that are read")
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a SafeLoader


def yaml_place(error: yaml.YAMLError) -> str:
    """Return the place of a YAML error, such as ``"at line 3, column 7"``, without its text.

    The parser's message shows the line, which may hold the password of a URL.
    """
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return f"at line {mark.line + 1}, column {mark.column + 1}" if mark else "in a character"


def write_yaml(content: Any, *, one_line: bool = False) -> str:
    """Write plain content that every version of YAML reads back unchanged."""
    return yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=not one_line,
        default_flow_style=one_line or None,
        width=1000 if one_line else 100,
    )


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._repeated = 0
        # The number of values in each node, those that aliases repeat in it included.
        self._values: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        # PyYAML's parser has no types.
        parser: Any = self
        event = parser.peek_event()
        self._depth += 1
        if self._depth > MOST_DEPTH + 1:
            raise _beyond(f"its nesting is too deep: {MOST_DEPTH} levels are read", event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent):
            if node not in self._values:
                raise _beyond("an alias repeats what it is in", event)
            self._repeated += self._values[node]
            if self._repeated > MOST_REPEATED:
                raise _beyond(f"its aliases repeat more than {MOST_REPEATED:,} values", event)
        elif node is not None:
            inside = node.value if isinstance(node, yaml.CollectionNode) else ()
            parts = [part for one in inside for part in (one if isinstance(one, tuple) else [one])]
            self._values[node] = 1 + sum(self._values[part] for part in parts)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        # A tag such as !!set may declare any node a mapping; PyYAML refuses that below.
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable) or key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} occurs twice or is not a text", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _beyond(what: str, event: Any) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, what, event.start_mark)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would read as another type."""

    yaml_implicit_resolvers = {
        first: list(known) for first, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Other styles fold exotic line breaks; between double quotes they are escaped.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.SequenceNode:
    # Short lists in a list would take a line each.
    inner = all(isinstance(one, list) and not any(map(_holds, one)) for one in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=inner or None)


def _holds(value: object) -> bool:
    return isinstance(value, list | tuple | Mapping)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)

for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), list(_first)
        )


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    try:
        return integer(str(loader.construct_scalar(node)))
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


# YAML 1.1 reads 010 as eight.
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
