"""The issue of certificates from the files of a release."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.facts import (
    RAN,
    STORED,
    DomainFacts,
    Entry,
    FileHash,
    PaidDraw,
    ReleaseTerms,
    Sampling,
    Signature,
    Standing,
    to_the_second,
)
from jam_dagster.certificates.ledger_faults import certified, signing_key_faults, withdrawal_in
from jam_dagster.certificates.outcome_faults import compare_outcomes, draws_of
from jam_dagster.certificates.refitting import Nearness, Refit
from jam_dagster.certificates.signing import signature_holds
from jam_dagster.common.files import open_plain, read_plain
from jam_dagster.common.json_text import parse_json
from jam_dagster.errors import InputError, JamError, LedgerIntegrityError
from jam_dagster.mechanisms import load_model
from jam_dagster.mechanisms.loops.transcript import measurements_hash
from jam_dagster.models.graphical import kernels
from jam_dagster.privacy.ledger.release_id import canonical_digest, command_line_run
from jam_dagster.privacy.shares import EVALUATION
from jam_dagster.tables import Workload
from jam_dagster.version import __version__

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.certificates.signing import Signer
    from jam_dagster.mechanisms import MechanismResult
    from jam_dagster.privacy import Balance, Ledger, NoiseCall, ReleaseId
    from jam_dagster.tables import MarginalSource

SEED_BYTES = 16
"""How many bytes of the measurements' SHA-256 are the seed of the table."""


def certify(
    folder: Path | UPath,
    files: Mapping[str, Path | UPath],
    run: MechanismResult,
    terms: ReleaseTerms,
    *,
    public: MarginalSource | None = None,
    evaluation: NoiseCall | None = None,
    fresh: bool = False,
    made: Mapping[str, str] | None = None,
    ledger: Ledger | None = None,
    run_id: str = "",
    signer: Signer | None = None,
) -> Certificate:
    """Return the certificate of a release with written files, and journal it in the ledger.

    Parameters
    ----------
    folder
        The future folder of the certificate.
    files
        The release's files; see `released_files`.
    run
        The mechanism's transcript, and its model over its domain.
    terms
        What the release is, and what was requested.
    public
        The encoded public tables, if the mechanism learns from any; a release that measured one
        needs them.
    evaluation
        The draw of the evaluation's share, if there is one.
    fresh
        Whether this process has fitted the run's model. One that was read is fitted again.
    made
        The SHA-256 of files as they were made, by their roles.
    ledger
        The ledger that was charged, and journals the certificate; None in research.
    run_id
        Written in the certificate's ledger entry; it must be random, or the entry's hash would
        reveal its time. By default a new one of the command line.
    signer
        Signs the certificate; the ledger must know its key. Research is not signed.

    Raises
    ------
    LedgerIntegrityError
        If the ledger does not add up, an outcome does not match its digest there, what was measured
        of a public table is not in it, the model is not the one of the transcript, or a file is not
        what was made; no certificate is issued then.
    BudgetError
        If the ledger does not know the signer's key, or it was revoked.
    OSError
        If a file is missing.
    """
    release_id, transcript, domain = terms.release_id, run.transcript, run.model.domain
    draws = draws_of(transcript, domain)
    if evaluation is not None:
        draws.append(PaidDraw(EVALUATION, evaluation))
    measured = measurements_hash(transcript).hexdigest()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    entries: tuple[Entry, ...] = ()
    if ledger is not None:
        entries, charged = _entries(ledger, release_id)
        # A repeated release without a charge gets its earlier certificate.
        at = charged or at
    hashed = dict(_hashed(folder, files))
    if ledger is not None:
        # Somebody may have put another domain in place since it was written.
        text = domain.to_yaml().encode()
        made = {**(made or {}), "domain": hashlib.sha256(text).hexdigest()}
    _check_made(hashed, made or {})
    if ledger is not None:
        content = content_of(hashed, restricted=domain.restricted)
        _check_outcomes(draws, entries, run, folder, files, content)
    facts = DomainFacts.of(domain)
    made_with = _earlier(folder, release_id, facts, measured, hashed, ledger)
    if made_with is None:
        stored = load_model(files["model"].parent)
        fitted = run.model if fresh else None
        made_with = environment()
        if fitted is not None:
            _check_model(Nearness(fitted.distance(stored), 0))
        elif ledger is not None:
            workload = Workload.specified(domain, terms.specification["workload"])
            refit = Refit(transcript, domain, workload, public, made_with)
            near = refit.closest(stored)
            unseen = "no public table was given" if refit.lacks_tables else ""
            _check_model(near, refit.fault or unseen)
            # The steps of a release may run on several machines.
            made_with |= {"blas": near.processor} if near.processor else {}
    certificate = Certificate(
        release_id=release_id,
        made=at,
        made_with=made_with,
        mechanism=transcript.mechanism,
        parameters=transcript.parameters,
        specification=terms.specification,
        neighbours=transcript.neighbours,
        records=transcript.records,
        domain=facts,
        source_restriction=terms.source_restriction,
        asked=terms.asked,
        noise=transcript.noise,
        draws=tuple(draws),
        entries=entries,
        standing=None,
        sampling=Sampling(
            rows=transcript.records,
            measurements=measured,
            seed=measured[: 2 * SEED_BYTES],
            derived=True,
            search=transcript.search,
            chunk_rows=transcript.chunk_rows,
            dialect=terms.dialect.changes if transcript.chunk_rows is None else None,
        ),
        files=hashed,
        drawn_on=tuple(terms.drawn_on),
        withdrawn=None if ledger is None else withdrawal_in(ledger, release_id, terms.drawn_on),
    )
    if ledger is None:
        return certificate
    run_id = "" if domain.restricted else run_id or command_line_run()
    issued = _journalled(certificate, ledger, signer, run_id)
    return issued if signer is not None else _still_signed(issued, folder, ledger)


def _journalled(
    certificate: Certificate, ledger: Ledger, signer: Signer | None, run_id: str
) -> Certificate:
    """Return a certificate with its withdrawal state and its signature, journalled if it has a run.

    It is journalled before it is written: the ledger must know every certificate of a stored
    release.
    A plain digest of results without a charge would let readers of the ledger distinguish
    neighbours: a certificate over a domain from private data has no run.
    """
    if signer is not None:
        ledger.signing_keys.check(signer.public)
    certificate = replace(certificate, standing=_standing(ledger, certificate))
    if run_id:
        ledger.certify(certificate.release_id, certificate.digest, run_id=run_id)
    return certificate if signer is None else signer.sign(certificate)


def earlier_signature(folder: Path | UPath) -> Signature | None:
    """Return the signature of the certificate in a folder; None without one."""
    try:
        return Certificate.load(folder).signature
    except JamError:
        return None


def _still_signed(certificate: Certificate, folder: Path | UPath, ledger: Ledger) -> Certificate:
    """Return a certificate with the signature of the one that it replaces, if that holds for it.

    A repeat without the key, which may be lost, says the same and stays signed.
    """
    signature = earlier_signature(folder)
    if signature is None or not signature_holds(certificate.to_dict(), signature):
        return certificate
    if any(signing_key_faults(certificate, signature.key, ledger)):
        return certificate
    return replace(certificate, signature=signature)


def _earlier(
    folder: Path | UPath,
    release_id: ReleaseId,
    domain: DomainFacts,
    measured: str,
    files: Mapping[str, FileHash],
    ledger: Ledger | None,
) -> Mapping[str, str] | None:
    """Return the software that made the model by an earlier certificate; None without one.

    A repeat keeps the model, and may run with other software than made it.
    """
    try:
        earlier = Certificate.load(folder)
    except JamError:
        return None
    model = {name: one for name, one in files.items() if name not in FILES_BESIDE_MODEL}
    kept = {name: one for name, one in earlier.files.items() if name not in FILES_BESIDE_MODEL}
    of_release = earlier.release_id == release_id and earlier.domain == domain
    same = of_release and earlier.sampling.measurements == measured and model == kept
    # The ledger has none over a domain from private data, and does not distinguish such ones.
    known = same and (ledger is None or certified(earlier, ledger) is not False)
    return earlier.made_with if known else None


def _check_model(near: Nearness, fault: str = "") -> None:
    """Raise unless the stored model is the transcript's, by the software that is certified."""
    why = fault or "the stored model is not the one that the transcript gives on this machine"
    if fault or not near.exact:
        raise LedgerIntegrityError(
            f"no certificate was issued, because {why}. Remove model and transcript, and run the "
            "release again here, which charges nothing: it repeats from the stored draws"
        )


def _entries(ledger: Ledger, release_id: ReleaseId) -> tuple[tuple[Entry, ...], str]:
    """Return a release's entries, and when the last moved an amount; empty if none did."""
    events = [
        event
        for event in ledger.events(release_id.dataset)
        if event.release_id == release_id and Entry.is_listed(event)
    ]
    moving = [event for event in events if event.moves_amount]
    return tuple(Entry.of(one) for one in events), to_the_second(moving[-1].at) if moving else ""


def _check_outcomes(
    draws: Sequence[PaidDraw],
    entries: tuple[Entry, ...],
    run: MechanismResult,
    folder: Path | UPath,
    files: Mapping[str, Path | UPath],
    content: str,
) -> None:
    """Raise unless the stored outcomes are those that the ledger has digests of."""
    if missing := _forgotten(draws, entries):
        raise LedgerIntegrityError(
            f"no certificate was issued, because the ledger has no digest of {missing}: it is an "
            "older copy of the one that was charged, or another one. Restore the newest copy. If "
            "this is the newest, the release's files were changed"
        )
    errors = None
    if "errors" in files:
        errors = parse_json(read_plain(_root_of(folder, files), files["errors"].absolute()))
    outcomes = compare_outcomes(draws, entries, run.transcript, errors, content, run.model.domain)
    if outcomes.faults:
        raise LedgerIntegrityError(
            f"no certificate was issued, because {outcomes.faults[0]}: a file of the release "
            "was changed after it was drawn. Remove the transcript and the errors, and run the "
            "release again, which charges nothing: it repeats from the stored draws"
        )


def _forgotten(draws: Sequence[PaidDraw], entries: tuple[Entry, ...]) -> str:
    """Return what was stored and the ledger has no digest of; empty if there is no such thing."""
    stored = {(one.share, one.step) for one in entries if one.kind == STORED}
    for draw in draws:
        if not draw.call.lost and (draw.share, draw.call.step) not in stored:
            return f"the outcome of {draw.call.step}"
    return "" if any(one.kind == RAN for one in entries) else "the run"


def _check_made(files: Mapping[str, FileHash], made: Mapping[str, str]) -> None:
    """Raise unless files are as they were made."""
    changed = [files[name].path for name, digest in made.items() if files[name].sha256 != digest]
    if changed:
        raise LedgerIntegrityError(
            f"no certificate was issued, because {changed[0]} is not the file that was made. Make "
            "it again, which charges nothing"
        )


def _standing(ledger: Ledger, certificate: Certificate) -> Standing:
    """Return the ledger's current state, or its state when it journalled this certificate."""
    proof = ledger.verify()
    journalled = ledger.issued(certificate.release_id, certificate.digest)
    if journalled is None or any(entry.seq > journalled.seq for entry in certificate.entries):
        # Another release may have written meanwhile.
        balance = ledger.balance(certificate.release_id.dataset, through=proof.events)
        return Standing(proof.events, proof.head, _totals(balance))
    balance = ledger.balance_after(journalled)
    return Standing(journalled.seq - 1, journalled.previous, _totals(balance))


def _totals(balance: Balance) -> dict[str, Any]:
    return {
        "epsilon": balance.epsilon,
        "delta": balance.delta,
        "policy": asdict(balance.policy),
        "period": balance.period,
        "granted_units": balance.granted_units,
        "reserved_units": balance.reserved_units,
        "spent_units": balance.spent_units,
        "lifetime_spent_units": balance.lifetime_spent_units,
    }


CONTENTS: dict[str, dict[str, str]] = {
    "table": {"table": ""},
    "children": {"children": ""},
    "domain": {"domain": ""},
    "transcript": {"transcript": "transcript.json", "measurements": "measurements.npz"},
    "model": {"model": "model.json"},
    "report": {"report": ""},
    "checks": {"checks": ""},
    "validations": {"validations": ""},
    "errors": {"errors": ""},
}
"""The files of a release by their roles, with their names in a folder.

The role of any further file in the model's folder is its name, without the suffix of arrays.
"""


def released_files(**places: Path | UPath | None) -> dict[str, Path | UPath]:
    """Return the files that a certificate covers, by their roles.

    Parameters
    ----------
    **places
        ``table``: the published table; ``children``: that of its children; ``domain``: the domain
        file; ``transcript``, ``model``: folders of `Transcript.save` and `Model.save`; ``report``,
        ``checks``: the pages; ``validations``: what Great Expectations reports; ``errors``: the
        file of errors measured with noise, never of exact ones. None is left out.
    """
    found = {
        name: place / inside if inside else place
        for what, place in places.items()
        if place is not None
        for name, inside in CONTENTS[what].items()
    }
    if (model := places.get("model")) is not None:
        found |= arrays_in(model)
    return found


FILES_BESIDE_MODEL = frozenset(CONTENTS["transcript"]) | set(CONTENTS) - {"model"}
"""The files that are no part of the model."""

ROLES = frozenset(role for inside in CONTENTS.values() for role in inside)
"""The roles of files that have a place of their own, which no array of a model takes."""

OPTIONAL = frozenset({"children", "report", "checks", "validations", "errors"})
"""The files that not every release has."""


def run_files_digest(hashes: Mapping[str, str]) -> str:
    """Return the SHA-256 that the ledger has of a run, whose files have these by their roles.

    Transcript, measurements, model and its arrays are the run's; other files count for nothing.
    """
    its = {name: one for name, one in hashes.items() if name not in OPTIONAL | {"table", "domain"}}
    return canonical_digest(its)


def content_of(files: Mapping[str, FileHash], *, restricted: bool) -> str:
    """Return the digest of certified files' run; empty over a domain from private data."""
    if restricted:
        return ""
    return run_files_digest({name: one.sha256 for name, one in files.items()})


def arrays_in(model: Path | UPath) -> dict[str, Path | UPath]:
    """Return the arrays next to ``model.json`` in a model's folder by their roles, in order.

    Raises
    ------
    InputError
        If another file is there. Its name could be the role of a file that is elsewhere, and the
        certificate would be of the wrong one.
    """
    if not model.is_dir():
        return {}
    inside = (
        path
        for path in model.iterdir()
        # A process that was killed may leave a file that it had not finished, with a dot.
        if path.is_file() and not path.is_symlink() and not path.name.startswith(".")
    )
    listed = sorted(inside, key=lambda path: path.name)
    found = {path.name.removesuffix(".npz"): path for path in listed if path.name != "model.json"}
    for role, path in found.items():
        if path.suffix != ".npz" or role in ROLES:
            raise InputError(f"{path} is no file of a model: remove it, and repeat the release")
    return found


def environment() -> dict[str, str]:
    """Return the software versions that a bitwise equal refit depends on."""
    return {
        "jam_dagster": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "numpy": np.__version__,
        "pandas": version("pandas"),
        "pyarrow": version("pyarrow"),
        "opendp": version("opendp"),
        "jax": version("jax"),
        "kernels": "NumPy" if kernels.library() is None else f"C, interface {kernels.VERSION}",
        "blas": kernels.blas_architecture(),
        "simd": " ".join(kernels.simd_extensions()),
    }


def sha256_of(path: Path | UPath, root: Path | UPath | None = None) -> str:
    """Return the SHA-256 of a file; below a root it is opened as `open_plain` does."""
    digest = hashlib.sha256()
    with path.open("rb") if root is None else open_plain(root, path) as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _hashed(
    folder: Path | UPath, files: Mapping[str, Path | UPath]
) -> Iterator[tuple[str, FileHash]]:
    root = _root_of(folder, files)
    for name, path in files.items():
        relative = Path(os.path.relpath(str(path), str(folder))).as_posix()
        yield name, FileHash(relative, sha256_of(path.absolute(), root))


def _root_of(folder: Path | UPath, files: Mapping[str, Path | UPath]) -> Path | UPath:
    """Return the folder that holds a certificate's folder and all files."""
    # Stores other than file systems have the same methods.
    places = [cast("Path", path.absolute()) for path in files.values()]
    root = cast("Path", folder.absolute())
    while not all(path.is_relative_to(root) for path in places):
        root = root.parent
    return root
