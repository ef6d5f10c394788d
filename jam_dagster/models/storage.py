"""The storage of models: ``model.json`` and an archive of arrays next to it.

An archive may come from a stranger, so what it unpacks to is bounded before it is unpacked.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from jam_dagster.common.files import read_text_bytes, write_whole
from jam_dagster.common.json_text import OR_ITS_VERSION, parse_json
from jam_dagster.errors import InputError
from jam_dagster.models.base import Model
from jam_dagster.tables import Clique, Domain, EncodedTable

if TYPE_CHECKING:
    from upath import UPath

DESCRIPTION = "model.json"

GRAPHICAL = "graphical"
"""The kind of a model whose description names none."""

MOST_UNPACKED, MOST_TIMES_PACKED = 2**30, 32
"""An archive unpacks to at most so many bytes, or so many times its own size if that is more."""

_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions from reading a damaged archive, array or model."""


_OF_ALL = frozenset({"kind", "total", "domain", "cliques"})
"""The facts that each model's description has."""

Facts = dict[str, Any]
"""Description of a model, as JSON writes it."""

Arrays = dict[str, np.ndarray]
"""The arrays of a model by name."""


@dataclass(frozen=True)
class Kept:
    """A model's folder: the facts that all models have, its own facts, and its arrays."""

    domain: Domain
    total: float
    cliques: tuple[Clique, ...]
    facts: Facts
    arrays: Arrays

    @property
    def canonical(self) -> tuple[Clique, ...]:
        """The cliques in the order of the domain."""
        return tuple(map(self.domain.canonical, self.cliques))


KINDS: dict[str, type[Any]] = {}
"""The class of each kind of model, so far as their modules are loaded."""


class StoredModel(Model):
    """A model that is stored in a folder: ``model.json``, and an archive of arrays."""

    kind: ClassVar[str] = ""
    """The name of its class in `load_model`; empty for the graphical one."""

    archive: ClassVar[str]
    """The name of the archive."""

    def __init_subclass__(cls, **given: Any) -> None:
        """Have `load_model` find the class, once its module is loaded."""
        super().__init_subclass__(**given)
        if hasattr(cls, "archive"):
            known = KINDS.setdefault(cls.kind or GRAPHICAL, cls)
            if known.__qualname__ != cls.__qualname__:
                raise TypeError(f"{known!r} and {cls!r} are models of the kind {cls.kind!r}")

    @abstractmethod
    def _stored(self) -> tuple[Facts, Arrays]:
        """Return the facts in addition to those that all models have, and the arrays."""

    @classmethod
    @abstractmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""

    def save(self, directory: Path | UPath) -> None:
        """Write the model to a folder, the description last: where it is, the model is whole."""
        facts, arrays = self._stored()
        common: Facts = {"kind": self.kind} if self.kind else {}
        common |= {"total": self.total, "domain": self.domain.to_dict()}
        common["cliques"] = [list(clique) for clique in self.cliques]
        directory.mkdir(parents=True, exist_ok=True)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, **arrays)
        write_whole(directory / self.archive, buffer.getvalue())
        described = json.dumps(common | facts, indent=1)
        write_whole(directory / DESCRIPTION, described.encode())

    @classmethod
    def load(cls, directory: Path | UPath) -> Self:
        """Read a model that `save` wrote; an InputError if there is none, or a damaged one."""
        with _stored_model(directory, cls.kind, cls.archive) as (facts, arrays):
            domain, total = Domain.from_dict(facts["domain"]), float(facts["total"])
            cliques = tuple(tuple(clique) for clique in facts["cliques"])
            model = cls._restored(Kept(domain, total, cliques, facts, arrays))
            own, named = model._stored()
        unknown = (facts.keys() - own.keys() - _OF_ALL) | (arrays.keys() - named.keys())
        if unknown:
            raise _damaged(directory, f"it has the unknown key {min(unknown)!r}")
        return model


def column_arrays(table: EncodedTable) -> Arrays:
    """Return the columns of an encoded table as arrays of a model."""
    return {f"column_{index}": column for index, column in enumerate(table.columns)}


def table_of(domain: Domain, arrays: Arrays) -> EncodedTable:
    """Return the table of what `column_arrays` gave."""
    return EncodedTable(domain, tuple(arrays[f"column_{i}"] for i in range(len(domain.names))))


@contextmanager
def _stored_model(
    directory: Path | UPath, kind: str, archive: str
) -> Iterator[tuple[Facts, Arrays]]:
    """Give the description and the arrays of a model that was saved.

    Any failure while a model is made of them counts as damage.
    """
    described = _file(directory, DESCRIPTION)
    try:
        facts = parse_json(read_text_bytes(described))
        found = facts.get("kind", GRAPHICAL)
    except _DAMAGE as damaged:
        raise _damaged(directory, type(damaged).__name__) from damaged
    if found != (kind or GRAPHICAL):
        raise InputError(
            f"{directory} holds a model of the kind {found!r}, not {kind or GRAPHICAL!r}: read it"
            " with jam_dagster.mechanisms.load_model."
        )
    arrays = read_arrays(_file(directory, archive))
    try:
        yield facts, arrays
    except _DAMAGE as damaged:
        raise _damaged(directory, type(damaged).__name__) from damaged


def _file(directory: Path | UPath, name: str) -> Path | UPath:
    if not (directory / name).exists():
        raise InputError(f"{directory} holds no {name}; give a folder that save() wrote.")
    return directory / name


def _damaged(directory: Path | UPath, what: str) -> InputError:
    return InputError(
        f"The model in {directory} is damaged ({what}); refit it from its transcript, restore the"
        f" folder, {OR_ITS_VERSION}."
    )


def read_arrays(path: Path | UPath) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file by name, each unpacked once."""
    packed = path.read_bytes()
    most = max(MOST_UNPACKED, MOST_TIMES_PACKED * len(packed))
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            members = archive.infolist()
            if len({member.filename for member in members}) < len(members):
                raise ValueError("an array is stored twice")
            unpacked = sum(member.file_size for member in members)
            if unpacked <= most:
                return dict(_array(archive, member) for member in members)
    except _DAMAGE as damaged:
        raise InputError(
            f"{path} is damaged ({type(damaged).__name__}); restore it, or refit the model from "
            "its transcript."
        ) from damaged
    raise InputError(
        f"{path} unpacks to {unpacked:,} bytes, more than the {most:,} that are read: it is no "
        "file of a release. Restore it."
    )


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[str, np.ndarray]:
    """Return the name and the array of a member, which takes as many bytes as the archive lists."""
    # By another method, one block of a few bytes may unpack to any number of them.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{member.filename} is packed by another method")
    with archive.open(member) as file:
        shape, _, kind = _HEADERS[np.lib.format.read_magic(file)](file)
        # If values have no byte, a file of any length holds any number.
        whole = file.tell() + math.prod(shape) * kind.itemsize == member.file_size
        if not (whole and kind.itemsize):
            raise ValueError(f"{member.filename} is not as long as its header says")
        file.seek(0)
        array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return member.filename.removesuffix(".npy"), array


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""The readers of an array's header, by the version of its format."""
