"""Private copies: how they are known, and that nothing goes that a release still needs."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from upath import UPath

from jam_dagster.errors import InputError
from jam_dagster.privacy.private_copies import (
    KEPT_DAYS,
    copies_in_folder,
    copies_in_store,
    failure_of,
    remove,
)

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=KEPT_DAYS, hours=1)
SAID = {"dataset": "people", "release": "yearly", "partition": "", "edition": "1"}


@pytest.fixture(params=["local", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path | UPath:
    if request.param == "local":
        return tmp_path / "private"
    return UPath(f"memory://{tmp_path}/private")


def errors_of(folder: Path, said: dict | None = SAID) -> Path:
    """Leave exact errors in the folder of a command-line release."""
    (folder / "restricted").mkdir(parents=True)
    (folder / "release.json").write_text(json.dumps({"key": said}))
    path = folder / "restricted" / "errors.json"
    path.write_text("SENTINEL")
    return path


@pytest.mark.parametrize("said", [SAID, None])
def test_exact_errors_are_due_when_they_have_been_kept(tmp_path: Path, said: dict | None) -> None:
    path = errors_of(tmp_path, said)
    (one,) = copies_in_folder(tmp_path)
    assert (one.kind, one.release.get("release")) == (
        "statistics",
        (said or {"release": ""})["release"],
    )
    assert "SENTINEL" not in json.dumps(one.to_dict())
    assert one.is_removable(NOW, due=False)
    assert not one.is_removable(NOW, due=True)
    assert one.is_removable(LATER, due=True)
    assert remove(one)
    assert not path.exists()
    assert not remove(one)


def test_what_a_release_needs_and_what_is_not_known_is_listed_and_stays(root: Path | UPath) -> None:
    (root / "yearly" / "row_limit").mkdir(parents=True)
    names = ["secret", "yearly/broken.parquet", "yearly/row_limit/abc.key", "yearly/said.txt"]
    for name in names:
        (root / name).write_bytes(b"s" * 32)
    found = copies_in_store(root)
    assert sorted(one.name for one in found) == names
    for one in found:
        assert one.kind == "other"
        assert not one.is_removable(LATER, due=False)
        with pytest.raises(InputError, match="not a private copy"):
            remove(one)
        assert one.path.exists()


def test_the_cause_of_a_failure_goes_when_its_time_is_over(root: Path | UPath) -> None:
    (root / "yearly" / "failures").mkdir(parents=True)
    path = root / "yearly" / "failures" / "a.txt"
    path.write_bytes(failure_of(SAID) + b"SENTINEL")
    (one,) = copies_in_store(root)
    assert (one.kind, one.release) == ("failure", SAID)
    assert abs(one.written - NOW) < timedelta(hours=1)
    assert one.is_removable(LATER, due=True)
    assert remove(one)
    assert not path.exists()


def test_what_a_killed_writer_left_goes_when_nobody_writes_it(root: Path | UPath) -> None:
    (root / "yearly").mkdir(parents=True)
    (root / f"yearly/.workload_error.json.{uuid4().hex}").write_bytes(b"half a file")
    (one,) = copies_in_store(root)
    assert one.kind == "unfinished"
    assert not one.is_removable(NOW, due=False)
    assert one.is_removable(LATER, due=False)
    assert remove(one)


def test_a_copy_that_is_written_meanwhile_stays(tmp_path: Path) -> None:
    path = errors_of(tmp_path)
    (one,) = copies_in_folder(tmp_path)
    path.write_bytes(path.read_bytes() + b"more")
    assert not remove(one)
    assert path.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere = errors_of(tmp_path / "elsewhere")
    folder = tmp_path / "out"
    errors_of(folder).unlink()
    (folder / "restricted" / "errors.json").symlink_to(elsewhere)
    (folder / "restricted" / "more").symlink_to(elsewhere.parent)
    (one,) = copies_in_folder(folder)
    assert one.kind == "other"


def test_what_lies_in_a_folder_of_the_command_line(tmp_path):
    errors_of(tmp_path)
    for name in ("report.html", "row_limit.key"):
        (tmp_path / "restricted" / name).write_text("x")
    (tmp_path / "synthetic.csv").write_text("x")
    assert {one.name: one.kind for one in copies_in_folder(tmp_path)} == {
        "restricted/errors.json": "statistics",
        "restricted/report.html": "statistics",
        "restricted/row_limit.key": "other",
    }


@pytest.mark.parametrize("content", [None, "no json", "[]", '{"noise": "exact"}', '{"key": 3}'])
def test_a_folder_that_holds_no_release(tmp_path, content):
    if content is not None:
        (tmp_path / "release.json").write_text(content)
    with pytest.raises(InputError, match=r"no release\.json"):
        copies_in_folder(tmp_path)


def test_a_root_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no folder"):
        copies_in_store(tmp_path / "absent")


def test_times_are_in_utc(tmp_path):
    os.utime(errors_of(tmp_path), (0, 0))
    (one,) = copies_in_folder(tmp_path)
    assert one.written == datetime(1970, 1, 1, tzinfo=UTC)
