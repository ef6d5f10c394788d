"""The generated pages hold everything that they are generated from."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from docs_build import hooks
from docs_build.command_line import command_line_page, commands
from docs_build.house_pages import PAGES_OF, ROOT, house_page, linked
from docs_build.mechanism_table import (
    INDEX,
    add_pages,
    mechanism_table,
    page_of,
)
from docs_build.python_reference import PACKAGES, package_page, public_names
from docs_build.release_file import (
    Component,
    component_keys,
    release_file_page,
    resources_file_page,
    source_parameters,
)
from jam_dagster.mechanisms import MECHANISMS, Mechanism, mechanism_class
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.pipeline import ReleaseResources, SyntheticRelease
from jam_dagster.tables import CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.cell_functions import FUNCTIONS
from jam_dagster.tables.domain.domain_file import DOMAIN_KEYS
from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.sources.base import SOURCES
from jam_dagster.tables.sources.previous_release import PREVIOUS_RELEASE, PreviousRelease
from tests.small_runs import SYNTHESIZING

page_of_releases = cache(release_file_page)

PAGES = {SyntheticRelease: release_file_page, ReleaseResources: resources_file_page}


@pytest.mark.parametrize("component", PAGES)
def test_every_key_of_a_component_is_described(component: Component) -> None:
    keys = {key.name: key for key in component_keys(component)}

    assert {"privacy.unit.column", "budgets.epsilon"} & set(keys)
    for key in keys.values():
        assert key.description, f"{key.name} has no description: describe it there"
        assert key.kind, key.name


@pytest.mark.parametrize("component", PAGES)
def test_every_key_of_a_component_is_on_its_page(component: Component) -> None:
    page = PAGES[component]()
    for key in component_keys(component):
        assert f"`{key.name.rpartition('.')[2]}`" in page
        if key.section:
            assert f"## `{key.name}`" in page


def test_defaults_are_those_of_the_schema() -> None:
    keys = {key.name: key for key in component_keys()}

    assert keys["release"].required
    assert keys["privacy.epsilon"].required
    assert keys["privacy.delta"].default == "1e-09"
    assert keys["workload.degree"].default == ""
    assert keys["evaluation.share"].default == "0.05"
    assert keys["mechanism"].kind == "text or mapping"
    assert keys["evaluation.mode"].kind == "`exact`, `private`, `off`"
    assert keys["private"].kind == "text or mapping"


@pytest.mark.parametrize("name", SYNTHESIZING)
def test_every_setting_of_a_mechanism_is_described(name: str) -> None:
    section = page_of_releases().split(f"### `{name}`\n")[1].split("\n### ")[0]
    for key, one in settings_of(mechanism_class(name)).items():
        (row,) = (line for line in section.splitlines() if line.startswith(f"| `{key}` |"))
        assert str(one.default) in row or one.default in (None, False, True)


def test_what_makes_no_table_is_not_offered() -> None:
    assert "### `gaussian`" not in page_of_releases()


@pytest.mark.parametrize("kind", [*SOURCES, PREVIOUS_RELEASE])
def test_every_key_of_a_source_is_described(kind: str) -> None:
    source, first = {**SOURCES, PREVIOUS_RELEASE: (PreviousRelease, "")}[kind]
    page = page_of_releases()
    described = source_parameters(source)

    assert f"### `{kind}`" in page
    for field in dataclasses.fields(source):
        assert described.get(field.name), f"{source.__name__} does not describe {field.name}"
        assert f"| `{kind if field.name == first else field.name}` |" in page


def test_every_key_of_the_domain_file_is_on_its_page() -> None:
    page = (ROOT / "docs" / "reference" / "domain.md").read_text()
    shown = {mark: table() for mark, table in hooks.TABLES.items() if mark in page}
    for kind in (CategoricalAttribute, PrefixAttribute, NumericAttribute, TimeAttribute):
        keys = {name: key for name, key in kind.keys.items() if key.meaning}
        assert [*keys] == [*kind.keys]
        for name, key in keys.items():
            row = f"| `{name}` | {key.default} | {key.meaning} |"
            assert any(row in table for table in shown.values()), (kind.__name__, name)
    for name in DOMAIN_KEYS:
        assert f"| `{name}` |" in shown["<!-- keys of domain -->"]
    times = shown["<!-- keys of times -->"]
    assert "| `unit` |" in times
    assert "| `edges` |" not in times


def test_every_function_of_an_expression_is_on_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "domain.md").read_text()
    assert "<!-- expressions -->" in page
    assert "<!-- rules -->" in page
    table = hooks.TABLES["<!-- expressions -->"]()
    for name in FUNCTIONS:
        assert f"`{name}(" in table, name


def test_every_table_that_follows_from_the_code_is_on_one_page() -> None:
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    for mark, table in hooks.TABLES.items():
        assert sum(page.count(mark) for page in pages) == 1, mark
        head, line, *rows = table().splitlines()
        assert rows
        assert {row.replace("\\|", "").count("|") for row in (head, line, *rows)} == {
            head.count("|")
        }, mark


def test_every_command_and_option_is_on_its_page() -> None:
    page = command_line_page()
    names = [name for name, _ in commands()]

    assert {"jam-dagster plan", "jam-dagster ledger show", "jam-dagster synthesize"} <= set(names)
    for name, command in commands():
        assert command.help, f"{name} does not say what it does"
        section = page.split(f"## `{name}`\n")[1].split("\n## `jam-dagster")[0]
        for parameter in command.params:
            if parameter.name != "help" and parameter.param_type_name == "option":
                assert all(option in section for option in parameter.opts), (name, parameter.opts)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_in_the_python_reference(name: str) -> None:
    module = import_module(PACKAGES[name])
    names = public_names(module)
    entries = [line for line in package_page(name).splitlines() if line.startswith("::: ")]

    assert len(names) > 2
    # Mechanisms that are found by their names only come last.
    assert entries[: len(names)] == [f"::: {PACKAGES[name]}.{one}" for one in names]


def test_links_of_the_house_pages_stay_within_the_site() -> None:
    page = house_page("ARCHITECTURE.md")

    assert "](performance.md)" in page
    assert "](index.md)" in page
    assert "](docs/" not in page


def test_links_lead_to_files_of_the_repository_and_to_pages_of_the_site() -> None:
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    links = {
        (file, place)
        for file in files
        for place in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", file.read_text(encoding="utf-8"))
    }
    assert len(links) > 100
    # A reader in the repository has none of the pages that are generated.
    assert [(file.name, place) for file, place in links if not (file.parent / place).exists()] == []
    assert set(PAGES_OF.values()) <= {*hooks.PAGES, "index.md"}
    text = "[all keys](../../jam_dagster/keys.py#sources), [here](a.md#b), [there](../data.md)"
    assert linked(text, "docs/mechanisms/tilt.md", "mechanisms/tilt.md") == (
        "[all keys](../reference/release.md#sources), [here](a.md#b), [there](../data.md)"
    )


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda one: one.name)
def test_every_mechanism_has_a_page(mechanism: type[Mechanism]) -> None:
    file = ROOT / "docs" / page_of(mechanism)
    assert file.exists(), f"{mechanism.name}: write {file}, or set the page of its class"
    anchor = mechanism.page.partition("#")[2]
    headings = [re.sub(r"[^a-z0-9 -]", "", one.lower()) for one in headings_of(file)]
    assert not anchor or anchor in [one.strip().replace(" ", "-") for one in headings], (
        f"{mechanism.name}: give {file} a heading whose anchor is {anchor}"
    )


def headings_of(file: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)


def test_every_mechanism_is_in_the_table() -> None:
    assert "<!-- mechanisms -->" in (ROOT / "docs" / INDEX).read_text()
    rows = mechanism_table().splitlines()[2:]
    assert [row.split("]")[0] for row in rows] == [f"| [{one.title}" for one in MECHANISMS.values()]


def test_pages_of_mechanisms_come_into_the_contents_by_themselves() -> None:
    written = [
        {"Start": "start.md"},
        {"How it works": [INDEX, {"JAM-PGM": "mechanisms/jam_pgm.md"}, {"More": "more.md"}]},
    ]
    add_pages(written)

    first, *pages, last = written[1]["How it works"]
    assert (first, last) == (INDEX, {"More": "more.md"})
    found = [page for one in pages for page in one.values()]
    assert sorted(found) == sorted({page_of(one) for one in MECHANISMS.values()})
    add_pages(written)
    assert len(written[1]["How it works"]) == len(pages) + 2


def test_every_mechanism_is_in_the_python_reference() -> None:
    page = package_page("mechanisms")
    for one in MECHANISMS.values():
        assert re.search(rf"^::: jam_dagster\.mechanisms\.(\w+\.)?{one.__name__}$", page, re.M)
