"""Identities of sources: one text for every spelling of a path, a URL or a query.

The texts are for comparison. They hold no password or token, which do not change the source.
Another user is another source, since the answers of a server may depend on the user.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, unquote_plus, urlencode

from jam_dagster.common.files import real_path
from jam_dagster.common.operating_system import user_name
from jam_dagster.errors import SourceError
from jam_dagster.tables.sources.reading import expand_variables

if TYPE_CHECKING:
    from sqlalchemy import URL

# pandas recognises addresses by the same pattern.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:::[A-Za-z0-9+.-]+)*://")
# Protocols of fsspec that cache another one.
_CACHES = ("simplecache", "filecache", "blockcache", "cached")
_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasbs": "wasb", "ssh": "sftp"}
_WEB = ("http", "https")
# A host or a bucket follows, and its case does not matter; elsewhere it may be a folder.
_HOSTS = (*_WEB, "ftp", "ftps", "sftp", "smb", "hdfs", "webhdfs", "s3", "gs", "abfs", "wasb")
# The part before the "@" is a container or a repository, not a user.
_NO_USER = ("abfs", "wasb", "az", "github")
# The user may decide which files the server shows.
_LOGINS = ("ftp", "ftps", "sftp", "smb", "hdfs", "webhdfs")
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
# Their drivers may be of libpq, which reads service files.
_SERVED = ("postgresql", "cockroachdb", "redshift")
_FILE_DATABASES = ("sqlite", "duckdb")
_LOCALHOST = ("localhost", "127.0.0.1", "::1")

_SECRET = re.compile(
    r"pass(word|wd|phrase)?|.*password.*|pwd|.*(token|secret|credential).*|(.*[-_])?key|"
    r".*(api|access|account|private)_?key.*|sig|.*signature.*|auth|authorization",
    re.I,
)
# Parts of a database's URL that name the user.
_USER = re.compile(r"user([ _]?name|_?id)?|uid", re.I)
_TRUST = re.compile(r"trusted_connection|authentication", re.I)
_TRUE = ("true", "yes", "on", "y", "t", "1")
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
# Blanks in every dialect.
_BLANKS = " \t\n\r\f"
_QUOTED = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|\[[^\]]*\])")


def canonical(**parts: Any) -> str:
    """Return parts as one text, independent of their order."""
    return json.dumps(parts, sort_keys=True, separators=(",", ":"))


def places_in(identity: str) -> list[str]:
    """Return the file or the query of each table of an identity (see `place_in`)."""
    parts = _parts(identity)
    if isinstance(roots := parts.get("roots"), str):
        return [place_in(roots), place_in(parts["children"])]
    return [place_in(identity)]


def place_in(identity: str) -> str:
    """Return the file or the query of one table, without user and reading options.

    Two identities of one place may show the same people.
    """
    parts = _parts(identity)
    if isinstance(whole := parts.get("split"), str):
        return place_in(whole)
    if (file := _file_in(parts)) is not None:
        return canonical(file=file)
    if isinstance(database := parts.get("sql"), dict) and database.pop("user", None):
        return canonical(**parts)
    return identity


def is_one_file(identity: str) -> bool:
    """Return whether an identity names one file of this machine, which holds one partition.

    A folder can hold the file of another partition, a remote store may have two addresses of one
    file, and the content of a query or an asset is known only when it is read.
    """
    parts = _parts(identity)
    if isinstance(whole := parts.get("split"), str):
        return is_one_file(whole)
    if isinstance(roots := parts.get("roots"), str):
        return is_one_file(roots) and is_one_file(parts["children"])
    place = _file_in(parts)
    return place is not None and "://" not in place and not os.path.isdir(place)


def selects_records(identity: str) -> bool:
    """Return whether an identity is of a query, an asset or a split, which can select records.

    Its author can choose the records, which are known only when it is read.
    """
    parts = _parts(identity)
    if isinstance(roots := parts.get("roots"), str):
        return selects_records(roots) or selects_records(parts["children"])
    return _file_in(parts) is None and not {"demo", "memory"} & {*parts}


def _file_in(parts: dict[str, Any]) -> str | None:
    """Return the file or folder of an identity; None for a query on a database file."""
    return next((parts[kind] for kind in ("csv", "parquet") if kind in parts), None)


def _parts(identity: str) -> dict[str, Any]:
    """Return the parts of an identity; empty if `canonical` did not write it."""
    try:
        parts = json.loads(identity)
    except ValueError:
        return {}
    return parts if isinstance(parts, dict) else {}


def place_of(path: str) -> str:
    """Return the resolved place of a path or an fsspec URL."""
    text = expand_variables(path)
    if (name := _file_name(text)) is not None:
        return _real(name)
    kept, last = _chain(text)
    if not kept and (name := _file_name(last)) is not None:
        return _real(name)
    return "::".join(_url(one) for one in (*kept, last))


def opened(path: str) -> str:
    """Return the path or URL that a reader opens for a source; its place is `place_of`.

    A ``file:`` URL becomes the name of its file, since readers decode such URLs in different ways.
    """
    text = expand_variables(path)
    return _file_name(text) or text


def is_address(path: str) -> bool:
    """Return whether readers take a path for an fsspec URL, not for the name of a local file."""
    return _ADDRESS.match(path) is not None


def login_of(path: str) -> dict[str, str]:
    """Return the user of a URL as ``{"user": NAME}``; empty if it does not affect the content."""
    _, last = _chain(expand_variables(path))
    scheme, _, rest = last.partition("://")
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if not at or _SCHEMES.get(scheme.lower(), scheme.lower()) not in _LOGINS:
        return {}
    return {"user": unquote(user.partition(":")[0])}


def _chain(text: str) -> tuple[list[str], str]:
    """Return the parts of a chained URL that change what is read, and its last part."""
    *wrappers, last = text.split("::")
    if wrappers:
        # Within a chain fsspec reads a file's name as it is written.
        last = re.sub(r"^file://", "local://", last, flags=re.I)
    return [one for one in wrappers if one.lower() not in _CACHES], last


def _file_name(text: str) -> str | None:
    """Return the name of the file that a path or a ``file:`` URL opens; None for other URLs."""
    found = re.match(r"\s*(?:file:(?://([^/]*))?|(local)://)", text, re.I)
    if found is None:
        return None if is_address(text) else text
    name = text[found.end() :]
    if found[2]:
        return os.path.abspath(os.path.expanduser(name))
    if (found[1] or "").lower() not in ("", "localhost"):
        raise SourceError(
            "a file: URL names another host: write file:///PATH with the absolute path of a file"
            " on this machine"
        )
    # `urllib` too drops the last fragment, and decodes percent signs.
    return os.path.abspath(unquote(re.sub(r"#[^#]*\Z", "", name)))


def _real(path: str) -> str:
    try:
        return real_path(os.path.expanduser(path))
    except ValueError:
        # The path holds a NUL, which no file name contains.
        return path


def _url(text: str) -> str:
    """Return the canonical form of a URL, without credentials."""
    scheme, found, rest = text.partition("://")
    if (name := _file_name(text)) is not None:
        return f"file://{_real(name)}" if found else _real(name)
    scheme = _SCHEMES.get(scheme.lower(), scheme.lower())
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


def parsed_url(url: str) -> URL | None:
    """Return the parts of a SQLAlchemy URL; None if the text is not one."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    with suppress(ArgumentError, ValueError):
        return make_url(url)
    return None


def database_of(url: str) -> dict[str, Any]:
    """Return the database of a SQLAlchemy URL, independent of the driver."""
    parsed = parsed_url(expand_variables(url))
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
    given |= found
    if kind in _SERVED:
        _refuse_service(given)
    who = {value for name, value in given.items() if _USER.fullmatch(name)}
    who |= {f"{name}={value}" for name, value in given.items() if _TRUST.fullmatch(name)}
    who |= {parsed.username} if parsed.username else set()
    if kind in _FILE_DATABASES:
        name = _database_file(name, kind, options.get("uri", ""))
    elif kind == "postgresql":
        host, port = host or _libpq("PGHOST").lower(), port or _libpq("PGPORT")
        who = who or {_libpq("PGUSER") or user_name()}
        name = name or _libpq("PGDATABASE") or min(who)
        given = {"options": _libpq("PGOPTIONS"), "hostaddr": _libpq("PGHOSTADDR"), **given}
        given = {name: value for name, value in given.items() if value}
    return {
        **({"user": sorted(who)} if who else {}),
        "kind": kind,
        "host": "localhost" if host in _LOCALHOST else host,
        "port": "" if port == str(_DATABASE_PORTS.get(kind)) else port,
        "name": name,
        "options": sorted(
            [name, value]
            for name, value in given.items()
            if not any(one.fullmatch(name) for one in (_SECRET, _USER, _TRUST, _CONNECTION))
        ),
    }


def _libpq(variable: str) -> str:
    """Return the value that libpq takes for a missing part of a URL."""
    return os.environ.get(variable, "")


def _refuse_service(given: Mapping[str, str]) -> None:
    """Raise if a service file names the server, since the file may change."""
    named = next((name for name in ("service", "conninfo", "dsn") if given.get(name)), "")
    if named or _libpq("PGSERVICE"):
        what = f"has the parameter {named}" if named else "is read with PGSERVICE set"
        raise SourceError(
            f"a source's sql {what}, and a service file may name any server: write host, port,"
            f" database and user into the URL, and {'remove' if named else 'unset'}"
            f" {named or 'PGSERVICE'}"
        )


def _database_file(name: str, kind: str, uri: str) -> str:
    if name in ("", ":memory:"):
        return ":memory:"
    if kind == "sqlite" and not uri:
        # SQLite opens a file of exactly this name.
        return real_path(name)
    if kind == "sqlite" and not (uri.lower() in _TRUE and name.startswith("file:")):
        # SQLAlchemy and SQLite read any other form differently.
        raise SourceError(
            "a source's sql has the parameter uri: write it once, as uri=true, after"
            " sqlite:///file:PATH, or leave it out"
        )
    file = _file_name(re.split(r"[?#]", name, maxsplit=1)[0])
    return name if file is None else _real(file)


def _connection_string(text: str) -> dict[str, str]:
    """Return the parts of an ODBC connection string by their lower-case names."""
    # SQLAlchemy has decoded it once; some strings write a blank as a plus.
    parts = re.findall(r"([^;={}]+)=(\{[^}]*\}|[^;]*)", unquote_plus(text))
    return {name.strip().lower(): value.strip() for name, value in parts}


def query_text(query: str) -> str:
    """Return a query with each run of ASCII blanks outside quotes as one blank.

    A query with characters that are a comment, an escape or a quote in some dialects only stays
    unchanged, so two queries with different results never get the same text.
    """
    query = query.strip(_BLANKS)
    if _UNSURE.search(query):
        return query
    pieces = _QUOTED.split(query)
    if any(mark in piece for piece in pieces[::2] for mark in "'\"`["):
        return query
    # An array in some dialects: its quotes then begin and end elsewhere than those of a name.
    bracketed = [piece[1:] for piece in pieces[1::2] if piece[0] == "["]
    if any(mark in piece for piece in bracketed for mark in "'\"`["):
        return query
    plain = [re.sub(f"[{_BLANKS}]+", " ", piece) for piece in pieces[::2]]
    pieces[::2] = plain
    return "".join(pieces).rstrip("; ")


def encoding_name(encoding: str) -> str:
    """Return the canonical name of an encoding, or the given one if it is unknown."""
    try:
        return codecs.lookup(encoding).name
    except (LookupError, ValueError):
        return encoding
