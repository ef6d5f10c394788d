"""The specification of a release, and the digest by which the ledger knows it."""

# Pydantic reads these annotations as types, so they are not postponed to strings.
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, Self, cast

from pydantic import Field, SkipValidation, model_validator

from jam_dagster.common.choices import EvaluationMode
from jam_dagster.common.section import Section
from jam_dagster.common.validation import check_keys
from jam_dagster.errors import InputError, JamError, SpecificationError
from jam_dagster.evaluation.utility import check_can_classify
from jam_dagster.keys import (
    DAGSTER_KEYS,
    KEYS,
    PLAIN_NAME,
    DefaultWorkload,
    EvaluationSpec,
    PrivacySpec,
    PurposedWorkload,
    SamplingSpec,
    SpecificationKeys,
    WorkloadSpec,
    analyses,
)
from jam_dagster.mechanisms.configuration import KEY, check_public
from jam_dagster.mechanisms.context import SMALLEST_RHO
from jam_dagster.mechanisms.registry import mechanism_class
from jam_dagster.privacy import Budget, Neighbours, Protection, ReleaseId
from jam_dagster.privacy.ledger.release_id import canonical_digest, specification_of
from jam_dagster.privacy.shares import DOMAIN, EVALUATION, MECHANISM
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.sections import DomainSpec, MechanismSpec, with_children
from jam_dagster.tables import (
    Clique,
    CsvSource,
    Domain,
    PreviousRelease,
    PrivacyUnit,
    PublicSources,
    Source,
    source_from_config,
)
from jam_dagster.tables.codes.purpose import targets
from jam_dagster.tables.domain.bought import Asked
from jam_dagster.tables.sources.base import absolute_paths, check_not_split, whole
from jam_dagster.tables.sources.dialect import Dialect
from jam_dagster.tables.sources.partition_template import at_partition, is_partitioned
from jam_dagster.tables.sources.previous_release import given_public, public_from_config
from jam_dagster.tables.sources.public import tables_of
from jam_dagster.tables.sources.public_apart import check_apart, snapshot_of
from jam_dagster.tables.sources.shifted import SHIFTED_PRIVATE
from jam_dagster.tables.sources.source import check_records_only

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

UNNAMED = "not named"
"""The dataset of research that names none."""


class ReleaseSpec(Section):
    """One release of a synthetic table.

    Parameters
    ----------
    release
        Its name: the key prefix of its assets.
    dataset
        The protected dataset whose budget pays; research may name none.
    private, public
        The sources of the two tables; with ``{partition}`` in path or query, of every snapshot.
        There may be several public ones, or none if the mechanism needs none.
    domain, privacy, mechanism, workload, evaluation, sampling
        See the classes.
    partitions
        The partitions, if each snapshot has a release of its own; None: it is one release.
    previous
        How the release of the partition before is the public table of the next; `public` is then
        the table for the first partition. None: it is not.
    ledger_id
        The identity of the ledger that pays, as the file next to the release's definition says;
        empty if there is none.
    """

    release: SkipValidation[str]
    dataset: SkipValidation[str] = ""
    private: SkipValidation[Source]
    public: SkipValidation[Source | PublicSources | None] = None
    domain: DomainSpec
    privacy: PrivacySpec
    # None is the recommended one, which depends on `public`: it is filled in once that is known.
    mechanism: SkipValidation[MechanismSpec] = cast(MechanismSpec, None)
    workload: WorkloadSpec = Field(default_factory=DefaultWorkload)
    evaluation: EvaluationSpec = Field(default_factory=EvaluationSpec)
    sampling: SamplingSpec = Field(default_factory=SamplingSpec)
    partitions: SkipValidation[PartitionsSpec | None] = None
    previous: SkipValidation[PreviousRelease | None] = None
    ledger_id: SkipValidation[str] = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if cast(MechanismSpec | None, self.mechanism) is None:
            unnamed = MechanismSpec.of(None, public=self.has_public)
            object.__setattr__(self, KEY, unnamed)
        if type(self.mechanism) is not MechanismSpec:
            raise SpecificationError("the mechanism of a release is a MechanismSpec.")
        if self.exact and not self.mechanism.own:
            raise SpecificationError(
                f"The mechanism {self.mechanism.name} comes from outside jam-dagster, which tests "
                "no sensitivity of it, so it makes no release: give noise='numpy' and a seed, for "
                "research."
            )
        self._check_sources()
        self._check_domain()
        check_editions(self.privacy, self.partitions, self.release)
        check_records_only(self.private, self.privacy.unit is not None)
        if self.privacy.protection != Protection() and self.privacy.noise == "exact":
            for one in self.private.parts:
                check_not_split(one)
        self._check_budget()
        reason = self.private.restricted_because
        if reason is not None and self.privacy.noise == "exact":
            raise SpecificationError(
                f"The private table of release {self.release} may not be released from: {reason}."
            )
        return self

    @classmethod
    def from_config(cls, attributes: Mapping[str, Any], folder: Path) -> Self:
        """Read a release from the attributes of its file.

        Parameters
        ----------
        attributes
            The mapping below ``attributes`` in the file, or objects of the classes.
        folder
            The folder that relative paths start from.

        Raises
        ------
        InputError
            If a key is unknown, missing or out of range; its `key` names the key of the file.
        """
        check_keys("the release", attributes, (*KEYS, *DAGSTER_KEYS))
        given = {name: value for name, value in attributes.items() if value is not None}
        for name in ("release", "private", "domain"):
            if name not in given:
                needed = SpecificationKeys.named(name)
                raise SpecificationError(f"The release needs the key {needed}.")
        read: dict[str, Any] = {}
        # A section that is left out names what it needs.
        given.setdefault("privacy", {})
        for name, reader in _READERS.items():
            if name in given:
                with _located(name):
                    read[name] = reader(given[name], folder)
        public = read.get("public")
        if KEY in given:
            with _located(KEY):
                read[KEY] = MechanismSpec.of(given[KEY], public=public is not None)
        if public is not None:
            read["public"], read["previous"] = given_public(public)
        if "purpose" in given:
            with _located("purpose"):
                asked = analyses(given["purpose"])
                workload = read.get("workload", DefaultWorkload())
                read["workload"] = PurposedWorkload(**workload.to_dict(), purpose=asked or [])
        if "children" in given:
            with _located("children"):
                read = with_children(read, given["children"], folder)
        partitions = PartitionsSpec.of(given.get("partitions"), given.get("start"))
        return cls(**read, partitions=partitions)

    def _check_sources(self) -> None:
        for one in (whole(part) for part in self.private.parts):
            but = one.but if isinstance(one, CsvSource) else {}
            for name in but:
                if self.partitions is None or not self.partitions.holds(name):
                    raise SpecificationError(
                        f"private: but names {name!r}, which is no partition of release"
                        f" {self.release}: correct the name."
                    )
        if self.private.is_shifted:
            raise SpecificationError(f"private: {SHIFTED_PRIVATE}.")
        # Only the project knows whether an asset has partitions.
        partitioned = is_partitioned(self.private) or self.private.asset_key is not None
        if self.partitions is not None and not partitioned:
            raise SpecificationError(
                f"Release {self.release} has partitions, but its private source no {{partition}}:"
                f" each would release the same records again, at a price of its own. Write"
                f" {{partition}} where the snapshots differ, as in people_{{partition}}.parquet or"
                f" where month = '{{partition}}'."
            )
        begins = self.mechanism if self.public is not None else self._without_public
        identified = self.domain.declared is not None or self.domain.identify == "paid"
        check_public(begins.build(), self.public, declared=identified)
        if self.previous is not None:
            self._check_previous()
        self._check_apart()
        for side in ("private", "public"):
            source = getattr(self, side)
            if self.partitions is None and source is not None and is_partitioned(source):
                raise SpecificationError(
                    f"The {side} source of release {self.release} has a {{partition}}, but the"
                    f" release no partitions: set partitions (monthly with a start, or {{static:"
                    f" [names]}}), or name one table."
                )

    def _check_domain(self) -> None:
        """Raise unless the domain goes with the tables, the workload and the privacy unit."""
        self._check_children()
        self._check_asked()
        if self.domain.declared is not None:
            # A workload that the domain cannot serve is refused now, not after an hour's run.
            try:
                self.workload.build(self.domain.declared)
            except InputError as error:
                raise type(error)(f"workload: {error}") from None
            if self.privacy.unit is not None:
                self.privacy.unit.build().check(self.domain.declared)

    def _check_children(self) -> None:
        """Raise unless the tables, the domain and the privacy unit have the same children."""
        link, unit, declared = self.private.linked, self.privacy.unit, self.domain.declared
        if link is not None and (unit is None or unit.build() != PrivacyUnit(link.column)):
            raise SpecificationError(
                f"The rows of release {self.release} have children, so its privacy unit is a row of"
                f" the root table: set privacy.unit to the column {link.column} and one row."
            )
        if self.previous is not None and link is not None:
            raise SpecificationError(
                f"Release {self.release} has children and public.previous_release: a release of two"
                " tables is drawn on no earlier one yet. Name a public table."
            )
        declares = None if declared is None or declared.children is None else declared.children.link
        if declared is not None and declares != link:
            raise SpecificationError(
                f"The domain of release {self.release} and its tables do not have the same"
                f" children: the domain has {declares}, the tables {link}. Declare them alike under"
                " children in both, or declare the domain of the children there."
            )

    def _check_asked(self) -> None:
        """Raise if the domain asks for what cannot be bought."""
        asked = self.asked
        if asked is None:
            return
        fault = ""
        if self.private.linked is not None:
            fault = "declare them, since a release of two tables buys none yet"
        elif isinstance(self.public, PublicSources):
            fault = "name one public table, since values that are bought are added to those of one"
        elif self.public is not None and (asked.bins or self.domain.types):
            fault = (
                "take types and edges from the public table, whose draft has them (domain:"
                " {identify: paid} without types, or jam-dagster domain draft)"
            )
        if fault:
            raise SpecificationError(
                f"The domain of release {self.release} asks for the values or edges of"
                f" {asked.names[0]}: {fault}."
            )

    def _check_apart(self) -> None:
        """Raise if a public table is the private one, as far as is known before a run."""
        check_apart(self.private, self.public)
        if self.partitions is None or self.public is None:
            return
        for name in self.partitions.static:
            check_apart(at_partition(self.private, name), at_partition(self.public, name))
        for table, one in self.public_tables.items():
            snapshot = snapshot_of(self.private, one)
            if snapshot is not None and self.partitions.holds(snapshot):
                raise SpecificationError(
                    f"The public table {table} of release {self.release} ({one.describe()}) is its"
                    f" private table of partition {snapshot}. Nothing was opened and nothing"
                    f" charged: name a table that everybody may see."
                )

    def _check_previous(self) -> None:
        if self.partitions is None:
            raise SpecificationError(
                f"Release {self.release} has public.previous_release, but no partitions, so none"
                f" comes before another: set partitions, or name a public table."
            )
        if self.public is not None and is_partitioned(self.public):
            raise SpecificationError(
                f"public.previous_release.first of release {self.release} has a {{partition}}: it"
                f" is one table, for the first partition and to mix in later. Name one."
            )
        if self.domain.restricted:
            raise SpecificationError(
                f"Release {self.release} has public.previous_release and a domain from private"
                f" data, which no release that leaves is drawn on: draft it from the public table."
            )

    @property
    def has_public(self) -> bool:
        """Whether the release has a public table; without a first one, from the second partition.

        The domain is declared then.
        """
        return self.public is not None or self.previous is not None

    def begins_without_public(self, partition: str) -> bool:
        """Whether a partition has no public table, and later ones have the release before."""
        if self.public is not None or self.previous is None or self.partitions is None:
            return False
        return bool(partition) and self.partitions.before(partition) is None

    @property
    def _without_public(self) -> MechanismSpec:
        """The mechanism where there is no public table; one that must have one is not changed."""
        if self.previous is None:
            return self.mechanism
        name, settings = self.mechanism.name, self.mechanism.settings
        return MechanismSpec(name, **(dict(settings) | mechanism_class(name).without_public()))

    @property
    def public_tables(self) -> dict[str, Source]:
        """The given public tables by name; one alone has none."""
        return tables_of(self.public)

    @property
    def person_column(self) -> str | None:
        """The column that no public table has, for it identifies a person in the private one.

        None without a privacy unit, and if rows have children: the key is in the public tables too.
        """
        unit = self.privacy.unit
        return None if unit is None or self.private.linked is not None else unit.column

    @property
    def dialect(self) -> Dialect:
        """The dialect of the synthetic table's CSV file: that of the public one, and its mark."""
        return replace(Dialect.of(self.public), mark=self.sampling.mark)

    @property
    def purpose(self) -> list[dict[str, Any]]:
        """The analyses that the release is for."""
        analyses: list[dict[str, Any]] = self.workload.to_dict().get("purpose", [])
        return analyses

    @property
    def scored_targets(self) -> tuple[str, ...]:
        """The targets that classifiers predict on private rows, with noise."""
        rows = self.private.has_rows and self.evaluation_mode == "private"
        return targets(self.purpose) if rows else ()

    def check_classifiers(self) -> None:
        """Raise InputError if scores of classifiers are to be measured, and cannot be here."""
        if self.scored_targets:
            check_can_classify()

    def _check_budget(self) -> None:
        try:
            shares = self.shares
            self.mechanism.build().check_budget(shares[MECHANISM])
        except SpecificationError as error:
            raise SpecificationError(f"privacy.epsilon: {error}") from None
        self.privacy.protection.check(shares[MECHANISM])
        asked = self.asked
        if asked is not None and shares.get(DOMAIN, 0.0) < SMALLEST_RHO * asked.draws:
            raise SpecificationError(
                f"domain: a share of {asked.share} of rho = {self.budget.rho:.3g} is too small for"
                f" the {asked.draws} draws that it asks for: raise privacy.epsilon or the domain's"
                " share, or declare values and edges."
            )
        if self.evaluation_mode == "private" and EVALUATION not in shares:
            raise SpecificationError(
                f"evaluation.share {self.evaluation.share} of rho = {self.budget.rho:.3g} is too"
                f" small for any measurement: raise privacy.epsilon or evaluation.share, or set"
                f" evaluation.mode to off."
            )

    @property
    def budget(self) -> Budget:
        """The budget of the whole release."""
        asked, budget = self.asked, self.privacy.budget
        if asked is None or not asked.values:
            return budget
        return Budget(budget.epsilon, budget.delta, asked.selections(budget.delta))

    @property
    def asked(self) -> Asked | None:
        """The values and edges that the domain asks to be bought, if it does."""
        return self.domain.asked

    @property
    def selections(self) -> dict[str, float]:
        """The delta that each share has for selections of values, of those that have any."""
        return {DOMAIN: delta} if (delta := self.budget.selections) else {}

    @property
    def shares(self) -> dict[str, float]:
        """The shares of the release's rho: the mechanism's, and those set aside before.

        Mode private measures errors by one, and a domain that asks is bought by another.
        """
        asked = self.asked
        return self.budget.shares(
            self.evaluation.share if self.evaluation_mode == "private" else 0.0,
            0.0 if asked is None else asked.share,
        )

    @property
    def evaluation_mode(self) -> EvaluationMode:
        """How the error is measured."""
        # A bare `off` of YAML 1.1, which is false, is read as the text.
        return cast(EvaluationMode, self.evaluation.mode)

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring datasets that the release must not let anybody distinguish."""
        return self.privacy.protection.neighbours

    @property
    def reads_values(self) -> bool:
        """Whether values of the private table are looked at before the evaluation is charged."""
        return (
            self.asked is not None or self.domain.restricted or self.mechanism.build().reads_values
        )

    @property
    def exact(self) -> bool:
        """Whether the noise is exact, and charged."""
        return self.privacy.noise == "exact"

    def with_domain(self, domain: DomainSpec) -> Self:
        """Return the same release over another domain, once it is consistent.

        Its sources may be those of a partition already.
        """
        made = self.model_copy(update={"domain": domain})
        made._check_domain()
        made._check_budget()
        return made

    @property
    def asks_by_tables(self) -> bool:
        """Whether columns, a public table or the release before decide what is asked for."""
        asks = self.asked is not None and self.has_public
        return asks or self.domain.identify == "paid"

    @property
    def relates(self) -> bool:
        """Whether pairs that are related in the public table are added to the workload.

        They are if the workload may lack a pair, and the domain does not say which are related. It
        takes one public table, the same for all that is asked of it: none of a release before, of
        children, or next to a domain that is bought or from private data.
        """
        # Any other degree holds all pairs.
        if self.workload.degree not in (None, 1):
            return False
        declared = self.domain.declared
        several = self.public is None or isinstance(self.public, PublicSources)
        if several or self.previous is not None or self.private.linked is not None:
            return False
        if self.asked is not None or self.domain.identify == "paid" or self.domain.restricted:
            return False
        return declared is None or (declared.related is None and bool(self.lacking(declared)))

    def lacking(self, domain: Domain) -> tuple[Clique, ...]:
        """Return the pairs of the workload's attributes that none of its marginals holds."""
        workload = self.workload.build(domain)
        asked = {name for clique in workload.cliques for name in clique}
        return workload.lacks(combinations((one for one in domain.names if one in asked), 2))

    def over(self, domain: Domain) -> Self:
        """Return the release over what it asks for, if columns or tables decide that.

        Parameters
        ----------
        domain
            The domain that asks for them, or what was bought; or with related pairs.
        """
        if self.domain.declared is not None and self.relates:
            return self.with_domain(DomainSpec(declared=domain))
        if not self.asks_by_tables:
            return self
        asking = domain if domain.bought is None else domain.bought.asked
        return self.with_domain(DomainSpec(declared=asking))

    @property
    def closed(self) -> "ReleaseSpec":
        """The specification without the private table, for objects that outlive the release."""
        return self.model_copy(update={"private": None})

    def at(self, partition: str) -> Self:
        """Return the specification of one partition's release, its sources filled in.

        A first partition without a public table has the mechanism's settings of such a release.
        """
        if not partition:
            return self
        public = None if self.public is None else at_partition(self.public, partition)
        private = at_partition(self.private, partition)
        alone = self.begins_without_public(partition)
        mechanism = self._without_public if alone else self.mechanism
        its = {"private": private, "public": public, KEY: mechanism}
        return self.model_copy(update={**its, "privacy": self.privacy.at(partition)})

    def edition_of(self, partition: str) -> str:
        """Return the edition of a partition's release."""
        return str(self.privacy.at(partition).edition)

    def release_id(self, domain: Domain | None, partition: str = "") -> ReleaseId:
        """Return the id by which the ledger knows the release.

        Parameters
        ----------
        domain
            As for `specified`.
        partition
            The partition, if the release has any.
        """
        return ReleaseId(
            dataset=self.dataset or UNNAMED,
            release=self.release,
            specification=self.at(partition).digest(domain),
            partition=partition,
            edition=self.edition_of(partition),
        )

    @property
    def releasable(self) -> bool:
        """Whether results of the mechanism may leave.

        They may with exact noise and a domain that is not from private data. Both are known before
        anything runs, so they decide labels and storage.
        """
        return self.privacy.noise == "exact" and not self.domain.restricted

    @property
    def not_releasable_because(self) -> tuple[str, ...]:
        """The reasons in words; empty for a releasable one."""
        reasons = []
        if self.privacy.noise != "exact":
            reasons.append(
                f"noise is {self.privacy.noise}: seeded floating-point noise, for research only"
            )
        if self.domain.restricted:
            reasons.append("the domain was identified from private data, which nothing paid for")
        if self.private.restricted_because is not None:
            reasons.append(self.private.restricted_because)
        return tuple(reasons)

    @property
    def configured(self) -> dict[str, Any]:
        """The configuration that influences a draw, without the domain's content."""
        return self._specified("")

    def _specified(self, domain: str) -> dict[str, Any]:
        return specification_of(
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            protection=self.privacy.protection.to_dict(),
            mechanism={"name": self.mechanism.name, **self.mechanism.build().parameters()},
            workload=self.workload.to_dict(),
            # Modes exact and off leave the mechanism the whole budget, so they draw alike.
            evaluation_share=self.evaluation.share if self.evaluation_mode == "private" else 0.0,
            domain=domain,
            noise=self.privacy.noise,
            seed=self.privacy.seed,
        )

    def marginals(self, domain: Domain) -> tuple[Clique, ...]:
        """Return all private marginals that the mechanism and the evaluation may ask for."""
        from jam_dagster.evaluation.columns_and_pairs import columns_and_pairs

        workload = self.workload.build(domain)
        asked = self.mechanism.build().marginals(domain, workload)
        return (*asked, *workload.cliques, *columns_and_pairs(domain))

    def digest(self, domain: Domain | None) -> str:
        """Return the specification digest that is part of the release's id in the ledger.

        Parameters
        ----------
        domain
            As for `specified`.

        Returns
        -------
        str
            64 hexadecimal digits.
        """
        return canonical_digest(self.specified(domain))

    def specified(self, domain: Domain | None) -> dict[str, Any]:
        """Return the content of the specification digest.

        It covers everything configured that influences a draw: change it, and the release is
        another one, with draws and charges of its own. Sources are not part of it, for moving a
        file must not cost budget: new data means a new edition or partition. A domain that was
        identified from private data enters by the words that asked for it, since no plain hash of
        private content is ever stored in the ledger.

        Parameters
        ----------
        domain
            The domain in use, declared or identified. It may be None if it comes from private data.

        Raises
        ------
        SpecificationError
            If the domain is needed and not known.
        """
        if self.domain.restricted:
            columns, bins = self.domain.columns, self.domain.bins or 32
            chosen = "" if columns is None else f", columns {sorted(set(columns))}"
            return self._specified(f"from private data, {bins} bins{chosen}")
        if domain is None:
            raise SpecificationError(
                f"Release {self.release} needs its domain to be known: materialize it first."
            )
        return self._specified(domain.specified)


def check_editions(privacy: PrivacySpec, partitions: PartitionsSpec | None, release: str) -> None:
    """Raise unless each edition of a partition is of one that the release has."""
    for partition, edition in privacy.editions.items():
        if partitions is None:
            raise SpecificationError(
                f"privacy.editions of release {release} is for a release with partitions: set"
                " privacy.edition."
            )
        if not partitions.holds(partition):
            near = ", ".join(partitions.nearest(partition))
            raise SpecificationError(
                f"privacy.editions of release {release} names {partition!r}, which is no partition"
                f" of it: correct the name{f', such as to {near}' if near else ''}."
            )
        _check_edition(edition, f"privacy.editions.{partition}")


def check_names(spec: ReleaseSpec) -> None:
    """Raise unless the names of a release can be those of assets, files and partitions."""
    release, dataset, edition = spec.release, spec.dataset, spec.privacy.edition
    # The value of a template in YAML may not be a text.
    if not isinstance(release, str) or not _NAME.fullmatch(release):
        raise SpecificationError(
            f"release must start with a letter and hold letters, digits and '_' only,"
            f" got {release!r}."
        )
    if not isinstance(dataset, str) or not PLAIN_NAME.fullmatch(dataset):
        raise SpecificationError(
            f"dataset must hold letters, digits, '.', '_' and '-' only, got {dataset!r}."
        )
    _check_edition(edition, "privacy.edition")


def _check_edition(edition: object, key: str) -> None:
    if not PLAIN_NAME.fullmatch(str(edition)):
        raise SpecificationError(
            f"{key} must be of letters, digits, '.', '_' and '-', got {edition!r}."
        )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise SpecificationError(f"{name} must be a text, got {value!r}.")
    return value


def read_source(value: Any, folder: Path) -> Source:
    """Return the private source that a file names; a source is returned as it is."""
    return source_from_config(absolute_paths(value, folder))


def read_public(value: Any, folder: Path) -> Source | PublicSources | PreviousRelease:
    """Return the public sources that a file names; sources are returned as they are."""
    return public_from_config(absolute_paths(value, folder))


_READERS: dict[str, Callable[[Any, Path], Any]] = {
    "release": lambda value, _: _text(value, "release"),
    "dataset": lambda value, _: _text(value, "dataset"),
    "private": read_source,
    "public": read_public,
    "domain": DomainSpec.from_config,
    "privacy": lambda value, _: PrivacySpec.of(value),
    "workload": lambda value, _: WorkloadSpec.of(value),
    "evaluation": lambda value, _: EvaluationSpec.of(value),
    "sampling": lambda value, _: SamplingSpec.of(value),
}


@contextmanager
def _located(name: str) -> Iterator[None]:
    """Add the key of the file to an error."""
    try:
        yield
    except JamError as error:
        error.key = name
        raise
