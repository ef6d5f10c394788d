"""The id of a release in the ledger, and the digests that are part of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any
from uuid import uuid4

from jam_dagster.errors import SpecificationError

_MAX_NAME = 200
_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_name(value: str, what: str, *, required: bool = True) -> str:
    """Return a name if it can be written in the ledger and read by people.

    That is a text of at most 200 characters without control characters, not blank where it is
    required.
    """
    if not isinstance(value, str):
        raise SpecificationError(f"{what} must be a string, got {value!r}")
    if required and not value.strip():
        raise SpecificationError(f"{what} must not be blank, got {value!r}")
    if len(value) > _MAX_NAME or not value.isprintable():
        raise SpecificationError(
            f"{what} must be at most {_MAX_NAME} printable characters, got {value[:50]!r}"
        )
    return value


def check_digest(value: str, what: str) -> str:
    """Return a SHA-256 if it is one, in hexadecimal."""
    if not is_sha256(value):
        raise SpecificationError(f"{what} must be 64 hexadecimal digits, got {value!r}")
    return value


COMMAND_LINE = "jam-dagster synthesize"
"""How the run ids of the command line begin; Dagster's runs have ids of their own."""


def command_line_run() -> str:
    """Return the id of a new run of the command line, random as those of Dagster are.

    A certificate publishes the hashes of a run's charges, which cover the time of each charge. The
    other covered fields can be guessed; the random part keeps the time from being guessed, too.
    """
    return f"{COMMAND_LINE} {uuid4().hex}"


def specification_of(
    *,
    epsilon: float,
    delta: float,
    protection: Mapping[str, Any],
    mechanism: Mapping[str, Any],
    workload: Mapping[str, Any],
    evaluation_share: float,
    domain: str,
    noise: str = "exact",
    seed: int | None = None,
) -> dict[str, Any]:
    """Return the content of a release's specification digest, the same for every tool.

    It covers everything that influences a draw, except private data: another specification is
    another release, with its own draws and charges. Sources are not part of it, since moving a file
    must not cost budget. The public table is not either: the draws detect its change.

    `protection` is of the protected unit, if it is not a single record (`Protection.to_dict`). The
    evaluation's share of rho is 0 without one. `domain` is its digest; for one from private data,
    the settings that request it.
    """
    return {
        "privacy": {
            "epsilon": float(epsilon),
            "delta": float(delta),
            "noise": noise,
            "seed": seed,
            **protection,
        },
        "mechanism": dict(mechanism),
        "workload": dict(workload),
        "evaluation_share": float(evaluation_share),
        "domain": domain,
    }


@dataclass(frozen=True)
class ReleaseId:
    """The identity of a release in the ledger; the same id never pays twice.

    Parameters
    ----------
    dataset : str
        Identity of the protected dataset, not a path: the same people, wherever they are stored.
    release : str
        Name of the release.
    specification : str
        Digest of everything that shapes the output. Never a hash of private content.
    partition : str
        Which slice of the data, such as ``"2026-11"``; empty for an unpartitioned release.
    edition : str
        Raised to release the same data again, at a new price.

    Raises
    ------
    SpecificationError
        If a part cannot be written in the ledger.
    """

    dataset: str
    release: str
    specification: str
    partition: str = ""
    edition: str = "1"

    def __post_init__(self) -> None:
        check_name(self.dataset, "the protected dataset")
        check_name(self.release, "the release")
        check_name(self.specification, "the specification's digest")
        check_name(self.partition, "the partition", required=False)
        check_name(self.edition, "the edition")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the id, in hex: a name for folders that belong to the release."""
        return canonical_digest(id_fields(self))

    def __str__(self) -> str:
        partition = f", partition {self.partition!r}" if self.partition else ""
        return f"release {self.release!r}{partition}, edition {self.edition!r}"


def id_fields(release_id: ReleaseId) -> dict[str, str]:
    """Return the parts of an id by the names that the journal gives them."""
    return {field.name: getattr(release_id, field.name) for field in fields(release_id)}


def is_sha256(text: str) -> bool:
    """Return whether a text is a SHA-256 in hexadecimal."""
    return _DIGEST.fullmatch(text) is not None


def fingerprint_of(public: str) -> str:
    """Return the fingerprint of a public key: 16 digits of the SHA-256 of its bytes."""
    return hashlib.sha256(base64.b64decode(public)).hexdigest()[:16]


def canonical_json(value: object) -> str:
    """Return JSON in the one form that is hashed: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
