"""A tiny package of somebody else that brings a mechanism, installed into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jam_dagster.mechanisms import MECHANISMS, registry

PACKAGE, VERSION = "tiny-mechanisms", "1.2.3"

HALVES = '''"""Halves: the independent attributes, by somebody else."""

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.independent import Independent


@dataclass(frozen=True)
class Halves(Independent):
    """The mechanism."""

    name: ClassVar[str] = "halves"
    title: ClassVar[str] = "Halves"
    summary: ClassVar[str] = "each attribute, by somebody else"
    page: ClassVar[str] = "https://tiny.example/halves"
'''
"""The module of a mechanism that works."""


def install(
    folder: Path,
    *,
    package: str = PACKAGE,
    name: str = "halves",
    place: str = "tiny_mechanisms:Halves",
    source: str = HALVES,
) -> Path:
    """Write a package with one entry point, as an installer does, and return its folder."""
    folder.mkdir(exist_ok=True)
    (folder / f"{place.partition(':')[0]}.py").write_text(source)
    metadata = folder / f"{package.replace('-', '_')}-{VERSION}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: {VERSION}\n"
    )
    (metadata / "entry_points.txt").write_text(f"[jam_dagster.mechanisms]\n{name} = {place}\n")
    return folder


@contextmanager
def known(folder: Path) -> Iterator[None]:
    """Have this process find what is installed in a folder, and forget it in the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        _forget()
        yield
    _forget()


def _forget() -> None:
    vars(MECHANISMS).pop("_found", None)
    registry._loaded.cache_clear()
