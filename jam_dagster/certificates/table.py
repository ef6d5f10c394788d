"""The canonical form of a published synthetic table, and its hash."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from io import BytesIO
from typing import IO, TYPE_CHECKING, cast

from jam_dagster.mechanisms.loops.transcript import Transcript, measurements_hash
from jam_dagster.tables.domain.text_dtype import SYNTHETIC
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from jam_dagster.privacy import ReleaseId
    from jam_dagster.tables import Domain
    from jam_dagster.tables.sources.dialect import Dialect

RUN_ATTRIBUTE = "jam_dagster.run"
"""The mark of a synthetic table: the digest of the run that made it."""


def marks_of(run: str) -> dict[str, str]:
    """Return the marks of the table that a run made: its digest, and that it is synthetic."""
    return {RUN_ATTRIBUTE: run, SYNTHETIC: SAYS_SYNTHETIC}


def table_csv(table: pd.DataFrame, domain: Domain, dialect: Dialect) -> bytes:
    """Return a table as the CSV that its certificate holds the SHA-256 of."""
    file = BytesIO()
    dialect.write(table, file, domain)
    return file.getvalue()


def table_digest(table: pd.DataFrame, domain: Domain, dialect: Dialect) -> str:
    """Return the SHA-256 of `table_csv`, in hexadecimal."""
    return digest_written(lambda file: dialect.write(table, file, domain))


def digest_written(write: Callable[[IO[bytes]], object]) -> str:
    """Return the SHA-256 of what is written to a file, in hexadecimal; no content is kept."""
    hashing = _Hashing()
    write(cast(IO[bytes], hashing))
    return hashing.digest.hexdigest()


def run_digest(release_id: ReleaseId, transcript: Transcript) -> str:
    """Return the SHA-256 of a release's id and all measurements, both of which may leave."""
    prefix = json.dumps(asdict(release_id), sort_keys=True).encode()
    return measurements_hash(transcript, prefix=prefix).hexdigest()


class _Hashing:
    """A binary file that keeps only the hash of its content."""

    mode = "wb"
    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return len(content)

    def flush(self) -> None: ...

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
