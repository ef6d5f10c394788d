"""A mechanism's run, and the workload errors of its table, each with the release they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.issue import released_files, run_files_digest, sha256_of
from jam_dagster.certificates.table import run_digest
from jam_dagster.common.files import read_plain, write_whole
from jam_dagster.common.json_text import DAMAGE, check_keys, damaged, parse_json
from jam_dagster.common.section import parsed
from jam_dagster.errors import InputError
from jam_dagster.evaluation import TableErrors, WorkloadErrors
from jam_dagster.evaluation.utility import Regression, TargetUtility
from jam_dagster.mechanisms import MechanismResult, Transcript, load_model
from jam_dagster.privacy import NoiseCall, ReleaseId

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Domain

RUN_FILE = "run.json"
"""The file in a run's folder that is written last, and names the run's release."""


@dataclass(frozen=True)
class ReleaseIdentity:
    """The release of a run, with its guarantees.

    For seeded noise, which no ledger knows, the id holds the seed by its specification's digest.
    `shares` are in rho, and `selections` is the part of delta that selections of values have.
    """

    release_id: ReleaseId
    epsilon: float
    delta: float
    shares: Mapping[str, float]
    selections: float = 0.0

    @classmethod
    def of(cls, spec: ReleaseSpec, domain: Domain | None, partition: str) -> ReleaseIdentity:
        """Return the identity of the release that is configured now."""
        budget, release_id = spec.budget, spec.release_id(domain, partition)
        return cls(release_id, budget.epsilon, budget.delta, spec.shares, budget.selections)

    def to_dict(self) -> dict[str, Any]:
        """Return the identity as JSON holds it."""
        content = asdict(self)
        if not self.selections:
            del content["selections"]
        return {"key": content.pop("release_id"), **content}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> ReleaseIdentity:
        """Return the identity that `to_dict` described."""
        guarantees = {name: value for name, value in content.items() if name != "key"}
        return parsed(cls, guarantees, release_id=parsed(ReleaseId, content["key"]))


@dataclass(frozen=True, eq=False)
class ReleaseRun(MechanismResult):
    """A mechanism's result, with its release and the folder where it is stored.

    A run that `dataclasses.replace` makes has no folder yet.
    """

    release: ReleaseIdentity
    folder: Path | UPath | None = field(default=None, init=False, repr=False)

    @cached_property
    def digest(self) -> str:
        """See `run_digest`."""
        return run_digest(self.release.release_id, self.transcript)

    @property
    def known_by(self) -> str:
        """The digest by which the ledger knows the run: `content`, or nothing.

        A plain digest of results over a domain from private data would distinguish neighbours.
        """
        return "" if self.model.domain.restricted else self.content

    @cached_property
    def content(self) -> str:
        """The `run_files_digest` of its files, as they were read or are written here."""
        with TemporaryDirectory(prefix="jam-") as folder:
            return _written(self, Path(folder))


def write_run(run: ReleaseRun, folder: Path | UPath) -> None:
    """Write the model, the transcript and their release, unless they are there already."""
    if run.folder == folder and identity_in(folder) == run.release:
        return
    _unlink(folder)
    marker = folder / RUN_FILE
    # A crash between the files must not leave the model of one release under another's name.
    if marker.exists():
        marker.unlink()
    with TemporaryDirectory(prefix="jam-") as made:
        written = _written(run, Path(made))
        run.__dict__.setdefault("content", written)
        _copy(Path(made), folder)
    content = {"release": run.release.to_dict(), "content": written}
    write_whole(marker, json.dumps(content, indent=1).encode())
    if run.folder is None:
        object.__setattr__(run, "folder", folder)


def read_run(folder: Path | UPath) -> ReleaseRun:
    """Read the run that `write_run` wrote; its digest is of the very bytes that were read."""
    described = parse_json(read_plain(folder, folder / RUN_FILE))
    release = _release_of(described, folder)
    with TemporaryDirectory(prefix="jam-") as copied:
        read = Path(copied)
        _copy(folder, read)
        try:
            run = _loaded(read, release)
        except InputError:
            # Its message names the folder.
            _loaded(folder, release)
            raise
        run.__dict__["content"] = _content(read)
    object.__setattr__(run, "folder", folder)
    return run


def _loaded(folder: Path | UPath, release: ReleaseIdentity) -> ReleaseRun:
    model, transcript = load_model(folder / "model"), Transcript.load(folder / "transcript")
    return ReleaseRun(model=model, transcript=transcript, release=release)


def identity_in(folder: Path | UPath) -> ReleaseIdentity | None:
    """Return the release of the run in a folder; None if the run is missing or was changed."""
    try:
        content = parse_json(read_plain(folder, folder / RUN_FILE))
        same = content["content"] == _content(folder)
    except (FileNotFoundError, KeyError):
        return None
    return _release_of(content, folder) if same else None


def _release_of(described: Mapping[str, Any], folder: Path | UPath) -> ReleaseIdentity:
    """Return the release that a run's marker names, of which this version knows every key."""
    try:
        check_keys(described, {"release", "content"})
        return ReleaseIdentity.from_dict(described["release"])
    except DAMAGE as fault:
        raise damaged(folder / RUN_FILE, fault) from None


def _written(run: ReleaseRun, folder: Path) -> str:
    """Write the files of a run, and return their digest.

    They are copied if they are in the run's folder as they were: a model that is read and saved
    again may have other bytes.
    """
    if run.folder is not None:
        _copy(run.folder, folder)
        with suppress(FileNotFoundError):
            if _content(folder) == run.content:
                return run.content
        for path in _files(folder).values():
            path.unlink(missing_ok=True)
    run.model.save(folder / "model")
    run.transcript.save(folder / "transcript")
    return _content(folder)


def _files(folder: Path | UPath) -> dict[str, Path | UPath]:
    return released_files(transcript=folder / "transcript", model=folder / "model")


def _content(folder: Path | UPath) -> str:
    return run_files_digest(
        {name: sha256_of(path, folder) for name, path in _files(folder).items()}
    )


def _unlink(folder: Path | UPath) -> None:
    """Remove a link in place of a folder, so that its target is neither replaced nor removed."""
    if isinstance(folder, Path) and folder.is_symlink():
        folder.unlink()


def _copy(source: Path | UPath, target: Path | UPath) -> None:
    """Copy the files of a run, and remove those of another one."""
    copied = set()
    for path in _files(source).values():
        if path.exists():
            folder = target / path.parent.name
            _unlink(folder)
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / path.name, read_plain(source, path))
            copied.add(path.name)
    for stale in _files(target).values():
        if stale.name not in copied:
            stale.unlink(missing_ok=True)


@dataclass(frozen=True)
class ReleaseErrors(WorkloadErrors):
    """Workload errors, with the digest of the run that made the evaluated table."""

    run: str = ""


_TABLES = ("synthetic", "public", "independent", "prior", "uniform", "bought")


def errors_json(errors: WorkloadErrors) -> bytes:
    """Return the file of workload errors; `read_errors` reads it.

    It also has the mode, the standard deviation of the noise in each mean, and the charge: without
    its noise, a noisy mean would be mistaken for the truth.
    """
    content: dict[str, Any] = {
        "mode": errors.mode,
        "sigma": errors.sigma,
        "rho": errors.rho,
        "call": errors.call and errors.call.to_dict(),
        "sample_equivalent": errors.sample_equivalent,
        "equivalent_within": errors.equivalent_within,
    }
    if errors.left_out:
        content["left_out"] = errors.left_out
    if isinstance(errors, ReleaseErrors):
        content["run"] = errors.run
    if errors.restricted:
        content["utility"] = [asdict(one) for one in errors.utility]
        content["regressions"] = [asdict(one) for one in errors.regressions]
    content |= errors.to_dict()
    for name in _TABLES:
        table: TableErrors | None = getattr(errors, name)
        if table is not None and table.per_marginal is not None:
            listed = [[list(clique), error] for clique, error in table.per_marginal.items()]
            content[name]["per_marginal"] = listed
    return (json.dumps(content, indent=2) + "\n").encode()


def read_errors(path: Path | UPath) -> WorkloadErrors:
    """Return the workload errors of a file."""
    content = parse_json(path.read_bytes())
    try:
        return _errors_of(content)
    except DAMAGE as fault:
        raise damaged(path, fault) from None


def _errors_of(content: dict[str, Any]) -> WorkloadErrors:
    for name in _TABLES:
        if (told := content.get(name)) is not None:
            listed, scores = told.pop("per_marginal", None), told.pop("scores", {})
            content[name] = TableErrors(
                **{"maximum": told.pop("max"), **told},
                per_marginal=listed and {tuple(clique): one for clique, one in listed},
                scores={target: tuple(one) for target, one in scores.items()},
            )
    content["call"] = content["call"] and NoiseCall(**content["call"])
    content["equivalent_within"] = tuple(content["equivalent_within"] or ()) or None
    content["left_out"] = tuple(content.get("left_out", ()))
    for name, kind in (("utility", TargetUtility), ("regressions", Regression)):
        content[name] = tuple(kind.from_dict(one) for one in content.get(name, ()))
    return ReleaseErrors(**content) if "run" in content else WorkloadErrors(**content)
