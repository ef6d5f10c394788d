"""How a step opens private data: what it reads is bound, and the attempt is journalled before.

A private input that a step declared would be loaded before its body runs, so a step depends on it
without loading it, looks at its schema alone, and loads it where the attempt is open.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import uuid4

import dagster as dg

from jam_dagster.common.redaction import redacted
from jam_dagster.errors import PrivateValuesError
from jam_dagster.pipeline.graph import PRIVATE_STORE, ReleaseGraph
from jam_dagster.pipeline.storage.identity import IngestedTable, Ingestion
from jam_dagster.privacy.ledger.bindings import source_binding
from jam_dagster.privacy.ledger.key import key_fields
from jam_dagster.privacy.private_copies import failure_of
from jam_dagster.privacy.private_store import SOURCE_KEY_FILE
from jam_dagster.tables import AssetSource, EncodedTable, keeping_details
from jam_dagster.tables.sources.identity import canonical

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.pipeline.budget.spending import LedgerSpending
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore

T = TypeVar("T")


@contextmanager
def private_step(what: str) -> Iterator[None]:
    """Let nothing of a private value out of a step: no message, no cause, and no warning."""
    # Warnings land in the compute log, and libraries quote values in them.
    with warnings.catch_warnings(), redacted(what):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def opening(
    graph: ReleaseGraph,
    context: dg.AssetExecutionContext,
    spends: LedgerSpending | None,
    what: str,
) -> Iterator[None]:
    """Open private data within; what fails there counts, and is explained to their owner alone.

    Parameters
    ----------
    graph, context
        The release, and the step.
    spends
        What pays for the release; None in research, which journals nothing.
    what
        What is being done, as an error says it.

    Raises
    ------
    AttemptsError
        If too many attempts to open the data did not end well.
    """
    store = private_store(context)
    with ExitStack() as until_closed:
        attempt = uuid4().hex
        if spends is not None:
            attempt = until_closed.enter_context(
                spends.ledger.opening(spends.key, run_id=context.run.run_id)
            )
        key = {"release": graph.spec.release} if spends is None else key_fields(spends.key)
        whose = failure_of(key, graph.spec.privacy.retention_days, research=spends is None)
        keep = partial(store.keep_failure, graph.spec.release, whose, attempt)
        until_closed.enter_context(keeping_details(keep))
        until_closed.enter_context(private_step(what))
        yield


def private_store(context: dg.AssetExecutionContext) -> ReleaseStore:
    """Return the store of what is private."""
    return cast("ReleaseStore", getattr(context.resources, PRIVATE_STORE))


def bound_source(graph: ReleaseGraph, context: dg.AssetExecutionContext) -> str:
    """Return the keyed digest of what a release reads, at the partition of the step.

    Raises
    ------
    SourceError
        If the source names a variable that is not set.
    """
    partition = graph.partition_of(context)
    source = graph.source("private_records", partition)
    identity = source.identity()
    if isinstance(source, AssetSource) and partition:
        # Its name stands in no text of the source.
        identity = canonical(source=identity, partition=partition)
    return source_binding(private_store(context).secret(SOURCE_KEY_FILE), identity)


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


def source_of(codes: EncodedTable) -> str:
    """Return what private codes were read from, as a keyed digest; empty where they do not say."""
    return _ingestion(codes).source


def made_if_it_fits(spends: LedgerSpending | None, make: Callable[[], T]) -> T | None:
    """Return what is made of a private table, or None where its values do not fit.

    A step that ended well without a charge would be an answer, too: one question a run, as many
    as anybody likes. So in a release a step that is not paid for ends alike whether the values
    fit or not, and the mechanism's run says so (see `check_fits`). Research says so at once.
    """
    try:
        return make()
    except PrivateValuesError:
        if spends is None:
            raise
        return None


def check_fits(table: EncodedTable | pd.DataFrame) -> None:
    """Raise where the values of the private table did not fit when it was read and encoded.

    Raises
    ------
    PrivateValuesError
        Then; why was written down by the step that found it.
    """
    made_for = _ingestion(table) if isinstance(table, EncodedTable) else Ingestion.of(table)
    if not made_for.fits:
        raise PrivateValuesError


def _ingestion(codes: EncodedTable) -> Ingestion:
    return codes.ingestion if isinstance(codes, IngestedTable) else Ingestion()


def _stored(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, name: str, rows: bool
) -> object:
    store = private_store(context)
    read = store.table if rows else store.columns_of
    return read(graph.key(name), graph.partition_of(context))
