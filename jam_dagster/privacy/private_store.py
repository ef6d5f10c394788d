"""The private store: secrets that only its owner may read, and why attempts failed."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from jam_dagster.common.files import OWNER_ONLY, write_once, write_whole
from jam_dagster.errors import SpecificationError

if TYPE_CHECKING:
    from upath import UPath

BINDING_FILE = "source.key"
"""The file name of a private store's secret, which keys the bindings of sources."""

CONTENTS_FOLDER = "contents"
"""The folder, in a private store, of keyed digests of the private records of each release."""

FAILURES = "failures"
"""The folder, in a private store, of the causes of failed attempts to open private data."""

_SECRET_BYTES = 32

PRIVATE_STORE_VARIABLE = "JAM_PRIVATE"
"""The environment variable that names the command line's private store."""


def stored_secret(folder: Path | UPath, *, make: bool) -> bytes:
    """Return the secret in a private store, which need not exist.

    Unless it is to be made, a missing secret is a random one, which matches no binding.
    """
    path = folder / BINDING_FILE
    try:
        if make and not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_once(path, secrets.token_bytes(_SECRET_BYTES), mode=OWNER_ONLY)
        secret = bytes(path.read_bytes())
    except FileNotFoundError:
        return secrets.token_bytes(_SECRET_BYTES)
    except OSError as error:
        raise unusable(folder, error) from None
    if len(secret) != _SECRET_BYTES:
        raise SpecificationError(
            f"{path} is not the secret that sources are bound with: restore it from a backup, or "
            "remove it and bind the sources again (`jam-dagster ledger rebind`)"
        )
    return secret


def unusable(folder: Path | UPath, error: OSError) -> SpecificationError:
    """Return the error of a private store that can be neither read nor written."""
    return SpecificationError(
        f"the private store {folder} cannot be used ({error.strerror}): name another folder, such "
        "as with --private-store, or change its permissions"
    )


def keyed_contents(secret: bytes, release: str, contents: str) -> str:
    """Return the keyed digest of a digest of private records, which the secret keys.

    `release` is the digest of the release's id: two releases of one table have two of them.
    """
    text = f"jam contents\0{release}\0{contents}".encode()
    return hmac.new(secret, text, "sha256").hexdigest()


def failure_of(names: Mapping[str, str]) -> bytes:
    """Return the first line of a failure's file, which names the release."""
    named = ("dataset", "release", "partition", "edition")
    fields = {name: names[name] for name in named if name in names}
    return b"jam_dagster.failure " + json.dumps(fields).encode() + b"\n\n"


def default_private_store(file: Path | None, place: str) -> Path:
    """Return the command line's default private store for a ledger.

    It is next to the ledger's file; for a ledger on a server, in the user's own data folder.
    """
    if file is None:
        from platformdirs import user_data_path

        name = hashlib.sha256(place.encode()).hexdigest()[:16]
        return user_data_path("jam_dagster", appauthor=False) / "private" / name
    # Next to the file itself: a link must lead to the same store.
    real = file.resolve()
    return real.with_name(f"{real.name}-private")


def carry_private_store(origin: Path, destination: Path) -> bool:
    """Copy a private store to the place that belongs to a moved ledger.

    Return whether the destination holds the origin's secret; False if it holds another one.
    """
    if origin == destination or not (origin / BINDING_FILE).exists():
        return True
    secret = stored_secret(origin, make=False)
    if (destination / BINDING_FILE).exists():
        return stored_secret(destination, make=False) == secret
    try:
        kept = [one for one in origin.glob(f"{CONTENTS_FOLDER}/**/*") if one.is_file()]
        for path in (*kept, origin / BINDING_FILE):
            copy = destination / path.relative_to(origin)
            for folder in reversed(copy.relative_to(destination).parents):
                (destination / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(copy, path.read_bytes(), mode=OWNER_ONLY)
    except OSError as error:
        raise SpecificationError(
            f"the private store {origin} cannot be copied to {destination} ({error.strerror}): "
            "copy it yourself, or name it with --private-store"
        ) from None
    return True
