"""IO managers for the assets of a release: one root for what is private, one for what may leave."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.common.files import check_plain, owner_only, write_once, write_whole
from jam_dagster.common.redaction import redacted
from jam_dagster.common.variables import expanded, names_variables, with_names
from jam_dagster.errors import InputError, JamError, SourceError, SpecificationError
from jam_dagster.pipeline.dagster_internals import (
    escape_dotdot_segments,
    escape_leading_slash,
    is_reserved_asset_job_name,
    quiet_console,
)
from jam_dagster.pipeline.launch import (
    NO_CONFIG,
    RELEASE_TAG,
    declared_place,
    is_variable,
    value_of_variable,
)
from jam_dagster.pipeline.storage.formats import FORMATS, Format, TableFormat
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.tables import secret_key
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600

_ENDINGS = {part for one in FORMATS for part in one.suffix.split(".") if part} | {"csv", "checks"}
_LIKE_A_SUFFIX = re.compile(rf"\.({'|'.join(sorted(_ENDINGS))})$")


class ReleaseStore(dg.UPathIOManager):
    """Keeps assets as files that other tools read: Parquet, YAML, JSON, NPZ and HTML, never pickle.

    An asset lies at ``<root>/<key prefix>/<asset>.<suffix>``, a partition of it at
    ``<root>/<key prefix>/<asset>/<partition>.<suffix>``; the suffix follows from its type.

    Parameters
    ----------
    root
        A folder or any fsspec URL.
    private
        Whether only the owner may read. On a local disk folders get mode 0700 and files
        mode 0600, and errors are stripped of what they quote.
    configured
        The root as it is configured, where that names environment variables: messages, metadata
        and logs show their names.
    """

    def __init__(self, root: UPath, *, private: bool, configured: str = "") -> None:
        super().__init__(base_path=root)
        self.root = root
        self.private = private
        self._configured = configured

    @property
    def place(self) -> str:
        """The root as messages show it."""
        return self._configured or str(self.root)

    def shown(self, text: object) -> str:
        """Return a path, or a message, with the names of the variables that the root names."""
        return with_names(str(text), self._configured)

    def get_loading_input_log_message(self, path: UPath) -> str:
        """Return what the debug log says of a file that is read."""
        return self.shown(super().get_loading_input_log_message(path))

    def get_loading_input_partition_log_message(self, path: UPath, partition_key: str) -> str:
        """Return what the debug log says of a partition's file that is read."""
        return self.shown(super().get_loading_input_partition_log_message(path, partition_key))

    def get_writing_output_log_message(self, path: UPath) -> str:
        """Return what the debug log says of a file that is written."""
        return self.shown(super().get_writing_output_log_message(path))

    @property
    def is_local(self) -> bool:
        """Whether the root is on a local disk, where files have modes."""
        return isinstance(self.root, Path)

    def path_of(self, *parts: str) -> UPath:
        """Return a path below the root, which no part leads out of."""
        return self.root.joinpath(*(_safe(part) for part in parts))

    def beside(self, key: dg.AssetKey, partition: str, suffix: str) -> UPath:
        """Return the path of a further file of an asset, which lies beside the asset's own.

        Raises
        ------
        InputError
            If a link or a device lies there.
        """
        base = self.path_of(*key.path)
        if partition:
            base = self.make_safe_partition_path(base, partition)
        return self.plain(base.with_name(base.name + suffix)) if suffix else base

    def plain(self, path: UPath) -> UPath:
        """Return a path below the root, once neither it nor what is in it leads elsewhere.

        A private store is its owner's alone, and on an object store there are no links.
        """
        if self.is_local and not self.private:
            try:
                check_plain(Path(str(self.root)), Path(str(path)))
            except InputError as error:
                raise InputError(self.shown(error)) from None
        return path

    def write(self, path: UPath, content: bytes) -> None:
        """Write a further file, whole or not at all, with the modes of this store."""
        self.plain(path)
        with self.guarded(f"writing {path.name}"):
            self.make_directory(path.parent)
            with self.modes():
                write_whole(path, content)
        if self.private and self.is_local:
            self._close_to_others(path)

    def secret(self, *parts: str) -> bytes:
        """Return a random secret of a private store: made the first time, and then kept.

        Parameters
        ----------
        parts
            Where it lies below the root.
        """
        path = self.path_of(*parts)
        if not path.exists():
            self.make_directory(path.parent)
            with self.modes():
                write_once(path, secret_key())
        with self._named("reading a secret"):
            found = bytes(path.read_bytes())
        if len(found) != len(secret_key()):
            raise SourceError(
                f"The secret {'/'.join(parts)} of the private store is damaged: restore it from a"
                f" copy. {NOTHING_DONE}"
            )
        return found

    def table(self, key: dg.AssetKey, partition: str) -> object:
        """Return a stored asset, as the step that depends on it would be given it.

        A step that must do something before its private input is opened does not declare it.

        Raises
        ------
        SourceError
            If the asset is not in the store.
        """
        found, path = self._stored(key, partition)
        with self.guarded(f"reading {key.to_user_string()}"):
            return found.read(path)

    def _stored(self, key: dg.AssetKey, partition: str) -> tuple[Format, UPath]:
        base = self.beside(key, partition, "")
        found = next((f for f in FORMATS if self._mark(f, base).exists()), None)
        if found is None:
            raise _not_stored(key, self.shown(base))
        return found, self.plain(found.path(base))

    def make_directory(self, path: UPath) -> None:
        """Make a folder; a private one is closed to others from the root down."""
        with self._named("making a folder"):
            if not (self.private and self.is_local):
                path.mkdir(parents=True, exist_ok=True)
                return
            below = [path, *path.parents]
            for folder in reversed(below[: below.index(self.root) + 1]):
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(PRIVATE_DIRECTORY)

    def modes(self) -> AbstractContextManager[None]:
        """Let new files of a private store be its owner's only, from the moment they exist.

        For code that writes files below the root by itself.
        """
        return owner_only() if self.private and self.is_local else nullcontext()

    def make_safe_partition_path(self, base_path: UPath, partition: str) -> UPath:
        """Return the path of a partition; no key leads out of its asset's folder.

        Nor does one lead to a file of another: the codes of partition ``A`` lie in
        ``A.codes.parquet``, which would be the table of a partition ``A.codes``.
        """
        return base_path / _LIKE_A_SUFFIX.sub(r"%2E\1", _safe(partition))

    def dump_to_path(self, context: dg.OutputContext, obj: object, path: UPath) -> None:
        """Write an asset in the format of its type."""
        chosen = next((f for f in FORMATS if f.holds(obj)), None)
        if chosen is None:
            raise TypeError(
                f"Asset {context.asset_key.to_user_string()} is a {type(obj).__name__}; this store"
                f" keeps {', '.join(f.name for f in FORMATS)}."
            )
        with self.guarded(f"writing {context.asset_key.to_user_string()}"), self.modes():
            # What lies there in another format would be found in place of this one. It goes first:
            # after a crash there is nothing, which is noticed.
            for other in FORMATS:
                self.plain(other.path(path))
                if other is not chosen and self._mark(other, path).exists():
                    self._mark(other, path).unlink()
            chosen.write(chosen.without_types(obj) if self.private else obj, chosen.path(path))
        if self.private and self.is_local:
            self._close_to_others(chosen.path(path))

    def get_metadata(self, context: dg.OutputContext, obj: object) -> dict[str, dg.MetadataValue]:
        """Return the path with its suffix, in place of the one without."""
        if context.has_asset_partitions:
            (base,) = self._get_paths_for_partitions(context).values()
        else:
            base = self._get_path(context)
        chosen = next(f for f in FORMATS if f.holds(obj))
        return {"path": dg.MetadataValue.path(self.shown(chosen.path(base)))}

    def load_from_path(self, context: dg.InputContext, path: UPath) -> object:
        """Read an asset in whichever format it lies there."""
        found = next((f for f in FORMATS if self._mark(f, path).exists()), None)
        if found is None:
            raise SourceError(
                f"Asset {context.asset_key.to_user_string()} is not in the store"
                f" ({self.shown(path)}.*): materialize it first."
            )
        self.plain(found.path(path))
        if isinstance(found, TableFormat) and _takes_file(context):
            return TableFile(found.path(path))
        with self.guarded(f"reading {context.asset_key.to_user_string()}"):
            return found.read(found.path(path))

    def has_output(self, context: dg.OutputContext) -> bool:
        """Whether the asset lies in the store in any format."""
        path = self._get_path(context)
        return any(self._mark(f, path).exists() for f in FORMATS)

    @staticmethod
    def _mark(known: Format, path: UPath) -> UPath:
        """Return the file by which a format is known to lie there."""
        whole = known.path(path)
        return whole / known.marker if known.marker else whole

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Withhold what errors say while something of a private store is in hand.

        Of a releasable one they show the names of variables, not what these stand for.
        """
        # What Arrow says of a column that it cannot write quotes a value of it.
        if self.private:
            with redacted(what):
                yield
            return
        with self._named(what):
            yield

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Let errors show the names of the root's variables, not what these stand for."""
        try:
            yield
        except JamError:
            raise
        except Exception as error:
            said = self.shown(error)
            if said == str(error):
                raise
            # The original, with the place in it, is not chained.
            raise SourceError(f"{what} failed: {said}") from None

    @staticmethod
    def _close_to_others(path: UPath) -> None:
        """Close what lay there before with other modes."""
        if path.is_dir():
            path.chmod(PRIVATE_DIRECTORY)
            for inner in path.iterdir():
                inner.chmod(PRIVATE_DIRECTORY if inner.is_dir() else PRIVATE_FILE)
        else:
            path.chmod(PRIVATE_FILE)


def check_stores(private: object, releasable: object) -> None:
    """Raise unless what is private is kept private, apart from what may leave."""
    closed = _release_store("private_io_manager", private)
    open_ = _release_store("releasable_io_manager", releasable)
    if not closed.private:
        raise SpecificationError(
            "private_io_manager is a ReleaseStoreResource without private=True: files in it would"
            f" be open to others, and errors would quote values. Set private=True. {NOTHING_DONE}"
        )
    if open_.private:
        raise SpecificationError(
            "releasable_io_manager is a ReleaseStoreResource with private=True; what may leave"
            f" goes to a store of its own, without it. {NOTHING_DONE}"
        )
    one, other = _place(closed), _place(open_)
    shorter = min(len(one[1]), len(other[1]))
    if one[0] == other[0] and one[1][:shorter] == other[1][:shorter]:
        raise SpecificationError(
            f"private_io_manager ({closed.place}) and releasable_io_manager ({open_.place})"
            " share a place: give each a root that does not lie within the other's, such as"
            f" .../private and .../releases. {NOTHING_DONE}"
        )


def _release_store(key: str, store: object) -> ReleaseStore:
    if not isinstance(store, ReleaseStore):
        raise SpecificationError(
            f"{key} is a {type(store).__name__}; make it a ReleaseStoreResource, which keeps what"
            f" is private apart from what may leave. {NOTHING_DONE}"
        )
    return store


def _place(store: ReleaseStore) -> tuple[str, tuple[str, ...]]:
    """Return a root's file system and the folders that lead to it, links followed."""
    root = store.root
    if store.is_local:
        return "local", Path(root.path).resolve().parts
    from fsspec import get_filesystem_class

    # By its class, since some file systems have several protocols: s3 and s3a.
    system = get_filesystem_class(root.protocol)
    folders = tuple(part for part in root.path.split("/") if part not in ("", "."))
    return f"{system.__module__}.{system.__qualname__}", folders


def _not_stored(key: dg.AssetKey, path: str) -> SourceError:
    return SourceError(
        f"Asset {key.to_user_string()} is not in the store ({path}.*): materialize it first."
    )


def _takes_file(context: dg.InputContext) -> bool:
    """Return whether an input is annotated as the file of a table, which is read in chunks."""
    try:
        return bool(context.dagster_type.typing_type is TableFile)
    except dg.DagsterInvariantViolationError:
        # An input outside a run has no type.
        return False


def _safe(segment: str) -> str:
    return escape_dotdot_segments(escape_leading_slash(segment))


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
        # What a template or a variable gives need not be what the annotations say.
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
        return self.open()

    def open(self) -> ReleaseStore:
        """Return the store, outside a run too.

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
        return ReleaseStore(root, private=self.private, configured=configured)


def _resolved(option: Any) -> Any:
    """Return an option, or what is in it, with the values of variables."""
    if isinstance(option, dict):
        return {name: _resolved(one) for name, one in option.items()}
    if isinstance(option, list):
        return [_resolved(one) for one in option]
    return value_of_variable("the store's options", option) if is_variable(option) else option
