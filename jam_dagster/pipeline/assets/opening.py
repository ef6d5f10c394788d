"""How a step opens private data: what it reads is bound, and the attempt is journalled before.

A private input that a step declared would be loaded before its body runs, so a step depends on it
without loading it, looks at its schema alone, and loads it where the attempt is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

import dagster as dg

from jam_dagster.errors import PrivateValuesError
from jam_dagster.pipeline.assets.engine import private_store
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.storage.identity import IngestedTable, Ingestion
from jam_dagster.release.engine import Engine
from jam_dagster.tables import Domain, EncodedTable, MarginalSource

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


def stored_records(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, *, rows: bool
) -> pd.DataFrame:
    """Return `private_records` as it is stored; without rows, no private value is read."""
    return cast("pd.DataFrame", _stored(graph, context, "private_records", rows))


def stored_codes(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, *, rows: bool
) -> EncodedTable:
    """Return `private_discretized` as it is stored; without rows, no private value is read."""
    return cast("EncodedTable", _stored(graph, context, "private_discretized", rows))


def made_if_it_fits(graph: ReleaseGraph, make: Callable[[], T]) -> T | None:
    """Return what is made of a private table, or None where its values do not fit.

    A step that ended well without a charge would be an answer, too: one question a run, as many
    as anybody likes. So in a release a step that is not paid for ends alike whether the values
    fit or not, and the mechanism's run says so (see `check_fits`). Research says so at once.
    """
    try:
        return make()
    except PrivateValuesError:
        if not graph.spec.exact:
            raise
        return None


def private_marginals(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, engine: Engine, domain: Domain
) -> MarginalSource:
    """Return what the mechanism may know of the private table.

    Where it reads values, these are known to fit then; see `check_fits`.
    """
    if not graph.spec.reads_values:
        return engine.private_side(domain)
    codes = stored_codes(graph, context, rows=True)
    check_fits(codes)
    return engine.encode(domain) if ingestion_of(codes).handle else codes


def check_fits(table: EncodedTable | pd.DataFrame) -> None:
    """Raise where the values of the private table did not fit when it was read and encoded.

    Raises
    ------
    PrivateValuesError
        Then; why was written down by the step that found it.
    """
    made_for = ingestion_of(table) if isinstance(table, EncodedTable) else Ingestion.of(table)
    if not made_for.fits:
        raise PrivateValuesError


def ingestion_of(codes: EncodedTable) -> Ingestion:
    """Return what private codes were read for; nothing where they do not say."""
    return codes.ingestion if isinstance(codes, IngestedTable) else Ingestion()


def _stored(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, name: str, rows: bool
) -> object:
    store = private_store(context)
    read = store.table if rows else store.columns_of
    return read(graph.key(name), graph.partition_of(context))
