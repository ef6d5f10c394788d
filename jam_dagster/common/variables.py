"""Places that name environment variables, and messages that show only the names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

from jam_dagster.errors import SpecificationError

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Shorter values also occur by chance in messages, and are no secrets.
_SHORTEST = 3


def names_variables(text: str) -> bool:
    """Return whether a text names a set environment variable, as ``${NAME}`` or ``$NAME``."""
    return any(True for _ in _known(text))


def expanded(place: str, what: str, *, note: str = "") -> str:
    """Return a path or URL with ``~`` and ``${VARIABLES}`` replaced."""
    for match in re.finditer(r"\$\{(\w+)\}", place):
        if match[1] not in os.environ:
            raise SpecificationError(
                f"{what} names {match.group()}, which is not set in the environment of this"
                f" process: set it, or write the place in full.{' ' * bool(note)}{note}"
            )
    return os.path.expanduser(os.path.expandvars(place))


def with_names(message: str, place: str) -> str:
    """Return a message with the names of variables in place of their values.

    The parts of a URL in a variable, such as a user, a host or a token, are masked, too.
    """
    shown = dict(_known(place))
    if not shown:
        return message
    whole = os.path.expanduser(os.path.expandvars(place))
    hidden = {whole: place, os.path.normpath(whole): place}
    hidden |= {value: name for name, value in shown.items()}
    hidden |= {os.path.normpath(value): name for name, value in shown.items() if value}
    for part in _parts(whole):
        if part not in place:
            hidden.setdefault(part, "***")
    known = sorted((value for value in hidden if len(value) >= _SHORTEST), key=len, reverse=True)
    if not known:
        return message
    # In one pass, so that an inserted name is not replaced again.
    pattern = "|".join(_as_a_word(value) for value in known)
    return re.sub(pattern, lambda found: hidden[found.group()], message)


def _as_a_word(value: str) -> str:
    """Return the pattern of a value that is not part of a longer word."""
    before = r"(?<!\w)" if value[0].isalnum() else ""
    after = r"(?!\w)" if value[-1].isalnum() else ""
    return f"{before}{re.escape(value)}{after}"


def _known(text: str) -> Iterator[tuple[str, str]]:
    """Yield the set variables of a text, as they are written, with their values."""
    for match in _VARIABLE.finditer(text):
        value = os.environ.get(match[1] or match[2])
        if value is not None:
            yield match.group(), value


def _parts(url: str) -> Iterator[str]:
    """Yield the parts of a URL except scheme and port; nothing for a path."""
    if "://" not in url:
        return
    try:
        split = urlsplit(url)
        found = [split.netloc, split.username, split.password, split.hostname, split.path]
    except ValueError:
        return
    found += [split.path.strip("/"), split.query, *(value for _, value in parse_qsl(split.query))]
    for part in found:
        if part:
            yield part
            yield unquote(part)
