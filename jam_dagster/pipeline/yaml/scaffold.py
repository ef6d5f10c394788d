"""Scaffolder of ``dg scaffold defs``: a release to fill in, and its resources."""

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from dagster.components.scaffold.scaffold import Scaffolder, ScaffoldRequest
from pydantic import BaseModel, ConfigDict, Field

from jam_dagster.errors import InputError, JamError, SpecificationError
from jam_dagster.keys import PLAIN_NAME
from jam_dagster.pipeline.yaml import scaffold_text as templates
from jam_dagster.privacy import Budget, epsilon_from_rho
from jam_dagster.release.sections import named_children
from jam_dagster.tables import draft_table, source_from_config, wide_attributes
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.drafting.draft import names_in
from jam_dagster.tables.sources.base import COMPOSED, SOURCES, config_from_text
from jam_dagster.tables.sources.csv import CsvSource, unnamed_columns
from jam_dagster.tables.sources.public import draft_with_children
from jam_dagster.tables.sources.shifted import ShiftedSource, shift_to, within_period
from jam_dagster.tables.sources.sniffing import SNIFFED, drafted_source
from jam_dagster.tables.sources.with_children import WithChildren

if TYPE_CHECKING:
    from jam_dagster.tables import DraftedDomain, Source

RESOURCES = "release_resources"
DOMAIN_FILE = "domain.yaml"

# By any of these a project shows that it has the resources already.
_GIVES_RESOURCES = re.compile(
    r"^type: *\S*ReleaseResources|\b(ReleaseResources|LedgerResource|build_release_resources)\(",
    re.MULTILINE,
)


class ReleaseParams(BaseModel):
    """The options of ``dg scaffold defs jam_dagster.SyntheticRelease``."""

    model_config = ConfigDict(extra="forbid")

    public: str | None = Field(
        default=None,
        description="The public table, .csv or .parquet, or a source in JSON, such as"
        """ '{"csv": "people.csv", "separator": ";"}': its domain is drafted. The separator,"""
        " encoding and decimal mark of a CSV file are found from its lines, unless stated.",
    )
    private: str | None = Field(
        default=None,
        description="The table to protect, as for `public`; it is not opened, and a path is"
        " declared to be in the public file's dialect.",
    )
    children: str | None = Field(
        default=None,
        description="The table of children of both, in JSON, such as"
        """ '{"persons": {"private": "persons.csv", "public": "old_persons.csv", "key":"""
        """ "household_id", "max": 6}}': one domain is drafted of both tables.""",
    )
    columns: str | None = Field(
        default=None, description="Only these columns of the public table, such as age,sex."
    )
    exclude: str | None = Field(
        default=None, description="Not these columns of the public table, such as name,id."
    )
    infer: bool = Field(
        default=True,
        description="Derive keys, and columns that others determine in every public row; or false.",
    )
    period: str | None = Field(
        default=None,
        description="The private table's period as FIRST/LAST, such as 2025-01-01/2025-12-31: the"
        " public table's dates are shifted to it by whole weeks.",
    )
    dataset: str | None = Field(default=None, description="The protected dataset that pays.")
    epsilon: float = Field(default=1.0, gt=0, description="epsilon of the release.")
    records_public: bool = Field(
        default=False,
        description="The number of private records may be known: protect replace_one neighbours.",
    )


class ResourcesParams(BaseModel):
    """The options of ``dg scaffold defs jam_dagster.ReleaseResources``."""

    model_config = ConfigDict(extra="forbid")

    dataset: str = Field(default="people", description="A protected dataset.")
    epsilon: float = Field(default=1.0, gt=0, description="All that may be spent on it.")
    records_public: bool = Field(
        default=False, description="The number of its records may be known."
    )


class SyntheticReleaseScaffolder(Scaffolder[ReleaseParams]):
    """Writes a release that loads as it is, and says of every key what it is for.

    With a public table its domain is drafted in the same folder; without tables it is of the
    demo's.
    If the project has no `ReleaseResources` yet, it gets them in a folder next to the release's.
    """

    @classmethod
    def get_scaffold_params(cls) -> type[ReleaseParams]:
        """Return the model of the options."""
        return ReleaseParams

    def scaffold(self, request: ScaffoldRequest[ReleaseParams]) -> None:
        """Write the files of a new release, or nothing at all."""
        params = request.params
        with _all_or_nothing(request):
            folder = request.target_path.parent if request.append else request.target_path
            draft = _Draft.of(params, folder, request.project_root)
            dataset = params.dataset or draft.name
            if not PLAIN_NAME.fullmatch(dataset):
                raise SpecificationError(
                    f"--dataset must hold letters, digits, '.', '_' and '-' only, got {dataset!r}."
                )
            given = {
                "release": draft.name,
                "dataset": dataset,
                "private": _shown(draft.private),
                "public": _shown(draft.public),
                "domain": _shown({"identify": "public"} if draft.drafted is None else DOMAIN_FILE),
                **({} if draft.children is None else {"children": _shown(draft.children)}),
                "privacy.neighbours": "replace_one" if params.records_public else "add_remove",
                "mechanism": "{name: tilt}",
                "privacy.epsilon": repr(params.epsilon),
                "workload.degree": str(draft.degree),
            }
            text = templates.release_yaml(request.type_name, given, draft.note)
            _write(request, folder, text)
            if draft.drafted is not None:
                draft.drafted.save(folder / DOMAIN_FILE)
                of = draft.drafted
                remarks = *draft.remarks, of.remark, of.hint, wide_attributes(of.domain)
                if any(remarks):
                    click.echo("\n".join(["Read the domain over.", *filter(None, remarks)]))
            # The budget of three releases: a first one is seldom the last.
            whole = epsilon_from_rho(3 * Budget(params.epsilon, 1e-9).rho, 1e-9)
            budget = _budget(math.ceil(100 * whole) / 100, params.records_public)
            _give_resources(folder, request.project_root, dataset, budget)


class ReleaseResourcesScaffolder(Scaffolder[ResourcesParams]):
    """Writes the ledger and the stores of a project, with the budget of one dataset."""

    @classmethod
    def get_scaffold_params(cls) -> type[ResourcesParams]:
        """Return the model of the options."""
        return ResourcesParams

    def scaffold(self, request: ScaffoldRequest[ResourcesParams]) -> None:
        """Write the component's file."""
        params = request.params
        with _all_or_nothing(request):
            budget = _budget(params.epsilon, params.records_public)
            text = templates.resources_yaml(request.type_name, params.dataset, budget)
            _write(request, request.target_path, text)
            _keep_out_of_version_control(request.project_root)


@dataclass(frozen=True)
class _Draft:
    """The entries of a scaffolded release about its tables."""

    name: str
    private: str | dict[str, Any]
    public: str | dict[str, Any]
    drafted: "DraftedDomain | None"
    note: str
    remarks: tuple[str, ...] = ()
    children: dict[str, Any] | None = None

    @classmethod
    def of(cls, params: ReleaseParams, folder: Path, root: Path | None) -> "_Draft":
        name = re.sub(r"\W", "_", folder.name)
        name = name if name[:1].isalpha() else f"release_{name}"
        private: str | dict[str, Any] = {"demo": "health_survey", "part": "private"}
        public: str | dict[str, Any] = {"demo": "health_survey", "part": "public"}
        if params.public is None and params.private is None and params.children is None:
            return cls(name, private, public, None, templates.DEMO_NOTE)
        note = templates.OWN_NOTE
        if params.private is None:
            private, note = "private.csv", templates.MISSING_NOTE
        else:
            private = config_from_text(params.private)
            source_from_config(private)
            private = _from(private, folder, root)
        if params.public is None:
            raise InputError(
                "--private and --children need --public: a related table that needs no protection,"
                " by which the domain is drafted. It must not be drafted from the private one."
            )
        public = config_from_text(params.public)
        source, found = drafted_source(params.public)
        table = source.read(private=False)
        columns, exclude = names_in(params.columns), names_in(params.exclude) or ()
        if params.children is not None:
            child = _Child.of(params)
            flat = WithChildren(source, child.source, child.link).read(private=False)
            drafted = draft_with_children(
                *({"": flat}, child.link), columns=columns, exclude=exclude, infer=params.infer
            )
            private, public, remark = _in_dialect(private, public, source, found, drafted)
            children, more = child.placed(drafted, folder, root)
            remarks = (found, remark, unnamed_columns(source), *more)
            public = _from(public, folder, root)
            return cls(name, private, public, drafted, note, remarks, children)
        period = _period(params.period)
        by = shift_to(table, *period) if period else ""
        moved = ShiftedSource(source, by) if by else None
        if moved is not None:
            table = moved.read(private=False)
        drafted = draft_table(table, columns=columns, exclude=exclude, infer=params.infer)
        if period:
            domain = within_period(drafted.domain, *period)
            drafted = replace(drafted, domain=domain).without_shift_advice()
        shifted = "" if moved is None else f"{moved.describe()}, to the private period."
        private, public, remark = _in_dialect(private, public, source, found, drafted)
        public = _from(public, folder, root)
        if moved is not None:
            public = {"shift": public, "by": moved.by}
        remarks = (found, shifted, remark, unnamed_columns(source))
        return cls(name, private, public, drafted, note, remarks)

    @property
    def degree(self) -> int:
        return 3 if self.drafted is None else min(3, len(self.drafted.domain.names))


@dataclass(frozen=True)
class _Child:
    """The children's table that a release is scaffolded with."""

    link: Link
    private: str | dict[str, Any]
    public: str | dict[str, Any]
    source: "Source"
    found: str

    @classmethod
    def of(cls, params: ReleaseParams) -> "_Child":
        name, spec = named_children(params.children)
        if spec.public is None or spec.domain is not None:
            raise InputError(
                f"--children needs public below {name}, and no domain: both domains are drafted"
                " from the public tables."
            )
        if params.records_public or params.period is not None:
            raise InputError(
                "--children goes with neither --records-public nor --period: the number of roots is"
                " measured, and the dates of two tables are not shifted."
            )
        source_from_config(spec.private)
        text = spec.public if isinstance(spec.public, str) else json.dumps(spec.public)
        source, found = drafted_source(text)
        return cls(Link(name, spec.key, spec.max), spec.private, spec.public, source, found)

    def placed(
        self, drafted: "DraftedDomain", folder: Path, root: Path | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the key of a release in `folder`, and remarks."""
        private = _from(self.private, folder, root)
        private, public, remark = _in_dialect(
            *(private, self.public, self.source, self.found, drafted)
        )
        public = _from(public, folder, root)
        remarks = [self.found, remark, unnamed_columns(self.source)]
        return {
            self.link.table: {"private": private, "public": public, **self.link.to_dict()}
        }, remarks


def _in_dialect(
    private: str | dict[str, Any],
    public: str | dict[str, Any],
    source: "Source",
    found: str,
    drafted: "DraftedDomain",
) -> tuple[str | dict[str, Any], str | dict[str, Any], str]:
    """Return a private and a public table with the public one's dialect, and a remark."""
    alike = _dialect_of(source)
    if found:
        public = (public if isinstance(public, dict) else {"csv": public}) | alike
    if isinstance(private, str) and source_from_config(private) == CsvSource(private):
        options = alike | ({"multiline": True} if drafted.multiline else {})
        private = {"csv": private, **options} if options else private
        if alike:
            return (
                *(private, public),
                "The private table, which is not opened, is declared to be in the same"
                f" dialect: {_shown(private)}.",
            )
    return private, public, ""


def _from(config: str | dict[str, Any], folder: Path, root: Path | None) -> str | dict[str, Any]:
    """Return a source as a file in `folder` states it: paths are relative within the project."""
    if isinstance(config, dict):
        paths = {kind for kind, (_, first) in SOURCES.items() if first == "path"}
        placed = {**dict.fromkeys(paths, _path_from), **dict.fromkeys(COMPOSED, _from)}
        return {
            name: placed[name](one, folder, root) if name in placed else one
            for name, one in config.items()
        }
    return _path_from(config, folder, root)


def _path_from(place: str, folder: Path, root: Path | None) -> str:
    if "://" in place or place.startswith(("${", "~")):
        return place
    absolute = Path(place).absolute()
    if root is None or not absolute.is_relative_to(root.absolute()):
        return str(absolute)
    return os.path.relpath(absolute, folder.absolute())


def _period(text: str | None) -> tuple[date, date] | None:
    """Return the first and the last day of a period that a person declares."""
    if text is None:
        return None
    try:
        first, last = map(date.fromisoformat, text.split("/"))
    except ValueError:
        raise InputError(
            f"--period must be FIRST/LAST, such as 2025-01-01/2025-12-31, got {text!r}."
        ) from None
    return first, last


def _dialect_of(source: "Source") -> dict[str, Any]:
    """Return the options of a CSV source that differ from the default and state its dialect."""
    said = source.to_dict()
    return {name: said[name] for name in SNIFFED if name in said}


def _shown(config: object) -> str:
    return json.dumps(config, ensure_ascii=False)


@contextmanager
def _all_or_nothing(request: ScaffoldRequest[Any]) -> Iterator[None]:
    """Leave no empty folder where something fails, and say why without a traceback."""
    folder = request.target_path
    try:
        if request.scaffold_format == "python":
            raise SpecificationError(
                f"{request.type_name} is scaffolded as YAML. From Python, call"
                " build_synthetic_release and build_release_resources of jam_dagster.pipeline."
            )
        yield
    except BaseException as error:
        if not request.append and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        if isinstance(error, JamError):
            raise click.ClickException(f"{error} Nothing was written.") from None
        raise


def _write(request: ScaffoldRequest[Any], folder: Path, text: str) -> None:
    path = request.target_path if request.append else folder / "defs.yaml"
    before = f"{path.read_text(encoding='utf-8')}---\n" if request.append else ""
    path.write_text(before + text, encoding="utf-8")


def _budget(epsilon: float, records_public: bool) -> str:
    """Return the budget of a dataset as the resources' file has it."""
    records = ", records: public" if records_public else ""
    return f"{{epsilon: {epsilon}, delta: 1.0e-9{records}}}"


def _give_resources(folder: Path, root: Path | None, dataset: str, budget: str) -> None:
    """Write the resources next to a release, unless the project has them."""
    if root is None:
        return
    for path in _sources_of(root):
        if _GIVES_RESOURCES.search(path.read_text(encoding="utf-8", errors="ignore")):
            where = path.relative_to(root)
            click.echo(
                f"The project's resources are in {where}: see that its budgets name"
                f" {dataset!r}, such as {dataset}: {budget}."
            )
            return
    beside = folder.parent / RESOURCES
    if beside.exists():
        return
    beside.mkdir()
    text = templates.resources_yaml("jam_dagster.ReleaseResources", dataset, budget)
    (beside / "defs.yaml").write_text(text, encoding="utf-8")
    _keep_out_of_version_control(root)
    click.echo(
        f"The ledger and the stores that it runs on: {beside.relative_to(root)}. Its budget"
        f" {budget} has room for three such releases."
    )


def _sources_of(root: Path) -> Iterator[Path]:
    """Yield the project's own files that may define resources, no installed package's."""
    for place, folders, files in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__")) and not (Path(place) / name / "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if name.endswith((".py", ".yaml", ".yml")):
                yield Path(place) / name


def _keep_out_of_version_control(root: Path | None) -> None:
    """Make git ignore ledger and stores, which are in the project by default."""
    if root is not None:
        ignored = root / templates.HOME / ".gitignore"
        ignored.parent.mkdir(exist_ok=True)
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
