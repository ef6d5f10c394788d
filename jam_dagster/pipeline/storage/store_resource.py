"""The IO managers of a code location: one for what is private, one for what may leave."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from jam_dagster.common.variables import expanded, names_variables
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.dagster_internals import is_reserved_asset_job_name, quiet_console
from jam_dagster.pipeline.graph import PRIVATE_STORE, RELEASABLE_STORE
from jam_dagster.pipeline.launch import (
    NO_CONFIG,
    RELEASE_TAG,
    check_launch,
    declared_place,
    is_variable,
    value_of_variable,
)
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.release.files import ReleaseFiles


class ReleaseStoreResource(dg.IOManagerDefinition):
    """The IO manager of a release's assets; a code location has a private and a releasable one.

    Only the definitions configure it. The resource takes no run config: a launch that gives it any
    is refused.

    Parameters
    ----------
    root
        A folder or fsspec URL; ``~`` and ``${VARIABLES}`` are expanded. Messages, metadata and
        logs show the variables' names.
    private
        Whether this store holds private values: then folders are mode 0700, files 0600, and errors
        quote nothing.
    options
        Options of the fsspec file system, such as a profile.

    Raises
    ------
    SpecificationError
        If one of them is of another type.

    Examples
    --------
    >>> import dagster as dg
    >>> from jam_dagster.pipeline import ReleaseStoreResource
    >>> resources = {
    ...     "private_io_manager": ReleaseStoreResource(root="/secure/jam", private=True),
    ...     "releasable_io_manager": ReleaseStoreResource(root="s3://open/jam"),
    ... }
    """

    def __init__(
        self, *, root: str, private: bool = False, options: Mapping[str, Any] | None = None
    ) -> None:
        self.root = declared_place("the store's root", root)
        # The value of a template or a variable need not have the annotated type.
        if not isinstance(private, bool):
            raise SpecificationError(f"the store's private must be True or False, got {private!r}.")
        if not isinstance(options, Mapping | None):
            raise SpecificationError(f"the store's options must be a mapping, got {options!r}.")
        self.private = private
        self.options = dict(options or {})
        super().__init__(
            self._given,
            config_schema=NO_CONFIG,
            description=f"The {'private' if private else 'releasable'} store. Only the definitions"
            " configure it.",
        )

    def _given(self, context: dg.InitResourceContext) -> ReleaseStore:
        # Every step of a release needs a store, so this is before the first of them.
        run = context.run
        # A selection of assets is run by a job of Dagster's own, other jobs are somebody else's.
        if run and (RELEASE_TAG in run.tags or is_reserved_asset_job_name(run.job_name)):
            quiet_console(context)
        private: object = getattr(context.resources, PRIVATE_STORE, None)
        if private is None or self.private:
            return self.open()
        if context.run is not None:
            check_launch(context.run, (PRIVATE_STORE,))
        return self.open(_closed(_release_store(PRIVATE_STORE, private)))

    def get_required_resource_keys(
        self, resource_defs: Mapping[str, dg.ResourceDefinition]
    ) -> frozenset[str]:
        """Return what is made before: the private store, if there is one next to this one.

        A reader of releases alone has none.
        """
        private = resource_defs.get(PRIVATE_STORE)
        needs = private is not None and private is not self and not self.private
        return frozenset({PRIVATE_STORE}) if needs else frozenset()

    def open(self, hashes_in: ReleaseStore | None = None) -> ReleaseStore:
        """Return the store, outside a run too.

        Parameters
        ----------
        hashes_in
            The private store, which keeps the hashes of what is written. In a run it is the one
            of the code location.

        Raises
        ------
        SpecificationError
            If the root or an option names a variable that is not set.
        """
        from upath import UPath

        place = expanded(self.root, "the store's root", note=NOTHING_DONE)
        root = UPath(place, **_resolved(self.options))
        if root.protocol in ("", "file", "local"):
            # A file: URL is a local disk too, and must get its modes.
            root = UPath(root.path).absolute()
        configured = self.root if names_variables(self.root) else ""
        keeper = None if hashes_in is None else hashes_in.files
        files = ReleaseFiles(root, private=self.private, configured=configured, hashes_in=keeper)
        return ReleaseStore(files)


def _resolved(option: Any) -> Any:
    """Return an option, or what is in it, with the values of variables."""
    if isinstance(option, dict):
        return {name: _resolved(one) for name, one in option.items()}
    if isinstance(option, list):
        return [_resolved(one) for one in option]
    return value_of_variable("the store's options", option) if is_variable(option) else option


def check_stores(private: object, releasable: object) -> None:
    """Raise unless what is private is kept private, apart from what may leave."""
    closed = _closed(_release_store(PRIVATE_STORE, private))
    open_ = _release_store(RELEASABLE_STORE, releasable)
    if open_.files.private:
        raise SpecificationError(
            "releasable_io_manager is a ReleaseStoreResource with private=True; what may leave"
            f" goes to a store of its own, without it. {NOTHING_DONE}"
        )
    if open_.files.hashes_in is None:
        raise SpecificationError(
            f"{RELEASABLE_STORE} keeps no hashes in {PRIVATE_STORE}: make it a"
            f" ReleaseStoreResource itself, not an IO manager that opens one. {NOTHING_DONE}"
        )
    one, other = _place(closed), _place(open_)
    shorter = min(len(one[1]), len(other[1]))
    if one[0] == other[0] and one[1][:shorter] == other[1][:shorter]:
        raise SpecificationError(
            f"private_io_manager ({closed.files.place}) and releasable_io_manager"
            f" ({open_.files.place}) share a place: give each a root that is not within the"
            f" other's, such as .../private and .../releases. {NOTHING_DONE}"
        )


def _closed(private: ReleaseStore) -> ReleaseStore:
    if not private.files.private:
        raise SpecificationError(
            f"{PRIVATE_STORE} is a ReleaseStoreResource without private=True: files in it would"
            f" be open to others, and errors would quote values. Set private=True. {NOTHING_DONE}"
        )
    return private


def _release_store(key: str, store: object) -> ReleaseStore:
    if not isinstance(store, ReleaseStore):
        raise SpecificationError(
            f"{key} is a {type(store).__name__}; make it a ReleaseStoreResource, which keeps what"
            f" is private apart from what may leave. {NOTHING_DONE}"
        )
    return store


def _place(store: ReleaseStore) -> tuple[str, tuple[str, ...]]:
    """Return a root's file system and the folders that lead to it, links followed."""
    root = store.files.root
    if store.files.is_local:
        return "local", Path(root.path).resolve().parts
    from fsspec import get_filesystem_class

    # By its class, since some file systems have several protocols: s3 and s3a.
    system = get_filesystem_class(root.protocol)
    folders = tuple(part for part in root.path.split("/") if part not in ("", "."))
    return f"{system.__module__}.{system.__qualname__}", folders
