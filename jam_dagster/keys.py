"""The keys of a release's file, each declared once: type, default, limits, text, and its option.

The command line, `jam_dagster.synthesize`, the scaffolded file, the YAML schema and the reference
page all follow from here. A section also says which of its keys contradict each other, and which
have no effect. The module imports no table library, so that a help page is fast.
"""

# Pydantic reads these annotations as types, so they are not postponed to strings.
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import BeforeValidator, Field, SkipValidation, WithJsonSchema, model_validator
from pydantic.fields import FieldInfo

from jam_dagster.common.choices import (
    EVALUATION_SHARE,
    RECORDS_SHARE,
    EvaluationMode,
    Mark,
    NoiseName,
    Relation,
)
from jam_dagster.common.section import (
    ContradictionError,
    Count,
    Number,
    Positive,
    Section,
    Whole,
    readable,
)
from jam_dagster.errors import SpecificationError

if TYPE_CHECKING:
    from jam_dagster.mechanisms import Mechanism
    from jam_dagster.privacy import Budget, Protection
    from jam_dagster.tables import Domain, PrivacyUnit, Workload

PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Panel:
    """The panels of options in the help of the command line."""

    TABLES = "The tables"
    BUDGET = "The budget"
    MECHANISM = "The mechanism"
    EVALUATION = "The evaluation"
    OUTPUT = "The output"


Executor = Literal["in_process", "code_location"]
Checks = Literal["grouped", "each"]
Misfit = Literal["warn", "error"]


@dataclass(frozen=True)
class Option:
    """How Python and the command line have a key.

    `panel` is the part of a help page that it is in, and `shown` the default in words. The option
    is named by the key's leaf; where that alone says nothing, by its whole path, or by that of the
    section, whose one needed key it is. No `kind` means that of the key.
    """

    panel: str
    by: Literal["leaf", "path", "section"] = "leaf"
    metavar: str | None = None
    shown: str = ""
    kind: Any = None


class _Keys(Section):
    """A section whose keys may have options."""

    @classmethod
    def named(cls, name: str) -> str:
        """Return a key as an error names one that is missing, with its option."""
        option = option_of(cls.where(name))
        return f"{name!r} ({option.flag})" if option else repr(name)


def named(path: str) -> str:
    """Return a key as errors name it: where it is in a file, and its option."""
    option = option_of(path)
    return f"{path} ({option.flag})" if option else path


class UnitSpec(_Keys):
    """The privacy unit, where it is not one record: a person with up to `max_rows` rows."""

    path: ClassVar[str] = "privacy.unit"

    column: Annotated[
        str, Option(Panel.BUDGET, "section", metavar="COLUMN", shown="every row is a person")
    ] = Field(
        min_length=1,
        description="column of the private table that identifies a person, where one may have"
        " several rows",
    )
    max_rows: Annotated[Whole, Option(Panel.BUDGET, metavar="K")] = Field(
        default=1,
        ge=1,
        description="most rows of a person that are kept, chosen at random; noise grows with it",
    )

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        try:
            self.build()
        except SpecificationError as error:
            raise SpecificationError(f"privacy.unit: {error}") from None
        return self

    def build(self) -> "PrivacyUnit":
        """Return the unit."""
        from jam_dagster.tables import PrivacyUnit

        return PrivacyUnit(self.column, self.max_rows)


def _text_or_whole(given: object) -> object:
    """Return an edition as a file has it: YAML's ``yes`` and ``1.0`` are not ``1``."""
    if given is None or isinstance(given, bool | float):
        raise ValueError("not a text")
    return given


def _by_partition(given: object) -> object:
    """Return editions with their partitions as text: YAML reads a name of digits as a number."""
    if not isinstance(given, Mapping):
        raise ValueError("not a mapping")
    return {str(name): str(_text_or_whole(edition)) for name, edition in given.items()}


class PrivacySpec(_Keys):
    """The cost of a release, the protected unit, and the draws of its noise."""

    path: ClassVar[str] = "privacy"

    epsilon: Annotated[Number, Option(Panel.BUDGET)] = Field(
        gt=0, description="epsilon of everything that is released; smaller is stricter"
    )
    delta: Annotated[Number, Option(Panel.BUDGET)] = Field(
        default=1e-9, gt=0, lt=1, description="delta of it, far below one in the number of people"
    )
    noise: Annotated[NoiseName, Option(Panel.BUDGET)] = Field(
        default="exact",
        description="`exact` makes a release, charged to a ledger; `numpy` is seeded and free, for"
        " research, and its result may not leave",
    )
    seed: Annotated[Count | None, Option(Panel.MECHANISM, shown="0")] = Field(
        default=None,
        description="seed of `numpy` noise, 0 unless given; exact noise has none",
        examples=[7],
    )
    edition: Annotated[
        str | int,
        BeforeValidator(_text_or_whole),
        WithJsonSchema({"type": ["string", "integer"]}),
        Option(Panel.BUDGET, metavar="NAME", kind=str),
    ] = Field(
        default="1",
        description="raise it to draw, and pay for, the same release once more, for example on new"
        " data",
    )
    editions: Annotated[
        dict[str, str],
        BeforeValidator(_by_partition),
        WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
    ] = Field(
        default={},
        description="editions of single partitions; all others have `edition`",
        examples=[{"2026-03": 2}],
    )
    neighbours: Annotated[Relation, Option(Panel.BUDGET)] = Field(
        default="replace_one",
        description="what a reader cannot distinguish: `replace_one`, a person's rows from another"
        " person's; `add_remove`, nor whether a person is in the table at all",
    )
    unit: UnitSpec | None = Field(
        default=None,
        description="who is protected, where a person may have several rows; `row` says that each"
        " row is a person, as it is without it",
        examples=[{"column": "person_id", "max_rows": 3}],
    )
    records_share: Annotated[Number, Option(Panel.BUDGET)] = Field(
        default=RECORDS_SHARE,
        gt=0,
        lt=1,
        description="share of the mechanism's rho that measures the number of rows, where that is"
        " private: with `add_remove`, or more than one row a person",
    )
    advantage: Annotated[Number | None, Option(Panel.BUDGET, shown="by epsilon")] = Field(
        default=None,
        gt=0,
        lt=1,
        description="instead of epsilon: what an attacker may gain at most who decides from the"
        " release whether a person's record is in it, such as 0.1 for ten points",
        examples=[0.1],
    )

    @model_validator(mode="before")
    @classmethod
    def _each_row(cls, given: Any) -> Any:
        """Take ``unit: row`` for no unit, which answers the question who is protected."""
        row = isinstance(given, dict) and given.get("unit") == "row"
        return {**given, "unit": None} if row else given

    @model_validator(mode="before")
    @classmethod
    def _by_advantage(cls, given: Any) -> Any:
        """Replace an advantage by the epsilon that it stands for."""
        if not isinstance(given, dict) or given.get("advantage") is None:
            return given
        if given.get("epsilon") is not None:
            raise ContradictionError(
                f"{named('privacy.epsilon')} and {named('privacy.advantage')} say the same thing:"
                " remove one",
                *("epsilon", "advantage"),
            )
        from jam_dagster.privacy import epsilon_from_advantage

        rest = {key: one for key, one in given.items() if key != "advantage"}
        delta = given.get("delta") or cls.model_fields["delta"].default
        try:
            advantage, delta = (cast("float", readable(one)) for one in (given["advantage"], delta))
            return rest | {"epsilon": epsilon_from_advantage(advantage, delta)}
        except (ValueError, SpecificationError) as error:
            raise SpecificationError(f"privacy.advantage: {error}") from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.noise == "numpy" and self.seed is None:
            object.__setattr__(self, "seed", 0)
        if self.noise == "exact" and self.seed is not None:
            raise ContradictionError(
                f"{named('privacy.seed')} goes with privacy.noise numpy only: a release's noise has"
                " no seed.",
                "seed",
                to=("noise",),
            )
        object.__setattr__(self, "edition", str(self.edition))
        try:
            _ = self.protection
        except SpecificationError as error:
            raise SpecificationError(f"privacy.{error}") from None
        return self

    @property
    def without_effect(self) -> dict[str, str]:
        """The share of a number of rows that is public."""
        if self.neighbours == "add_remove" or (self.unit is not None and self.unit.max_rows > 1):
            return {}
        return {
            "records_share": "pays for measuring the number of private rows, which is public under"
            " replace_one neighbours: drop it."
        }

    def at(self, partition: str) -> Self:
        """Return the section of one partition, with the edition of that."""
        edition = self.editions.get(partition, self.edition)
        return self.model_copy(update={"edition": edition, "editions": {}})

    @property
    def budget(self) -> "Budget":
        """The budget of the whole release."""
        from jam_dagster.privacy import Budget

        return Budget(self.epsilon, self.delta)

    @property
    def protection(self) -> "Protection":
        """Whom the release protects."""
        from jam_dagster.privacy import Protection

        unit = None if self.unit is None else self.unit.build()
        return Protection(self.neighbours, unit, self.records_share)


class WorkloadSpec(_Keys):
    """The marginals that the release should preserve: all of one degree, or a list."""

    path: ClassVar[str] = "workload"

    degree: Annotated[Positive | None, Option(Panel.MECHANISM, shown="3")] = Field(
        default=None, description="the workload: all marginals of this many attributes"
    )
    cliques: Annotated[
        list[list[str]] | None,
        Option(Panel.MECHANISM, metavar="A,B", kind=list[str], shown="none"),
    ] = Field(
        default=None,
        description="or a workload of these marginals, each by its attributes",
        examples=[[["age", "sex"], ["age", "income"]]],
    )
    weights: Annotated[
        list[Number] | None,
        Option(Panel.MECHANISM, kind=list[float], shown="1 each"),
    ] = Field(
        default=None,
        description="a weight for each of the cliques, in their order",
        examples=[[2.0, 1.0]],
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.degree is None) == (self.cliques is None):
            raise ContradictionError(
                "workload needs either degree (such as 3: all three-way marginals) or cliques"
                " (a list of lists of attributes).",
                *("degree", "cliques"),
            )
        if self.cliques is not None and not self.cliques:
            raise SpecificationError("workload.cliques is empty: name at least one marginal.")
        if self.weights is not None and len(self.weights) != len(self.cliques or ()):
            raise ContradictionError(
                f"{named('workload.weights')} needs one weight for each of its cliques.",
                "weights",
                to=("degree",),
            )
        return self

    def build(self, domain: "Domain") -> "Workload":
        """Return the workload over `domain`, or raise for attributes that it does not have."""
        from jam_dagster.tables import Workload

        if self.degree is not None and self.degree > len(domain.names):
            # The degree is refused there.
            return Workload.all_k_way(domain, self.degree)
        return Workload.specified(domain, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the given keys, for the digest."""
        return self.model_dump(exclude_none=True)


class FittingWorkload(WorkloadSpec):
    """A workload whose degree is that of all attributes where these are fewer."""

    def build(self, domain: "Domain") -> "Workload":
        """Return the workload over `domain`."""
        from jam_dagster.tables import Workload

        return Workload.specified(domain, self.to_dict())


class DefaultWorkload(FittingWorkload):
    """All three-way marginals."""

    degree: Positive | None = 3


class PurposedWorkload(FittingWorkload):
    """A workload that serves the analyses of a purpose."""

    purpose: list[dict[str, Any]]


def _off(value: object) -> object:
    # YAML 1.1 reads a bare `off` as false.
    return "off" if value is False else value


class EvaluationSpec(_Keys):
    """Whether and how the error on the private table is measured."""

    path: ClassVar[str] = "evaluation"

    mode: Annotated[
        Literal[False] | EvaluationMode,
        BeforeValidator(_off),
        Option(
            Panel.EVALUATION,
            "path",
            shown="`private` for a release, `exact` for research",
            kind=EvaluationMode,
        ),
    ] = Field(
        default="private",
        description="how the errors are measured on the private table: `private` ones with noise,"
        " charged; `exact` ones are restricted, as the table is; or `off`",
    )
    share: Annotated[Number, Option(Panel.EVALUATION, "path")] = Field(
        default=EVALUATION_SHARE,
        gt=0,
        lt=1,
        description="share of the release's rho that pays for private evaluation",
    )

    @property
    def without_effect(self) -> dict[str, str]:
        """The share of an evaluation that costs nothing."""
        if self.mode == "private":
            return {}
        return {
            "share": "pays for private evaluation, which this is not: drop it, or set"
            f" {named('evaluation.mode')} to 'private' instead of {self.mode!r}."
        }


class SamplingSpec(_Keys):
    """How rows are made of the model."""

    path: ClassVar[str] = "sampling"

    search: Annotated[bool, Option(Panel.OUTPUT, shown="--search")] = Field(
        default=True,
        description="swap sampled rows for others of the model, where that brings the workload"
        " closer; free of budget",
    )
    mark: Annotated[Mark, Option(Panel.OUTPUT, "path")] = Field(
        default="none",
        description="how the CSV file of the synthetic table says that it is one: in a last"
        " `column`, in a `comment` before the header, or not (`none`); a Parquet file always does",
    )


def analyses(value: object) -> list[dict[str, Any]] | None:
    """Return the analyses of a purpose; those of the command line are texts of YAML mappings."""
    from jam_dagster.common.yaml_text import parse_yaml
    from jam_dagster.tables.codes.purpose import checked

    if value is None:
        return None
    given = value if isinstance(value, list | tuple) else [value]
    return checked([parse_yaml(one) if isinstance(one, str) else one for one in given])


class ChildrenSpec(Section):
    """The children that each row of the tables has: rows of a table of their own."""

    path: ClassVar[str] = "children"

    private: Any = Field(description="source of the children's table to protect")
    key: str = Field(description="column of both tables that identifies a row of the root table")
    max: Whole = Field(description="largest number of children that a row keeps, 1 to 10")
    public: Any = Field(default=None, description="source of the public table of children")
    domain: Any = Field(
        default=None, description="the attributes of a child: a domain file, or the same inline"
    )

    @classmethod
    def _sentence(cls, name: str, error: Mapping[str, Any]) -> str:
        said = super()._sentence(name, error)
        if name != "key" or not isinstance(error["input"], list | tuple):
            return said
        return (
            f"{said.removesuffix('.')}: join the columns that identify a row of the root table into"
            " one, in the sources of both tables."
        )


class SpecificationKeys(_Keys):
    """The keys of a specification. The packages of sources, domains, mechanisms say which exist."""

    release: Annotated[
        str, Option(Panel.BUDGET, metavar="NAME", shown="that of --out, or of dataset")
    ] = Field(description="name of the release, in the ledger and as the key prefix of its assets")
    dataset: Annotated[str, Option(Panel.BUDGET, metavar="ID", shown="needed with exact noise")] = (
        Field(description="protected dataset whose privacy budget pays")
    )
    private: Annotated[Any, Option(Panel.TABLES, metavar="TABLE")] = Field(
        description="source of the table to protect: a path, or a mapping with the key of a source",
        examples=[
            {"parquet": "/secure/people.parquet"},
            {"asset": "warehouse/people"},
            {"sql": "${WAREHOUSE_URL}", "query": "select * from people"},
        ],
    )
    public: Annotated[
        Any, Option(Panel.TABLES, metavar="[NAME=]TABLE", kind=list[str], shown="none")
    ] = Field(
        default=None,
        description="source of a related table that needs no protection, a path or a"
        " mapping, or several by name; with partitions also the release of the partition"
        " before; none, where the mechanism learns from none and the domain is declared",
        examples=[
            "old.csv",
            {"tables": {"census": "census.parquet", "survey": "survey.csv"}},
            {"previous_release": {"first": "old.csv", "first_share": 0.2}},
            {"previous_release": {}},
        ],
    )
    domain: Annotated[
        Any, Option(Panel.TABLES, metavar="FILE", kind=Path, shown="drafted from the public table")
    ] = Field(
        description="the attributes and their values: a domain file, the same inline (also the"
        " papers' sizes by attribute), or {identify: public}",
        examples=["domain.yaml", {"identify": "public"}],
    )
    children: Annotated[
        SkipValidation[dict[str, ChildrenSpec] | None],
        Option(Panel.TABLES, metavar="JSON", kind=str, shown="each table is one of its own"),
    ] = Field(
        default=None,
        description="a second table, whose rows belong to rows of the first: by its name the keys"
        " private, public, key, max and domain",
        examples=[{"persons": {"private": "persons.csv", "key": "household_id", "max": 6}}],
    )
    privacy: PrivacySpec = Field(description="the guarantee, the noise and the edition")
    mechanism: Annotated[
        Any,
        Option(
            Panel.MECHANISM,
            metavar="NAME",
            kind=str,
            shown="tilt, with a public table and without",
        ),
    ] = Field(
        default=None,
        description="the mechanism, one that `jam-dagster mechanisms` lists: its name, or a mapping"
        " of name and settings; by default `tilt`, with a public table and without",
        examples=["aim", {"name": "jam_pgm", "rounds": 10}],
    )
    workload: WorkloadSpec = Field(
        default=DefaultWorkload(),
        description="the marginals that matter; all three-way ones by default",
    )
    purpose: Annotated[
        Any,
        BeforeValidator(analyses),
        Option(Panel.MECHANISM, metavar="ANALYSIS", kind=list[str], shown="none"),
    ] = Field(
        default=None,
        description="the analyses that the release is for, a list of {target: COLUMN}, {regress:"
        " COLUMN ~ COLUMN + COLUMN} and {pairs: [[COLUMN, COLUMN]]}: their marginals have half of"
        " the workload's weight, and their error is measured too",
        examples=[[{"target": "income"}, {"regress": "income ~ age + education"}]],
    )
    evaluation: EvaluationSpec = Field(
        default=EvaluationSpec(), description="how the error is measured; with noise by default"
    )
    sampling: SamplingSpec = Field(
        default=SamplingSpec(), description="how rows are made of the model"
    )
    partitions: Any = Field(
        default=None,
        description="`daily`, `weekly`, `monthly` (with start) or {static: [names]}: one release of"
        " each snapshot, which private (and public) name by {partition} in path or query",
        examples=["monthly", {"static": ["wave1", "wave2"]}],
    )
    start: str | None = Field(
        default=None,
        description="the day from which on there are partitions",
        examples=["2026-01-01"],
    )


class OpOptions(Section):
    """How Dagster runs the steps of a release, in the form of its `OpSpec`."""

    path: ClassVar[str] = "op"

    tags: dict[str, Any] = Field(
        default={},
        description="tags of every step, which an executor reads that starts one in a place of its"
        " own",
        examples=[
            {"dagster-k8s/config": {"container_config": {"resources": {"limits": {"cpu": "2"}}}}}
        ],
    )
    pool: str | None = Field(
        default=None,
        min_length=1,
        description="pool of the step that draws, in place of `jam/` with the dataset's name",
        examples=["heavy"],
    )


class GraphOptions(Section):
    """The keys that concern Dagster alone."""

    schedule: str | None = Field(
        default=None,
        description="as partitions, or a cron expression due once for each of them, in UTC; stopped"
        " until it is started",
        examples=["monthly", "0 6 3 * *"],
    )
    executor: Executor = Field(
        default="in_process",
        description="`in_process`: the job's steps run in one process; `code_location`: by the"
        " executor of the code location, which may give each a process or a container of its own",
    )
    checks: Checks = Field(
        default="grouped",
        description="`grouped`: an asset check for each question about the synthetic table; `each`:"
        " one for each expectation",
    )
    misfit: Misfit | None = Field(
        default=None,
        description="what follows if the domain does not fit a private column: the check"
        " `domain_fits` says `warn`, or `error`, which also blocks what depends on the synthetic"
        " table. With `public.previous_release`, `error` is the default: the release is certified,"
        " then the check `may_be_drawn_on` fails, and the next partition is refused",
    )
    accept_misfit: list[str] = Field(
        default=[],
        description="partitions that the domain does not fit, and that later ones pass over: the"
        " next is drawn on the one before, or on `first`; for `public.previous_release`",
        examples=[["2026-03"]],
    )
    group: str | None = Field(
        default=None,
        description="asset group; the release's name by default",
        examples=["statistics"],
    )
    owners: list[str] = Field(
        default=[], description="owners of every asset", examples=[["team:statistics"]]
    )
    tags: dict[str, str] = Field(
        default={}, description="tags of every asset", examples=[{"domain": "census"}]
    )
    op: OpOptions = Field(default=OpOptions(), description="how Dagster runs the steps")
    run_tags: dict[str, Any] = Field(
        default={},
        description="tags of the job's runs, such as memory and CPU of a run's pod",
        examples=[
            {"dagster-k8s/config": {"container_config": {"resources": {"limits": {"cpu": "2"}}}}}
        ],
    )


class ReleaseKeys(GraphOptions, SpecificationKeys):
    """The whole file."""

    translation: str | dict[str, Any] | None = Field(
        default=None,
        description="attributes of every asset, as in other components of Dagster's: keys, groups,"
        " tags, metadata; `spec` is the asset's own spec in templates. Labels, tags and metadata"
        " `jam/*`, stores, dependencies and partitions stay as they are",
        examples=[{"key_prefix": "office", "metadata": {"form": "{{ spec.key.path[-1] }}"}}],
    )


KEYS = tuple(SpecificationKeys.model_fields)
"""The keys that belong to the specification."""

DAGSTER_KEYS = tuple(name for name in ReleaseKeys.model_fields if name not in KEYS)
"""The keys that concern Dagster alone."""


@dataclass(frozen=True)
class Key:
    """A key with an option: where it is in a file, and what was declared of it."""

    path: str
    field: FieldInfo
    option: Option

    @property
    def name(self) -> str:
        """The parameter in Python."""
        keys = self.path.split(".")
        return "_".join({"leaf": keys[-1:], "path": keys, "section": keys[:-1]}[self.option.by])

    @property
    def flag(self) -> str:
        """The option of the command line: one of a list at a time, or both of a yes and no."""
        name = self.name.replace("_", "-")
        if self.kind is bool:
            return f"--{name}/--no-{name}"
        return f"--{name.removesuffix('s') if get_origin(self.kind) is list else name}"

    @property
    def kind(self) -> Any:
        """The type of a value on the command line."""
        return self.option.kind or next(
            one for one in members(self.field.annotation) if one is not NoneType
        )

    @property
    def default(self) -> str:
        """The behaviour without it, in words; empty if there is none."""
        known = not self.field.is_required() and self.field.default is not None
        return self.option.shown or (str(self.field.default) if known else "")


def section_in(hint: Any) -> type[Section] | None:
    """Return the section that a field holds, None if it holds none."""
    kinds = (one for one in members(hint) if isinstance(one, type))
    return next((one for one in kinds if issubclass(one, Section)), None)


def members(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of a type, without what is annotated to them."""
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(hint) not in (Union, UnionType):
        return (hint,)
    return tuple(inner for one in get_args(hint) for inner in members(one))


def _keys(section: type[Section], above: str = "") -> Iterator[Key]:
    for name, field in section.model_fields.items():
        nested = section_in(field.annotation)
        if nested is not None:
            yield from _keys(nested, f"{above}{name}.")
        for option in field.metadata:
            if isinstance(option, Option):
                yield Key(above + name, field, option)


OPTIONS = {one.name: one for one in _keys(ReleaseKeys)}
"""The options of a release by their names in Python; a mechanism has settings of its own."""


def option_of(path: str) -> Key | None:
    """Return the option of a key, None if it has none."""
    return next((one for one in OPTIONS.values() if one.path == path), None)


class ReleaseOptions(TypedDict, total=False):
    """The options of a release as type checkers read them; the keys say what each means."""

    epsilon: float
    advantage: float | None
    delta: float
    domain: "Domain | Mapping[str, Any] | str | os.PathLike[str] | None"
    children: Mapping[str, Any] | str | None
    dataset: str | None
    release: str | None
    edition: str | int
    mechanism: "str | Mapping[str, Any] | Mechanism | None"
    settings: Mapping[str, Any] | None
    degree: int | None
    cliques: Sequence[Sequence[str]] | None
    weights: Sequence[float] | None
    noise: NoiseName
    seed: int | None
    purpose: Sequence[Mapping[str, Any] | str] | None
    evaluation_mode: EvaluationMode | None
    evaluation_share: float | None
    neighbours: Relation
    privacy_unit: str | None
    max_rows: int | None
    records_share: float | None
    search: bool
    sampling_mark: Mark


def sentence(text: str) -> str:
    """Return a key's text as a sentence."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
