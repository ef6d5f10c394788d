"""Scaffolder of ``dg scaffold defs``: a release to fill in, and its resources."""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
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
from jam_dagster.privacy.ledger.identity import (
    LEDGER_ID,
    adopt_command,
    read_ledger_id,
    write_ledger_id,
)
from jam_dagster.release.partitions import PartitionsSpec
from jam_dagster.release.sections import named_children
from jam_dagster.tables import source_from_config
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.sources.base import COMPOSED, SOURCES, config_from_text
from jam_dagster.tables.sources.csv import CsvSource, unnamed_columns
from jam_dagster.tables.sources.public import draft_with_children
from jam_dagster.tables.sources.shifted import ShiftedSource, shift_to, within_period
from jam_dagster.tables.sources.sniffing import SNIFFED, drafted_source, marks_remark
from jam_dagster.tables.sources.with_children import WithChildren

if TYPE_CHECKING:
    from jam_dagster.tables import DraftedDomain, Source

RESOURCES = "release_resources"
DOMAIN_FILE = "domain.yaml"

Config = str | dict[str, Any]
"""A table as a release's file names it."""

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
    partitions: str | None = Field(
        default=None,
        description="A release of each snapshot: daily, weekly, monthly with `start`, or"
        """ '{"static": ["wave1", "wave2"]}'; a private path gets {partition} unless it has it.""",
    )
    start: str | None = Field(
        default=None, description="The day from which on there are partitions, such as 2026-01-01."
    )
    dataset: str | None = Field(default=None, description="The protected dataset that pays.")
    epsilon: float = Field(default=1.0, gt=0, description="epsilon of the release.")
    records_public: bool = Field(
        default=False,
        description="The number of private records may be known: protect replace_one neighbours.",
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
            partitions = _partitions(params)
            tables, note, of, found = _draft(params, folder, request.project_root)
            name = re.sub(r"\W", "_", folder.name)
            name = name if name[:1].isalpha() else f"release_{name}"
            dataset = params.dataset or name
            if not PLAIN_NAME.fullmatch(dataset):
                raise SpecificationError(
                    f"--dataset must hold letters, digits, '.', '_' and '-' only, got {dataset!r}."
                )
            given = {
                "release": name,
                "dataset": dataset,
                **{key: _shown(config) for key, config in tables.items()},
                "domain": _shown({"identify": "public"} if of is None else DOMAIN_FILE),
                "privacy.neighbours": "replace_one" if params.records_public else "add_remove",
                "mechanism": "{name: tilt}",
                "privacy.epsilon": repr(params.epsilon),
                "workload.degree": str(3 if of is None else min(3, len(of.domain.names))),
                **({} if partitions is None else _of_snapshots(partitions, tables)),
            }
            path = request.target_path if request.append else folder / "defs.yaml"
            before = f"{path.read_text(encoding='utf-8')}---\n" if request.append else ""
            text = templates.release_yaml(request.type_name, given, note)
            path.write_text(before + text, encoding="utf-8")
            if of is not None:
                of.save(folder / DOMAIN_FILE)
                from jam_dagster.tables import wide_attributes

                remarks = *found, of.remark, of.hint, wide_attributes(of.domain)
                if any(remarks):
                    click.echo("\n".join(["Read the domain over.", *filter(None, remarks)]))
            # The budget of three releases, for a first one is seldom the last, or of a year.
            count = 3 if partitions is None else partitions.in_a_year
            whole = epsilon_from_rho(count * Budget(params.epsilon, 1e-9).rho, 1e-9)
            records = ", records: public" if params.records_public else ""
            budget = f"{{epsilon: {math.ceil(100 * whole) / 100}, delta: 1.0e-9{records}}}"
            _give_resources(folder, request.project_root, dataset, budget, count)


def _partitions(params: ReleaseParams) -> PartitionsSpec | None:
    """Return the partitions that the options name, which a private table must be given with."""
    given: object = params.partitions
    if params.partitions is not None and params.partitions.lstrip().startswith("{"):
        try:
            given = json.loads(params.partitions)
        except ValueError as error:
            raise InputError(f"--partitions is no JSON: {error}.") from None
    if given is not None and params.private is None:
        raise InputError("--partitions needs --private: the table of which there are snapshots.")
    return PartitionsSpec.of(given, params.start)


def _of_snapshots(partitions: PartitionsSpec, tables: dict[str, Any]) -> dict[str, str]:
    """Return the entries of partitions, once the private table names them by {partition}."""
    private = tables["private"]
    path = private if isinstance(private, str) else private.get("csv", private.get("parquet"))
    if "{partition}" not in _shown(private):
        if path is None:
            raise InputError(
                "--private has no {partition}: write it where the snapshots differ, as in where"
                " month = '{partition}'."
            )
        stem, dot, suffix = path.rpartition(".")
        opened = f"{stem}_{{partition}}.{suffix}" if dot else f"{path}/{{partition}}"
        kind = next((key for key in ("csv", "parquet") if key in private), None)
        tables["private"] = opened if isinstance(private, str) else {**private, str(kind): opened}
    if partitions.every is None:
        return {"private": _shown(tables["private"]), "partitions": _static(partitions)}
    every, start = partitions.every, partitions.start
    named = {"partitions": every, "start": f"'{start}'", "schedule": every}
    return {"private": _shown(tables["private"]), **named}


def _static(partitions: PartitionsSpec) -> str:
    return json.dumps({"static": list(partitions.static)}, ensure_ascii=False)


def _draft(
    params: ReleaseParams, folder: Path, root: Path | None
) -> "tuple[dict[str, Any], str, DraftedDomain | None, Sequence[str]]":
    """Return a release's entries about its tables, a note, a draft of their domain, and remarks."""
    from jam_dagster.tables.drafting.draft import draft_table, names_in
    from jam_dagster.tables.drafting.person_keys import unit_remark

    if params.public is None:
        if params.private is not None or params.children is not None:
            raise InputError(
                "--private and --children need --public: a related table that needs no protection,"
                " by which the domain is drafted. It must not be drafted from the private one."
            )
        demo = {part: {"demo": "health_survey", "part": part} for part in ("private", "public")}
        return demo, templates.DEMO_NOTE, None, ()
    private: Config = "private.csv"
    note = templates.MISSING_NOTE
    if params.private is not None:
        private, note = _placed(config_from_text(params.private), folder, root), templates.OWN_NOTE
    pair = _Pair.of(private, config_from_text(params.public))
    options: dict[str, Any] = {
        "columns": names_in(params.columns),
        "exclude": names_in(params.exclude) or (),
        "infer": params.infer,
    }
    if params.children is not None:
        link, own = _children(params, folder, root)
        flat = WithChildren(pair.source, own.source, link).read(private=False)
        drafted = draft_with_children({"": flat}, link, **options)
        tables, remarks = pair.entries(drafted, folder, root)
        children, more = own.entries(drafted, folder, root)
        tables["children"] = {link.table: children | link.to_dict()}
        return tables, note, drafted, [*remarks, *more]
    table, by = pair.source.read(private=False), ""
    period = _period(params.period)
    if period and (by := shift_to(table, *period)):
        moved = ShiftedSource(pair.source, by)
        table = moved.read(private=False)
    drafted = draft_table(table, **options)
    if period:
        domain = within_period(drafted.domain, *period)
        drafted = replace(drafted, domain=domain).without_shift_advice()
    tables, remarks = pair.entries(drafted, folder, root)
    remarks.append(unit_remark(table))
    if by:
        tables["public"] = {"shift": tables["public"], "by": moved.by}
        remarks.insert(1, f"{moved.describe()}, to the private period.")
    return tables, note, drafted, remarks


@dataclass(frozen=True)
class _Pair:
    """A private table, which is not opened, and the public one, as options name them."""

    private: Config
    public: Config
    source: "Source"
    found: str

    @classmethod
    def of(cls, private: Config, public: Config) -> "_Pair":
        text = public if isinstance(public, str) else json.dumps(public)
        return cls(private, public, *drafted_source(text))

    def entries(
        self, drafted: "DraftedDomain", folder: Path, root: Path | None
    ) -> tuple[dict[str, Any], list[str]]:
        """Return both as a file in `folder` names them, with the public one's dialect; remarks."""
        private, public, remark = self.private, self.public, ""
        said = self.source.to_dict()
        alike = {name: said[name] for name in SNIFFED if name in said}
        if self.found:
            public = (public if isinstance(public, dict) else {"csv": public}) | alike
        if isinstance(private, str) and source_from_config(private) == CsvSource(private):
            private = {"csv": private, **alike} if alike else private
            if alike:
                remark = (
                    "The private table, which is not opened, is declared to be in the same"
                    f" dialect: {_shown(private)}."
                )
        tables = {"private": private, "public": _from(public, folder, root)}
        return tables, [
            self.found,
            remark,
            unnamed_columns(self.source),
            marks_remark(self.source),
        ]


def _children(params: ReleaseParams, folder: Path, root: Path | None) -> tuple[Link, _Pair]:
    """Return how the children's table belongs to the other one, and the table."""
    name, spec = named_children(params.children)
    if spec.public is None or spec.domain is not None:
        raise InputError(
            f"--children needs public below {name}, and no domain: both domains are drafted from"
            " the public tables."
        )
    if params.records_public or params.period is not None:
        raise InputError(
            "--children goes with neither --records-public nor --period: the number of roots is"
            " measured, and the dates of two tables are not shifted."
        )
    pair = _Pair.of(_placed(spec.private, folder, root), spec.public)
    return Link(name, spec.key, spec.max), pair


def _placed(config: Config, folder: Path, root: Path | None) -> Config:
    """Return a table as a file in `folder` names it, or raise if no source is of this form."""
    source_from_config(config)
    return _from(config, folder, root)


def _from(config: Config, folder: Path, root: Path | None) -> Config:
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
            raise click.ClickException(
                f"{str(error).removesuffix('.')}. Nothing was written."
            ) from None
        raise


def _give_resources(folder: Path, root: Path | None, dataset: str, budget: str, count: int) -> None:
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
            _name_ledger(folder, root)
            return
    beside = folder.parent / RESOURCES
    if beside.exists():
        return
    beside.mkdir()
    text = templates.resources_yaml("jam_dagster.ReleaseResources", dataset, budget)
    (beside / "defs.yaml").write_text(text, encoding="utf-8")
    # Ledger and stores are in the project by default, and git ignores them.
    ignored = root / templates.HOME / ".gitignore"
    ignored.parent.mkdir(exist_ok=True)
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    from jam_dagster.privacy import Ledger

    ledger = Ledger(root / templates.HOME / "ledger.sqlite")
    identity = ledger.identity or ledger.adopt(reason="scaffolded with the project")
    write_ledger_id(folder, identity)
    click.echo(
        f"The ledger and the stores that it runs on: {beside.relative_to(root)}. Its budget"
        f" {budget} has room for {count} such releases. {LEDGER_ID} names the ledger: commit it, so"
        " that a clone of the project begins no other."
    )


def _name_ledger(folder: Path, root: Path) -> None:
    """Name the ledger of the project's other releases next to a new one, if they all name one."""
    found = {read_ledger_id(file.parent) for file in sorted(root.rglob(LEDGER_ID))} - {""}
    if len(found) == 1:
        write_ledger_id(folder, *found)
        click.echo(f"{LEDGER_ID} names the ledger of the project's other releases: commit it.")
    else:
        click.echo(
            "The privacy officer names the ledger that pays next to the release:"
            f" {adopt_command('LEDGER', os.path.relpath(folder, root))}"
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
