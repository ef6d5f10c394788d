"""Places that name environment variables, and messages that keep to the names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, unquote, urlsplit

from jam_dagster.errors import SpecificationError

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
# Shorter values stand in messages by themselves, and are no secrets.
_SHORTEST = 3


def names_variables(text: str) -> bool:
    """Whether a text names an environment variable that is set, as ``${NAME}`` or ``$NAME``."""
    return any(True for _ in _known(text))


def expanded(place: str, what: str, *, note: str = "") -> str:
    """Return a path or URL with ``~`` and ``${VARIABLES}`` replaced.

    Parameters
    ----------
    place
        As it is configured.
    what
        What it is the place of, for the error.
    note
        A sentence that the error ends with.

    Raises
    ------
    SpecificationError
        If a variable is not set: what it stands for would lie somewhere else, under its name.
    """
    for match in re.finditer(r"\$\{(\w+)\}", place):
        if match[1] not in os.environ:
            raise SpecificationError(
                f"{what} names {match.group()}, which is not set in the environment of this"
                f" process: set it, or write the place out.{' ' * bool(note)}{note}"
            )
    return os.path.expanduser(os.path.expandvars(place))


def with_names(message: str, place: str) -> str:
    """Return a message with the variables' names in place of what a place expands to.

    What stands in a URL that a variable holds, such as a user, a host or a token, is masked too.

    Parameters
    ----------
    message
        What a library says, which may quote the expanded place.
    place
        The place as it is configured. Without variables the message stays as it is.
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
    # All at once: a name that was put in is not looked at again.
    pattern = "|".join(_as_a_word(value) for value in known)
    return re.sub(pattern, lambda found: hidden[found.group()], message)


def _as_a_word(value: str) -> str:
    """Return the pattern of a value where it is no part of a longer word."""
    before = r"(?<!\w)" if value[0].isalnum() else ""
    after = r"(?!\w)" if value[-1].isalnum() else ""
    return f"{before}{re.escape(value)}{after}"


def _known(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a text that are set, as they are written, with their values."""
    for match in _VARIABLE.finditer(text):
        value = os.environ.get(match[1] or match[2])
        if value is not None:
            yield match.group(), value


def _parts(url: str) -> Iterator[str]:
    """Yield what a URL is made of, the scheme and the port apart; nothing for a path."""
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
