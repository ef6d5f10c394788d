"""The sections of a release's file whose content has a package of its own: mechanism, domain."""

# Pydantic reads these annotations as types, so they are not postponed to strings.
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pandas as pd
from pydantic import Field, SkipValidation, model_validator

from jam_dagster.common.section import Section, Whole
from jam_dagster.common.validation import check_keys
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import Mechanism
from jam_dagster.mechanisms.configuration import KEY, configured_mechanism, read_mechanism
from jam_dagster.tables import Domain, DraftedDomain
from jam_dagster.tables.sources.public import draft_public


@dataclass(frozen=True, init=False)
class MechanismSpec:
    """The mechanism, with the settings that differ from its defaults.

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

    def __init__(self, /, name: str, **settings: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "mechanism", configured_mechanism(name, settings, f"{KEY}."))

    @classmethod
    def of(cls, given: object, *, public: bool) -> Self:
        """Return the mechanism that a file's ``mechanism`` asks for: a name, or a mapping.

        `public` says whether the release has a public table, for a mapping without a name.
        """
        if isinstance(given, cls):
            return given
        name, settings = read_mechanism(given, public=public)
        return cls(name, **settings)

    def build(self) -> Mechanism:
        """Return the mechanism."""
        return self.mechanism


class DomainSpec(Section):
    """The source of the domain: declared, or identified from data when the release runs."""

    path: ClassVar[str] = "domain"

    declared: SkipValidation[Domain] | None = Field(default=None, description="the declared domain")
    identify: Literal["public"] | None = Field(
        default=None, description="`public`: drafted from the public table"
    )
    bins: Whole | None = Field(
        default=None,
        ge=2,
        description="bins of equal width of a numeric attribute when the domain is identified;"
        " without, bins by the public table",
    )
    columns: list[str] | None = Field(
        default=None,
        min_length=1,
        description="columns of the public table to identify attributes of; without, all that"
        " allow it",
    )

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
