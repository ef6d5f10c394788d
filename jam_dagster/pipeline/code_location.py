"""Checks of a code location: sources, labels, automation."""

from collections.abc import Iterable

import dagster as dg

from jam_dagster.pipeline.assets.source_assets import check_source_assets
from jam_dagster.pipeline.budget.automation import check_automation
from jam_dagster.pipeline.budget.labels import DATASET, check_privacy_labels
from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
from jam_dagster.pipeline.graph import LEDGER


def check_definitions(definitions: dg.Definitions) -> dg.Definitions:
    """Refuse a code location in which something private reaches something releasable uncharged.

    A release checks its own assets when it is built; what else the code location holds, and what
    is done to labels and automation conditions later, is known only once everything is together.

    Parameters
    ----------
    definitions
        All that a code location holds, merged. A dataset without a budget is logged as a warning:
        an officer may grant it one later.

    Returns
    -------
    dagster.Definitions
        The same.

    Raises
    ------
    PrivacyLabelError
        See `check_privacy_labels`.
    SpecificationError
        If something upstream would make an asset spend (see `check_automation`), or an asset
        that a release takes its private table from is missing.

    Examples
    --------
    >>> import dagster as dg
    >>> from jam_dagster.pipeline import check_definitions
    >>> defs = check_definitions(dg.Definitions.merge(dg.Definitions(), dg.Definitions()))
    """
    specs = definitions.resolve_all_asset_specs()
    check_source_assets(specs)
    check_privacy_labels(specs)
    check_automation(specs)
    _warn_of_missing_budgets(definitions, specs)
    return definitions


def _warn_of_missing_budgets(definitions: dg.Definitions, specs: Iterable[dg.AssetSpec]) -> None:
    ledger = (definitions.resources or {}).get(LEDGER)
    if not isinstance(ledger, LedgerResource):
        return
    for dataset in sorted({spec.metadata[DATASET] for spec in specs if DATASET in spec.metadata}):
        ledger.warn_unless_known(dataset)
