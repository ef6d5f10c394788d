"""Files that somebody else may put a link in place of."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from upath import UPath

from jam_dagster.common.files import check_plain, open_plain, read_plain, real_path
from jam_dagster.errors import InputError


def link(path: Path, secret: Path) -> None:
    path.symlink_to(secret)


def hanging_link(path: Path, secret: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def linked_folder(path: Path, secret: Path) -> None:
    path.parent.rmdir()
    path.parent.symlink_to(secret.parent)


def link_on_the_way(path: Path, secret: Path) -> None:
    path.parent.rmdir()
    path.parent.parent.rmdir()
    (secret.parent / path.parent.name).mkdir()
    (secret.parent / path.parent.name / path.name).symlink_to(secret)
    path.parent.parent.symlink_to(secret.parent)


def pipe(path: Path, secret: Path) -> None:
    os.mkfifo(path)


def folder_in_its_place(path: Path, secret: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    "plant", [link, hanging_link, linked_folder, link_on_the_way, pipe, folder_in_its_place]
)
def test_nothing_but_a_file_is_opened(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    root, path = tmp_path / "out", tmp_path / "out" / "draws" / "inner" / "one"
    secret = tmp_path / "secrets" / "one"
    for folder in (path.parent, secret.parent):
        folder.mkdir(parents=True)
    secret.write_text("private")
    plant(path, secret)
    with pytest.raises(InputError, match="is a link or a device"):
        open_plain(root, path)
    if plant is not folder_in_its_place:
        with pytest.raises(InputError, match="is a link or a device"):
            check_plain(root, path)


def test_a_file_is_read_below_a_root_that_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "moved" / "draws").mkdir(parents=True)
    root = tmp_path / "out"
    root.symlink_to(tmp_path / "moved")
    (root / "draws" / "one").write_bytes(b"an outcome")
    before = len(os.listdir("/proc/self/fd"))
    assert read_plain(root, root / "draws" / "one") == b"an outcome"
    for missing in (root / "draws" / "two", root / "none" / "one"):
        with pytest.raises(FileNotFoundError):
            read_plain(root, missing)
    assert len(os.listdir("/proc/self/fd")) == before
    remote = UPath("memory://files/one")
    remote.write_bytes(b"an outcome")
    assert read_plain(remote.parent, remote) == b"an outcome"


@pytest.mark.parametrize(
    ("name", "spelled"), [("People.csv", "pEOPLE.CSV"), ("caf\u00e9.csv", "cafe\u0301.csv")]
)
def test_a_file_has_one_name_where_names_differ_in_case_or_composition_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, spelled: str
) -> None:
    """Such a file system finds a file by both, and lists it once."""
    (tmp_path / name).write_text("a")
    (tmp_path / "more.csv").write_text("b")
    (tmp_path / spelled).hardlink_to(tmp_path / name)
    # Here they are two names of one file.
    assert real_path(f"{tmp_path}/{spelled}") == f"{tmp_path}/{spelled}"
    listed = [one for one in os.listdir(tmp_path) if one != spelled]
    monkeypatch.setattr(os, "listdir", lambda folder: listed)
    assert real_path(f"{tmp_path}/{spelled}") == f"{tmp_path}/{name}"
    assert real_path(f"{tmp_path}/{name}") == f"{tmp_path}/{name}"
    assert real_path(f"{tmp_path}/MORE.csv") == f"{tmp_path}/MORE.csv"
