r"""Texts of others, such as names and values of a table, as they are shown on a page or a terminal.

A name may hold characters that nobody sees and that change what is seen: terminals obey escape
sequences, a line break forges a line of a log, and marks of direction turn round what follows.
They are shown as the escapes that Python and JSON write, such as ``\x1b`` and ``\u202e``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# Scripts need joiners and marks of direction that reach no further than their own character.
_NEEDED = "\u200c\u200d\u200e\u200f\u061c"
_KEPT = "\n\t" + _NEEDED
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Most texts have none of these, and need no look at every character.
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e\xa1-\xac\xae-\u05ff]")


def visible(text: str) -> str:
    """Return a text with what is unseen in it shown as escapes; line breaks and tabs are kept."""
    if not _SUSPECT.search(text):
        return text
    return "".join(map(_shown, text))


def one_line(text: str) -> str:
    """Return a text as `visible` does, with line breaks and tabs as escapes too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shown(value: Any) -> Any:
    """Return plain data, lists and mappings, in which each text is shown as `one_line` does."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, Mapping):
        return {shown(name): shown(inner) for name, inner in value.items()}
    return [shown(inner) for inner in value] if isinstance(value, list | tuple) else value


def _shown(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _HIDDEN:
        return character
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
