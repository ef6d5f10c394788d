"""Privacy labels on assets, and the check that none of them lies.

Every asset of a release says in the tag ``jam/privacy`` who may see what it holds. The check walks
the asset graph when definitions are built, before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from jam_dagster.errors import PrivacyLabelError

if TYPE_CHECKING:
    import dagster as dg

LABEL_TAG = "jam/privacy"
CHARGES_TAG = "jam/charges"
CHARGES_LEDGER = "ledger"


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


# For each taint the path of assets by which it arrived.
_Taints = Mapping[PrivacyLabel, tuple[str, ...]]


def check_privacy_labels(specs: Iterable[dg.AssetSpec]) -> None:
    """Refuse a graph in which something private reaches something releasable uncharged.

    Private and restricted assets taint what depends on them, directly or through assets without
    a label. An asset that charges the ledger (tag ``jam/charges: ledger``) washes the taint of
    private assets off: that is what it pays for. It cannot wash off that of restricted ones, for
    their exact statistics were never paid for.

    Parameters
    ----------
    specs
        The assets; dependencies on assets that are not among them are taken as harmless.

    Raises
    ------
    PrivacyLabelError
        If a label is unknown, or an asset labelled public or dp is tainted.
    """
    by_key = {spec.key: spec for spec in specs}
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
        return known[key]

    for key in sorted(by_key):
        taints(key)


def _leaving(spec: dg.AssetSpec, arriving: dict[PrivacyLabel, tuple[str, ...]]) -> _Taints:
    name = spec.key.to_user_string()
    label = _label_of(spec)
    if spec.tags.get(CHARGES_TAG) == CHARGES_LEDGER:
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
