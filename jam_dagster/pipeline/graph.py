"""The assets of a release: their names, keys and labels, and where each is kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import dagster as dg

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.keys import GraphOptions, Misfit
from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.pipeline.assets.descriptions import (
    ASSETS,
    CHILDREN,
    MECHANISM_RUN,
    PUBLIC_CODES,
    PUBLIC_RECORDS,
    described,
)
from jam_dagster.pipeline.budget.labels import CHARGES_TAG, LABEL_TAG, RESERVES_TAG, PrivacyLabel
from jam_dagster.pipeline.partitions import mapping_to_before, partitions_definition, tick_of
from jam_dagster.release.spec import ReleaseSpec, check_names
from jam_dagster.tables import Domain, Source
from jam_dagster.tables.sources.partition_template import at_partition

PRIVATE_STORE = "private_io_manager"
RELEASABLE_STORE = "releasable_io_manager"
LEDGER = "ledger"

PREVIOUS = "previous_release"

Translate = Callable[[dg.AssetSpec], dg.AssetSpec]
Results = Iterator[dg.MaterializeResult[Any]]
Execute = Callable[[dg.AssetExecutionContext, Results], Results]


def yield_all(context: dg.AssetExecutionContext, results: Results) -> Results:
    """Run the step that draws as it is."""
    return results


@dataclass(frozen=True)
class ReleaseGraph:
    """Which assets a release has, how they are called, and who may see each.

    `translate` maps an asset's spec to the one to use. The graph takes its key, by which
    everything else of the release knows the asset. `execute` runs the step that draws.
    """

    spec: ReleaseSpec
    options: GraphOptions = field(default_factory=GraphOptions)
    translate: Translate | None = None
    execute: Execute = yield_all

    def __post_init__(self) -> None:
        check_names(self.spec)
        if self._own_key(CHILDREN) == self._own_key("synthetic_records"):
            raise SpecificationError(
                "children: a table named 'records' would be the asset synthetic_records, which has"
                " their roots: give it another name."
            )
        self._check_accepted()
        if self.spec.domain.identify == "paid" and self.spec.private.asset_key is not None:
            # An asset has no schema before it is loaded, and what is public depends on none.
            raise SpecificationError(
                f"domain: release {self.spec.release} has {{identify: paid}}, and its private table"
                " is an asset, whose columns are not known before it is opened: name them in a"
                " domain file, with `values: paid` or `edges: paid`."
            )
        own = (LABEL_TAG, CHARGES_TAG, RESERVES_TAG)
        reserved = sorted(tag for tag in self.options.tags if tag in own)
        if reserved:
            raise SpecificationError(f"the release sets the tag {reserved[0]!r}: remove it.")

    def over(self, domain: Domain) -> "ReleaseGraph":
        """Return the graph of the release over what it asks for; see `ReleaseSpec.over`."""
        spec = self.spec.over(domain)
        return self if spec is self.spec else replace(self, spec=spec)

    def _check_accepted(self) -> None:
        accepted, partitions = self.options.accept_misfit, self.spec.partitions
        if not accepted:
            return
        if self.spec.previous is None or partitions is None:
            raise SpecificationError(
                f"accept_misfit of release {self.spec.release} is for public.previous_release, in"
                f" which partitions are drawn on earlier ones: remove it."
            )
        unknown = [one for one in accepted if not partitions.holds(one)]
        if unknown:
            raise SpecificationError(
                f"accept_misfit names {unknown[0]!r}, which is no partition of release"
                f" {self.spec.release}: name those that the domain does not fit."
            )

    @property
    def misfit(self) -> Misfit:
        """The consequence of a private column that the domain does not fit."""
        return self.options.misfit or ("warn" if self.spec.previous is None else "error")

    @property
    def stops_at_misfit(self) -> bool:
        """Whether no partition is drawn on one that the domain does not fit."""
        return self.spec.previous is not None and self.misfit == "error"

    @property
    def blocks_at_misfit(self) -> bool:
        """Whether a misfit blocks the assets that depend on the synthetic table."""
        return self.spec.previous is None and self.misfit == "error"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the release's assets, in an order in which they can be made."""
        left_out = {
            "private": {"release_report_restricted"},
            "exact": set(),
            "off": {"workload_error", "release_report_restricted"},
        }[self.spec.evaluation_mode]
        return tuple(name for name in self._roles if name not in left_out)

    @property
    def public_codes(self) -> list[str]:
        """The asset of the encoded public tables; none if there are none."""
        return [PUBLIC_CODES] if self.spec.has_public else []

    @property
    def children(self) -> list[str]:
        """The asset of the synthetic children; none if the release has one table."""
        return [] if self.spec.private.linked is None else [CHILDREN]

    @property
    def public_records(self) -> dict[str, str]:
        """The assets of the given public tables, each with the name of its table, if it has one."""
        tables = self.spec.public_tables
        return {f"{PUBLIC_RECORDS}_{name}" if name else PUBLIC_RECORDS: name for name in tables}

    @property
    def buys_on(self) -> bool:
        """Whether each partition buys what the domain of the release before lacks."""
        return self.spec.previous is not None and self.spec.asked is not None

    @property
    def _roles(self) -> tuple[str, ...]:
        return tuple(
            role
            for name in ASSETS
            for role in {
                PUBLIC_RECORDS: list(self.public_records),
                PUBLIC_CODES: self.public_codes,
                CHILDREN: self.children,
            }.get(name, [name])
        )

    def key(self, name: str) -> dg.AssetKey:
        """Return the key of an asset: the release's name and its own, unless it is translated.

        The run of the mechanism is called by the mechanism's name, and the synthetic children by
        that of their table.
        """
        return self._keys[name]

    def _own_key(self, name: str) -> dg.AssetKey:
        own, link = name, self.spec.private.linked
        if name == MECHANISM_RUN:
            own = self.spec.mechanism.name
        elif name == CHILDREN and link is not None:
            own = f"synthetic_{link.table}"
        return dg.AssetKey([self.spec.release, own])

    @cached_property
    def _keys(self) -> Mapping[str, dg.AssetKey]:
        names = (*self._roles, PREVIOUS)
        keys = {name: self._translated_key(name, self._own_key(name)) for name in names}
        if len({*keys.values()}) < len(keys):
            raise SpecificationError(
                f"get_asset_spec (translate) gives two assets of release {self.spec.release} one"
                f" key: keep the asset's own name, the last part of its key, in it."
            )
        return keys

    def _translated_key(self, name: str, own: dg.AssetKey) -> dg.AssetKey:
        if self.translate is None:
            return own
        label = self.label(name)
        kinds = {label.value} if name == PREVIOUS else {label.value, *described(name).kinds}
        given = dg.AssetSpec(own, tags={**self.options.tags, LABEL_TAG: label.value}, kinds=kinds)
        return self.translate(given).key

    def run_keys(self) -> tuple[dg.AssetKey, ...]:
        """Return where runs of this release may be stored, the configured mechanism's first.

        Earlier partitions may have been made by another mechanism.
        """
        others = (name for name in MECHANISMS if name != self.spec.mechanism.name)
        return (
            self.key(MECHANISM_RUN),
            *(
                self._translated_key(MECHANISM_RUN, dg.AssetKey([self.spec.release, name]))
                for name in others
            ),
        )

    def translated(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        """Return the translation of an asset's spec, which has its translated key already."""
        if self.translate is None:
            return spec
        (name,) = (name for name, key in self._keys.items() if key == spec.key)
        own = self._own_key(name)
        made = self.translate(spec.replace_attributes(key=own))
        if made.key != spec.key:
            raise SpecificationError(
                f"get_asset_spec (translate) names asset {own.to_user_string()}"
                f" {spec.key.to_user_string()} and {made.key.to_user_string()}: let its key follow"
                f" from the key, tags and kinds that it is given, and nothing else."
            )
        return made

    @cached_property
    def partitions_def(self) -> dg.PartitionsDefinition[str] | None:
        """The partitions of every asset and check, or None.

        The public table and the domain are partitioned too, though they may be the same for each:
        so the tables that a partition was drawn on stay next to it.
        """
        partitions = self.spec.partitions
        return None if partitions is None else partitions_definition(partitions)

    @property
    def tick(self) -> str | None:
        """The cron expression of the schedule, None if there is none."""
        schedule = self.options.schedule
        return None if schedule is None else tick_of(self.spec.partitions, schedule)

    @property
    def price_of_partitions(self) -> str:
        """The cost of partitions, in words; empty if there are none."""
        partitions = self.spec.partitions
        if partitions is None:
            return ""
        if self.spec.privacy.noise != "exact":
            return "Partitions cost nothing: seeded noise is for research and not releasable."
        return partitions.cost(self.spec.budget)

    def partition_of(
        self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext
    ) -> str:
        """Return the partition that a step runs for, empty if the release has none."""
        if self.partitions_def is None:
            # A job may have partitions for the sake of other assets in it.
            return ""
        if not context.has_partition_key:
            raise InputError(
                f"Release {self.spec.release} is made one partition at a time: launch a run for"
                f" each, as its backfill does. Nothing was charged."
            )
        partition = str(context.partition_key)
        # A tag of the run says which, and Dagster does not compare it with those there are before
        # the step's body has run.
        if not self.partitions_def.has_partition_key(partition):
            raise InputError(
                f"Release {self.spec.release} has no partition {partition!r}: launch one that it"
                f" has. Nothing was charged."
            )
        return partition

    def ins(self, *names: str) -> dict[str, dg.AssetIn]:
        """Return inputs that load assets of this release."""
        return {name: dg.AssetIn(key=self.key(name)) for name in names}

    def source(self, name: str, partition: str) -> Source:
        """Return what ``private_records`` or a public table of a partition is read from."""
        return at_partition(self.sources[name], partition)

    @property
    def sources(self) -> dict[str, Source]:
        """The source of each raw table's asset, any partition's name left open."""
        tables = self.spec.public_tables
        public = {name: tables[table] for name, table in self.public_records.items()}
        return {"private_records": self.spec.private, **public}

    def source_deps(self, name: str) -> list[dg.AssetKey]:
        """Return the asset that a table is read from; none if it is read from elsewhere."""
        key = source_key(self.sources[name])
        return [] if key is None else [key]

    def label(self, name: str) -> PrivacyLabel:
        """Return who may see an asset."""
        made = PrivacyLabel.DP if self.spec.releasable else PrivacyLabel.RESTRICTED
        known = PrivacyLabel.RESTRICTED if self.spec.domain.restricted else PrivacyLabel.PUBLIC
        exact = self.spec.evaluation_mode == "exact"
        if (
            name == PREVIOUS
            or (name == "public_discretized" and self.spec.previous is not None)
            or (name in ("domain", "privacy_budget") and self.buys_on)
        ):
            # The asset holds what was drawn from private data, and is as good as that.
            return made
        if name in self.public_records:
            return PrivacyLabel.PUBLIC
        return {
            "domain": known,
            "privacy_budget": PrivacyLabel.PUBLIC,
            "private_records": PrivacyLabel.PRIVATE,
            "private_discretized": PrivacyLabel.PRIVATE,
            "public_discretized": known,
            MECHANISM_RUN: made,
            "synthetic_records": made,
            CHILDREN: made,
            "workload_error": PrivacyLabel.RESTRICTED if exact else made,
            "release_certificate": made,
            "release_report": made,
            "release_report_restricted": PrivacyLabel.RESTRICTED,
        }[name]

    def charges(self, name: str) -> bool:
        """Whether an asset charges the ledger for what it reads of private data."""
        if self.spec.privacy.noise != "exact":
            return False
        return name == MECHANISM_RUN or (
            name == "workload_error" and self.spec.evaluation_mode == "private"
        )

    def tells_data(self, name: str) -> bool:
        """Whether event log and compute log may hold what an asset computed from private data.

        Everyone who may open Dagster's UI reads them, so they are held to what a release is held
        to: what was drawn with uncharged noise, or over a domain from private data, is shown by its
        outcome only. The exception is evaluation in mode ``exact``, whose numbers are asked for
        and say what they are.
        """
        if name == "workload_error" and self.spec.evaluation_mode == "exact":
            return True
        return self.spec.releasable

    def tells_domain(self, domain: Domain) -> bool:
        """Whether event log and compute log may hold what is in a domain.

        Values that seeded noise selected are data, in the partition that bought them and later.
        """
        bought = domain.bought is not None or self.buys_on
        return not domain.restricted and (self.spec.releasable or not bought)

    def withheld_note(self) -> dict[str, str]:
        """Return what the event log says in place of the numbers of what may not leave."""
        reasons = "; ".join(self.spec.not_releasable_because)
        return {"note": f"restricted: {reasons}. The findings are in the private store."}

    def store(self, name: str) -> str:
        """Return the resource key of the store that keeps an asset."""
        return RELEASABLE_STORE if self.label(name).releasable else PRIVATE_STORE

    @property
    def archive_store(self) -> str:
        """Return the resource key of the store that keeps the outcomes of single draws."""
        return self.store(MECHANISM_RUN)

    def previous_deps(self) -> list[dg.AssetDep]:
        """Return what a public table depends on apart from the given one: the release before."""
        if self.spec.previous is None or self.spec.partitions is None:
            return []
        mapping = mapping_to_before(self.spec.partitions)
        return [dg.AssetDep(self.key(PREVIOUS), partition_mapping=mapping)]

    def before(self, partition: str) -> str | None:
        """Return the partition whose release a partition is drawn on; None: there is none.

        Misfits that the file accepts are passed over.
        """
        if self.spec.previous is None or self.spec.partitions is None:
            return None
        found = self.spec.partitions.before(partition)
        while found is not None and found in self.options.accept_misfit:
            found = self.spec.partitions.before(found)
        return found

    def describe_public(self, partition: str) -> str:
        """Return in words where a partition's public table comes from."""
        before = self.before(partition)
        if self.spec.previous is None or before is None:
            return self.describe_first(partition)
        return self.spec.previous.describe(before)

    def describe_first(self, partition: str) -> str:
        """Return in words where the given public table of a partition comes from."""
        public = self.spec.public
        if public is None:
            return "" if self.spec.previous is None else "none: the model begins uniform"
        return at_partition(public, partition).describe()

    @property
    def learns_from_public(self) -> bool:
        """Whether the mechanism learns from the public table."""
        return self.spec.mechanism.build().uses_public

    @property
    def spending_resources(self) -> frozenset[str]:
        """The resources of a step that looks at the ledger: none if nothing is charged."""
        if self.spec.privacy.noise != "exact":
            return frozenset()
        return frozenset({LEDGER, RELEASABLE_STORE, PRIVATE_STORE})


def source_key(source: Source) -> dg.AssetKey | None:
    """Return the asset that a source is, or None."""
    key = source.asset_key
    return None if key is None else dg.AssetKey.from_user_string(key)
