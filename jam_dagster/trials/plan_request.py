"""A release to plan: its specification without its private table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from jam_dagster.common.choices import PLAN_SECONDS
from jam_dagster.errors import PrivateStepError, SpecificationError
from jam_dagster.keys import PrivacySpec
from jam_dagster.release.options import check_partition_named, release_spec
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.public_side import identified
from jam_dagster.release.spec import ReleaseSpec, check_editions, read_public, read_source
from jam_dagster.tables import PublicSources, Source
from jam_dagster.tables.sources.partition_template import at_partition
from jam_dagster.tables.sources.previous_release import given_public
from jam_dagster.tables.sources.public import tables_of
from jam_dagster.tables.sources.public_apart import check_apart

if TYPE_CHECKING:
    from jam_dagster.privacy import ReleaseId
    from jam_dagster.tables import Domain

AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The epsilons of a curve, as multiples of the one asked for."""


@dataclass(frozen=True)
class NeverOpened(Source):
    """The private table's place in a plan, which has none, and could not read one."""

    def read(self, *, private: bool) -> NoReturn:
        """Refuse."""
        raise PrivateStepError("A plan opens no private table.")

    def describe(self) -> str:
        """Return that it is not there."""
        return "not opened"

    def identity(self) -> str:
        """Return that it is not there."""
        return self.describe()

    def to_dict(self) -> dict[str, Any]:
        """Return nothing: there is no table."""
        return {}


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A release to plan, and how to try it.

    Parameters
    ----------
    spec
        The release of one partition, with `NeverOpened` in place of its private table.
    partition
        Which partition's release it is; empty if the release has none.
    ledger
        The ledger that would pay; None: it is not known.
    records
        n, the number of private records; None assumes as many as there are public ones.
    epsilons
        The epsilons to try; the one of `spec` is always tried.
    curve
        Whether to try those `AROUND` it, where none are named.
    seeds
        How often each epsilon is tried.
    seconds
        Seconds within which all trials but the first are to end; others do not start.
    compare
        Whether to try other mechanisms too.
    earlier
        The folder of an earlier release of the same private table, which shows whether the domain
        fits; None: it is not known.
    editions
        The editions of single partitions, and under the empty name that of all others.
    rows_are_persons
        Whether the file says that each row is a person.
    as_defined
        Whether no option changes what the file says.
    """

    spec: ReleaseSpec
    partition: str = ""
    ledger: str | None = None
    records: int | None = None
    epsilons: tuple[float, ...] = ()
    curve: bool = False
    seeds: int = 1
    seconds: float = PLAN_SECONDS
    compare: bool = True
    earlier: Path | None = None
    editions: Mapping[str, str] = field(default_factory=dict)
    rows_are_persons: bool = False
    as_defined: bool = True

    @classmethod
    def of(cls, definition: Path | None = None, /, **options: Any) -> Self:
        """Gather a request from a release's file and options, which override the file.

        Parameters
        ----------
        definition
            A release's ``defs.yaml``, or its folder; None: the options describe it all.
        **options
            The parameters of the class but `spec` and `compare`, and those of
            `jam_dagster.release.options.release_spec`. A mechanism that is named here is tried
            alone.

        Raises
        ------
        InputError
            If something is missing or out of range; the message names it.
        """
        own = {one.name for one in fields(cls)} & options.keys()
        given = {name: options.pop(name) for name in own}
        compared: list[Source] = []
        editions: dict[str, str] = {}
        units: list[object] = []
        planned = partial(
            _planned,
            partition=given.get("partition", ""),
            compared=compared,
            editions=editions,
            units=units,
        )
        spec = release_spec(definition, unread=("private",), changed=planned, **options)
        if spec.domain.identify == "paid" and compared != [NeverOpened()]:
            # Names and declared types are no secret, and no row is read.
            spec = identified(spec, *compared)
        compare = options.get("mechanism") is None
        alone = units == ["row"]
        given |= {"editions": editions, "rows_are_persons": alone}
        given["as_defined"] = all(value is None for value in options.values())
        made = cls(spec=spec, compare=compare, **given)
        made.validate()
        return made

    def validate(self) -> None:
        """Check everything that can be checked before a table is read.

        Raises
        ------
        SpecificationError
            Naming the parameter, what it was, and what it may be.
        """
        for name, value in (("records", self.records), ("seeds", self.seeds)):
            if value is not None and value < 1:
                raise SpecificationError(f"{name} must be at least 1, got {value}.")
        # Infinity is no bound, and a NaN none either.
        if not self.seconds >= 0:
            raise SpecificationError(f"seconds must be at least 0, got {self.seconds}.")
        for epsilon in self.tried:
            _ = self.spec.privacy.changed(epsilon=epsilon).budget

    @property
    def tried(self) -> tuple[float, ...]:
        """The epsilons to try, ascending; the one asked for is always among them."""
        asked = self.spec.privacy.epsilon
        around = AROUND if self.curve else ()
        others = self.epsilons or tuple(asked * factor for factor in around)
        return tuple(sorted({*others, asked}))

    def at(self, epsilon: float) -> ReleaseSpec:
        """Return the release at another epsilon.

        Raises
        ------
        SpecificationError
            If the budget is too small to be divided.
        """
        return self.spec.changed(privacy=self.spec.privacy.changed(epsilon=epsilon))

    def edition_of(self, partition: str) -> str:
        """Return the edition that a partition of the release has."""
        return self.editions.get(partition) or self.editions.get("", self.spec.edition_of(""))

    def release_id(self, domain: Domain) -> ReleaseId:
        """Return how the ledger would know the release."""
        return self.spec.release_id(domain, self.partition)


def _planned(
    attributes: Mapping[str, Any],
    folder: Path,
    *,
    partition: str,
    compared: list[Source],
    editions: dict[str, str],
    units: list[object],
) -> dict[str, Any]:
    """Return the attributes of one partition's release, whose private table is not opened.

    The table, or what stands for it, is added to those that the release is `compared` with, and
    `editions` get those of all partitions, if there are any, and `units` what the file says.
    """
    given = dict(attributes)
    given.setdefault("release", "plan")
    if isinstance(privacy := given.get("privacy"), Mapping):
        units.append(privacy.get("unit"))
    private = _private(given.pop("private", None), folder)
    partitions = PartitionsSpec.of(given.pop("partitions", None), given.pop("start", None))
    check_partition_named(partitions, partition)
    if partitions is not None and given.get("privacy") is not None:
        privacy = PrivacySpec.of(given["privacy"])
        check_editions(privacy, partitions, given["release"])
        editions |= {"": str(privacy.edition), **privacy.editions}
        given["privacy"] = privacy.at(partition)
    public = None if given.get("public") is None else _public(given["public"], folder)
    if public is None and given.get("public") is not None and partition:
        before = None if partitions is None else partitions.before(partition)
        if before is not None:
            raise SpecificationError(
                f"Partition {partition} is drawn on the release of {before}: name a table that"
                " stands for it with --public."
            )
    if partition:
        public = None if public is None else at_partition(public, partition)
        private = at_partition(private, partition)
    if public is not None:
        check_apart(private, public)
    compared.append(private)
    return {**given, "private": NeverOpened(), "public": public}


def _private(given: Any, folder: Path) -> Source:
    """Return the private source for comparison, never opened; a template stands for none."""
    if given is None:
        return NeverOpened()
    try:
        return read_source(given, folder)
    except SpecificationError:
        return NeverOpened()


def _public(given: Any, folder: Path) -> Source | PublicSources | None:
    try:
        public = read_public(given, folder)
    except SpecificationError as error:
        raise SpecificationError(
            f"public: {error}. Name a table that stands for it with --public."
        ) from None
    # Later partitions have tables that are not made yet; the given one stands for them.
    source, _ = given_public(public)
    if source is None:
        return None
    if any(one.asset_key is not None for one in tables_of(source).values()):
        raise SpecificationError(
            f"public is {source.describe()}, which only a Dagster run can load: name a table that"
            " stands for it with --public, such as an extract of it."
        )
    return source
