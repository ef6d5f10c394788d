"""The pages of the site as Markdown, and `llms.txt`, which lists them for programs that read."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

_GENERATED = "reference/python/"
"""Pages whose Markdown holds directives alone."""

_TO_GENERATED = re.compile(r"(\]\([^)\s#]*(?:reference/)?python/\w+)\.md")


def write_plain_pages(pages: list[Page], config: MkDocsConfig) -> None:
    """Write the Markdown of each page into the site, and the list of all of them."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for page in pages:
        place = page.file.src_uri
        if place.startswith(_GENERATED) or not page.markdown or not place.endswith(".md"):
            continue
        target = site / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _TO_GENERATED.sub(r"\1.html", page.markdown)
        target.write_text(text, encoding="utf-8")
        lines.append(f"- [{page.title}]({place}): {_first_sentence(page.markdown)}")
    lines += ["", "The reference of Python is in the site's HTML alone, below `reference/python/`."]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _first_sentence(markdown: str) -> str:
    """Return the first sentence of a page's first paragraph, without links."""
    paragraphs = (one.strip() for one in markdown.split("\n\n"))
    first = next((one for one in paragraphs if one and one[0].isalpha()), "")
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split()))
    return re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")
