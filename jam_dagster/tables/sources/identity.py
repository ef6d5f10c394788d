"""Identities of sources: one text for every spelling of a path, a URL or a query.

The texts are for comparison. They hold no credentials: another password is the same source.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlencode

from jam_dagster.errors import SourceError
from jam_dagster.tables.sources.reading import expand_variables

# Protocols of fsspec that keep a copy of what another one reads.
_CACHES = ("simplecache", "filecache", "blockcache", "cached")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb", "ssh": "sftp"}
_WEB = ("http", "https")
# A host or a bucket follows, and its case does not matter; elsewhere it may be a folder.
_HOSTS = (*_WEB, "ftp", "ftps", "sftp", "smb", "hdfs", "webhdfs", "s3", "gs", "abfs", "wasb")
# The part before the "@" is a container or a repository, not a user.
_NO_USER = ("abfs", "wasb", "az", "github")
_PORTS = {"http": 80, "https": 443, "ftp": 21, "ftps": 990, "sftp": 22, "smb": 445}

_DATABASE_PORTS = {
    "postgresql": 5432,
    "cockroachdb": 26257,
    "redshift": 5439,
    "mysql": 3306,
    "mariadb": 3306,
    "mssql": 1433,
    "oracle": 1521,
}
_FILE_DATABASES = ("sqlite", "duckdb")
_LOCALHOST = ("localhost", "127.0.0.1", "::1")

_SECRET = re.compile(
    r"pass(word|wd|phrase)?|.*password.*|pwd|.*(token|secret|credential).*|(.*[-_])?key|"
    r".*(api|access|account|private)_?key.*|sig|.*signature.*|auth|authorization",
    re.I,
)
# Credentials of a database; elsewhere a user may select the rows.
_USER = re.compile(r"user([ _]?name|_?id)?|uid|trusted_connection|authentication", re.I)
# Credentials of a signed address, which change with each signature.
_SIGNED = re.compile(r"x-(amz|goog)-.*|se|st|sv|sr|sp|spr|sip|skoid|sktid|skt|ske|sks|skv", re.I)
# Options of the connection, which change no row.
_CONNECTION = re.compile(
    r"ssl.*|.*timeout.*|application_name|app|driver|encrypt|trust_?server_?certificate|charset|"
    r"channel_binding|gss.*|krb.*|keepalives.*|target_session_attrs|check_same_thread|"
    r"isolation_level|warehouse|cache|mode|uri|read_only",
    re.I,
)

# A dialect may take these for a comment or another quote, within which a blank matters.
_UNSURE = re.compile(r"--|/\*|[#\\$]")
_QUOTED = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\])")


def canonical(**parts: Any) -> str:
    """Return parts as one text, independent of their order."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def place_of(path: str) -> str:
    """Return the resolved place of a path or an fsspec URL.

    Parameters
    ----------
    path
        The path in a source; ``${VARIABLE}`` is expanded.

    Returns
    -------
    str
        The absolute real path of a local file; otherwise the normalised URL without credentials.

    Raises
    ------
    SourceError
        A variable is not set.
    """
    text = expand_variables(path)
    local = local_path(text)
    if local is not None:
        return str(local)
    *wrappers, last = text.split("::")
    kept = [one for one in wrappers if one.lower() not in _CACHES]
    if kept or not wrappers:
        return "::".join(_url(one) for one in (*kept, last))
    return place_of(last)


def local_path(text: str) -> Path | None:
    """Return the real path of a path or ``file:`` URL, links followed; None for other URLs.

    Parameters
    ----------
    text
        A path or URL with expanded variables.
    """
    found = re.match(r"(?:file:(//)?|local:(//))", text, re.I)
    if found is None:
        if "://" in text:
            return None
        return _real(text)
    rest = text[found.end() :]
    host, slash, path = rest.partition("/")
    # Two slashes are followed by the name of this host, or, in fsspec's form, by the path.
    paths = [f"/{path}", rest] if slash and any(found.groups()) and host else [rest]
    # urllib decodes percent signs and drops fragments, fsspec does neither.
    spelled = [form for one in paths for form in (one, unquote(one), unquote(one.split("#")[0]))]
    return next((real for one in spelled if (real := _real(one)).exists()), _real(spelled[1]))


def _real(path: str) -> Path:
    try:
        return Path(os.path.realpath(os.path.expanduser(path)))
    except ValueError:
        # The path holds a NUL, which no file name contains.
        return Path(path)


def _url(text: str) -> str:
    """Return the canonical form of a URL, without credentials."""
    scheme, found, rest = text.partition("://")
    if not found:
        return str(_real(text))
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
    if scheme in ("file", "local"):
        return f"file://{local_path(text)}"
    options = ""
    if scheme in _WEB:
        rest = rest.partition("#")[0]
    if "=" in rest.partition("?")[2]:
        rest, _, query = rest.partition("?")
        options = _options(parse_qsl(query, keep_blank_values=True))
    host, slash, path = rest.partition("/")
    user, at, host = host.rpartition("@")
    if at and scheme not in _NO_USER:
        # In an unknown protocol the user may be part of the place; the password is not.
        user = "" if scheme in _HOSTS else user.partition(":")[0]
    if scheme in _HOSTS:
        host = host.lower().rstrip(".").removesuffix(f":{_PORTS.get(scheme, '')}").rstrip(":")
    if scheme in _WEB:
        path = re.sub("%[0-9a-f]{2}", _decoded, path, flags=re.I)
    path = f"{slash}{_without_dots(path)}"
    return f"{scheme}://{user}{'@' if user else ''}{host}{path}{'?' if options else ''}{options}"


def _options(given: Iterable[tuple[str, str]]) -> str:
    """Return the sorted parameters of a URL, without credentials."""
    given = list(given)
    signed = any(re.search("sig", name, re.I) for name, _ in given)
    return urlencode(
        sorted(
            (name, value)
            for name, value in given
            if not _SECRET.fullmatch(name) and not (signed and _SIGNED.fullmatch(name))
        )
    )


def _decoded(escape: re.Match[str]) -> str:
    """Decode needless escapes, and write the others in one form."""
    character = unquote(escape[0], "latin-1")
    return character if re.fullmatch(r"[A-Za-z0-9._~-]", character) else escape[0].upper()


def _without_dots(path: str) -> str:
    """Return a path without ``.`` and ``..``; double slashes stay, as they may be significant."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part != ".":
            kept.append(part)
    return "/".join(kept)


def database_of(url: str) -> dict[str, Any]:
    """Return the database of a SQLAlchemy URL, independent of user and driver.

    Parameters
    ----------
    url
        The URL in a source; ``${VARIABLE}`` is expanded.

    Returns
    -------
    dict
        Its kind, host, port and name, and the options that may change the result of a query.

    Raises
    ------
    SourceError
        A variable is not set, or the URL is malformed; the message quotes no part of it.
    """
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    expanded = expand_variables(url)
    try:
        parsed = make_url(expanded)
    except (ArgumentError, ValueError):
        parsed = None
    if parsed is None:
        raise SourceError(
            "a source's sql is not a SQLAlchemy URL: write it as DIALECT://HOST/DATABASE, and"
            " credentials as ${VARIABLE}"
        )
    kind = parsed.get_backend_name()
    options = {
        name: value if isinstance(value, str) else ",".join(value)
        for name, value in parsed.query.items()
    }
    found = _connection_string(options.pop("odbc_connect", ""))
    given = {name.lower(): value for name, value in options.items()}
    host = (parsed.host or given.pop("host", "")).lower().rstrip(".")
    port = str(parsed.port or given.pop("port", ""))
    name = parsed.database or given.pop("dbname", "") or given.pop("database", "")
    if kind in _FILE_DATABASES:
        name = _database_file(name)
    elif kind == "postgresql":
        # libpq's default.
        name = name or parsed.username or given.get("user", "")
    return {
        "kind": kind,
        "host": "localhost" if host in _LOCALHOST else host,
        "port": "" if port == str(_DATABASE_PORTS.get(kind)) else port,
        "name": name,
        "options": sorted(
            [name, value]
            for name, value in (given | found).items()
            if not any(one.fullmatch(name) for one in (_SECRET, _USER, _CONNECTION))
        ),
    }


def _database_file(name: str) -> str:
    if name in ("", ":memory:"):
        return ":memory:"
    return str(local_path(name.partition("?")[0]) or name)


def _connection_string(text: str) -> dict[str, str]:
    """Return the parts of an ODBC connection string by their lower-case names."""
    # SQLAlchemy has decoded it once; some strings write a blank as a plus.
    parts = re.findall(r"([^;={}]+)=(\{[^}]*\}|[^;]*)", unquote_plus(text))
    return {name.strip().lower(): value.strip() for name, value in parts}


def query_text(query: str) -> str:
    """Return a query with each run of white space outside quotes as one blank.

    A query with characters that are a comment, an escape or a quote in some dialects only stays
    unchanged, so two queries with different results never get the same text.
    """
    query = query.strip()
    if _UNSURE.search(query):
        return query
    pieces = _QUOTED.split(query)
    if any(mark in piece for piece in pieces[::2] for mark in "'\"`["):
        return query
    plain = [re.sub(r"\s+", " ", piece) for piece in pieces[::2]]
    pieces[::2] = plain
    return "".join(pieces).rstrip("; ")


def encoding_name(encoding: str) -> str:
    """Return the canonical name of an encoding, or the given one if it is unknown."""
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return encoding
