r"""Safe display of foreign texts, such as names and values of a table, on pages and terminals.

A name may hold invisible characters that change the display: terminals obey escape sequences, a
line break forges a line of a log, and direction marks reverse the following text. They are shown as
the escapes of Python and JSON, such as ``\x1b`` and ``\u202e``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

# Some scripts need joiners, and direction marks that affect only their own character.
_NEEDED = "\u200c\u200d\u200e\u200f\u061c"
_KEPT = "\n\t" + _NEEDED
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Most texts have none of these, so not every character needs a check.
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e\xa1-\xac\xae-\u05ff]")


def visible(text: str) -> str:
    """Return a text with invisible characters as escapes; line breaks and tabs are kept."""
    if not _SUSPECT.search(text):
        return text
    return "".join(map(_shown, text))


def seen(value: object) -> object:
    """Return a value of a page's template: a text as `visible` does, markup as it is."""
    return visible(value) if type(value) is str else value


def one_line(text: str) -> str:
    """Return a text as `visible` does, also with line breaks and tabs as escapes."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shown(value: Any) -> Any:
    """Return plain data, lists and mappings, with each text as `one_line` shows it."""
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


def clock(seconds: float) -> str:
    """Return a duration, to the second begun, as people read it: ``0:42`` or ``1:02:03``."""
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
