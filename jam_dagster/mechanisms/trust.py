"""Trust in mechanisms: a release may use a third-party mechanism only from a trusted package."""

from __future__ import annotations

import re
from collections.abc import Collection

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.registry import MECHANISMS


def distrust(mechanism: str, trusted: Collection[str]) -> str | None:
    """Return why a mechanism's results must not be released; None if they may be."""
    found = MECHANISMS[mechanism]
    if found.own or any(same_package(found.package, one) for one in trusted):
        return None
    return (
        f"the mechanism {mechanism} comes from the package {found.package} {found.version}, which "
        "this release does not trust by name"
    )


def read_trusted(given: object) -> tuple[str, ...]:
    """Return the packages that a release trusts."""
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) for one in given):
        raise SpecificationError(
            f"trusted_mechanisms must be a list of names of packages, got {given!r}."
        )
    return tuple(given)


def same_package(one: str, other: str) -> bool:
    """Return whether two names denote the same package."""
    return _plain(one) == _plain(other)


def _plain(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
