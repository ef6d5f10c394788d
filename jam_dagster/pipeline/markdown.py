"""Texts of others in Markdown, which Dagster's UI renders in descriptions and metadata.

The UI runs no script and no raw HTML of it, but it follows the rest: an image in a value of a
public table would ask its server for it, and a link would lead elsewhere than it says. A bare
address is still made a link, to what it says.
"""

from __future__ import annotations

import re

from jam_dagster.common.shown_text import one_line

# Characters that open a construct of GitHub's Markdown within a line. An underscore within a word
# does not.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)")
# Texts that open a heading or a list at the beginning.
_OPENING = re.compile(r"\A(?=[#+-]+(?:\s|\Z))|\A\d+(?=[.)](?:\s|\Z))")


def literal(text: str) -> str:
    """Return Markdown that shows a text as it is, on one line."""
    escaped = _SPECIAL.sub(r"\\\g<0>", one_line(text).lstrip(" "))
    return _OPENING.sub(r"\g<0>\\", escaped)
