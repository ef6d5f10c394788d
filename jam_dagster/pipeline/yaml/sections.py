"""The sections of a release's configuration, their limits and what they build.

They are resolvable, so that the same classes are the schema of ``defs.yaml`` and the arguments of
`jam_dagster.pipeline.build_synthetic_release`.
"""

# Dagster reads these annotations as types when it derives the YAML schema, so they must not be
# postponed to strings.
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self, get_args

from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation.workload_error import EvaluationMode
from jam_dagster.mechanisms import DEFAULT_MECHANISM, Mechanism
from jam_dagster.mechanisms.configuration import KEY, configured_mechanism, read_mechanism
from jam_dagster.pipeline.yaml.configuration import Configured, described
from jam_dagster.privacy import EVALUATION_SHARE, RECORDS_SHARE, NoiseName, Protection
from jam_dagster.privacy.sensitivity import Relation
from jam_dagster.tables import Domain, PrivacyUnit, Workload

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def _number(instance: object, name: str, where: str) -> float:
    """Set field `name` of a frozen dataclass to a finite float and return it.

    YAML 1.1 reads ``1e-9`` as text, and a template yields text too.
    """
    value = getattr(instance, name)
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise SpecificationError(f"{where} must be a number, got {value!r}.") from None
    if not math.isfinite(number):
        raise SpecificationError(f"{where} must be finite, got {value!r}.")
    object.__setattr__(instance, name, number)
    return number


def _whole(instance: object, name: str, where: str, *, least: int) -> int:
    number = _number(instance, name, where)
    if number != int(number) or number < least:
        raise SpecificationError(
            f"{where} must be a whole number of {least} or more, got {number}."
        )
    object.__setattr__(instance, name, int(number))
    return int(number)


def _one_of(value: object, choices: tuple[str, ...], where: str) -> None:
    if value not in choices:
        raise SpecificationError(f"{where} must be one of {', '.join(choices)}, got {value!r}.")


@dataclass(frozen=True)
class UnitSpec(Configured):
    """Who is protected, where that is not one record: a person with up to `max_rows` rows."""

    column: Annotated[
        str, described("column of the private table that identifies a person", minLength=1)
    ]
    max_rows: Annotated[
        int,
        described(
            "most rows of one person that are kept, chosen at random; noise grows with it",
            minimum=1,
        ),
    ] = 1

    def __post_init__(self) -> None:
        _whole(self, "max_rows", "privacy.unit.max_rows", least=1)
        try:
            self.build()
        except SpecificationError as error:
            raise SpecificationError(f"privacy.unit: {error}") from None

    def build(self) -> PrivacyUnit:
        """Return the unit."""
        return PrivacyUnit(self.column, self.max_rows)


@dataclass(frozen=True)
class PrivacySpec(Configured):
    """What a release may cost, whom it protects, and how its noise is drawn.

    Parameters
    ----------
    epsilon, delta
        The guarantee, under the neighbours that are chosen. It holds for everything the release
        puts out.
    noise
        ``exact`` draws from OpenDP without a seed; ``numpy`` is seeded, for research, and what it
        makes is not releasable.
    seed
        The seed of ``numpy`` noise, 0 unless given.
    edition
        Raise it to draw, and to pay for, the same release once more, for example on new data.
    neighbours
        ``replace_one``: whoever sees the release can hardly tell a person's rows from another
        person's. ``add_remove``: nor whether a person is in the table at all.
    unit
        Who is protected; None: every record is a person of its own.
    records_share
        The share of the mechanism's rho that measures the number of private records where that is
        private: with ``add_remove``, or with more than one row a person.
    retention_days
        For how many days after the release has ended the private copies are kept that it left in
        the private store; None: until somebody removes them. ``jam-dagster private remove --due``
        removes them then.
    """

    epsilon: Annotated[float, described("epsilon of the guarantee, > 0", exclusiveMinimum=0)]
    delta: Annotated[
        float,
        described(
            "delta of the guarantee, between 0 and 1", exclusiveMinimum=0, exclusiveMaximum=1
        ),
    ] = 1e-9
    noise: Annotated[
        NoiseName,
        described("exact (OpenDP, for releases) or numpy (seeded, for research, not releasable)"),
    ] = "exact"
    seed: Annotated[int | None, described("seed of numpy noise, 0 unless given", minimum=0)] = None
    edition: Annotated[
        str | int, described("raise it to draw and pay for the same release once more, on new data")
    ] = "1"
    neighbours: Annotated[
        Relation,
        described(
            "replace_one (a person replaced by another) or add_remove (a person there or not)"
        ),
    ] = "replace_one"
    unit: Annotated[
        UnitSpec | None, described("who is protected, where a person may have several records")
    ] = None
    records_share: Annotated[
        float,
        described(
            "share of the mechanism's rho that measures the number of rows, where it is private",
            exclusiveMinimum=0,
            exclusiveMaximum=1,
        ),
    ] = RECORDS_SHARE
    retention_days: Annotated[
        int | None,
        described(
            "days after the release's end for which its private copies are kept; unless given,"
            " until somebody removes them",
            minimum=0,
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.retention_days is not None:
            _whole(self, "retention_days", "privacy.retention_days", least=0)
        if _number(self, "epsilon", "privacy.epsilon") <= 0:
            raise SpecificationError(
                f"privacy.epsilon must be more than 0, got {self.epsilon}. Nothing was charged."
            )
        if not 0 < _number(self, "delta", "privacy.delta") < 1:
            raise SpecificationError(
                f"privacy.delta must lie between 0 and 1, got {self.delta}; it should be far below"
                f" one in the number of people, 1e-9 is usual. Nothing was charged."
            )
        _one_of(self.noise, get_args(NoiseName), "privacy.noise")
        if self.seed is not None:
            _whole(self, "seed", "privacy.seed", least=0)
        if self.noise == "numpy" and self.seed is None:
            object.__setattr__(self, "seed", 0)
        if self.noise == "exact" and self.seed is not None:
            raise SpecificationError(
                "privacy.seed goes with privacy.noise numpy only: a release's noise has no seed."
            )
        edition = str(self.edition)
        if not PLAIN_NAME.fullmatch(edition):
            raise SpecificationError(
                f"privacy.edition must be of letters, digits, '.', '_' and '-', got {edition!r}."
            )
        object.__setattr__(self, "edition", edition)
        _one_of(self.neighbours, get_args(Relation), "privacy.neighbours")
        _number(self, "records_share", "privacy.records_share")
        try:
            _ = self.protection
        except SpecificationError as error:
            raise SpecificationError(f"privacy.{error}") from None

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
        name, settings = read_mechanism(given)
        return cls(name, **settings)

    def build(self) -> Mechanism:
        """Return the mechanism."""
        return self.mechanism


@dataclass(frozen=True)
class WorkloadSpec(Configured):
    """The marginals that the release should preserve: all of one degree, or a list."""

    degree: Annotated[int | None, described("all marginals of this many attributes", minimum=1)] = (
        None
    )
    cliques: Annotated[list[list[str]] | None, described("or these marginals")] = None
    weights: Annotated[list[float] | None, described("a weight for each of the cliques")] = None

    def __post_init__(self) -> None:
        if (self.degree is None) == (self.cliques is None):
            raise SpecificationError(
                "workload needs either degree (such as 3: all three-way marginals) or cliques"
                " (a list of lists of attributes)."
            )
        if self.degree is not None:
            _whole(self, "degree", "workload.degree", least=1)
        for name in ("cliques", "weights"):
            if not isinstance(getattr(self, name), list | tuple | None):
                raise SpecificationError(
                    f"workload.{name} must be a list, got {getattr(self, name)!r}."
                )
        if self.cliques is not None and not self.cliques:
            raise SpecificationError("workload.cliques is empty: name at least one marginal.")
        if self.weights is not None and (
            self.cliques is None or len(self.weights) != len(self.cliques)
        ):
            raise SpecificationError("workload.weights needs one weight for each of its cliques.")

    def build(self, domain: Domain) -> Workload:
        """Return the workload over `domain`, or raise for attributes that it does not have."""
        return Workload.specified(domain, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return what was given, for the digest."""
        given = {"degree": self.degree, "cliques": self.cliques, "weights": self.weights}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class EvaluationSpec(Configured):
    """Whether and how the error on the private table is measured.

    Parameters
    ----------
    mode
        ``private``: the mean errors with noise, paid from `share`. ``exact``: exact errors, for
        data that are no secret; they are labelled restricted. ``off``: none.
    share
        The share of the release's rho that is set aside for mode ``private``.
    """

    mode: Annotated[
        EvaluationMode | bool,
        described(
            "private (noisy, charged), exact (restricted: for data that are no secret) or off"
        ),
    ] = "private"
    share: Annotated[
        float,
        described(
            "share of the release's rho that mode private pays from",
            exclusiveMinimum=0,
            exclusiveMaximum=1,
        ),
    ] = EVALUATION_SHARE

    def __post_init__(self) -> None:
        if self.mode is False:
            # YAML 1.1 reads a bare `off` as false.
            object.__setattr__(self, "mode", "off")
        _one_of(self.mode, get_args(EvaluationMode), "evaluation.mode")
        if not 0 < _number(self, "share", "evaluation.share") < 1:
            raise SpecificationError(
                f"evaluation.share must lie between 0 and 1, got {self.share}."
            )


@dataclass(frozen=True)
class DomainSpec:
    """Where the domain comes from: declared, or identified from data when the release runs.

    Parameters
    ----------
    declared
        The declared domain, or None.
    identify
        ``public``: drafted from the public table. ``both``: from the private one too, as the
        papers do; that reads private values, so the release is restricted.
    bins
        Bins of a numeric attribute when the domain is identified.
    """

    declared: Domain | None = None
    identify: Literal["public", "both"] | None = None
    bins: int = 32

    def __post_init__(self) -> None:
        if (self.declared is None) == (self.identify is None):
            raise SpecificationError(
                "domain must be declared (a file or inline attributes) or {identify: public|both}."
            )
        if self.identify is not None:
            _one_of(self.identify, ("public", "both"), "domain.identify")
        _whole(self, "bins", "domain.bins", least=2)

    @property
    def restricted(self) -> bool:
        """Whether the domain says something exact about private values."""
        return self.identify == "both" or (self.declared is not None and self.declared.restricted)
