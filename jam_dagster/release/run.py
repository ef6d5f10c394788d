"""A mechanism's run, and the workload errors of its table, each with the release they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.table import run_digest
from jam_dagster.common.files import write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.evaluation import WorkloadErrors
from jam_dagster.mechanisms import MechanismResult, Transcript, load_model
from jam_dagster.privacy import ReleaseKey

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain

RUN_FILE = "run.json"
"""The file in a run's folder that is written last, and says of which release the run is."""


@dataclass(frozen=True)
class ReleaseIdentity:
    """Which release a run made, and what that release guarantees.

    For seeded noise, which no ledger knows, the key holds the seed by its specification's digest.
    `shares` are in rho.
    """

    key: ReleaseKey
    epsilon: float
    delta: float
    shares: Mapping[str, float]

    @classmethod
    def of(cls, spec: ReleaseSpec, domain: Domain | None, partition: str) -> ReleaseIdentity:
        """Return the identity of the release that is configured now."""
        privacy = spec.privacy
        return cls(spec.key(domain, partition), privacy.epsilon, privacy.delta, spec.shares)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ReleaseIdentity:
        """Return what `to_dict` described."""
        return cls(**{**content, "key": ReleaseKey(**content["key"])})


@dataclass(frozen=True, eq=False)
class ReleaseRun(MechanismResult):
    """A mechanism's result, with the release that it made, and the folder that has it.

    Another run, as `dataclasses.replace` makes it, lies nowhere yet.
    """

    release: ReleaseIdentity
    folder: Path | UPath | None = field(default=None, init=False, repr=False)

    @cached_property
    def digest(self) -> str:
        """See `run_digest`."""
        return run_digest(self.release.key, self.transcript)


def write_run(run: ReleaseRun, folder: Path | UPath) -> None:
    """Write the model, the transcript, and which release they are, unless they lie there."""
    if run.folder == folder and identity_in(folder) == run.release:
        return
    marker = folder / RUN_FILE
    # A crash between the files must not leave the model of one release under another's name.
    if marker.exists():
        marker.unlink()
    run.model.save(folder / "model")
    run.transcript.save(folder / "transcript")
    content = {"release": run.release.to_dict(), "transcript": _transcript(folder)}
    write_whole(marker, json.dumps(content, indent=1).encode())
    object.__setattr__(run, "folder", folder)


def read_run(folder: Path | UPath) -> ReleaseRun:
    """Read what `write_run` wrote."""
    content = parse_json((folder / RUN_FILE).read_text())
    run = ReleaseRun(
        model=load_model(folder / "model"),
        transcript=Transcript.load(folder / "transcript"),
        release=ReleaseIdentity.from_dict(content["release"]),
    )
    object.__setattr__(run, "folder", folder)
    return run


def identity_in(folder: Path | UPath) -> ReleaseIdentity | None:
    """Return of which release the run in a folder is; None if it is not there as it was made."""
    try:
        content = parse_json((folder / RUN_FILE).read_text())
        same = content["transcript"] == _transcript(folder)
    except FileNotFoundError:
        return None
    whole = same and (folder / "model" / "model.json").exists()
    return ReleaseIdentity.from_dict(content["release"]) if whole else None


def _transcript(folder: Path | UPath) -> str:
    return hashlib.sha256((folder / "transcript" / "transcript.json").read_bytes()).hexdigest()


@dataclass(frozen=True)
class ReleaseErrors(WorkloadErrors):
    """Workload errors, with the digest of the run that made the evaluated table."""

    run: str = ""
