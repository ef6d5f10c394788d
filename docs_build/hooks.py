"""What MkDocs calls while it builds the site: pages that are generated come in here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_build.benchmark_tables import figure_table, preset_table
from docs_build.command_line import command_line_page
from docs_build.domain_keys import TABLES as KEYS
from docs_build.domain_keys import described, key_table
from docs_build.house_pages import house_page, linked
from docs_build.measured_tables import with_tables
from docs_build.mechanism_table import add_pages, mechanism_table
from docs_build.plain_pages import write_plain_pages
from docs_build.python_reference import PACKAGES, package_page
from docs_build.release_file import release_file_page, resources_file_page
from jam_dagster.tables.domain.cell_functions import DESCRIBED as EXPRESSIONS
from jam_dagster.tables.domain.constraints import DESCRIBED as RULES

PAGES: dict[str, Callable[[], str]] = {
    "security.md": partial(house_page, "SECURITY.md"),
    "architecture.md": partial(house_page, "ARCHITECTURE.md"),
    "reference/release.md": release_file_page,
    "reference/resources.md": resources_file_page,
    "reference/command_line.md": command_line_page,
    **{f"reference/python/{name}.md": partial(package_page, name) for name in PACKAGES},
}
"""Every generated page, by its place in the site."""

TABLES: dict[str, Callable[[], str]] = {
    "<!-- mechanisms -->": mechanism_table,
    "<!-- presets -->": preset_table,
    "<!-- figures -->": figure_table,
    "<!-- expressions -->": partial(described, "expression", "what it gives", EXPRESSIONS),
    "<!-- rules -->": partial(described, "entry", "what holds", RULES),
    **{f"<!-- keys of {name} -->": partial(key_table, *keys) for name, keys in KEYS.items()},
}
"""Tables that follow from the code, by the line of a page that each takes the place of."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of mechanisms to the contents."""
    add_pages(config.nav or [])
    return config


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put tables into their pages, and lead links to the site's pages."""
    place = page.file.src_uri
    if place in PAGES:
        return markdown
    markdown = linked(with_tables(markdown), f"docs/{place}", place)
    for mark, table in TABLES.items():
        markdown = markdown.replace(mark, table()) if mark in markdown else markdown
    return markdown


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    for place, write in PAGES.items():
        files.append(File.generated(config, place, content=write()))
    return files


def on_env(env: Environment, /, *, config: MkDocsConfig, files: Files) -> Environment:
    """Write the pages as Markdown, too, with a list of them."""
    pages = [file.page for file in files.documentation_pages() if file.page is not None]
    write_plain_pages(pages, config)
    return env
