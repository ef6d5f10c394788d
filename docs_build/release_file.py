"""The reference of the YAML files, from the schemas that Dagster checks them with."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import griffe
import yaml

from jam_dagster.keys import sentence
from jam_dagster.mechanisms import mechanism_class
from jam_dagster.mechanisms.configuration import synthesizing
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.pipeline import ReleaseResources, SyntheticRelease
from jam_dagster.tables.sources import base as sources
from jam_dagster.tables.sources.previous_release import PREVIOUS_RELEASE, PreviousRelease

INTRODUCTION = """# The release file

A release is the file `defs.yaml` in a folder of its own, below the folder of your definitions:

```yaml
type: jam_dagster.SyntheticRelease
attributes:
  release: people
  dataset: people_2026
  private: people.csv
  public: survey_2016.csv
  domain: domain.yaml
  privacy: {epsilon: 1.0}
```

This page lists every key below `attributes`. It is made from the schema by which Dagster checks the
file, so it is complete: another key is refused, with the keys that there are. Relative paths start
from the folder of `defs.yaml`. Whatever can be written in other `defs.yaml` files works here too:
templates such as `{{ env.WAREHOUSE }}`, `requirements`, several components in a file.
"""

RESOURCES = """# The resources file

What all releases of a project run on: the ledger with its budgets, and the two stores. A project
has one, in a folder of its own below the folder of its definitions:

```yaml
type: jam_dagster.ReleaseResources
attributes:
  budgets:
    people_2026: {epsilon: 3.0, delta: 1.0e-9}
  home: .jam
```

A budget that stands here is granted when its dataset is first used. From then on the ledger keeps
it: a file that says something else is refused.
"""

SOURCES = """## Sources of tables

`private` and `public` are a path that ends in `.csv`, `.tsv`, `.txt` or `.parquet` (a compressed
CSV too), or a mapping with one of the keys below and what else belongs to it.
"""


MECHANISMS_SECTION = """## Mechanisms

`mechanism` is the name of a mechanism, or a mapping of `name` (by default `tilt`, with a public
table and without) and settings. What is left out is as below. `jam-dagster mechanisms` prints
the same.
"""


@dataclass(frozen=True)
class Key:
    """A key of the file.

    Attributes
    ----------
    name
        With the names of the sections around it, such as ``privacy.unit.column``.
    kind
        What may stand there.
    required
        Whether the file must have it, or its section, where that is optional.
    default
        What holds without it, as YAML writes it; empty where nothing does.
    description
        What it is.
    examples
        As YAML writes them.
    section
        Whether it holds keys of its own.
    """

    name: str
    kind: str
    required: bool
    default: str
    description: str
    examples: tuple[str, ...]
    section: bool


# What Dagster's schema has for a default that is made, such as a section's.
_UNSET = "__DAGSTER_UNSET_DEFAULT__"


Component = type[SyntheticRelease] | type[ReleaseResources]


def component_keys(component: Component = SyntheticRelease) -> list[Key]:
    """Return every key of a component's file, each section's after it."""
    schema = component.model().model_json_schema()
    return list(_keys(schema, schema.get("$defs", {}), ""))


def _keys(schema: Mapping[str, Any], models: Mapping[str, Any], above: str) -> Iterator[Key]:
    for name, field in schema["properties"].items():
        kinds, section = _kinds(field, models)
        required = name in schema.get("required", ())
        default = None if section is not None else field.get("default")
        yield Key(
            name=above + name,
            kind=" or ".join(kinds),
            required=required,
            default="" if default in (None, "", [], {}, _UNSET) else _yaml(default),
            description=str(field.get("description", "")),
            examples=tuple(_yaml(one) for one in field.get("examples", ())),
            section=section is not None,
        )
        if section is not None:
            yield from _keys(section, models, f"{above}{name}.")


def _kinds(
    field: Mapping[str, Any], models: Mapping[str, Any]
) -> tuple[list[str], Mapping[str, Any] | None]:
    """Return what may stand in a field, and the schema of the section that it is, if it is one."""
    kinds: list[str] = []
    section = None
    for one in alternatives(field):
        if "$ref" in one:
            section = models[one["$ref"].rsplit("/", 1)[1]]
            kinds.append("section")
        elif "enum" in one or "const" in one:
            kinds.append(
                ", ".join(f"`{_yaml(value)}`" for value in one.get("enum", [one.get("const")]))
            )
        elif one["type"] == "array":
            inside = _kinds(one["items"], models)[0][0]
            plural = inside.replace("list of", "lists of") if " of " in inside else f"{inside}s"
            kinds.append(f"list of {plural}")
        elif isinstance(one.get("additionalProperties"), Mapping):
            named, section = _kinds(one["additionalProperties"], models)
            kinds.append(f"mapping of names to {named[0]}s")
        else:
            kinds.append(_PLAIN[one["type"]])
    return sorted({*kinds}, key=lambda kind: (kind != "text", kinds.index(kind))), section


def alternatives(field: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what may stand in a field, other than null, a template, and YAML's bare `off`."""
    measured = field.get("else", field)
    forms = [one for one in measured.get("anyOf", [measured]) if one not in ({}, {"type": "null"})]
    if isinstance(types := measured.get("type"), list):
        return [{**measured, "type": one} for one in types if one != "null"]
    return [one for one in forms if one != {"const": False, "type": "boolean"}]


_PLAIN = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "object": "mapping",
}


def _yaml(value: object) -> str:
    if isinstance(value, Mapping | list):
        return yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).strip()
    return value if isinstance(value, str) else json.dumps(value)


def release_file_page() -> str:
    """Return the page of a release's file."""
    tables = _tables("The release", component_keys())
    parts = [INTRODUCTION, *tables, MECHANISMS_SECTION, *_mechanisms(), SOURCES, *_sources()]
    return "\n".join(parts) + "\n"


def resources_file_page() -> str:
    """Return the page of the file of what releases run on."""
    return (
        "\n".join([RESOURCES, *_tables("The resources", component_keys(ReleaseResources))]) + "\n"
    )


def _tables(title: str, keys: list[Key]) -> Iterator[str]:
    """Yield a table of the keys at the top, and one of each section."""
    yield f"## {title}"
    yield ""
    yield from _table([key for key in keys if "." not in key.name])
    for section in (key for key in keys if key.section):
        yield from ("", f"## `{section.name}`", "", sentence(section.description), "")
        yield from _table([key for key in keys if key.name.rpartition(".")[0] == section.name])
    yield ""


def _table(keys: list[Key]) -> list[str]:
    rows = ["| key | what may stand there | default | what it is |", "|---|---|---|---|"]
    for key in keys:
        link = f"[`{key.name.rpartition('.')[2]}`](#{_anchor(key.name)})"
        name = link if key.section else f"`{key.name.rpartition('.')[2]}`"
        default = "**needed**" if key.required else f"`{key.default}`" if key.default else ""
        examples = ", ".join(f"`{one}`" for one in key.examples)
        told = sentence(key.description) + (f" For example {examples}." if examples else "")
        rows.append(f"| {name} | {_cell(key.kind)} | {default} | {_cell(told)} |")
    return rows


def _anchor(name: str) -> str:
    return name.replace(".", "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _mechanisms() -> Iterator[str]:
    """Yield a section for each mechanism that a release can have, from its settings."""
    for name in synthesizing():
        yield f"### `{name}`"
        yield ""
        yield "| setting | what may stand there | default | what it is |"
        yield "|---|---|---|---|"
        for key, one in settings_of(mechanism_class(name)).items():
            allowed = one.allowed
            for choice in one.choices:
                allowed = re.sub(rf"\b{choice}\b", f"`{choice}`", allowed)
            told = _cell(sentence(one.text))
            yield f"| `{key}` | {_cell(allowed)} | {_default(one.default)} | {told} |"
        yield ""


def _sources() -> Iterator[str]:
    """Yield a section for each kind of source, from its class and what that says of itself."""
    for kind, (source, first) in sources.SOURCES.items():
        yield from _source(kind, source, {first: kind})
    yield from _source(PREVIOUS_RELEASE, PreviousRelease, {})
    yield f"These keys stand below it: `public: {{{PREVIOUS_RELEASE}: {{first: survey.csv}}}}`."


def _source(kind: str, source: type[Any], renamed: Mapping[str, str]) -> Iterator[str]:
    described = source_parameters(source)
    yield f"### `{kind}`"
    yield ""
    yield (inspect.getdoc(source) or "").split("\n\n")[0]
    yield ""
    yield "| key | default | what it is |"
    yield "|---|---|---|"
    for field in dataclasses.fields(source):
        needed = field.default is dataclasses.MISSING
        default = "**needed**" if needed else _default(field.default)
        name = renamed.get(field.name, field.name)
        yield f"| `{name}` | {default} | {_cell(sentence(described[field.name]))} |"
    yield ""


def _default(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(f"`{one}`" if one else "nothing" for one in value)
    return f"`{_yaml(value)}`"


def source_parameters(source: type[object]) -> dict[str, str]:
    """Return what a source's docstring says of each of its parameters."""
    found: dict[str, str] = {}
    # Types stand in the class, not in its docstring.
    docstring = griffe.Docstring(inspect.getdoc(source) or "")
    for section in griffe.parse_numpy(docstring, warnings=False):
        if section.kind is griffe.DocstringSectionKind.parameters:
            for one in section.value:
                found |= {name.strip(): one.description for name in one.name.split(",")}
    return found
