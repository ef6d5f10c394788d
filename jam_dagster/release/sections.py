"""The sections of a release's specification, and what they build."""

# Pydantic reads these annotations as types, so they are not postponed to strings.
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import BeforeValidator, Field, SkipValidation, model_validator

from jam_dagster.common.validation import check_keys
from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation.workload_error import EvaluationMode
from jam_dagster.mechanisms import DEFAULT_MECHANISM, Mechanism
from jam_dagster.mechanisms.configuration import KEY, configured_mechanism, read_mechanism
from jam_dagster.privacy import EVALUATION_SHARE, RECORDS_SHARE, Budget, NoiseName, Protection
from jam_dagster.privacy.sensitivity import Relation
from jam_dagster.release.section import Count, Number, Positive, Section, Whole
from jam_dagster.tables import Domain, DraftedDomain, PrivacyUnit, Workload
from jam_dagster.tables.sources.public import draft_public

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class UnitSpec(Section):
    """The privacy unit, where it is not one record: a person with up to `max_rows` rows.

    Parameters
    ----------
    column
        The column of the private table that identifies a person.
    max_rows
        The most rows of one person that are kept.
    """

    path: ClassVar[str] = "privacy.unit"

    column: str = Field(
        min_length=1, description="column of the private table that identifies a person"
    )
    max_rows: Whole = Field(
        default=1,
        ge=1,
        description="most rows of one person that are kept, chosen at random; noise grows with it",
    )

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        try:
            self.build()
        except SpecificationError as error:
            raise SpecificationError(f"privacy.unit: {error}") from None
        return self

    def build(self) -> PrivacyUnit:
        """Return the unit."""
        return PrivacyUnit(self.column, self.max_rows)


class PrivacySpec(Section):
    """What a release may cost, whom it protects, and how its noise is drawn.

    Parameters
    ----------
    epsilon, delta
        The guarantee, under the chosen neighbours. It holds for everything that the release
        publishes.
    noise
        ``exact`` draws from OpenDP without a seed. ``numpy`` is seeded, for research; its result
        is not releasable.
    seed
        The seed of ``numpy`` noise, 0 unless given.
    edition
        Raise it to draw, and to pay for, the same release once more, for example on new data.
    neighbours
        ``replace_one``: a reader of the release can hardly distinguish a person's rows from
        another person's. ``add_remove``: a reader cannot see whether a person is in the table.
    unit
        The privacy unit; None: every record is a person of its own.
    records_share
        The share of the mechanism's rho that measures the number of private records where that is
        private: with ``add_remove``, or with more than one row a person.
    retention_days
        How many days after the release has ended its private copies are kept; None: until
        somebody removes them. ``jam-dagster private remove --due`` removes them then.
    """

    path: ClassVar[str] = "privacy"

    epsilon: Number = Field(gt=0, description="epsilon of the guarantee, > 0")
    delta: Number = Field(
        default=1e-9, gt=0, lt=1, description="delta of the guarantee, between 0 and 1"
    )
    noise: NoiseName = Field(
        default="exact",
        description="exact (OpenDP, for releases) or numpy (seeded, for research, not releasable)",
    )
    seed: Count | None = Field(default=None, description="seed of numpy noise, 0 unless given")
    edition: Annotated[str | int, BeforeValidator(lambda given: given)] = Field(
        default="1",
        description="raise it to draw and pay for the same release once more, on new data",
    )
    neighbours: Relation = Field(
        default="replace_one",
        description="replace_one (a person replaced by another) or add_remove (a person there or"
        " not)",
    )
    unit: UnitSpec | None = Field(
        default=None, description="who is protected, where a person may have several records"
    )
    records_share: Number = Field(
        default=RECORDS_SHARE,
        gt=0,
        lt=1,
        description="share of the mechanism's rho that measures the number of rows, where it is"
        " private",
    )
    retention_days: Count | None = Field(
        default=None,
        description="days after the release's end for which its private copies are kept; unless"
        " given, until somebody removes them",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.noise == "numpy" and self.seed is None:
            object.__setattr__(self, "seed", 0)
        if self.noise == "exact" and self.seed is not None:
            raise SpecificationError(
                "privacy.seed goes with privacy.noise numpy only: a release's noise has no seed."
            )
        object.__setattr__(self, "edition", str(self.edition))
        try:
            _ = self.protection
        except SpecificationError as error:
            raise SpecificationError(f"privacy.{error}") from None
        return self

    @property
    def budget(self) -> Budget:
        """The budget of the whole release."""
        return Budget(self.epsilon, self.delta)

    @property
    def protection(self) -> Protection:
        """Whom the release protects."""
        unit = None if self.unit is None else self.unit.build()
        return Protection(self.neighbours, unit, self.records_share)


@dataclass(frozen=True, init=False)
class MechanismSpec:
    """The mechanism and what differs from its own defaults.

    Parameters
    ----------
    name
        One of `jam_dagster.mechanisms.MECHANISMS`.
    **settings
        Settings of that mechanism; numbers may be texts.

    Raises
    ------
    SpecificationError
        If there is none of that name, it has no such setting, or a value is out of range.
    """

    name: str
    settings: Mapping[str, Any] = field(compare=False)
    mechanism: Mechanism = field(repr=False)

    def __init__(self, name: str = DEFAULT_MECHANISM, /, **settings: Any) -> None:
        # By position only, so that no key of a file is taken for a parameter of this method.
        name, given = read_mechanism({"name": name, **settings})
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "settings", given)
        object.__setattr__(self, "mechanism", configured_mechanism(name, given, f"{KEY}."))

    @classmethod
    def of(cls, given: object) -> Self:
        """Return the mechanism that a file's ``mechanism`` asks for: a name, or a mapping."""
        if isinstance(given, cls):
            return given
        name, settings = read_mechanism(given)
        return cls(name, **settings)

    def build(self) -> Mechanism:
        """Return the mechanism."""
        return self.mechanism


class WorkloadSpec(Section):
    """The marginals that the release should preserve: all of one degree, or a list."""

    path: ClassVar[str] = "workload"

    degree: Positive | None = Field(
        default=None, description="all marginals of this many attributes"
    )
    cliques: list[list[str]] | None = Field(default=None, description="or these marginals")
    weights: list[Number] | None = Field(
        default=None, description="a weight for each of the cliques"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.degree is None) == (self.cliques is None):
            raise SpecificationError(
                "workload needs either degree (such as 3: all three-way marginals) or cliques"
                " (a list of lists of attributes)."
            )
        if self.cliques is not None and not self.cliques:
            raise SpecificationError("workload.cliques is empty: name at least one marginal.")
        if self.weights is not None and (
            self.cliques is None or len(self.weights) != len(self.cliques)
        ):
            raise SpecificationError("workload.weights needs one weight for each of its cliques.")
        return self

    def build(self, domain: Domain) -> Workload:
        """Return the workload over `domain`, or raise for attributes that it does not have."""
        return Workload.specified(domain, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the given keys, for the digest."""
        given = {"degree": self.degree, "cliques": self.cliques, "weights": self.weights}
        return {name: value for name, value in given.items() if value is not None}


def _off(value: object) -> object:
    # YAML 1.1 reads a bare `off` as false.
    return "off" if value is False else value


class EvaluationSpec(Section):
    """Whether and how the error on the private table is measured.

    Parameters
    ----------
    mode
        ``private``: the mean errors with noise, paid from `share`. ``exact``: exact errors, for
        data that are no secret; they are labelled restricted. ``off``: none.
    share
        The share of the release's rho that is set aside for mode ``private``.
    """

    path: ClassVar[str] = "evaluation"

    mode: Annotated[Literal[False] | EvaluationMode, BeforeValidator(_off)] = Field(
        default="private",
        description="private (noisy, charged), exact (restricted: for data that are no secret) or"
        " off",
    )
    share: Number = Field(
        default=EVALUATION_SHARE,
        gt=0,
        lt=1,
        description="share of the release's rho that mode private pays from",
    )


class SamplingSpec(Section):
    """How rows are made of the model.

    Parameters
    ----------
    search
        Whether sampled rows are swapped for others of the model, where that brings the workload
        closer to the model's. It sees the model alone, and costs no budget.
    """

    path: ClassVar[str] = "sampling"

    search: bool = Field(
        default=True,
        description="swap sampled rows for others of the model, where that brings the workload"
        " closer; free of budget",
    )


class DomainSpec(Section):
    """Where the domain comes from: declared, or identified from data when the release runs.

    Parameters
    ----------
    declared
        The declared domain, or None.
    identify
        ``public``: drafted from the public table.
    bins
        Bins of equal width of a numeric attribute when the domain is identified; None: bins by the
        public table.
    columns
        The columns of the public table to identify attributes of; None: all that allow it.
    """

    path: ClassVar[str] = "domain"

    declared: SkipValidation[Domain] | None = None
    identify: Literal["public"] | None = None
    bins: Whole | None = Field(default=None, ge=2)
    columns: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.declared is None) == (self.identify is None):
            raise SpecificationError(
                "domain must be declared (a file or inline attributes) or {identify: public}."
            )
        return self

    def drafted(self, public: Mapping[str, pd.DataFrame]) -> DraftedDomain:
        """Draft the domain from the public tables by name; one alone has none.

        Raises
        ------
        InputError, DomainError
            As for `draft_table`.
        """
        return draft_public(public, columns=self.columns, bins=self.bins)

    @property
    def restricted(self) -> bool:
        """Whether the domain says something exact about private values."""
        return self.declared is not None and self.declared.restricted

    @classmethod
    def from_config(cls, config: object, folder: Path) -> Self:
        """Read the ``domain`` of a release's file.

        Parameters
        ----------
        config
            The path of a domain file, the content of one, a `Domain`, or
            ``{identify: public, bins: 32, columns: [age, sex]}``.
        folder
            The folder that a relative path starts from.

        Raises
        ------
        SpecificationError
            If a key is unknown.
        SourceError
            If the file cannot be read.
        """
        if isinstance(config, cls):
            return config
        if isinstance(config, Domain):
            return cls(declared=config)
        if isinstance(config, str | Path):
            return cls(declared=Domain.load(folder / config))
        if not isinstance(config, Mapping):
            raise SpecificationError("domain must be a file, its content, or {identify: public}.")
        if "identify" in config:
            check_keys("domain", config, ("identify", "bins", "columns"))
            return cls(**config)
        return cls(declared=Domain.from_dict(config))
