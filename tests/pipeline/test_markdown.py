"""A text in Markdown is that text: no link, no image, no row of a table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from jam_dagster.common.shown_text import one_line
from jam_dagster.pipeline.markdown import literal
from tests.nasty import NASTY

# As Dagster's UI reads it, but that raw HTML is shown there.
READER = MarkdownIt("gfm-like", {"html": True, "linkify": False})
CONSTRUCTS = {"link_open", "image", "html_inline", "html_block", "em_open", "strong_open", "s_open"}


def kinds(markdown: str) -> set[str]:
    tokens = READER.parse(markdown)
    inner = [child for token in tokens for child in token.children or ()]
    return {token.type for token in (*tokens, *inner)}


def read(markdown: str) -> str:
    inner = [child for token in READER.parse(markdown) for child in token.children or ()]
    return "".join(child.content for child in inner)


@pytest.mark.parametrize("text", NASTY)
def test_a_nasty_name_is_shown_as_it_is(text: str) -> None:
    assert kinds(literal(text)) <= {
        "paragraph_open",
        "inline",
        "text",
        "text_special",
        "paragraph_close",
    }
    assert read(literal(text)) == one_line(text)


@pytest.mark.parametrize(
    "text", ["marital_status", "-5 to 3", "4,000 rows, 4,000 expected", "18 to 24 (0.5%)", "a - b"]
)
def test_an_ordinary_text_is_written_as_it_is(text: str) -> None:
    assert literal(text) == text


@pytest.mark.parametrize("text", ["# head", "- item", "+ item", "1. one", "2) two", "---", "1."])
def test_no_line_opens_a_list_or_a_heading(text: str) -> None:
    assert kinds(literal(text)) <= {
        "paragraph_open",
        "inline",
        "text",
        "text_special",
        "paragraph_close",
    }
    assert read(literal(text)) == text


@given(st.text(alphabet="ab1 _*`[]()<>!|~\\#+-.&;:@/\n\tw", max_size=30))
def test_any_text_comes_back(text: str) -> None:
    unescaped = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", literal(text))
    assert unescaped == one_line(text).lstrip(" ")
    assert not kinds(f"word {literal(text)}") & CONSTRUCTS
    # A cell of a table holds it in one cell.
    cells = re.split(r"(?<!\\)(?:\\\\)*\|", literal(text))
    assert len(cells) == 1
