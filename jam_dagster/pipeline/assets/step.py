"""The context of a step of a release: its partition, its places, its source, its engine."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import dagster as dg

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.assets.source_assets import resolve_source
from jam_dagster.pipeline.budget.ledger_resource import LedgerResource
from jam_dagster.pipeline.graph import (
    LEDGER,
    PRIVATE_STORE,
    RELEASABLE_STORE,
    ReleaseGraph,
)
from jam_dagster.pipeline.launch import check_launch
from jam_dagster.pipeline.storage.formats import RUN
from jam_dagster.pipeline.storage.store_place import StorePlace, research_place
from jam_dagster.pipeline.storage.store_resource import check_stores
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.release.engine import Engine, Progress, rows_line
from jam_dagster.release.funding import LedgerFunding, ResearchFunding
from jam_dagster.release.public_side import identified
from jam_dagster.tables import Domain, Source
from jam_dagster.tables.sources.identity import canonical, place_of
from jam_dagster.tables.sources.partition_template import (
    at_partition,
    linked_file,
    table_of,
    template_of,
)
from jam_dagster.tables.sources.public_apart import check_apart, check_headers, check_outside

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.mechanisms import Round
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore
    from jam_dagster.release.files import ReleaseFiles
    from jam_dagster.release.spec import ReleaseSpec

STORES = (PRIVATE_STORE, RELEASABLE_STORE)

_Kind = TypeVar("_Kind")

_STAGES = {
    "encode": "The private table is read and encoded.",
    "mechanism": "The mechanism draws.",
    "sample": "Rows are made of the model.",
    "evaluate": "The error of the rows is measured.",
}


@dataclass(frozen=True)
class ReleaseStep:
    """A step of a release, in a run of Dagster's."""

    graph: ReleaseGraph
    context: dg.AssetExecutionContext

    @cached_property
    def partition(self) -> str:
        """The partition that the step runs for; empty if the release has none."""
        return self.graph.partition_of(self.context)

    def store(self, name: str) -> "ReleaseStore":
        """Return the store of an asset."""
        return self._resource(self.graph.store(name))

    @property
    def archive(self) -> "ReleaseFiles":
        """The files that the outcomes of single draws are among."""
        return self._files(self.graph.archive_store)

    def _files(self, key: str) -> "ReleaseFiles":
        return self._resource(key).files

    def _resource(self, key: str) -> "ReleaseStore":
        found: ReleaseStore = getattr(self.context.resources, key)
        return found

    def beside(self, name: str, suffix: str) -> "UPath":
        """Return the path of a file of an asset, which its own store keeps."""
        return self.store(name).beside(self.graph.key(name), self.partition, suffix)

    def load(self, name: str, partition: str, kind: "type[_Kind]") -> "_Kind":
        """Return an asset of a partition; see `ReleaseStore.load`."""
        return self.store(name).load(self.graph.key(name), partition, kind)

    def place(
        self, domain: Domain, spec: "ReleaseSpec | None" = None, *, stores: "_Stores" = ()
    ) -> StorePlace:
        """Return the place of the draws; given the specification, the release may begin there."""
        return StorePlace.of(
            self.archive,
            self.graph.spec.release_id(domain, self.partition),
            self.beside(MECHANISM_RUN, RUN.suffix),
            None if spec is None else self._files(PRIVATE_STORE),
            run_files=self.store(MECHANISM_RUN).files,
            spec=spec,
            domain=domain,
            stores=stores,
            before=self.graph.before(self.partition),
        )

    def checked_source(self, name: str) -> Source:
        """Return a source that the step can read, once the places and the tables are apart.

        The checks of the release's definition are repeated for the partition of the
        run: files, links and variables may be others here.
        """
        check_launch(self.context.run, STORES)
        private = self._resource(PRIVATE_STORE)
        check_stores(private, self._resource(RELEASABLE_STORE))
        source = resolve_source(self.graph, name, self.context)
        public = self.graph.spec.public
        if public is not None:
            public = at_partition(public, self.partition)
            check_apart(self.graph.source("private_records", self.partition), public)
            check_outside(public, [place_of(str(private.files.root))], "the private store")
            check_headers(public, self.graph.spec.person_column)
        return source

    def over(self, domain: Domain, source: Source) -> "ReleaseStep":
        """Return the step over what the release asks for, if tables decide that.

        Raises
        ------
        DomainError
            If the columns of the source, or what the release says of them, changed since.
        """
        graph = self.graph.over(domain)
        if graph is self.graph:
            return self
        alone = not self.graph.spec.has_public
        if alone and identified(self.graph.spec, source).domain.declared != domain:
            raise DomainError(
                f"domain of release {graph.spec.release} asks for other columns or types than the"
                " private table and the release have now. Materialize domain first. Nothing was"
                " charged."
            )
        return replace(self, graph=graph)

    def engine(
        self,
        domain: Domain,
        *,
        reads: Source | None = None,
        on_round: "Callable[[Round], None]" = lambda outcome: None,
    ) -> Engine:
        """Return the engine of the release; given what it reads, that may be opened."""

        def on_rows(made: int, rows: int) -> None:
            if graph.tells_data(MECHANISM_RUN):
                context.log.info(rows_line(made, rows))

        graph, context, partition = self.graph, self.context, self.partition
        spec = graph.spec.at(partition)
        if reads is not None:
            spec = spec.model_copy(update={"private": reads})
        progress = Progress(
            # Each may take minutes.
            on_stage=lambda name: context.log.info(_STAGES[name]),
            on_round=on_round,
            on_rows=on_rows,
            notify=context.log.warning,
        )
        run_id = context.run.run_id
        shares, protection = graph.spec.shares, spec.privacy.protection
        if not spec.exact:
            research = research_place(self._files(PRIVATE_STORE), spec)
            free = ResearchFunding(
                *(shares, protection, spec.privacy.seed or 0, research, run_id), spec.selections
            )
            return Engine(spec, domain, research, free, partition, progress)
        check_launch(context.run, (LEDGER, *STORES))
        resource: object = getattr(context.resources, LEDGER)
        if not isinstance(resource, LedgerResource):
            raise SpecificationError(
                f"{LEDGER} is a {type(resource).__name__}; make it a LedgerResource. {NOTHING_DONE}"
            )
        stores = (self._files(RELEASABLE_STORE), self._files(PRIVATE_STORE))
        place = self.place(domain, spec, stores=stores)
        funding = LedgerFunding(
            resource.open(
                spec.dataset, ledger_id=spec.ledger_id, stores=stores, notify=context.log.info
            ),
            spec.release_id(domain, partition),
            shares,
            protection,
            place,
            run_id,
            *(("", "", "", "") if reads is None else self._bound()),
            signer=resource.signer(),
            selections=spec.selections,
            notify=context.log.warning,
        )
        return Engine(spec, domain, place, funding, partition, progress)

    def _bound(self) -> tuple[str, str, str, str]:
        """Return the identity, template, table and link that the ledger binds the release to."""
        graph, partition = self.graph, self.partition
        source = graph.source("private_records", partition)
        identity = source.identity()
        if source.asset_key is not None and partition:
            # The partition is in no text of the source.
            identity = canonical(source=identity, partition=partition)
        counted = graph.spec.neighbours.records_public
        template = template_of(graph.spec.private, partition, counted=counted)
        table = table_of(graph.spec.private, partition)
        return identity, template, table, linked_file(source)


_Stores = tuple["ReleaseFiles", ...]


def ledger_funding(engine: Engine) -> LedgerFunding | None:
    """Return what pays for a release with exact noise; None in research."""
    return engine.funding if isinstance(engine.funding, LedgerFunding) else None
