"""Great Expectations on a synthetic table: its form, and its agreement with the measurements.

Nothing here reads private data. Shape, types, values and bounds are compared with the domain,
one-way distributions with the release's published measurements, and these with the public table.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from jam_dagster.common.deferred import Deferred, pd
from jam_dagster.errors import InputError
from jam_dagster.evaluation.domain_fit import column_fits
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.expectations.expectation import Expectation, Observed
from jam_dagster.evaluation.expectations.kinds import (
    DOMAIN_FITS,
    EXPECTATION_KINDS,
    expectation_names,
    names_of_children,
    names_of_keys,
)
from jam_dagster.evaluation.expectations.spec import ExpectationResult, ExpectationSpec
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

# Arguments of an expectation that name columns.
_COLUMN, _COLUMNS = "column", "column_list"

# Facts that differ from run to run, and local paths: they are left out of the results.
_OF_THE_RUN = (
    "batch_markers",
    "checkpoint_id",
    "exception_traceback",
    "id",
    "run_id",
    "validation_id",
    "validation_time",
)


@dataclass(frozen=True)
class TableChecks:
    """The results of a synthetic table's expectations.

    An attribute that no private measurement covers passes with the message "not measured" or "not
    known".
    `validations` are Great Expectations' own reports, one for each suite.
    """

    specs: list[ExpectationSpec]
    results: list[ExpectationResult]
    validations: list[dict[str, Any]]

    def with_blocking_misfits(self) -> TableChecks:
        """Return the checks with misfits of the domain as blocking failures."""
        specs = [
            replace(one, blocking=True) if EXPECTATION_KINDS[one.kind].group == DOMAIN_FITS else one
            for one in self.specs
        ]
        # A fit that could not be checked has no remedy, and blocks nothing.
        results = [
            replace(one, severity="ERROR") if "remedy" in one.metadata else one
            for one in self.results
        ]
        return TableChecks(specs, results, self.validations)

    def to_json(self) -> str:
        """Return the validation results of Great Expectations as a JSON list."""
        return json.dumps(self.validations, indent=1) + "\n"


def validate(
    synthetic: pd.DataFrame | TableFile,
    domain: Domain,
    *,
    records: int,
    transcript: Transcript,
    model: MarginalSource,
    public: MarginalSource | None = None,
    children: pd.DataFrame | None = None,
) -> TableChecks:
    """Check a synthetic table with Great Expectations, and the table of its children if it has any.

    Measurements are compared with columns of the root table alone.
    """
    facts = (transcript, model, public)
    if domain.children is None or children is None or isinstance(synthetic, TableFile):
        table = CheckedTable.of(synthetic, domain, records, *facts)
        return _validated(expectation_names(domain), table)
    column, child = domain.children.link.column, domain.children.domain
    fits = {one.attribute.column: one for one in column_fits(transcript, domain, public)}
    slots = zip(child.names, domain.children.link.slot(1, child.names), strict=True)
    columns = ((name, domain.attribute(one).column) for name, one in slots)
    of_child = {name: fits[one] for name, one in columns if one in fits}
    roots = CheckedTable(synthetic.drop(columns=column), domain.roots, records, *facts, fitted=fits)
    others = CheckedTable(
        children.drop(columns=column), child, len(children), *facts, fitted=of_child
    )
    pair = CheckedTable(synthetic, domain, records, *facts, children=children)
    return _together(
        expectation_names(domain),
        _validated(expectation_names(domain.roots), roots),
        _validated(names_of_children(child), others),
        _validated(names_of_keys(domain), pair),
    )


def _together(specs: list[ExpectationSpec], *parts: TableChecks) -> TableChecks:
    """Return the checks of two tables as those of one, by the names that they have there."""
    results = [result for part in parts for result in part.results]
    named = [replace(one, name=spec.name) for one, spec in zip(results, specs, strict=True)]
    return TableChecks(specs, named, [report for part in parts for report in part.validations])


def _validated(specs: list[ExpectationSpec], table: CheckedTable) -> TableChecks:
    expectations = [EXPECTATION_KINDS[spec.kind](spec, table) for spec in specs]
    suites = {
        suite: [one for one in expectations if one.suite == suite and one.measured]
        for suite in dict.fromkeys(kind.suite for kind in EXPECTATION_KINDS.values())
    }
    validations = _run_great_expectations({name: suite for name, suite in suites.items() if suite})
    outcomes = {name: one for report in validations for name, one in _by_name(report).items()}
    results = [_result(one, outcomes.get(one.spec.name)) for one in expectations]
    return TableChecks(specs, results, validations)


def not_checked(domain: Domain, kind: str) -> TableChecks:
    """Return the checks of a table where an error of a kind ends them: none passes or blocks."""
    why = f"could not be checked: {kind}"
    specs = expectation_names(domain)
    return TableChecks(
        specs, [ExpectationResult(one.name, False, "WARN", why) for one in specs], []
    )


def _result(one: Expectation, outcome: Mapping[str, Any] | None) -> ExpectationResult:
    if outcome is None:
        found = Observed(one.unmeasured, {"measured": False})
    elif raised := _raised(outcome.get("exception_info") or {}):
        found = Observed(f"cannot be checked: {raised}", {"exception": raised})
    else:
        found = one.observed(outcome)
    (message, metadata, *of_rows), expected = found, one.asked().expected
    passed, severity = outcome is None or bool(outcome["success"]), one.spec.severity
    return ExpectationResult(one.spec.name, passed, severity, message, metadata, expected, *of_rows)


def contents_of_two(table: pd.DataFrame, children: pd.DataFrame) -> bytes | None:
    """Return a digest of two tables, None if some of their cells have none."""
    one, other = contents_of(table), contents_of(children)
    return None if one is None or other is None else one + other


def contents_of(table: pd.DataFrame) -> bytes | None:
    """Return a digest of a table, None if some of its cells have none."""
    kinds = [
        (name, str(column.dtype), pd.api.types.infer_dtype(column, skipna=False))
        for name, column in table.items()
    ]
    try:
        rows = pd.util.hash_pandas_object(table, index=False)
    except TypeError:
        return None
    return hashlib.sha256(repr(kinds).encode() + rows.to_numpy().tobytes()).digest()


def _run_great_expectations(suites: Mapping[str, list[Expectation]]) -> list[dict[str, Any]]:
    """Run every suite; return the validation result of each."""
    try:
        with _without_statistics():
            import great_expectations as gx
    except SystemExit:
        # PySpark does this without gRPC where the code has no file, with the status of success.
        raise InputError(
            "Great Expectations cannot be imported, since PySpark ends a process whose code has no "
            "file: write the code into a file, or install pyspark[connect]."
        ) from None

    context = _context()
    source = context.data_sources.add_pandas("synthetic")
    validations: list[dict[str, Any]] = []
    for name, expectations in suites.items():
        suite = gx.ExpectationSuite(name)
        frame = expectations[0].frame(expectations[0].table)
        asked = [str(one.asked().arguments.get(_COLUMN, "")) for one in expectations]
        aliases = _aliases([*map(str, frame.columns), *asked])
        for one in expectations:
            suite.add_expectation(_great_expectation(one, aliases))
        frame = frame.rename(columns=aliases)
        whole = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name)
        batch = whole.get_batch(batch_parameters={"dataframe": frame})
        # Neither suite nor result is stored in the context, which takes as long as the checks.
        found = batch.validate(suite, result_format="SUMMARY")
        validation = _without_the_run(found.to_json_dict())
        outcomes = _by_name(validation)
        for outcome in outcomes.values():
            _restore_names(outcome, {alias: name for name, alias in aliases.items()})
        for one in expectations:
            if one.table.counted is not None:
                one.complete(outcomes[one.spec.name])
        # The order of results differs from the suite's.
        validation["results"] = [outcomes[one.spec.name] for one in expectations]
        validations.append(validation)
    return validations


@contextmanager
def _without_statistics() -> Iterator[None]:
    """Have SciPy's statistics imported when they are used, which no expectation of these does.

    Great Expectations imports them first, which takes a third as long as all of it.
    """
    import scipy

    if "scipy.stats" in sys.modules:
        yield
        return
    scipy.stats = stand_in = Deferred("scipy.stats")
    try:
        yield
    finally:
        if scipy.stats is stand_in:
            del scipy.stats


def _aliases(names: Iterable[str]) -> dict[str, str]:
    """Return another name for each column that Great Expectations takes for an earlier one.

    It compares the names of columns without their case, and without quotes around them.
    """
    aliases: dict[str, str] = {}
    distinct = dict.fromkeys(names)
    taken = {_folded(name) for name in distinct}
    seen: set[str] = set()
    for name in distinct:
        if _folded(name) in seen:
            numbered = (f"{name}_{number}" for number in count(2))
            aliases[name] = next(one for one in numbered if _folded(one) not in taken)
            taken.add(_folded(aliases[name]))
        seen.add(_folded(name))
    return aliases


def _folded(name: str) -> str:
    return name.casefold().strip('"[]`')


def _restore_names(outcome: dict[str, Any], names: Mapping[str, str]) -> None:
    """Write the table's own names of columns into an outcome, in place of aliases."""
    result, kwargs = outcome["result"], outcome["expectation_config"]["kwargs"]
    if _COLUMN in kwargs:
        kwargs[_COLUMN] = names.get(kwargs[_COLUMN], kwargs[_COLUMN])
    if _COLUMNS in kwargs:
        kwargs[_COLUMNS] = [names.get(one, one) for one in kwargs[_COLUMNS]]
        found = result.get("observed_value", [])
        result["observed_value"] = [names.get(one, one) for one in found]
        for pair in (result.get("details") or {}).get("mismatched", []):
            pair |= {key: names.get(one, one) for key, one in pair.items()}


def _great_expectation(one: Expectation, aliases: Mapping[str, str]) -> Any:
    import great_expectations.expectations as gxe

    asked = one.asked()
    arguments = dict(asked.arguments)
    if _COLUMN in arguments:
        arguments[_COLUMN] = aliases.get(arguments[_COLUMN], arguments[_COLUMN])
    if _COLUMNS in arguments:
        arguments[_COLUMNS] = [aliases.get(one, one) for one in arguments[_COLUMNS]]
    return getattr(gxe, asked.expectation)(
        **arguments,
        meta={"name": one.spec.name},
        description=one.spec.description,
        severity="critical" if one.spec.blocking else "warning",
    )


def _by_name(validation: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the outcomes of a suite by the names of their expectations."""
    return {one["expectation_config"]["meta"]["name"]: one for one in validation["results"]}


def _without_the_run(value: Any) -> Any:
    """Return the report of Great Expectations without the facts of its run."""
    if isinstance(value, dict):
        return {
            name: _without_the_run(inner)
            for name, inner in value.items()
            if name not in _OF_THE_RUN
        }
    return [_without_the_run(inner) for inner in value] if isinstance(value, list) else value


def _context() -> Any:
    """Return a context in memory: no site, no progress bars, no telemetry."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    # Its Data Docs quote names without escaping, and load scripts from elsewhere.
    # A bare ephemeral context would write a site to a temporary folder.
    defaults = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    return gx.get_context(
        mode="ephemeral",
        project_config=DataContextConfig(
            store_backend_defaults=defaults,
            progress_bars=ProgressBarsConfig(globally=False),
            analytics_enabled=False,
        ),
    )


def _raised(info: Mapping[str, Any]) -> str | None:
    """Return the message of an exception that Great Expectations caught, None without one.

    It is flat, or, where a metric failed, nested under the metric's identifier.
    """
    for one in (info, *(value for value in info.values() if isinstance(value, Mapping))):
        if one.get("raised_exception"):
            return str(one.get("exception_message")).splitlines()[0]
    return None
