"""Tables of a release that are assets of the project: found, held to their labels, and loaded.

A step's dependencies need not be loaded before its body runs. A private table is loaded in the
body, once the release was reserved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.common.redaction import redacted
from jam_dagster.errors import (
    InputError,
    PrivacyLabelError,
    SpecificationError,
)
from jam_dagster.pipeline.budget.labels import PRIVATE_SOURCE, check_privacy_labels
from jam_dagster.pipeline.dagster_internals import STUB, AssetGraph, AssetNode, CheckError
from jam_dagster.pipeline.graph import PRIVATE_STORE, RELEASABLE_STORE, ReleaseGraph, source_key
from jam_dagster.pipeline.launch import check_launch
from jam_dagster.tables import AssetSource, Source

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.pipeline.storage.io_manager import ReleaseStore


def resolve_source(graph: ReleaseGraph, name: str, context: dg.AssetExecutionContext) -> Source:
    """Return a source of a release that the step can read, once its asset was looked at.

    Nothing is opened: that is what ``read`` of the source does.
    """
    partition = graph.partition_of(context)
    source = graph.source(name, partition)
    key = source_key(source)
    if key is None:
        return source
    project = _project(context)
    if not project.has(key):
        # Some other step's: the one that reads it depends on it, so there it is known.
        return source
    asset = project.get(key)
    upstream = _upstream_partition(graph, asset, context)
    if name == "private_records" and _kept_by(asset) == RELEASABLE_STORE:
        raise PrivacyLabelError(
            f"Asset {key.to_user_string()} is the private table of release {graph.spec.release},"
            f" and is kept by {RELEASABLE_STORE}, the store of what may leave. Keep it elsewhere,"
            f" for instance by private_io_manager, and delete what is there. Nothing was charged."
        )
    # A launch that moves what keeps the asset gives the release another table.
    check_launch(context.run, (_kept_by(asset),))
    if name != "private_records" and _kept_by(asset) == PRIVATE_STORE:
        raise PrivacyLabelError(
            f"Asset {key.to_user_string()} is a public table of release {graph.spec.release}, and"
            f" is kept by {PRIVATE_STORE}, the store of private tables. Name a table that"
            f" everybody may see, or keep it elsewhere. Nothing was charged."
        )
    # Other labelled assets are known only here, where the release meets the project.
    check_privacy_labels(spec for one in project.assets_defs for spec in one.specs)

    def load() -> object:
        if _kept_by(asset) == RELEASABLE_STORE:
            # Dagster would open the store without the private one, which has the hashes.
            store: ReleaseStore = getattr(context.resources, RELEASABLE_STORE)
            return store.load(key, upstream or "", _frame())
        return context.load_asset_value(key, python_type=_frame(), partition_key=upstream)

    return _LoadedSource(key, load)


def check_source_assets(specs: Iterable[dg.AssetSpec]) -> None:
    """Refuse a code location without an asset that a release takes its private table from."""
    by_key = {spec.key: spec for spec in specs}
    for spec in by_key.values():
        name = spec.metadata.get(PRIVATE_SOURCE)
        if name is None:
            continue
        found = by_key.get(dg.AssetKey.from_user_string(str(name)))
        if found is None or found.metadata.get(STUB):
            raise SpecificationError(_missing(str(name), spec.key.to_user_string()))


def _missing(name: str, by: str) -> str:
    return (
        f"Asset {name}, from which {by} is read, is not in this code location. Check the key"
        f" (`dg list defs` lists them), or declare what another one makes: dg.AssetSpec with"
        f" with_io_manager_key. Nothing was charged."
    )


@dataclass(frozen=True)
class _LoadedSource(Source):
    """An asset's value, loaded when it is read."""

    key: dg.AssetKey
    load: Callable[[], object]

    def read(self, *, private: bool) -> pd.DataFrame:
        name = self.key.to_user_string()
        if not private:
            return self._frame(self.load())
        with redacted(f"loading asset {name}, which must have been materialized before,"):
            return self._frame(self.load())

    def _frame(self, value: object) -> pd.DataFrame:
        import pandas as pd

        if not isinstance(value, pd.DataFrame):
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise InputError(
                f"Asset {self.key.to_user_string()} is a {kind}, and a table must be a"
                f" pandas.DataFrame: make it one, or put an asset between that does."
            )
        # Its own, for it is marked; and what the other one was marked with stays there.
        table = value.reset_index(drop=True)
        table.attrs = {}
        return table

    def describe(self) -> str:
        return f"asset {self.key.to_user_string()}"

    def identity(self) -> str:
        return AssetSource(self.key.to_user_string()).identity()

    def to_dict(self) -> dict[str, Any]:
        return {"asset": self.key.to_user_string()}


def _frame() -> type:
    import pandas as pd

    return pd.DataFrame


def _kept_by(asset: AssetNode) -> str:
    return asset.assets_def.get_io_manager_key_for_asset_key(asset.key)


def _project(context: dg.AssetExecutionContext) -> AssetGraph:
    """Return all assets of the code location, or those around the job where no location is known.

    A job that is executed in the process that defined it knows no location.
    """
    try:
        return context.repository_def.asset_graph
    except CheckError:
        return context.job_def.asset_layer.asset_graph


def _upstream_partition(
    graph: ReleaseGraph, asset: AssetNode, context: dg.AssetExecutionContext
) -> str | None:
    """Return the partition of an asset that is this of the release, None if it has none."""
    name, release = asset.key.to_user_string(), graph.spec.release
    if asset.metadata.get(STUB):
        raise InputError(_missing(name, f"a table of release {release}"))
    theirs, ours = asset.partitions_def, graph.partitions_def
    if theirs is None:
        if ours is not None and asset.key in graph.source_deps("private_records"):
            raise InputError(
                f"Release {release} has partitions, but asset {name} has none: each would release"
                f" the same records again, at a price of its own. Give the asset the partitions of"
                f" the release. Nothing was charged."
            )
        return None
    if ours is None:
        raise InputError(
            f"Asset {name} has partitions, but release {release} has none: give the release the"
            f" partitions of the asset, or read an asset of one table. Nothing was charged."
        )
    partition = graph.partition_of(context)
    windows = dg.TimeWindowPartitionsDefinition
    if isinstance(theirs, windows) and isinstance(ours, windows):
        # Months have other names in Dagster than here.
        window = ours.time_window_for_partition_key(partition)
        found = theirs.get_partition_keys_in_time_window(window)
        if len(found) == 1 and theirs.time_window_for_partition_key(found[0]) == window:
            return str(found[0])
    elif not isinstance(theirs, windows) and partition in theirs.get_partition_keys(
        dynamic_partitions_store=context.instance
    ):
        return partition
    raise InputError(
        f"Asset {name} has no partition that is {partition} of release {release}: give both the"
        f" same partitions. Nothing was charged."
    )
