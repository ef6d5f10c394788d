"""The store of the assets of a release: one is for what is private, one for what may leave."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import dagster as dg

from jam_dagster.common.deferred import pd
from jam_dagster.common.files import check_plain, owner_only, write_once, write_whole
from jam_dagster.common.redaction import redacted
from jam_dagster.common.variables import with_names
from jam_dagster.errors import InputError, JamError, SourceError
from jam_dagster.pipeline.dagster_internals import escape_dotdot_segments, escape_leading_slash
from jam_dagster.pipeline.storage.formats import FORMATS, TABLE, Format
from jam_dagster.pipeline.storage.kept_hashes import KeptHashes
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.tables.codes.privacy_unit import new_secret
from jam_dagster.tables.domain.columns import with_texts
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600

_ENDINGS = {part for one in FORMATS for part in one.suffix.split(".") if part}
_ENDINGS |= {"csv", "checks", "sha256"}
_LIKE_A_SUFFIX = re.compile(rf"\.({'|'.join(sorted(_ENDINGS))})$")


_Kind = TypeVar("_Kind")


class ReleaseStore(dg.UPathIOManager):
    """Keeps assets as files that other tools read: Parquet, YAML, JSON, NPZ and HTML, never pickle.

    An asset is at ``<root>/<key prefix>/<asset>.<suffix>``, a partition of it at
    ``<root>/<key prefix>/<asset>/<partition>.<suffix>``; the suffix follows from its type.

    On a local disk, folders of a `private` store get mode 0700 and files mode 0600, and its errors
    are stripped of what they quote. `configured` is the root where that names environment
    variables: messages, metadata and logs show their names. `hashes_in` is the private store, which
    keeps the SHA-256 of all that is written here; an asset is read only if it is what was written.
    """

    def __init__(
        self,
        root: UPath,
        *,
        private: bool,
        configured: str = "",
        hashes_in: ReleaseStore | None = None,
    ) -> None:
        super().__init__(base_path=root)
        self.root = root
        self.private = private
        self._hashes = KeptHashes(hashes_in.write, hashes_in.root, root) if hashes_in else None
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
        """Return the path of a further file next to an asset, if no link or device is there."""
        base = self.path_of(*key.path)
        if partition:
            base = self.make_safe_partition_path(base, partition)
        return self.plain(base.with_name(base.name + suffix))

    @property
    def keeps_hashes(self) -> bool:
        """Whether a private store keeps the hashes of what is written here."""
        return self._hashes is not None

    def kept_hash(self, key: dg.AssetKey, partition: str, suffix: str) -> str | None:
        """Return the SHA-256 of a file of an asset as it was written, empty if none is kept.

        It is None if no private store keeps hashes of this one.
        """
        if self._hashes is None:
            return None
        base, path = (self.beside(key, partition, one) for one in ("", suffix))
        return (self._hashes.of(base) | self._hashes.of(path)).get(path.name, "")

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
        if self._hashes is not None:
            self._hashes.keep(path, {path.name: sha256(content).hexdigest()})

    def secret(self, *parts: str) -> bytes:
        """Return a random secret of a private store: made the first time, and then kept there."""
        path = self.path_of(*parts)
        if not path.exists():
            self.make_directory(path.parent)
            with self.modes():
                write_once(path, new_secret())
        with self._named("reading a secret"):
            found = bytes(path.read_bytes())
        if len(found) != len(new_secret()):
            raise SourceError(
                f"The secret {'/'.join(parts)} of the private store is damaged: restore it from a"
                f" copy. {NOTHING_DONE}"
            )
        return found

    def holds(self, key: dg.AssetKey, partition: str) -> bool:
        """Whether an asset is in the store, in any format."""
        return self._format_at(self.beside(key, partition, "")) is not None

    def load(self, key: dg.AssetKey, partition: str, kind: type[_Kind]) -> _Kind:
        """Return a stored asset, as a step that depends on it is given it.

        `kind` is the type of its value; a table is read in chunks as a `TableFile`. An asset that
        is not there is a SourceError, one that is not what was written, or of another type, an
        InputError.
        """
        name, base = key.to_user_string(), self.beside(key, partition, "")
        value = self._load(name, base, as_file=kind is TableFile)
        if not isinstance(value, kind):
            raise InputError(
                f"{name} in the store is a {type(value).__name__}, and no {kind.__name__}."
                " Materialize it again, which costs nothing."
            )
        return value

    def _load(self, name: str, base: UPath, *, as_file: bool) -> object:
        found = self._format_at(base)
        if found is None:
            raise SourceError(
                f"Asset {name} is not in the store ({self.shown(base)}.*): materialize it first."
            )
        if self._hashes is None:
            return self._parsed(name, found, self.plain(found.path(base)), as_file=as_file)
        folder = TemporaryDirectory(prefix="jam-")
        try:
            with self.guarded(f"reading {name}"):
                own = _local(folder.name, self._hashes.copy(base, Path(folder.name), name))
            kept = next(one for one in FORMATS if one.path(_local(folder.name, base.name)) == own)
            value = self._parsed(name, kept, own, as_file=as_file)
        except BaseException:
            folder.cleanup()
            raise
        if isinstance(value, TableFile):
            # The rows are read later on.
            weakref.finalize(value, folder.cleanup)
        else:
            folder.cleanup()
        return value

    def _parsed(self, name: str, known: Format, path: UPath, *, as_file: bool) -> object:
        if as_file and known is TABLE:
            return TableFile(path)
        with self.guarded(f"reading {name}"):
            return known.read(path)

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

        Nor does one lead to a file of another: the codes of partition ``A`` are in
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
            # A file in another format would be found in place of this one. It goes first:
            # after a crash there is nothing, which is noticed.
            for other in FORMATS:
                self.plain(other.path(path))
                if other is not chosen and self._mark(other, path).exists():
                    self._mark(other, path).unlink()
            if self._hashes is None:
                if self.private and isinstance(obj, pd.DataFrame):
                    # No record decides how others are stored.
                    obj = with_texts(obj)
                chosen.write(obj, chosen.path(path))
            else:
                with TemporaryDirectory(prefix="jam-") as folder:
                    own = chosen.path(_local(folder, path.name))
                    chosen.write(obj, own)
                    self._hashes.write(path, own, last=chosen.marker)
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
        """Read an asset in whichever format it is there."""
        return self._load(context.asset_key.to_user_string(), path, as_file=_takes_file(context))

    def has_output(self, context: dg.OutputContext) -> bool:
        """Whether the asset is in the store in any format."""
        return self._format_at(self._get_path(context)) is not None

    def _format_at(self, path: UPath) -> Format | None:
        """Return the format in which an asset is there."""
        return next((one for one in FORMATS if self._mark(one, path).exists()), None)

    @staticmethod
    def _mark(known: Format, path: UPath) -> UPath:
        """Return the file by which a format is known to be there."""
        whole = known.path(path)
        return whole / known.marker if known.marker else whole

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Withhold what errors say while something of a private store is in hand.

        For a releasable one they show the names of variables, not their values.
        """
        # Arrow's error about a column that it cannot write quotes a value of it.
        if self.private:
            with redacted(what):
                yield
            return
        with self._named(what):
            yield

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Make errors show the names of the root's variables, not their values."""
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
        """Close what was there before with other modes."""
        if path.is_dir():
            path.chmod(PRIVATE_DIRECTORY)
            for inner in path.iterdir():
                inner.chmod(PRIVATE_DIRECTORY if inner.is_dir() else PRIVATE_FILE)
        else:
            path.chmod(PRIVATE_FILE)


def _takes_file(context: dg.InputContext) -> bool:
    """Return whether an input is annotated as the file of a table, which is read in chunks."""
    try:
        return bool(context.dagster_type.typing_type is TableFile)
    except dg.DagsterInvariantViolationError:
        # An input outside a run has no type.
        return False


def _safe(segment: str) -> str:
    return escape_dotdot_segments(escape_leading_slash(segment))


def _local(*parts: str | Path) -> UPath:
    from upath import UPath

    return UPath(*parts)
