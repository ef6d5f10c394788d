"""What the documentation says of every mechanism, from its class: the table, and its page."""

from __future__ import annotations

from typing import Any

from jam_dagster.mechanisms import MECHANISMS, Mechanism

INDEX = "mechanisms/index.md"


def page_of(mechanism: type[Mechanism]) -> str:
    """Return where a mechanism's page lies among the pages of the site."""
    return f"mechanisms/{mechanism.page.partition('#')[0]}"


def mechanism_table() -> str:
    """Return the table of all mechanisms, with links to their pages."""
    rows = [f"| [{one.title}]({one.page}) | {one.summary} |" for one in MECHANISMS.values()]
    return "\n".join(["| mechanism | what is particular |", "|---|---|", *rows])


def add_pages(nav: list[Any]) -> None:
    """Add the pages of mechanisms that the contents of the site lack, after those of others."""
    (section,) = (
        inside for part in nav for inside in part.values() if INDEX in inside and inside != INDEX
    )
    pages = [next(iter(one.values())) if isinstance(one, dict) else one for one in section]
    place = max(place for place, page in enumerate(pages) if page.startswith("mechanisms/"))
    new = {page_of(one): one.title for one in MECHANISMS.values() if page_of(one) not in pages}
    section[place + 1 : place + 1] = [{title: page} for page, title in new.items()]
