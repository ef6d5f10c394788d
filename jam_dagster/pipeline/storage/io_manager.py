"""The store of the assets of a release: one is for what is private, one for what may leave."""

from __future__ import annotations

import re
import weakref
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

import dagster as dg

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError, SourceError
from jam_dagster.pipeline.storage.formats import FORMATS, TABLE, Format
from jam_dagster.release.files import ReleaseFiles, safe_part
from jam_dagster.tables.domain.columns import with_texts
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

_ENDINGS = {part for one in FORMATS for part in one.suffix.split(".") if part}
_ENDINGS |= {"csv", "checks", "sha256"}
_LIKE_A_SUFFIX = re.compile(rf"\.({'|'.join(sorted(_ENDINGS))})$")


_Kind = TypeVar("_Kind")


class ReleaseStore(dg.UPathIOManager):
    """Keeps assets as files that other tools read: Parquet, YAML, JSON, NPZ and HTML, never pickle.

    An asset is at ``<root>/<key prefix>/<asset>.<suffix>``, a partition of it at
    ``<root>/<key prefix>/<asset>/<partition>.<suffix>``; the suffix follows from its type. It is
    read only if it is what was written, where a private store keeps hashes; see `ReleaseFiles`.

    Parameters
    ----------
    files
        The files of the store.
    """

    def __init__(self, files: ReleaseFiles) -> None:
        super().__init__(base_path=files.root)
        self.files = files

    def get_loading_input_log_message(self, path: UPath) -> str:
        """Return what the debug log says of a file that is read."""
        return self._reading(super().get_loading_input_log_message(path))

    def get_loading_input_partition_log_message(self, path: UPath, partition_key: str) -> str:
        """Return what the debug log says of a partition's file that is read."""
        return self._reading(super().get_loading_input_partition_log_message(path, partition_key))

    def _reading(self, message: str) -> str:
        said = self.files.shown(message)
        if self.files.private or self.files.hashes_in is not None:
            return said
        return f"{said} No private store has hashes of this one: nothing vouches for the file."

    def get_writing_output_log_message(self, path: UPath) -> str:
        """Return what the debug log says of a file that is written."""
        return self.files.shown(super().get_writing_output_log_message(path))

    def beside(self, key: dg.AssetKey, partition: str, suffix: str) -> UPath:
        """Return the path of a further file next to an asset, if no link or device is there."""
        base = self.files.path_of(*key.path)
        if partition:
            base = self.make_safe_partition_path(base, partition)
        return self.files.plain(base.with_name(base.name + suffix))

    def kept_hash(self, key: dg.AssetKey, partition: str, suffix: str) -> str | None:
        """Return the SHA-256 of a file of an asset as it was written, empty if none is kept.

        It is None if no private store keeps hashes of this one.
        """
        if self.files.hashes_in is None:
            return None
        base, path = (self.beside(key, partition, one) for one in ("", suffix))
        return (self.files.hashes_of(base) | self.files.hashes_of(path)).get(path.name, "")

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
                f"Asset {name} is not in the store ({self.files.shown(base)}.*): materialize it"
                " first."
            )
        if self.files.hashes_in is None:
            return self._parsed(name, found, self.files.plain(found.path(base)), as_file=as_file)
        folder = TemporaryDirectory(prefix="jam-")
        try:
            with self.files.guarded(f"reading {name}"):
                own = _local(folder.name, self.files.copy(base, Path(folder.name), name))
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
        with self.files.guarded(f"reading {name}"):
            return known.read(path)

    def make_directory(self, path: UPath) -> None:
        """Make a folder, with the modes of the store."""
        self.files.make_directory(path)

    def make_safe_partition_path(self, base_path: UPath, partition: str) -> UPath:
        """Return the path of a partition; no key leads out of its asset's folder.

        Nor does one lead to a file of another: the codes of partition ``A`` are in
        ``A.codes.parquet``, which would be the table of a partition ``A.codes``.
        """
        return base_path / _LIKE_A_SUFFIX.sub(r"%2E\1", safe_part(partition))

    def dump_to_path(self, context: dg.OutputContext, obj: object, path: UPath) -> None:
        """Write an asset in the format of its type."""
        chosen = next((f for f in FORMATS if f.holds(obj)), None)
        if chosen is None:
            raise TypeError(
                f"Asset {context.asset_key.to_user_string()} is a {type(obj).__name__}; this store"
                f" keeps {', '.join(f.name for f in FORMATS)}."
            )
        with (
            self.files.guarded(f"writing {context.asset_key.to_user_string()}"),
            self.files.modes(),
        ):
            # A file in another format would be found in place of this one. It goes first:
            # after a crash there is nothing, which is noticed.
            for other in FORMATS:
                self.files.plain(other.path(path))
                if other is not chosen and self._mark(other, path).exists():
                    self._mark(other, path).unlink()
            if self.files.hashes_in is None:
                if self.files.private and isinstance(obj, pd.DataFrame):
                    # No record decides how others are stored.
                    obj = with_texts(obj)
                chosen.write(obj, chosen.path(path))
            else:
                with TemporaryDirectory(prefix="jam-") as folder:
                    own = chosen.path(_local(folder, path.name))
                    chosen.write(obj, own)
                    self.files.write_made(path, own, last=chosen.marker)
        self.files.close(chosen.path(path))

    def get_metadata(self, context: dg.OutputContext, obj: object) -> dict[str, dg.MetadataValue]:
        """Return the path with its suffix, in place of the one without."""
        if context.has_asset_partitions:
            (base,) = self._get_paths_for_partitions(context).values()
        else:
            base = self._get_path(context)
        chosen = next(f for f in FORMATS if f.holds(obj))
        return {"path": dg.MetadataValue.path(self.files.shown(chosen.path(base)))}

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


def _takes_file(context: dg.InputContext) -> bool:
    """Return whether an input is annotated as the file of a table, which is read in chunks."""
    try:
        return bool(context.dagster_type.typing_type is TableFile)
    except dg.DagsterInvariantViolationError:
        # An input outside a run has no type.
        return False


def _local(*parts: str | Path) -> UPath:
    from upath import UPath

    return UPath(*parts)
