"""The private store of the command line: a folder of secrets that is its owner's alone."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from jam_dagster.common.files import OWNER_ONLY, write_once, write_whole
from jam_dagster.errors import SpecificationError

SOURCE_KEY_FILE = "source.key"
"""The name of the secret of a private store, by which sources are bound."""

RECORDS_FOLDER = "records"
"""The folder, in a private store, of how many private records each release began with."""

CONTENTS_FOLDER = "contents"
"""The folder, in a private store, of keyed digests of the records that releases began with."""

_KEPT_FOLDERS = (RECORDS_FOLDER, CONTENTS_FOLDER)

_SECRET_BYTES = 32

PRIVATE_STORE_VARIABLE = "JAM_PRIVATE"
"""The environment variable that names the command line's private store."""


def stored_secret(folder: Path, *, make: bool) -> bytes:
    """Return the secret that lies in a folder on a local disk, its owner's alone.

    Parameters
    ----------
    folder : Path
        The private store; it need not exist.
    make : bool
        Whether to make the secret, once, where there is none. Otherwise one that fits nothing
        stands for it, and no file is made.

    Raises
    ------
    SpecificationError
        If the file there is none, or cannot be made or read.
    """
    path = folder / SOURCE_KEY_FILE
    try:
        if make and not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_once(path, secrets.token_bytes(_SECRET_BYTES), mode=OWNER_ONLY)
        secret = path.read_bytes()
    except FileNotFoundError:
        return secrets.token_bytes(_SECRET_BYTES)
    except OSError as error:
        raise SpecificationError(
            f"the private store {folder} cannot be used ({error.strerror}): name another folder "
            f"with --private-store, or change its permissions"
        ) from None
    if len(secret) != _SECRET_BYTES:
        raise SpecificationError(
            f"{path} is not the secret that sources are bound with: restore it from a backup, or "
            "remove it and let the sources be bound once more (`jam-dagster ledger rebind`)"
        )
    return secret


def keyed_contents(secret: bytes, contents: str) -> str:
    """Return the keyed digest of a digest of private records, which tells nothing without the key.

    Parameters
    ----------
    secret : bytes
        Of the private store.
    contents : str
        What `jam_dagster.tables.codes.table.contents_digest` returned.
    """
    return hmac.new(secret, b"jam contents\0" + contents.encode(), "sha256").hexdigest()


def default_private_store(file: Path | None, place: str) -> Path:
    """Return the command line's private store of a ledger, where none is named.

    It lies beside the ledger's file; for a ledger on a server, in the user's own data folder.

    Parameters
    ----------
    file : Path or None
        The ledger's file; None for a ledger on a server.
    place : str
        Where the ledger lies, without a password.
    """
    if file is None:
        from platformdirs import user_data_path

        name = hashlib.sha256(place.encode()).hexdigest()[:16]
        return user_data_path("jam_dagster", appauthor=False) / "private" / name
    # Beside the file itself: whoever comes by a link must find the same store.
    real = file.resolve()
    return real.with_name(f"{real.name}-private")


def carry_private_store(origin: Path, destination: Path) -> bool:
    """Copy a private store to the place that goes with a ledger's new one.

    Parameters
    ----------
    origin, destination : Path
        Their folders.

    Returns
    -------
    bool
        Whether the destination has what the origin has; False where another secret lies there.

    Raises
    ------
    SpecificationError
        If a file is not a secret, or cannot be made or read.
    """
    if origin == destination or not (origin / SOURCE_KEY_FILE).exists():
        return True
    secret = stored_secret(origin, make=False)
    if (destination / SOURCE_KEY_FILE).exists():
        return stored_secret(destination, make=False) == secret
    try:
        kept = [one for name in _KEPT_FOLDERS for one in origin.glob(f"{name}/*.json")]
        for path in (*kept, origin / SOURCE_KEY_FILE):
            copy = destination / path.relative_to(origin)
            destination.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(copy, path.read_bytes(), mode=OWNER_ONLY)
    except OSError as error:
        raise SpecificationError(
            f"the private store {origin} cannot be copied to {destination} ({error.strerror}): "
            "copy it yourself, or name it with --private-store"
        ) from None
    return True
