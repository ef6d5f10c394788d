"""A certificate and its files; a file with a wrong hash is never read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.issue import CONTENTS, OPTIONAL, arrays_in, environment, sha256_of
from jam_dagster.certificates.refitting import (
    FOREIGN_REFIT_TOLERANCE,
    REFIT_TOLERANCE,
    Nearness,
    Refit,
)
from jam_dagster.common.files import read_text_bytes
from jam_dagster.common.json_text import DAMAGE, parse_json
from jam_dagster.common.yaml_text import parse_yaml
from jam_dagster.errors import DomainError, InputError, JamError
from jam_dagster.mechanisms import Model, Transcript, load_model
from jam_dagster.mechanisms.loops.rows import release_rows
from jam_dagster.mechanisms.loops.settings import recorded_settings
from jam_dagster.mechanisms.registry import find_mechanism
from jam_dagster.tables import Domain, MarginalSource, PublicSources, Workload
from jam_dagster.tables.codes.table import counts_or_codes
from jam_dagster.tables.sources.public import encode_public, over_bought, read_public
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms.loops.rows import SampledRows
    from jam_dagster.tables import Source

UNREADABLE = (*DAMAGE, OSError, yaml.YAMLError)

REQUIRED = frozenset(name for inside in CONTENTS.values() for name in inside) - OPTIONAL


class Held:
    """A certificate and its files, each read on first use.

    `files` are those that have moved since, by their names in the certificate.
    """

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
        self.fault_of = cache(self._fault_of)

    @property
    def names(self) -> list[str]:
        """The files of every release, and any further ones that the certificate names."""
        return sorted({*REQUIRED, *self.certificate.files, *self._arrays})

    @cached_property
    def _arrays(self) -> list[str]:
        try:
            return list(arrays_in(self.path("model").parent))
        except (JamError, *UNREADABLE):
            # The check of the model's file reports this.
            return []

    def path(self, name: str) -> Path | UPath:
        """Return the path of a file."""
        if name in self._files:
            return self._files[name]
        if name not in self.certificate.files:
            raise InputError(f"the certificate names no {name}")
        # The working directory has no parent by its name ".".
        path = self._folder.absolute()
        # Stores that are no file systems do not resolve "..".
        for part in self.certificate.files[name].path.split("/"):
            path = path.parent if part == ".." else path / part
        return path

    def _fault_of(self, name: str) -> str:
        """Return the fault of a file; empty if it has the hash in the certificate."""
        path = self.path(name)
        for what, inside in CONTENTS.items():
            # Refitting and sampling read from the folder, so its files must be the certified ones.
            if inside.get(name) and path != self.path(what).parent / inside[name]:
                return f"{path} is not the file of the {what} that is verified"
        if name not in REQUIRED | OPTIONAL and path != self.path("model").parent / path.name:
            return f"{path} is not the file of the model that is verified"
        if name == "model":
            try:
                arrays_in(path.parent)
            except InputError as error:
                return str(error)
        if name in OPTIONAL | {"table", "domain"} and path.parent == self.path("model").parent:
            return f"{path} is in the folder of the model, and the {name} has another place"
        if name not in self.certificate.files:
            return f"the certificate names no {name}"
        if not path.is_file():
            return f"{path} is missing: restore it, or give its new place"
        if sha256_of(path) != self.certificate.files[name].sha256:
            return f"{path} was altered: its SHA-256 is another"
        return ""

    def _intact(self, *names: str) -> None:
        """Raise InputError unless all of these files have the hashes in the certificate."""
        for name in names:
            if fault := self.fault_of(name):
                raise InputError(f"not checked, for {fault}")

    @cached_property
    def transcript(self) -> Transcript:
        """The transcript."""
        self._intact("transcript", "measurements")
        return Transcript.load(self.path("transcript").parent)

    @cached_property
    def domain(self) -> Domain:
        """The domain."""
        self._intact("domain")
        return Domain.from_dict(parse_yaml(read_text_bytes(self.path("domain")).decode()))

    @cached_property
    def table(self) -> TableFile:
        """The published table, of one that was sampled a chunk at a time."""
        self._intact("table")
        return TableFile(self.path("table"))

    @cached_property
    def errors(self) -> Mapping[str, Any] | None:
        """The file of the noisy errors; None if the certificate has none."""
        if "errors" not in self.certificate.files:
            return None
        self._intact("errors")
        content: Mapping[str, Any] = parse_json(read_text_bytes(self.path("errors")))
        return content

    @cached_property
    def model(self) -> Model:
        """The stored model."""
        others = (name for name in self.certificate.files if name not in REQUIRED | OPTIONAL)
        self._intact("model", *others, *self._arrays)
        return load_model(self.path("model").parent)

    @property
    def seed(self) -> int | None:
        """The seed of the table; None for the release's own."""
        sampling = self.certificate.sampling
        return None if sampling.derived else int(sampling.seed, 16)

    @cached_property
    def whole(self) -> SampledRows:
        """The table, of one that was sampled at once, sampled again."""
        (rows,) = release_rows(self.model, self.transcript, self.seed)
        return rows

    @property
    def workload(self) -> Workload:
        """The workload of the specification."""
        return Workload.specified(self.domain, self.certificate.specification["workload"])

    def counts(self) -> MarginalSource:
        """Return the table, sampled again, as counts of the workload where it has chunks."""
        if self.transcript.chunk_rows is None:
            return self.whole.codes
        cliques = self.workload.cliques
        rows = release_rows(self.model, self.transcript, self.seed)
        with closing(rows) as chunks:
            codes = (chunk.codes for chunk in chunks)
            return counts_or_codes(codes, self.domain, cliques, records=self.transcript.records)

    @property
    def ignores_public(self) -> bool:
        """Whether public tables were given, and the mechanism with its settings learns from none.

        The transcript says which prior a run had, whichever tables are at hand.
        """
        made = find_mechanism(self.transcript.mechanism)
        if self._public is None or made is None:
            return False
        return not made(**recorded_settings(made, self.transcript)).uses_public

    @cached_property
    def public(self) -> MarginalSource | None:
        """The encoded public tables, if they were given and the mechanism learns from any."""
        if self._public is None or self.ignores_public:
            return None
        bought = self.domain.bought
        asked = self.domain if bought is None else bought.asked
        return over_bought(encode_public(read_public(self._public), asked), self.domain)

    @cached_property
    def refit(self) -> Refit | None:
        """The run again; None if it needs public data that were not given."""
        try:
            given = self.transcript, self.domain, self.workload, self.public
            return Refit(*given, self.certificate.made_with)
        except DomainError:
            if self.public is None and self.domain.digest == self.transcript.domain_digest:
                return None
            raise

    @cached_property
    def nearness(self) -> Nearness | None:
        """How near the refitted model is to the stored one; None without a refit."""
        refit = self.refit
        return None if refit is None or refit.fault else refit.closest(self.model)

    @cached_property
    def foreign(self) -> tuple[str, ...]:
        """The recorded software versions that differ in this process."""
        here = environment()
        deciding = ["jam_dagster", "machine", "numpy", "kernels", "blas", "simd"]
        by_mbi = self.transcript.parameters.get("estimator") == "mbi"
        deciding += ["jax"] if by_mbi else self.model.fitted_by
        made = self.certificate.made_with
        return tuple(name for name in deciding if made.get(name) != here.get(name))

    @property
    def tolerance(self) -> float:
        """The largest allowed distance of the refitted model from the stored one."""
        return FOREIGN_REFIT_TOLERANCE if self.foreign else REFIT_TOLERANCE

    @property
    def near(self) -> bool:
        """Whether that is near enough on this machine."""
        near = self.nearness
        if near is None:
            return False
        return near.exact or bool(self.foreign and near.apart <= FOREIGN_REFIT_TOLERANCE)
