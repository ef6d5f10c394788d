"""What is to be planned: a release without its private table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jam_dagster.errors import PrivateStepError, SpecificationError
from jam_dagster.privacy import Neighbours, ReleaseKey
from jam_dagster.privacy.ledger.key import canonical_digest
from jam_dagster.release.definition import private_of, read_definition
from jam_dagster.release.options import SynthesisRequest
from jam_dagster.tables import Domain, Workload, at_partition, check_partition
from jam_dagster.tables.sources.public_apart import check_apart

if TYPE_CHECKING:
    from jam_dagster.privacy import NoiseName

AROUND = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The epsilons that are tried unless others are named, as multiples of the one asked for."""


@dataclass(frozen=True)
class NeverOpened:
    """Stands where the private table would: a plan has none, and could not read one."""

    restricted_because: str | None = None

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
    release
        The release, with `NeverOpened` in place of its private table, and with the seeded noise
        of the simulation.
    domain
        Its domain; None drafts one from the public table.
    noise
        Which noise the release itself would have.
    cliques, weights
        The workload where it is not all marginals of one degree.
    bins
        Bins of a numeric attribute of a drafted domain.
    drafted_from_both
        Whether the release's domain would be identified from the private table as well.
    partition
        Which snapshot's release it is; empty where the release has no partitions.
    records
        n, the number of private records; None assumes as many as there are public ones.
    epsilons
        What to try; those asked for.
    seeds
        How often each epsilon is tried.
    """

    release: SynthesisRequest
    domain: Domain | None = None
    noise: NoiseName = "exact"
    cliques: Sequence[Sequence[str]] | None = None
    weights: Sequence[float] | None = None
    bins: int = 32
    drafted_from_both: bool = False
    partition: str = ""
    records: int | None = None
    epsilons: tuple[float, ...] = ()
    seeds: int = 3

    @classmethod
    def of(cls, definition: Path | None = None, **options: Any) -> PlanRequest:
        """Gather a request from a component's file and options, which override the file.

        Parameters
        ----------
        definition
            A release's ``defs.yaml``, or its folder.
        **options
            The parameters of this class and of `SynthesisRequest` by their names; None: not given.
            A ``domain`` may be the path of a domain file.

        Raises
        ------
        InputError
            If something is missing or out of range; the message names it.
        """
        given = {name: value for name, value in options.items() if value is not None}
        settings = {} if definition is None else read_definition(definition, given)
        _override(settings, given)
        for name, remedy in (("public", "--public TABLE"), ("epsilon", "--epsilon EPSILON")):
            if name not in settings:
                raise SpecificationError(
                    f"A plan needs the release's {name}: give {remedy}, or name a defs.yaml that "
                    "says it."
                )
        partitioned = settings.pop("partitioned", None)
        if partitioned is not None and partitioned != bool(settings.get("partition")):
            raise SpecificationError(
                "The release has partitions: say with --partition NAME which one to plan."
                if partitioned
                else "The release has no partitions: drop --partition."
            )
        if partition := settings.get("partition", ""):
            check_partition(partition)
            settings["public"] = at_partition(settings["public"], partition)
        private = None if definition is None else private_of(definition)
        if private is not None:
            private = at_partition(private, partition) if partition else private
            check_apart(private, settings["public"])
        domain = settings.pop("domain", None)
        if isinstance(domain, str | Path):
            domain = Domain.load(Path(domain))
        identify = settings.pop("identify", "public")
        noise = settings.pop("noise", "exact")
        seed = settings.pop("seed", 0)
        own = {one.name for one in fields(cls)} - {"release", "domain", "noise"}
        of_plan = {name: settings.pop(name) for name in own & set(settings)}
        # What is planned draws seeded noise; its budget is divided as the release's.
        settings.setdefault("evaluate", "private" if noise == "exact" else "exact")
        release = SynthesisRequest(
            private=NeverOpened(), out=Path("plan"), noise="numpy", seed=seed, **settings
        )
        made = cls(
            release=release,
            domain=domain,
            noise=noise,
            drafted_from_both=identify == "both",
            **of_plan,
        )
        made.validate()
        return made

    def validate(self) -> None:
        """Check everything that can be checked before a table is read.

        Raises
        ------
        SpecificationError
            Naming the parameter, what it was, and what it may be.
        """
        self.release.validate()
        if self.noise not in ("exact", "numpy"):
            raise SpecificationError(f"noise must be one of exact, numpy, got {self.noise!r}.")
        for name, value in (("records", self.records), ("seeds", self.seeds)):
            if value is not None and value < 1:
                raise SpecificationError(f"{name} must be at least 1, got {value}.")
        for epsilon in self.tried:
            self.at(epsilon).budget()

    @property
    def tried(self) -> tuple[float, ...]:
        """The epsilons to try, ascending; the one asked for is always among them."""
        asked = self.release.epsilon
        others = self.epsilons or tuple(asked * factor for factor in AROUND)
        return tuple(sorted({*others, asked}))

    def at(self, epsilon: float) -> SynthesisRequest:
        """Return the release at another epsilon."""
        return replace(self.release, epsilon=epsilon)

    def workload(self, domain: Domain) -> Workload:
        """Return the workload over a domain."""
        return Workload.specified(domain, self._workload)

    @property
    def _workload(self) -> dict[str, Any]:
        if self.cliques is None:
            return {"degree": self.release.degree}
        listed = {"cliques": self.cliques, "weights": self.weights}
        return {name: value for name, value in listed.items() if value is not None}

    def key(self, domain: Domain) -> ReleaseKey:
        """Return how the ledger would know the release."""
        release = replace(self.release, noise=self.noise)
        # No digest of private content is part of a specification.
        restricted = self.drafted_from_both or domain.restricted
        known_by = f"from private data, {self.bins} bins" if restricted else domain.digest
        specification = release.specification(domain_digest=known_by)
        specification["workload"] = self._workload
        return ReleaseKey(
            dataset=self.release.dataset or "not named",
            release=self.release.release_name,
            specification=canonical_digest(specification),
            partition=self.partition,
            edition=self.release.edition,
        )


def _override(settings: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Let options take the place of what a file said, with what hangs on it."""
    if "degree" in given:
        settings.pop("cliques", None)
        settings.pop("weights", None)
    if given.get("evaluate", "private") != "private":
        settings.pop("evaluation_share", None)
    if "domain" in given:
        settings.pop("identify", None)
    if given.get("noise") == "exact":
        settings.pop("seed", None)
    if given.get("mechanism", settings.get("mechanism")) == settings.get("mechanism"):
        given = {**given, "settings": {**settings.get("settings", {}), **given.get("settings", {})}}
    else:
        # Another mechanism has settings of its own.
        settings.pop("settings", None)
    settings.update(given)
    # A component may say a share that nothing is paid from, as scaffolded files do; an option not.
    if "records_share" in settings and "records_share" not in given:
        limit = settings.get("max_rows", 1)
        if Neighbours(settings.get("neighbours", "replace_one"), limit).records_public:
            del settings["records_share"]
