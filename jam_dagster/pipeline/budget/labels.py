"""Privacy labels on assets, and the check that all of them are true.

Every asset of a release says in the tag ``jam/privacy`` who may see what it holds. The check walks
the asset graph when definitions are built, before anything runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import PrivacyLabelError

if TYPE_CHECKING:
    import dagster as dg

LABEL_TAG = "jam/privacy"
CHARGES_TAG = "jam/charges"
CHARGES_LEDGER = "ledger"
# On assets whose step reserves; it removes no taint.
RESERVES_TAG = "jam/reserves"

# In the metadata of the private table of a release: the asset of the project that it is read from.
PRIVATE_SOURCE = "jam/private_source"

# In the metadata of the reservation of a release: the dataset that pays.
DATASET = "jam/dataset"

# In the metadata of the assets that a release is built of: the tags that it gave them.
BUILT_METADATA = "jam/built"

# Where Dagster notes the store of an asset when a spec is given another one.
_KEPT_BY = "dagster/io_manager_key"


class PrivacyLabel(StrEnum):
    """Who may see an asset."""

    PUBLIC = "public"
    """Anyone: it was never about the protected people."""
    PRIVATE = "private"
    """Nobody but the pipeline: it holds the protected people's values."""
    DP = "dp"
    """Anyone: differentially private, and charged to the ledger."""
    RESTRICTED = "restricted"
    """Nobody outside: it holds exact statistics of private values, or research noise."""

    @property
    def releasable(self) -> bool:
        """Whether assets with this label may leave."""
        return self in (PrivacyLabel.PUBLIC, PrivacyLabel.DP)


_LABELS = {str(label) for label in PrivacyLabel}


def built(label: PrivacyLabel, *, charges: bool) -> str:
    """Return the mark of an asset that a release built, by which changed labels are found out."""
    return f"{label}, charges the ledger" if charges else str(label)


# For each taint the path of assets by which it arrived.
_Taints = Mapping[PrivacyLabel, tuple[str, ...]]


def check_privacy_labels(specs: Iterable[dg.AssetSpec]) -> None:
    """Refuse a graph in which something private reaches something releasable uncharged.

    Private and restricted assets taint what depends on them, directly or through assets without a
    label. An asset that charges the ledger (tag ``jam/charges: ledger``) washes the taint of
    private assets off: that is what it pays for. It cannot wash off that of restricted ones, for
    their exact statistics were never paid for. Only assets that a release is built of charge, and
    they keep the labels that it gave them. An asset of the project from which a release reads its
    private table is private, whatever it says. Dependencies on other assets are taken as harmless.
    """
    by_key = {spec.key: spec for spec in specs}
    private = {
        str(spec.metadata[PRIVATE_SOURCE]): spec.key.to_user_string()
        for spec in by_key.values()
        if PRIVATE_SOURCE in spec.metadata
    }
    known: dict[dg.AssetKey, _Taints] = {}

    def taints(key: dg.AssetKey) -> _Taints:
        if key not in known:
            spec = by_key[key]
            arriving: dict[PrivacyLabel, tuple[str, ...]] = {}
            for dep in sorted(spec.deps, key=lambda dep: dep.asset_key):
                if dep.asset_key in by_key:
                    for taint, path in taints(dep.asset_key).items():
                        arriving.setdefault(taint, (*path, key.to_user_string()))
            known[key] = _leaving(spec, arriving)
            if reader := private.get(key.to_user_string()):
                known[key] = _of_private_source(spec, reader, known[key])
        return known[key]

    for key in sorted(by_key):
        taints(key)


def check_translated(before: Collection[dg.AssetSpec], after: Collection[dg.AssetSpec]) -> None:
    """Refuse a translation of specs that changes what the label check relies on."""
    for one, other in zip(before, after, strict=True):
        kinds, given = (_LABELS & spec.kinds for spec in (one, other))
        for what, wanted, found in (
            *_reserved("tag", one.tags, other.tags),
            *_reserved("metadata", one.metadata, other.metadata),
            ("labels as kinds", kinds, kinds | given),
            ("partitions", _partitions(one), _partitions(other)),
            (
                "dependencies",
                {dep.asset_key.to_user_string() for dep in one.deps},
                {dep.asset_key.to_user_string() for dep in other.deps},
            ),
        ):
            if wanted != found:
                raise PrivacyLabelError(
                    f"Asset {one.key.to_user_string()} was built with {what} {_shown(wanted)} and"
                    f" translated to {_shown(found)}. Labels follow from what an asset holds:"
                    f" let get_asset_spec (translation, translate) keep tags and metadata jam/*, io"
                    f" manager and deps, for instance with spec.merge_attributes."
                )


def _reserved(
    what: str, own: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted({**own, **given}):
        if key.startswith("jam/") or key == _KEPT_BY:
            yield f"{what} {key}", own.get(key), given.get(key)


def _partitions(spec: dg.AssetSpec) -> str | None:
    return None if spec.partitions_def is None else str(spec.partitions_def)


def _shown(value: object) -> str:
    if isinstance(value, set):
        return ", ".join(sorted(value)) or "none"
    return "none" if value is None else str(value)


def _check_as_built(spec: dg.AssetSpec, label: PrivacyLabel | None, *, charges: bool) -> None:
    name = spec.key.to_user_string()
    mark = spec.metadata.get(BUILT_METADATA)
    if mark is None:
        if charges:
            raise PrivacyLabelError(
                f"Asset {name} has tag {CHARGES_TAG}, but no release was built with it: only the"
                f" assets of a release charge the ledger. Remove the tag."
            )
        return
    found = "no label" if label is None else built(label, charges=charges)
    if found != mark:
        raise PrivacyLabelError(
            f"Asset {name} was built as {mark!r} and is now tagged as {found!r}. Labels follow"
            f" from what an asset holds: leave the tags {LABEL_TAG} and {CHARGES_TAG} as they are."
        )


def _leaving(spec: dg.AssetSpec, arriving: dict[PrivacyLabel, tuple[str, ...]]) -> _Taints:
    name = spec.key.to_user_string()
    label = _label_of(spec)
    charges = CHARGES_TAG in spec.tags
    _check_as_built(spec, label, charges=charges)
    if charges:
        if label is PrivacyLabel.PUBLIC:
            raise PrivacyLabelError(
                f"Asset {name} charges the privacy ledger, so it is about private data, yet it is"
                f" labelled public. Label it dp."
            )
        arriving.pop(PrivacyLabel.PRIVATE, None)
    if label is None:
        return arriving
    if label.releasable:
        for taint, path in sorted(arriving.items()):
            raise PrivacyLabelError(
                f"Asset {name} is labelled {label.value}, but depends on something {taint.value}"
                f" without charging the ledger: {' -> '.join(path)}. Label it restricted, or"
                f" remove the dependency."
            )
        return {}
    return {**arriving, label: (name,)}


def _of_private_source(spec: dg.AssetSpec, reader: str, taints: _Taints) -> _Taints:
    """Taint a project's own asset as the private table that a release reads from it."""
    name, label = spec.key.to_user_string(), _label_of(spec)
    if label is not None and label.releasable:
        raise PrivacyLabelError(
            f"Asset {name} is labelled {label.value}, but {reader} reads the private table of its"
            f" release from it: it is private. Remove its tag {LABEL_TAG}, or name it as the public"
            f" source if it needs no protection."
        )
    return {**taints, PrivacyLabel.PRIVATE: (name,)}


def _label_of(spec: dg.AssetSpec) -> PrivacyLabel | None:
    value = spec.tags.get(LABEL_TAG)
    if value is None:
        return None
    try:
        return PrivacyLabel(value)
    except ValueError:
        raise PrivacyLabelError(
            f"Asset {spec.key.to_user_string()} has tag {LABEL_TAG}: {value}; the labels are"
            f" {', '.join(PrivacyLabel)}."
        ) from None
