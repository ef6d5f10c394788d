"""Great Expectations on a synthetic table: its form, and its agreement with the measurements.

Nothing here reads private data. Shape, types, values and bounds are compared with the domain, and
one-way distributions with the release's published measurements.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jam_dagster.evaluation.cell_codes import cell_codes, cell_counts, cell_numbers
from jam_dagster.evaluation.expectation_messages import (
    describe_agreement,
    describe_expected,
    describe_result,
)
from jam_dagster.evaluation.expectation_specs import (
    ExpectationResult,
    ExpectationSpec,
    expectation_names,
)
from jam_dagster.evaluation.released_marginals import (
    Agreement,
    one_way_agreement,
    released_marginal,
)
from jam_dagster.tables.domain.attributes import CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import DECIMAL_DTYPE

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

__all__ = [
    "FALSE_ALARM_LEVEL",
    "ExpectationResult",
    "ExpectationSpec",
    "TableChecks",
    "contents_of",
    "expectation_names",
    "validate",
]

FALSE_ALARM_LEVEL = 0.001
"""The false-alarm level of all one-way marginals together."""

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

    Parameters
    ----------
    specs
        The expectations, in the order of `expectation_names`.
    results
        A result for each. An attribute that no private measurement covers passes with the message
        "not measured".
    validations
        The reports of Great Expectations itself, a validation result for each suite; the same for
        the same table.
    """

    specs: list[ExpectationSpec]
    results: list[ExpectationResult]
    validations: list[dict[str, Any]]

    def to_json(self) -> str:
        """Return the validation results of Great Expectations as a JSON list."""
        return json.dumps(self.validations, indent=1) + "\n"


@dataclass
class _Batch:
    """A frame and its expectations."""

    frame: pd.DataFrame
    expectations: list[tuple[ExpectationSpec, Any]] = field(default_factory=list)


def validate(
    synthetic: pd.DataFrame,
    domain: Domain,
    *,
    records: int,
    transcript: Transcript,
    model: MarginalSource,
) -> TableChecks:
    """Check a synthetic table with Great Expectations."""
    specs = expectation_names(domain)
    agreements = _agreements(synthetic, domain, transcript, model, records)
    batches = _batches(specs, synthetic, domain, records, agreements)
    validations = _run_great_expectations(batches)
    reported: dict[str, Mapping[str, Any]] = {}
    for validation in validations:
        reported |= _by_name(validation)
    results = []
    for spec in specs:
        agreement = agreements.get(str(spec.subject)) if spec.kind == "marginal" else None
        expected = describe_expected(spec, domain, records)
        if spec.name not in reported:
            message = "not measured: no private measurement covers it"
            results.append(
                ExpectationResult(
                    spec.name, True, spec.severity, message, {"measured": False}, expected
                )
            )
            continue
        outcome = reported[spec.name]
        if agreement is None:
            found = describe_result(spec, outcome, domain, records)
        else:
            labels = domain.attribute(agreement.attribute).labels
            found = describe_agreement(agreement, labels, FALSE_ALARM_LEVEL, expected)
        results.append(
            ExpectationResult(
                spec.name,
                bool(outcome["success"]),
                spec.severity,
                found.message,
                found.metadata,
                found.expected,
                found.checked,
                found.unexpected,
            )
        )
    return TableChecks(specs, results, validations)


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


def _agreements(
    synthetic: pd.DataFrame,
    domain: Domain,
    transcript: Transcript,
    model: MarginalSource,
    records: int,
) -> dict[str, Agreement]:
    """Compare every measured one-way marginal; they share the false-alarm level."""
    once = _columns_found_once(synthetic)
    agreements = {}
    for attribute in domain.attributes:
        released = released_marginal(transcript, (attribute.name,))
        if released is None:
            continue
        counts = np.zeros(attribute.size)
        if attribute.name in once:
            counts = cell_counts(synthetic[attribute.name], attribute).astype(np.float64)
        agreements[attribute.name] = one_way_agreement(
            released,
            model=model.marginal((attribute.name,)),
            synthetic=counts,
            records=records,
            level=FALSE_ALARM_LEVEL / len(domain.attributes),
        )
    return agreements


def _batches(
    specs: list[ExpectationSpec],
    synthetic: pd.DataFrame,
    domain: Domain,
    records: int,
    agreements: Mapping[str, Agreement],
) -> dict[str, _Batch]:
    """Pair every expectation with the frame that it is checked on.

    Great Expectations lacks some expectations on pandas (nullable dtypes, impossible combinations,
    tolerances). These are prepared as separate frames that it can check.
    """
    batches = {
        "synthetic_records": _Batch(_with_numbers(synthetic, domain)),
        "column_types": _Batch(_column_types(synthetic)),
        "impossible_combinations": _Batch(_impossible_rows(specs, synthetic, domain)),
        "measured_marginals": _Batch(_measured_cells(domain, agreements)),
    }
    for spec in specs:
        if spec.kind == "marginal" and str(spec.subject) not in agreements:
            continue
        place = {
            "dtype": "column_types",
            "impossible": "impossible_combinations",
            "marginal": "measured_marginals",
        }.get(spec.kind, "synthetic_records")
        batches[place].expectations.append((spec, _expectation(spec, domain, records)))
    return {name: batch for name, batch in batches.items() if batch.expectations}


def _expectation(spec: ExpectationSpec, domain: Domain, records: int) -> Any:
    """Return the Great Expectations object for one expectation."""
    import great_expectations.expectations as gxe
    from great_expectations.expectations.row_conditions import Column

    common = {
        "meta": {"name": spec.name},
        "description": spec.description,
        "severity": "critical" if spec.blocking else "warning",
    }
    match spec.kind:
        case "columns":
            return gxe.ExpectTableColumnsToMatchOrderedList(
                column_list=list(domain.columns), **common
            )
        case "row_count":
            return gxe.ExpectTableRowCountToEqual(value=records, **common)
        case "impossible":
            return gxe.ExpectColumnValuesToBeInSet(column=spec.name, value_set=[False], **common)
        case "marginal":
            return gxe.ExpectColumnValuesToBeBetween(
                column="use_of_tolerance",
                max_value=1.0,
                row_condition=Column("attribute") == str(spec.subject),
                **common,
            )
        case "dtype":
            name = str(spec.subject)
            return gxe.ExpectColumnValuesToBeInSet(
                column=name, value_set=[domain.columns[name]], **common
            )
    attribute = domain.attribute(str(spec.subject))
    if spec.kind == "nulls":
        return gxe.ExpectColumnValuesToNotBeNull(column=attribute.name, **common)
    if isinstance(attribute, CategoricalAttribute):
        return gxe.ExpectColumnValuesToBeInSet(
            column=attribute.name, value_set=list(attribute.values), **common
        )
    return gxe.ExpectColumnValuesToBeBetween(
        column=attribute.name,
        min_value=attribute.edges[0],
        max_value=attribute.edges[-1],
        **common,
    )


def _columns_found_once(synthetic: pd.DataFrame) -> set[str]:
    return set(synthetic.columns[~synthetic.columns.duplicated(keep=False)])


def _with_numbers(synthetic: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """Return the table with dates and decimals as the numbers that are counted in bins."""
    numbers = {}
    for name in _columns_found_once(synthetic).intersection(domain.names):
        attribute = domain.attribute(name)
        column = synthetic[name]
        decimal = DECIMAL_DTYPE.fullmatch(str(attribute.dtype))
        if isinstance(attribute, TimeAttribute if decimal is None else NumericAttribute):
            counted = cell_numbers(column, attribute)
            # What is no date is outside every bound; only what is missing is null.
            counted[np.isnan(counted) & column.notna().to_numpy()] = np.inf
            numbers[name] = counted
    return synthetic.assign(**numbers) if numbers else synthetic


def _column_types(synthetic: pd.DataFrame) -> pd.DataFrame:
    """Return one row with the name of every column's dtype."""
    return pd.DataFrame([{name: str(dtype) for name, dtype in synthetic.dtypes.items()}])


def _impossible_rows(
    specs: list[ExpectationSpec], synthetic: pd.DataFrame, domain: Domain
) -> pd.DataFrame:
    """Return, for every row and impossible combination or constraint, whether the row breaks it.

    A combination over a missing column has no column here either, so that its expectation fails
    instead of passing unnoticed.
    """
    once = _columns_found_once(synthetic)
    holds = {}
    for spec in specs:
        if spec.kind != "impossible":
            continue
        forbidden = domain.forbidden[int(spec.subject or 0)]
        if not set(forbidden.attributes) <= once:
            continue
        columns = [(synthetic[name], domain.attribute(name)) for name in forbidden.attributes]
        if isinstance(forbidden, Order):
            low, high = (
                cell_numbers(column, attribute)
                for column, attribute in columns
                if isinstance(attribute, NumericAttribute)
            )
            known = ~np.isnan(low) & ~np.isnan(high)
            holds[spec.name] = known & ~forbidden.holds(low, high)
            continue
        found = [cell_codes(column, attribute) for column, attribute in columns]
        if isinstance(forbidden, ImpossibleCombination):
            pairs = zip(found, forbidden.codes, strict=True)
            holds[spec.name] = np.logical_and.reduce([np.isin(one, codes) for one, codes in pairs])
        else:
            inside = np.logical_and.reduce([one >= 0 for one in found])
            cells = tuple(np.where(inside, one, 0) for one in found)
            holds[spec.name] = inside & forbidden.broken(domain)[cells]
    return pd.DataFrame(holds)


def _measured_cells(domain: Domain, agreements: Mapping[str, Agreement]) -> pd.DataFrame:
    """Return one row for every cell of every measured one-way marginal."""
    frames = [
        pd.DataFrame(
            {
                "attribute": name,
                "cell": domain.attribute(name).labels,
                "released": agreement.released.counts,
                "synthetic": agreement.synthetic,
                "tolerance": agreement.tolerance,
                "use_of_tolerance": agreement.use_of_tolerance,
            }
        )
        for name, agreement in agreements.items()
    ]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _run_great_expectations(batches: Mapping[str, _Batch]) -> list[dict[str, Any]]:
    """Run every batch; return the validation result of each."""
    import great_expectations as gx

    context = _context()
    source = context.data_sources.add_pandas("synthetic")
    validations: list[dict[str, Any]] = []
    for name, batch in batches.items():
        suite = gx.ExpectationSuite(name)
        for _, expectation in batch.expectations:
            suite.add_expectation(expectation)
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(
                name=name,
                data=source.add_dataframe_asset(name).add_batch_definition_whole_dataframe(name),
                suite=context.suites.add(suite),
            )
        )
        checkpoint = context.checkpoints.add(
            gx.Checkpoint(
                name=name,
                validation_definitions=[definition],
                result_format="SUMMARY",
            )
        )
        run = checkpoint.run(batch_parameters={"dataframe": batch.frame})
        for result in run.run_results.values():
            validation = _without_the_run(result.to_json_dict())
            outcomes = _by_name(validation)
            # The order of results differs from the suite's.
            validation["results"] = [outcomes[spec.name] for spec, _ in batch.expectations]
            validations.append(validation)
    return validations


def _by_name(validation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
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
