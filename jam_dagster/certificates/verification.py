"""Verifying a certificate: from the release's own files, without private data.

Each check stands by itself and says what it found. All of them together notice a change in any
file, and any claim that does not follow from the files. What nobody can notice from the files
alone is a release that was invented as a whole, ledger entries and all: for that the entries are
looked up in the ledger itself.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from jam_dagster.certificates.certificate import DAMAGE, Certificate, read_document, seal_of
from jam_dagster.certificates.draw_faults import draw_faults
from jam_dagster.certificates.issue import (
    CONTENTS,
    MECHANISM_SHARE,
    SEED_BYTES,
    arrays_in,
    environment,
    sha256_of,
)
from jam_dagster.certificates.ledger_faults import chain_faults, ledger_faults
from jam_dagster.certificates.table import table_digest
from jam_dagster.certificates.wording import setting_fault
from jam_dagster.errors import DomainError, InputError, JamError
from jam_dagster.mechanisms import (
    Model,
    Transcript,
    load_model,
    refit,
    sampling_generator,
)
from jam_dagster.mechanisms.product_mixture import ProductMixture
from jam_dagster.mechanisms.transcript import measurements_hash
from jam_dagster.privacy import Budget, units_down
from jam_dagster.tables import Domain, MarginalSource, PublicSources, Workload, decode
from jam_dagster.tables.public_sources import encode_public, read_public
from jam_dagster.tables.yaml_text import parse_yaml

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy import Ledger
    from jam_dagster.tables import Source

REFIT_TOLERANCE = 1e-6
"""How far a refitted model may be from the stored one, in the L1 norm of any measured marginal as
a fraction of the records, where it is fitted by what the certificate was made with: there, the
difference is 0."""

FOREIGN_REFIT_TOLERANCE = 0.05
"""The same on another machine or version. Sums that round otherwise can end a fit a few steps
earlier or later: 0.014 between the C and the NumPy kernels on the demo's release."""

_UNREADABLE = (*DAMAGE, OSError, zipfile.BadZipFile, yaml.YAMLError)


@dataclass(frozen=True)
class Finding:
    """What one check of a certificate found.

    Parameters
    ----------
    name
        What was checked.
    passed
        Whether it holds.
    message
        What was found.
    checked
        Whether the check was made; one that was not, for want of a file, is no fault.
    """

    name: str
    passed: bool
    message: str
    checked: bool = True


def verify(
    path: Path | UPath,
    *,
    files: Mapping[str, Path | UPath] | None = None,
    ledger: Ledger | None = None,
    public: Source | PublicSources | None = None,
) -> list[Finding]:
    """Check everything that a certificate says.

    Parameters
    ----------
    path
        The certificate, or the folder that holds it.
    files
        Files that lie elsewhere than the certificate says, by their names in it.
    ledger
        The ledger that was charged; without it the entries are checked by themselves.
    public
        The public table of the release, or several by the names that they had. Some mechanisms'
        models are made of them; without, these are not refitted, and the finding says so.

    Returns
    -------
    list of Finding
        One of every check; the certificate is good if all passed.

    Raises
    ------
    InputError
        If there is no certificate to read.
    """
    document = read_document(path)
    certificate = Certificate.from_dict(document)
    folder = path if path.is_dir() else path.parent
    held = _Held(certificate, folder, files or {}, public)
    return [
        _found("the certificate is whole", lambda: _seal_faults(document, certificate)),
        *(_found(f"file: {name}", _file_check(held, name)) for name in _names(held)),
        _found("the domain", lambda: _domain_faults(held)),
        _found("the transcript", lambda: _transcript_faults(held)),
        _found("the settings", lambda: filter(None, [setting_fault(certificate)])),
        _found("the draws", lambda: draw_faults(certificate, held.transcript, held.domain)),
        _found("the budget", lambda: _budget_faults(certificate)),
        *_paid(certificate, ledger),
        _refitted(held),
        _found("the table, sampled again", lambda: _table_faults(held)),
    ]


def _paid(certificate: Certificate, ledger: Ledger | None) -> Iterator[Finding]:
    """Check the charges; research, which says that it is, has none."""
    if certificate.standing is None and certificate.noise != "exact" and ledger is None:
        return
    yield _found("the charges", lambda: iter(certificate.charge_faults))
    yield _found("the chain of entries", lambda: chain_faults(certificate))
    if ledger is not None:
        yield _found("the ledger", lambda: ledger_faults(certificate, ledger))


class _Held:
    """A certificate and the files that it is about, each read when it is first asked for."""

    def __init__(
        self,
        certificate: Certificate,
        folder: Path | UPath,
        files: Mapping[str, Path | UPath],
        public: Source | PublicSources | None,
    ) -> None:
        self.certificate = certificate
        self._folder = folder
        self._files = files
        self._public = public

    def path(self, name: str) -> Path | UPath:
        """Return where a file lies."""
        if name in self._files:
            return self._files[name]
        if name not in self.certificate.files:
            raise InputError(f"the certificate names no {name}")
        path = self._folder
        # Stores that are no file system know no "..".
        for part in self.certificate.files[name].path.split("/"):
            path = path.parent if part == ".." else path / part
        return path

    @cached_property
    def transcript(self) -> Transcript:
        return Transcript.load(self.path("transcript").parent)

    @cached_property
    def domain(self) -> Domain:
        return Domain.from_dict(parse_yaml(self.path("domain").read_text(encoding="utf-8")))

    @cached_property
    def public(self) -> MarginalSource | None:
        """The public tables in codes, where they were given."""
        if self._public is None:
            return None
        return encode_public(read_public(self._public), self.domain)

    @cached_property
    def refitted(self) -> Model | None:
        """The model that the transcript gives; None where that takes public data, not given."""
        try:
            return refit(self.transcript, self.domain, self.public)
        except DomainError:
            if self.public is None and self.domain.digest == self.transcript.domain_digest:
                return None
            raise

    @cached_property
    def model(self) -> Model:
        return load_model(self.path("model").parent)

    @cached_property
    def foreign(self) -> tuple[str, ...]:
        """What the certificate was made with and this process does not have."""
        here = environment()
        deciding = ["jam_dagster", "machine", "numpy", "kernels"]
        by_mbi = self.transcript.parameters.get("estimator") == "mbi"
        if by_mbi or isinstance(self.model, ProductMixture):
            deciding.append("jax")
        made = self.certificate.made_with
        return tuple(name for name in deciding if made.get(name) != here[name])

    @property
    def tolerance(self) -> float:
        return FOREIGN_REFIT_TOLERANCE if self.foreign else REFIT_TOLERANCE

    @cached_property
    def distance(self) -> float:
        """How far the refitted model is from the stored one, a fraction of the records."""
        again = self.refitted
        if again is None or type(again) is not type(self.model) or again.total != self.model.total:
            return math.inf
        if self.model.domain.digest != self.domain.digest:
            return math.inf
        if set(again.cliques) != set(self.model.cliques):
            return math.inf
        cliques = list(again.cliques)
        here, there = again.marginals(cliques), self.model.marginals(cliques)
        apart = [float(np.abs(here[q] - there[q]).sum()) for q in cliques]
        return max(apart, default=0.0) / self.model.total

    def refit_message(self) -> str:
        other = f"; made with another {', '.join(self.foreign)}" if self.foreign else ""
        return (
            f"at most {self.distance:.2g} of the records apart in any measured marginal, of "
            f"{self.tolerance:g} allowed{other}"
        )


def _found(
    name: str, faults: Callable[[], Iterator[str]], said: Callable[[], str] = lambda: "as it says"
) -> Finding:
    """Run one check; what cannot even be read has failed it."""
    try:
        wrong = list(faults())
        return Finding(name, not wrong, "; ".join(wrong) if wrong else said())
    except JamError as error:
        return Finding(name, False, str(error))
    except _UNREADABLE as error:
        return Finding(name, False, f"cannot be read ({type(error).__name__})")


def _refitted(held: _Held) -> Finding:
    """Check the model, unless that takes a public table that is not there."""
    name = "the model, refitted"

    def faults() -> Iterator[str]:
        if held.refitted is not None:
            yield from _model_faults(held)

    def said() -> str:
        return "" if held.refitted is None else held.refit_message()

    found = _found(name, faults, said)
    if not found.passed or found.message:
        return found
    return Finding(
        name,
        True,
        "NOT CHECKED: the model is made of public data; verify with --public TABLE",
        checked=False,
    )


def _seal_faults(document: dict[str, Any], certificate: Certificate) -> Iterator[str]:
    if document.get("seal") != seal_of(document):
        yield "its seal does not fit what it says: it was altered"
    follows = certificate.to_dict()
    for name in sorted(document.keys() | follows.keys() - {"seal"}):
        if name != "seal" and document.get(name) != follows.get(name):
            yield f"what it says under {name!r} does not follow from the rest"


_FILES = frozenset(name for inside in CONTENTS.values() for name in inside)


def _names(held: _Held) -> list[str]:
    """Return what a release leaves, and whatever else the certificate names."""
    try:
        read = [path.stem for path in arrays_in(held.path("model").parent)]
    except (JamError, *_UNREADABLE):
        # The check of the model's file says so.
        read = []
    return sorted({*_FILES, *held.certificate.files, *read})


def _file_check(held: _Held, name: str) -> Callable[[], Iterator[str]]:
    def faults() -> Iterator[str]:
        path = held.path(name)
        for what, inside in CONTENTS.items():
            # What is refitted and sampled is read from the folder, and must be what is vouched for.
            if inside.get(name) and path != held.path(what).parent / inside[name]:
                yield f"{path} is not the file of the {what} that is verified"
        if name not in _FILES and path != held.path("model").parent / path.name:
            yield f"{path} is not the file of the model that is verified"
        if not path.is_file():
            yield f"{path} is not there: bring it back, or say where it lies"
        elif sha256_of(path) != held.certificate.files[name].sha256:
            yield f"{path} was altered: its SHA-256 is another"

    return faults


def _domain_faults(held: _Held) -> Iterator[str]:
    said, found = held.certificate.domain, held.domain
    if found.digest != said.digest:
        yield "the domain file holds another domain"
    if found.identified_from != said.identified_from:
        yield "the domain comes from elsewhere than the certificate says"
    if len(found.names) != said.attributes:
        yield "the domain has another number of attributes"


def _transcript_faults(held: _Held) -> Iterator[str]:
    said, found = held.certificate, held.transcript
    same = {
        "mechanism": (said.mechanism, found.mechanism),
        "settings": (dict(said.parameters), dict(found.parameters)),
        "domain": (said.domain.digest, found.domain_digest),
        "number of records": (said.records, found.records),
        "neighbours": (said.neighbours, found.neighbours),
        "noise": (said.noise, found.noise),
        "list of draws": (
            [one.call for one in said.draws if one.share == MECHANISM_SHARE],
            list(found.calls),
        ),
        "measurements": (said.sampling.measurements, measurements_hash(found).hexdigest()),
        "number of rows": (said.sampling.rows, found.records),
    }
    if found.workload_digest:
        workload = Workload.specified(held.domain, said.specification["workload"])
        same["workload"] = (workload.digest, found.workload_digest)
    for name, (one, other) in same.items():
        if one != other:
            yield f"the {name} of the transcript and of the certificate differ"
    paid = sum(call.rho for call in found.calls)
    if not math.isclose(found.rho_spent, paid, rel_tol=1e-9, abs_tol=1e-15):
        yield "the transcript has spent another amount than its draws cost"
    if not math.isclose(found.rho_budget, said.asked.shares[MECHANISM_SHARE], rel_tol=1e-9):
        yield "the transcript had another budget than the mechanism's share"
    if found.releasable != (found.noise == "exact"):
        yield "the transcript says something else of its noise than the noise's name"


def _budget_faults(certificate: Certificate) -> Iterator[str]:
    asked = certificate.asked
    whole = units_down(Budget(asked.epsilon, asked.delta).rho)
    if sum(units_down(rho) for rho in asked.shares.values()) > whole:
        yield "the shares hold more than epsilon and delta are worth"
    spent: dict[str, float] = dict.fromkeys(asked.shares, 0.0)
    for draw in certificate.draws:
        if draw.share not in spent:
            yield f"{draw.call.step} was paid from a share that was not asked for"
        else:
            spent[draw.share] += draw.call.rho
    for share, rho in spent.items():
        if rho > asked.shares[share] * (1 + 1e-12):
            yield f"the draws of share {share} cost more than it held"


def _model_faults(held: _Held) -> Iterator[str]:
    if not held.distance <= held.tolerance:
        yield (
            f"the stored model is not the one that the transcript gives: {held.refit_message()}"
            if math.isfinite(held.distance)
            else "the stored model is over other marginals than the transcript's"
        )


def _table_faults(held: _Held) -> Iterator[str]:
    sampling = held.certificate.sampling
    if sampling.rows != held.transcript.records:
        yield "the table has another number of rows than the transcript says"
        return
    if sampling.derived:
        derived = measurements_hash(held.transcript).hexdigest()[: 2 * SEED_BYTES]
        if sampling.seed != derived:
            yield "the seed does not follow from the measurements"
            return
        rng = sampling_generator(held.transcript)
    else:
        if held.certificate.noise == "exact":
            yield "the table of a release must be sampled with the derived seed"
        rng = np.random.default_rng(int(sampling.seed, 16))
    table = decode(held.model.sample(sampling.rows, rng), rng)
    if table_digest(table) != held.certificate.files["table"].sha256:
        other = f" (made with another {', '.join(held.foreign)})" if held.foreign else ""
        yield f"sampling the model again gives another table than the published one{other}"
