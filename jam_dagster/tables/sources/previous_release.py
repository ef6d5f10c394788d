"""The previous release as the public table of the next, mixed with the first public table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jam_dagster.common.validation import as_number, check_keys
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.sources.base import source_from_config
from jam_dagster.tables.sources.public import PUBLIC_TABLES, PublicSources
from jam_dagster.tables.sources.source import Source

PREVIOUS_RELEASE = "previous_release"

# Fixes the chosen rows; the value is arbitrary.
_SEED = 20260101


@dataclass(frozen=True)
class PreviousRelease:
    """A public source for a partitioned release: the synthetic table of the previous partition.

    Its own release paid for it, so its use costs nothing, as for any public table.

    Parameters
    ----------
    first
        The public table for the first partition. None: it has none.
    first_share
        The share of rows of `first` in the public table of every later partition, at least 0 and
        less than 1. With 0, errors of the previous release persist until they are measured on the
        private table; with a share, the information of `first` never disappears.

    Raises
    ------
    SpecificationError
        If the share is out of range, or there is nothing to take it from.
    """

    first: Source | None = None
    first_share: float = 0.0

    def __post_init__(self) -> None:
        share = as_number(f"public.{PREVIOUS_RELEASE}", "first_share", self.first_share)
        if not 0 <= share < 1:
            raise SpecificationError(
                f"public.{PREVIOUS_RELEASE}: first_share must be at least 0 and less than 1, got"
                f" {share}."
            )
        if share and self.first is None:
            raise SpecificationError(
                f"public.{PREVIOUS_RELEASE}: first_share is a share of the table first, and there"
                " is none: name it, or leave first_share out."
            )

    def table(self, previous: EncodedTable, first: EncodedTable) -> EncodedTable:
        """Return the public table of a later partition.

        Parameters
        ----------
        previous, first
            The previous release and the given table, over one domain.

        Returns
        -------
        EncodedTable
            As many records as `previous` has: the share from `first`, each record equally often
            up to one, and the rest from `previous`. The same tables give the same result.
        """
        taken = round(self.first_share * previous.records)
        if not taken:
            return previous
        rng = np.random.default_rng(_SEED)
        repeated = np.resize(rng.permutation(first.records), taken)
        left = np.sort(rng.permutation(previous.records)[taken:])
        columns = tuple(
            np.concatenate([ours[left], theirs[repeated]])
            for ours, theirs in zip(previous.columns, first.columns, strict=True)
        )
        return EncodedTable(previous.domain, columns)

    def describe(self, before: str) -> str:
        """Return the public table's origin in words, given the previous partition `before`."""
        mixed = (
            f", {self.first_share:.0%} of it from {self.first.describe()}"
            if self.first is not None and self.first_share
            else ""
        )
        return f"synthetic table of partition {before} of this release{mixed}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration that `public_from_config` takes, without credentials."""
        given: dict[str, Any] = {} if self.first is None else {"first": self.first.to_dict()}
        if self.first_share:
            given["first_share"] = self.first_share
        return {PREVIOUS_RELEASE: given}


def given_public(
    public: Source | PublicSources | PreviousRelease,
) -> tuple[Source | PublicSources | None, PreviousRelease | None]:
    """Return the public tables that are given, and the previous release that follows, if any."""
    return (public.first, public) if isinstance(public, PreviousRelease) else (public, None)


def public_from_config(
    config: str | Mapping[str, Any] | Source | PublicSources | PreviousRelease,
) -> Source | PublicSources | PreviousRelease:
    """Build the ``public`` section of a release: a source, several, or the previous release.

    Objects of these classes are returned as they are. A configuration is that of a source
    (`source_from_config`); ``{"tables": {name: source}}``; or
    ``{"previous_release": {"first": source}}`` with ``first_share`` as a further key.
    """
    if isinstance(config, PublicSources | PreviousRelease):
        return config
    if isinstance(config, Mapping) and PUBLIC_TABLES in config:
        return PublicSources.from_config(config)
    if not isinstance(config, Mapping) or PREVIOUS_RELEASE not in config:
        return source_from_config(config)
    check_keys("public", config, (PREVIOUS_RELEASE,))
    given = config[PREVIOUS_RELEASE]
    if not isinstance(given, Mapping):
        raise SpecificationError(
            f"public.{PREVIOUS_RELEASE} is a mapping: of first, the public table for the first"
            f" partition, such as {{previous_release: {{first: survey_2016.csv}}}}, or {{}} without"
        )
    check_keys(f"public.{PREVIOUS_RELEASE}", given, ("first", "first_share"))
    first = given.get("first")
    return PreviousRelease(
        None if first is None else source_from_config(first), given.get("first_share", 0.0)
    )
