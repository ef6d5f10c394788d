"""The files below a root: their hashes before them, their modes, and no link on their way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upath import UPath

from jam_dagster.common.files import write_whole
from jam_dagster.errors import FullDiskError, InputError, PrivateStepError
from jam_dagster.privacy import DirectoryStore
from jam_dagster.release import files as module
from jam_dagster.release.files import ReleaseFiles
from tests.full_disk import files_of_at_most


@pytest.fixture
def files(tmp_path: Path) -> ReleaseFiles:
    closed = ReleaseFiles(UPath(tmp_path / "closed"), private=True)
    return ReleaseFiles(UPath(tmp_path / "out"), private=False, hashes_in=closed.below("of", "it"))


def test_a_file_is_read_as_it_was_written(files: ReleaseFiles) -> None:
    path = files.path_of("one.json")
    assert files.read(path) is None
    files.write(path, b"written")
    assert files.read(path) == b"written"
    path.write_bytes(b"changed")
    with pytest.raises(InputError, match="is not what was written there"):
        files.read(path)
    # Whoever has not the private store reads what is there.
    assert ReleaseFiles(files.root, private=False).read(path) == b"changed"
    path.unlink()
    assert files.read(path) is None


def test_a_crash_leaves_no_file_without_its_hash(
    files: ReleaseFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.path_of("one.json")
    files.write(path, b"first")
    write_whole = module.write_whole

    def killed(path: Any, content: bytes) -> None:
        if path.suffix != ".sha256":
            raise KeyboardInterrupt
        write_whole(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            files.write(path, b"second")
    assert path.read_bytes() == b"first"
    assert files.has_written(path, b"second")
    with pytest.raises(InputError, match="is not what was written there"):
        files.read(path)
    files.write(path, b"second")
    assert files.read(path) == b"second"


def test_without_a_private_store_a_process_knows_its_own_files(tmp_path: Path) -> None:
    files = ReleaseFiles(UPath(tmp_path), private=False)
    path = files.path_of("one.html")
    files.write(path, b"page")
    path.write_bytes(b"other")
    with pytest.raises(InputError, match="is not what was written there"):
        files.read(path)
    assert [one.name for one in tmp_path.iterdir()] == ["one.html"]


def test_a_folder_below_is_closed_and_behind_no_link(tmp_path: Path) -> None:
    files = ReleaseFiles(UPath(tmp_path / "out"), private=False)
    restricted = files.below("restricted", private=True)
    path = restricted.path_of("failures", "one.txt")
    restricted.write(path, b"why")
    found = {one: Path(one).stat().st_mode & 0o777 for one in (path, *list(path.parents)[:3])}
    assert list(found.values())[:3] == [0o600, 0o700, 0o700]
    assert found[files.root] & 0o077
    elsewhere = (tmp_path / "out" / "restricted").rename(tmp_path / "elsewhere")
    (tmp_path / "out" / "restricted").symlink_to(elsewhere)
    for touch in (lambda: restricted.read(path), lambda: restricted.write(path, b"other")):
        with pytest.raises(InputError, match="is a link or a device"):
            touch()
    assert (elsewhere / "failures" / "one.txt").read_bytes() == b"why"


@pytest.mark.parametrize("private", [False, True])
def test_a_disk_without_room_is_named_by_its_root(tmp_path: Path, private: bool) -> None:
    """Code that writes below the root by itself is within `modes`, as draws are."""
    root = tmp_path / "secret-name" / "out"
    files = ReleaseFiles(UPath(root), private=private, configured="${STORE}/out")
    whole, draws = {"values": np.arange(5000)}, DirectoryStore(root / "draws")
    said = r"no room in \$\{STORE\}/out \(File too large\): free some, and run again"
    kind = OSError if private else FullDiskError
    with files_of_at_most(1000), pytest.raises(kind) as caught, files.modes():
        draws.put("round-1", whole)
    assert private or (re.search(said, str(caught.value)) and caught.value.__suppress_context__)
    assert draws.files == frozenset()
    with files_of_at_most(1000), pytest.raises((PrivateStepError, FullDiskError)) as caught:
        files.write(files.path_of("page.html"), bytes(2000))
    assert "File too large" in str(caught.value)
    assert "${STORE}/out" in str(caught.value)
    assert "secret-name" not in str(caught.value)
    # A file elsewhere is another matter.
    with files_of_at_most(1000), pytest.raises(OSError, match="too large"), files.modes():
        write_whole(tmp_path / "elsewhere", bytes(2000))


def test_only_what_may_leave_has_a_plain_hash(files: ReleaseFiles, tmp_path: Path) -> None:
    restricted = files.below("restricted", private=True)
    restricted.write(restricted.path_of("errors.json"), b"{}")
    files.write(files.path_of("report.html"), b"page")
    kept = [one for one in (tmp_path / "closed").rglob("*") if one.is_file()]
    assert [str(one.relative_to(tmp_path / "closed")) for one in kept] == [
        "of/it/report.html.sha256"
    ]
    assert list(json.loads(kept[0].read_text())) == ["report.html"]
