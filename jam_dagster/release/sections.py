"""The sections of a release's file whose content has a package of its own: mechanism, domain."""

# Pydantic reads these annotations as types, so they are not postponed to strings.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SkipValidation, model_validator

from jam_dagster.common.deferred import pd
from jam_dagster.common.section import Section, Whole
from jam_dagster.common.validation import check_keys
from jam_dagster.errors import SpecificationError
from jam_dagster.keys import ChildrenSpec, UnitSpec
from jam_dagster.mechanisms import MECHANISMS, Mechanism
from jam_dagster.mechanisms.configuration import (
    KEY,
    check_given,
    configured_mechanism,
    read_mechanism,
)
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.tables import Domain, DraftedDomain, PublicSources, Source
from jam_dagster.tables.domain.bought import Asked
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.drafting.paid_draft import paid_domain, with_paid_values
from jam_dagster.tables.sources.base import absolute_paths, config_from_text, source_of
from jam_dagster.tables.sources.public import draft_public, draft_with_children
from jam_dagster.tables.sources.with_children import WithChildren


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
        if type(given) is cls:
            return given
        name, settings = read_mechanism(given, public=public)
        return cls(name, **settings)

    @classmethod
    def of_object(cls, mechanism: Mechanism) -> Self:
        """Return the mechanism that is an object; research alone takes one of another class."""
        check_given(mechanism)
        made = type(mechanism)
        settings = {one: getattr(mechanism, one) for one in settings_of(made)}
        if made.name in MECHANISMS:
            return cls(made.name, **settings)
        spec = cls.__new__(cls)
        object.__setattr__(spec, "name", made.name)
        object.__setattr__(spec, "settings", settings)
        object.__setattr__(spec, "mechanism", mechanism)
        return spec

    @property
    def own(self) -> bool:
        """Whether the mechanism is one of jam-dagster."""
        return MECHANISMS.get(self.name) is type(self.mechanism)

    def build(self) -> Mechanism:
        """Return the mechanism; one of jam-dagster is made of its name and settings again."""
        return configured_mechanism(self.name, self.settings) if self.own else self.mechanism


class DomainSpec(Section):
    """The source of the domain: declared, or identified from data when the release runs."""

    path: ClassVar[str] = "domain"

    declared: SkipValidation[Domain] | None = Field(default=None, description="the declared domain")
    identify: Literal["public", "paid"] | None = Field(
        default=None,
        description="`public`: drafted from the public table; `paid`: without one, values and edges"
        " are bought from the budget, and next to one the values that it lacks",
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
        description="columns of the public table to identify attributes of, or those to buy;"
        " without, all that allow it",
    )
    types: dict[str, str] = Field(
        default_factory=dict,
        description="for `paid`, the type of columns: category, integer, number, date or datetime,"
        " such as `date:%d.%m.%Y`; without, that of the schema, and category in a CSV file",
    )
    share: float | None = Field(
        default=None, description="for `paid`, the part of rho that buys; without, a fifth"
    )
    delta_share: float | None = Field(
        default=None, description="for `paid`, the part of delta that selects; without, half"
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if self.declared is not None and self.declared.bought is not None:
            # A domain that an earlier release bought is public: another one pays nothing for it.
            object.__setattr__(self, "declared", replace(self.declared, bought=None))
        if (self.declared is None) == (self.identify is None):
            raise SpecificationError(
                "domain must be declared (a file or inline attributes), {identify: public} or"
                " {identify: paid}."
            )
        if self.identify != "paid" and (self.types or self.share or self.delta_share):
            raise SpecificationError(
                "domain.types, share and delta_share are for {identify: paid}: remove them."
            )
        return self

    @property
    def asked(self) -> Asked | None:
        """The values and edges that are to be bought; None if none are.

        Until the columns are known, one selection stands for those of all.
        """
        if self.identify != "paid":
            return None if self.declared is None else self.declared.asked
        return Asked({}, {"all columns": (1, ())}, **self._shares)

    @property
    def _shares(self) -> dict[str, float]:
        shares = {"share": self.share, "delta_share": self.delta_share}
        return {key: share for key, share in shares.items() if share is not None}

    def paid(self, names: Sequence[str], declared: Mapping[str, str]) -> Self:
        """Return the declared domain that asks for all columns of these names and types.

        Raises
        ------
        SpecificationError
            As for `paid_domain`.
        """
        domain = paid_domain(
            names, declared, self.types, columns=self.columns, bins=self.bins, **self._shares
        )
        return type(self)(declared=domain)

    def drafted(
        self, public: "Mapping[str, pd.DataFrame]", linked: Link | None = None
    ) -> DraftedDomain:
        """Draft the domain from the public tables by name; one alone has none.

        If rows have children (`linked`), those of the children's table are drafted with them. A
        domain that is to be bought asks for values that the public table does not have.

        Raises
        ------
        InputError, DomainError
            As for `draft_table`.
        """
        if linked is not None:
            return draft_with_children(public, linked, columns=self.columns, bins=self.bins)
        draft = draft_public(public, columns=self.columns, bins=self.bins)
        if self.identify == "paid":
            draft = replace(draft, domain=with_paid_values(draft.domain, **self._shares))
        return draft

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
            keys = ("identify", "bins", "columns", "types", "share", "delta_share")
            check_keys("domain", config, keys)
            return cls(**config)
        return cls(declared=Domain.from_dict(config))


def named_children(given: object) -> tuple[str, ChildrenSpec]:
    """Return the table's name and what a release's file has of it under ``children``.

    Raises
    ------
    SpecificationError
        If there is not one table, or a key is unknown, missing or out of range.
    """
    if isinstance(given, str):
        given = config_from_text(given)
    if not isinstance(given, Mapping) or len(given) != 1:
        raise SpecificationError(
            "children must be a mapping of one table's name to its private, public, key, max"
            " and domain."
        )
    ((name, entry),) = given.items()
    return str(name), ChildrenSpec.of(entry)


def with_children(read: dict[str, Any], given: object, folder: Path) -> dict[str, Any]:
    """Return what a release's file says, its tables with the children that it names.

    Parameters
    ----------
    read
        ``private``, ``public``, ``domain`` and ``privacy`` of the root table.
    given
        What the file has under ``children``.
    folder
        The folder that relative paths start from.

    Raises
    ------
    SpecificationError
        If they do not go together.
    """
    name, spec = named_children(given)
    link = Link(name, spec.key, spec.max)
    private, public = (
        None if one is None else source_of(absolute_paths(one, folder), name)
        for one in (spec.private, spec.public)
    )
    assert private is not None  # noqa: S101  # a key that is needed
    read = read | {"private": WithChildren(read["private"], private, link)}
    roots = read.get("public")
    if roots is not None and not isinstance(roots, Source):
        raise SpecificationError("children need one public table, or none: name it under public.")
    if roots is None and public is not None:
        raise SpecificationError(
            f"children.{name}.public needs the public table of its roots: name it under public."
        )
    if roots is not None:
        # A table without the children's attributes has a name.
        own = PublicSources({"roots": roots})
        read["public"] = own if public is None else WithChildren(roots, public, link)
    if read["privacy"].unit is not None:
        raise SpecificationError(
            f"privacy.unit and children.{name}.key say the same thing: remove privacy.unit, for a"
            " row of the root table is protected with all its children."
        )
    privacy = read["privacy"]
    if "neighbours" in privacy.model_fields_set and privacy.neighbours == "replace_one":
        raise SpecificationError(
            "privacy.neighbours: replace_one would show how many roots the key of"
            f" children.{name} names: leave it out, for releases with children protect add_remove"
            " neighbours, and measure that number."
        )
    read["privacy"] = privacy.changed(unit=UnitSpec(column=link.column), neighbours="add_remove")
    declared, child = read["domain"].declared, None
    if spec.domain is not None:
        child = DomainSpec.from_config(spec.domain, folder).declared
    if declared is None and (child is not None or public is None):
        raise SpecificationError(
            f"children.{name}: declare the domains of both tables (domain and"
            f" children.{name}.domain), or let both be drafted from public tables of both."
        )
    if declared is not None and child is not None:
        read["domain"] = DomainSpec(declared=declared.with_children(link, child))
    return read
